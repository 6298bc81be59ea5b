"""From pydantic's errors to faults that speak of recipes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError
from pydantic_core import ErrorDetails

from kernforge.errors import RecipeError
from kernforge.recipe.fault import Fault, Loc, near_hint, nearest
from kernforge.recipe.model import TAG, Recipe
from kernforge.recipe.scalars import kind_of

_PINS = {
    "commit": "give all 40 digits; tags and branches move",
    "sha256": "sha256sum FILE prints it",
    "version": "name one version",
}
_MOVING = {"branch", "ref", "rev", "revision"}


def faults_of(error: ValidationError) -> tuple[Fault, ...]:
    """Every fault that pydantic found, in its order."""
    found = (_fault(item) for item in error.errors(include_url=False, include_input=True))
    return tuple(fault for fault in found if fault is not None)


def _fault(item: ErrorDetails) -> Fault | None:
    raw: Loc = tuple(item["loc"])
    loc = tuple(p for p in raw if not (isinstance(p, str) and p.startswith(TAG)))
    match item["type"]:
        case "kernforge":
            on_key = bool(loc) and loc[-1] == "[key]"
            fault: RecipeError = item["ctx"]["fault"]
            return Fault(loc=loc[:-1] if on_key else loc, error=fault, on_key=on_key)
        case "extra_forbidden":
            return Fault(loc=loc, error=_unknown(raw), on_key=True)
        case "missing":
            return Fault(loc=loc, error=_missing(loc, item["input"]))
        case "default_factory_not_called":
            return None  # follows from a fault of another key
        case _:
            return Fault(loc=loc, error=_wrong_type(item))


def _unknown(raw: Loc) -> RecipeError:
    name = str(raw[-1])
    known = _keys_at(raw[:-1])
    if name in _MOVING and "commit" in known:
        return RecipeError(
            "recipe-unpinned", f"{name!r} moves; a source is pinned", hint=_PINS["commit"]
        )
    near = nearest(name, known)
    said = f"{name!r} is no key here"
    hint = f"did you mean {near!r}?" if near else _elsewhere(name) or near_hint(name, known)
    return RecipeError("recipe-unknown-key", said, hint=hint)


def _elsewhere(name: str) -> str | None:
    """Where at the top or in a block of the top a key of this name would be right."""
    if name in _fields(Recipe):
        return f"{name!r} belongs to the top of the recipe"
    for key, annotation in _fields(Recipe).items():
        for model in _models(_item(annotation) or annotation):
            if name in _fields(model):
                block = "a source" if key == "sources" else f"the block {key!r}"
                return f"{name!r} belongs into {block}"
    return None


def _missing(loc: Loc, block: object) -> RecipeError:
    name = str(loc[-1])
    given = set(block) if isinstance(block, Mapping) else set()
    if loc[0] == "sources" and name in _PINS:
        moving = sorted(given & (_MOVING | {"tag"}))
        why = f": a {moving[0]} can move" if moving and name == "commit" else ""
        return RecipeError("recipe-unpinned", f"is missing{why}", hint=_PINS[name])
    hints = {"format": "write format: 1", "expect": "write the version you expect, as 0.4.*"}
    return RecipeError("recipe-missing-key", "is missing", hint=hints.get(name, "add this key"))


def _wrong_type(item: ErrorDetails) -> RecipeError:
    value = item["input"]
    wanted = {
        "tuple_type": ("a list", "write it as [ONE, TWO]"),
        "model_type": ("a mapping", "write KEY: VALUE lines"),
        "dict_type": ("a mapping", "write KEY: VALUE lines"),
    }.get(item["type"])
    if wanted is None:  # pragma: no cover - no type of the model gives another error
        return RecipeError("recipe-value", f"is not valid: {item['msg']}", hint="see the reference")
    if value is None:
        return RecipeError(
            "recipe-type", f"is empty; it must be {wanted[0]}", hint="fill it or leave the key out"
        )
    hint = f"write [{value}]" if item["type"] == "tuple_type" and _short(value) else wanted[1]
    return RecipeError("recipe-type", f"must be {wanted[0]}, not {kind_of(value)}", hint=hint)


def _short(value: object) -> bool:
    return isinstance(value, str) and len(value) < 40 and not set(value) & set(":,[]{}#&*@'\"\n")


def _keys_at(raw: Loc) -> tuple[str, ...]:
    """The keys that the block at a location may have; tags say which kind of source it is."""
    here: Any = Recipe
    for part in raw:
        here = _step(here, part)
    models = _models(here)
    return tuple(_fields(models[0])) if models else ()


def _step(annotation: Any, part: str | int) -> Any:
    if isinstance(part, str) and part.startswith(TAG):
        return next(arm for arm in get_args(_bare(annotation)) if Tag(part) in get_args(arm))
    models = _models(annotation)
    return _fields(models[0]).get(str(part)) if models else _item(annotation)


def _item(annotation: Any) -> Any:
    """What a list holds, or a mapping's values are; None for anything else."""
    plain = _bare(annotation)
    if get_origin(plain) is not tuple:
        return None
    item = _bare(get_args(plain)[0])
    return get_args(item)[1] if get_origin(item) is tuple else item


def _bare(annotation: Any) -> Any:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    return {f.alias or name: f.annotation for name, f in model.model_fields.items()}


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The blocks that an annotation directly means: itself, or the arms of a union."""
    plain = _bare(annotation)
    if isinstance(plain, type):
        return [plain] if issubclass(plain, BaseModel) else []
    if get_origin(plain) is tuple:
        return []
    return [model for arm in get_args(plain) for model in _models(arm)]
