"""JSON Schema and reference page of recipes, both made from the model and its docstrings.

`docs/recipe.schema.json` and `docs/recipe-reference.md` are what these functions give; a test
holds them equal. Reads the model's own source text; imported only when one of the two is wanted.
"""

from __future__ import annotations

import ast
import inspect
import json
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from pydantic_core import CoreSchema
from pydantic_core.core_schema import DictSchema

from kernforge.recipe import model
from kernforge.recipe.template import BUILD_NAMES, LOCAL_NAMES

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_Schema = dict[str, Any]

_MEANINGS = {
    "archs": ("the target's archs, as `9.0;12.0a`", "their tokens, as `90.120a`"),
    "cmake_archs": ("the archs as CMake spells them, as `90-real;120a-real`", None),
    "cuda": ("CUDA release, as `13.0`", "as `130`"),
    "cuda_major": ("its first number, as `13`", None),
    "cuda_root": ("folder of the CUDA toolkit, as the build sees it", None),
    "jobs": ("how many compiles run at once, as `8`; enters no key", None),
    "nvcc_threads": ("how many compiles one nvcc call may do at once; enters no key", None),
    "python": ("Python version, as `3.11`", "as `311`"),
    "torch": ("torch version, as `2.14.1`", "as `2.14.1`"),
    "torch_minor": ("its first two numbers, as `2.14`", "as `2.14`"),
}

_INTRO = """\
# Recipe reference, format 1

Generated from `src/kernforge/recipe/model.py`; do not edit.

A recipe is the file `recipes/NAME.yaml`. Its YAML is plain: every value is text until its key says
otherwise, so `12.0`, `"12.0"` and `'12.0'` are the same, and so are `on` and `"on"`. Anchors,
aliases, merge keys, tags, duplicate and unknown keys are errors. A mapping that may hold patterns
is not read in order: of several that match, the longest rules.
"""


class _Generator(GenerateJsonSchema):
    """Leaves out the titles that pydantic makes up, and keeps what a mapping's keys are."""

    schema_dialect = DIALECT

    def field_title_should_be_set(self, schema: Any) -> bool:
        del schema
        return False

    def dict_schema(self, schema: DictSchema) -> _Schema:
        return {
            "type": "object",
            "propertyNames": self.generate_inner(schema["keys_schema"]),
            "additionalProperties": self.generate_inner(schema["values_schema"]),
        }

    def generate(self, schema: CoreSchema, mode: JsonSchemaMode = "validation") -> _Schema:
        return {"$schema": DIALECT, **super().generate(schema, mode)}


def recipe_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a recipe as editors read its YAML."""
    schema = model.Recipe.model_json_schema(by_alias=True, schema_generator=_Generator)
    docs = _field_docs()
    for name, block in ((model.Recipe.__name__, schema), *schema["$defs"].items()):
        block.pop("title", None)
        kind: type[BaseModel] = getattr(model, name)
        defaults = kind.model_construct().model_dump(mode="json", by_alias=True, warnings=False)
        for field, info in kind.model_fields.items():
            key = info.alias or field
            text = _doc_of(kind, field, docs)
            block["properties"][key] = _property(block["properties"][key], text, defaults.get(key))
        block["properties"] = dict(sorted(block["properties"].items(), key=_order(kind)))
    return schema


def _order(kind: type[BaseModel]) -> Any:
    """Fields in the order of the class, those of its parents last."""
    own = [f.alias or n for n, f in kind.model_fields.items() if n in kind.__annotations__]
    return lambda item: own.index(item[0]) if item[0] in own else len(own)


def _property(found: _Schema, text: str, default: object) -> _Schema:
    """One property: without null (a key is left out instead), with its text and plain default."""
    rest = {key: value for key, value in found.items() if key != "default"}
    arms = [arm for arm in rest.get("anyOf", ()) if arm != {"type": "null"}]
    if "anyOf" in rest and len(arms) == 1:
        del rest["anyOf"]
        rest |= arms[0]
    shown = {} if default in (None, "") or "$ref" in rest else {"default": default}
    return {"description": text, **dict(sorted(rest.items())), **shown}


def _field_docs() -> dict[str, dict[str, str]]:
    """The string below each field of each class of the model, on one line."""
    tree = ast.parse(inspect.getsource(model))
    return {node.name: _docs_of(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _docs_of(node: ast.ClassDef) -> dict[str, str]:
    found: dict[str, str] = {}
    field = ""
    for part in node.body:
        match part:
            case ast.AnnAssign(target=ast.Name(id=name)):
                field = name
            case ast.Expr(value=ast.Constant(value=str(doc))) if field:
                found[field] = " ".join(doc.split())
            case _:
                field = ""
    return found


def _doc_of(kind: type[BaseModel], field: str, docs: dict[str, dict[str, str]]) -> str:
    return next(
        docs[parent.__name__][field]
        for parent in kind.__mro__
        if field in docs.get(parent.__name__, {})
    )


def schema_text() -> str:
    """The JSON Schema as the text of `docs/recipe.schema.json`."""
    return json.dumps(recipe_schema(), indent=2, ensure_ascii=False) + "\n"


def reference_text() -> str:
    """The reference page as the text of `docs/recipe-reference.md`."""
    schema = recipe_schema()
    blocks = {model.Recipe.__name__: schema, **schema["$defs"]}
    sections = [_INTRO, *(_section(name, blocks[name]) for name in _reading_order(blocks))]
    return "\n".join([*sections, _placeholders()])


def _reading_order(blocks: dict[str, _Schema]) -> list[str]:
    """Blocks in the order in which the page first speaks of them."""
    order: list[str] = [model.Recipe.__name__]
    for name in order:
        named = _references(blocks[name]["properties"])
        order += [other for other in dict.fromkeys(named) if other not in order]
    return order


def _references(value: object) -> list[str]:
    match value:
        case {"$ref": str(ref)}:
            return [ref.rpartition("/")[2]]
        case dict():
            return [name for item in value.values() for name in _references(item)]
        case list():
            return [name for item in value for name in _references(item)]
        case _:
            return []


def _section(name: str, block: _Schema) -> str:
    lines = [f"## {name}", "", block["description"], ""]
    lines += ["| key | type | default | meaning |", "|---|---|---|---|"]
    for key, item in block["properties"].items():
        default = "required" if key in block.get("required", ()) else _default(item)
        cells = (f"`{key}`", _type(item), default, item["description"])
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join([*lines, ""])


def _default(item: _Schema) -> str:
    if "default" not in item:
        return ""
    value = item["default"]
    return f"`{value}`" if isinstance(value, str) else f"`{json.dumps(value)}`"


def _type(item: _Schema) -> str:  # noqa: PLR0911 - one line a kind of schema
    match item:
        case {"title": str(title)}:
            return title
        case {"const": value}:
            return f"`{value}`"
        case {"enum": list(known)}:
            return " or ".join(f"`{word}`" for word in known)
        case {"$ref": str(ref)}:
            name = ref.rpartition("/")[2]
            return f"[{name}](#{name.lower()})"
        case {"anyOf": list(arms)} | {"oneOf": list(arms)}:
            return " or ".join(_type(arm) for arm in arms)
        case {"type": "array", "items": dict(inner)}:
            return f"list of {_type(inner)}"
        case {"type": "object", "propertyNames": dict(key), "additionalProperties": dict(inner)}:
            return f"mapping of {_type(key)} to {_type(inner)}"
        case {"type": "boolean"}:
            return "`true` or `false`"
        case {"type": "integer", "minimum": low}:
            return f"whole number, {low} or more"
        case _:  # pragma: no cover - a test holds the page equal, so this is met there first
            raise AssertionError(item)


def _placeholders() -> str:
    lines = ["## Placeholders", "", "`{{` and `}}` stand for literal braces.", ""]
    lines += ["| placeholder | in `build.cmake`, `build.config_settings`, `build.env` |"]
    lines[-1] += " in `publish.local_version` |"
    lines.append("|---|---|---|")
    for name in BUILD_NAMES:
        build, local = _MEANINGS[name]
        lines.append(
            f"| `{{{name}}}` | {build} | {local if name in LOCAL_NAMES else 'not known'} |"
        )
    return "\n".join([*lines, ""])
