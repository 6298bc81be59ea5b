"""From a file to a recipe, with everything that is wrong with it said at once.

The only door of this room to files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from kernforge.errors import ManyErrors, RecipeError
from kernforge.recipe.checks import Blocks, block_faults, blocks_of
from kernforge.recipe.fault import Fault, discreet, show_loc
from kernforge.recipe.model import Build, Matrix, Publish, Recipe, Verify
from kernforge.recipe.translate import faults_of
from kernforge.recipe.values import read_name
from kernforge.recipe.yamltext import MAX_BYTES, Document, parse_document

_B = TypeVar("_B", Build, Matrix, Verify, Publish)


def find_recipes(folder: Path) -> tuple[Path, ...]:
    """The recipe files of a folder, sorted by name and read by nobody; none where it is missing."""
    found = folder.glob("*.yaml")
    return tuple(sorted(path for path in found if not path.name.startswith(".")))


def load_recipe(path: Path) -> Recipe:
    """Read one recipe file.

    Args:
        path: as it is to stand in messages, ending in ``NAME.yaml``.

    Raises:
        RecipeError: words ``recipe-missing`` and ``recipe-unreadable`` for the file,
            ``recipe-name`` for a name that no recipe can have, the ``yaml-`` words, or the one
            fault of its content.
        ManyErrors: its content has several faults.
    """
    where = str(path)
    data = _read(path, where)
    document = parse_document(data, where)
    return read_recipe(document.value, where=where, document=document, stem=path.stem)


def _read(path: Path, where: str) -> bytes:
    try:
        read_name(path.stem)
    except RecipeError as error:
        raise RecipeError(error.word, f"{where}: {error.message}", hint=error.hint) from error
    if path.suffix != ".yaml":
        hint = f"rename it to {path.stem}.yaml"
        raise RecipeError("recipe-name", f"{where}: a recipe file ends in .yaml", hint=hint)
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        hint = "kernforge list names the recipes there are"
        raise RecipeError("recipe-missing", f"{where}: no such recipe", hint=hint) from error
    except OSError as error:
        said = f"{where}: cannot be read: {error.strerror}"
        raise RecipeError("recipe-unreadable", said, hint="is it a readable file?") from error


def read_recipe(
    data: Mapping[str, object],
    *,
    where: str,
    document: Document | None = None,
    stem: str | None = None,
) -> Recipe:
    """Read plain data as a recipe and check it as a whole.

    Args:
        data: what the YAML said, or :meth:`Recipe.to_dict`.
        where: the file's name, for messages.
        document: gives the lines, and faults of its own, where the data is a file's.
        stem: the name that the file demands, or None.

    Raises:
        RecipeError: the one fault.
        ManyErrors: all faults, in the order of the document.
    """
    recipe, faults = _validate(dict(data))
    name = data.get("name")
    if stem is not None and isinstance(name, str) and name != stem:
        said = f"{name!r} is not the file's name {stem!r}"
        error = RecipeError("recipe-name", said, hint=f"write {stem}, or rename the file")
        faults = (*faults, Fault(loc=("name",), error=error))
    if document is not None:
        own = document.faults
        faults = (*own, *(f for f in faults if not any(_within(f, bad) for bad in own)))
    if recipe is None or faults:
        raise _report(faults, where, document)
    return recipe


def _within(fault: Fault, bad: Fault) -> bool:
    """Whether a fault only follows from what stands in a place that is bad already."""
    return fault.loc[: len(bad.loc)] == bad.loc and bad.error.word != "yaml-duplicate-key"


def _validate(data: dict[str, Any]) -> tuple[Recipe | None, tuple[Fault, ...]]:
    try:
        recipe = Recipe.from_dict(data)
    except ValidationError as error:
        faults = faults_of(error)
        if any(fault.error.word == "recipe-format" for fault in faults):
            return None, tuple(f for f in faults if f.error.word == "recipe-format")
        return None, (*faults, *block_faults(_valid_blocks(data)))
    return recipe, block_faults(blocks_of(recipe))


def _valid_blocks(data: dict[str, Any]) -> Blocks:
    """Those blocks of a faulty recipe that are valid, so that they are checked too."""

    def block(kind: type[_B], key: str) -> _B | None:
        try:
            return kind.model_validate(data.get(key, {}))
        except ValidationError:
            return None

    sources = data.get("sources")
    named = tuple((str(name), None) for name in sources) if isinstance(sources, dict) else None
    return Blocks(
        sources=named,
        build=block(Build, "build"),
        matrix=block(Matrix, "matrix") if "matrix" in data else None,
        verify=block(Verify, "verify"),
        publish=block(Publish, "publish"),
    )


def _report(faults: tuple[Fault, ...], where: str, document: Document | None) -> RecipeError:
    if document is not None:
        faults = tuple(sorted(faults, key=lambda fault: _position(fault, document)))
    said = tuple(dict.fromkeys(_say(fault, where, document) for fault in faults))
    errors = tuple(RecipeError(word, message, hint=hint) for word, message, hint in said)
    return errors[0] if len(errors) == 1 else ManyErrors(errors)


def _position(fault: Fault, document: Document) -> tuple[int, int]:
    return fault.position or document.position(fault.loc, on_key=fault.on_key)


def _say(fault: Fault, where: str, document: Document | None) -> tuple[str, str, str | None]:
    error = discreet(fault.error, fault.loc)
    message, place = error.message, show_loc(fault.loc)
    if document is None:
        return error.word, f"{where}: {place}: {message}", error.hint
    if fault.other is not None:
        message += f" (line {document.position(fault.other)[0]})"
    line, _column = _position(fault, document)
    return error.word, f"{where}:{line}: {place}: {message}", error.hint
