"""The kinds of value that a recipe is made of, as types for pydantic with a JSON Schema each. Pure.

Values are what a YAML loader gives that keeps all scalars text; ints and booleans may also come
as such, so that a dumped recipe reads back. In the schema, which editors apply to YAML as they
read it, what looks like a number may be one. Titles there name the kind in the reference page.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import (
    GetCoreSchemaHandler,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from kernforge.arch import (
    Arch,
    canonical,
    format_archs,
    parse_arch,
    parse_archs,
    parse_cuda,
    parse_device,
)
from kernforge.errors import RecipeError
from kernforge.recipe import values
from kernforge.recipe.template import BUILD_NAMES, check_local_template, check_template
from kernforge.recipe.values import invalid

T = TypeVar("T")

_ARCH = r"\d{1,2}\.\d[af]?(\+PTX)?"
_ARCHS = rf"{_ARCH}([;,\s]+{_ARCH})*"
_NAME = r"[a-z0-9][a-z0-9._-]*"
_DIST = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
_SOURCE = r"[A-Za-z0-9][A-Za-z0-9_-]*"
_TAG = r"[A-Za-z0-9_][\w./+-]*"
_MODULE = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"
_CMAKE = r"[A-Za-z_][\w.+/-]*"
_ENV = r"[A-Za-z_]\w*"
_PROGRAM = r"[A-Za-z0-9][A-Za-z0-9._+-]*"


def as_pydantic(error: RecipeError) -> PydanticCustomError:
    """Hand one of our errors through pydantic; it comes out again whole as ``ctx["fault"]``."""
    return PydanticCustomError("kernforge", "{message}", {"message": str(error), "fault": error})


def _guarded(read: Callable[[object], T]) -> PlainValidator:
    def validate(value: object) -> T:
        try:
            return read(value)
        except RecipeError as error:
            raise as_pydantic(error) from error

    return PlainValidator(validate)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        raise invalid("is empty", 'give a value, "" for an empty text, or leave the key out')
    raise RecipeError("recipe-type", f"must be text, not {kind_of(value)}", hint="write one value")


def kind_of(value: object) -> str:
    """What a plain value is, for messages: ``a mapping``, ``a list``, ``text``."""
    match value:
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case str():
            return "text"
        case _:
            return f"the {type(value).__name__} {value!r}"


def _reader(read: Callable[[str], T]) -> PlainValidator:
    return _guarded(lambda value: read(_text(value)))


def _matching(pattern: str, what: str, example: str, word: str = "recipe-value") -> PlainValidator:
    return _reader(lambda text: values.read_match(text, pattern, what, example, word))


def one_of(*known: str) -> PlainValidator:
    """A reader of a closed list of words."""
    return _reader(lambda text: values.read_word(text, known))


def words(*known: str) -> WithJsonSchema:
    """The JSON Schema of a closed list of words."""
    return WithJsonSchema({"enum": list(known)})


def _kind(title: str, pattern: str | None = None) -> WithJsonSchema:
    schema: dict[str, Any] = {"type": "string", "title": title}
    return WithJsonSchema(schema | ({"pattern": f"^({pattern})$"} if pattern else {}))


def _number_like(title: str, pattern: str) -> WithJsonSchema:
    text = {"type": "string", "pattern": f"^({pattern})$"}
    return WithJsonSchema({"title": title, "anyOf": [text, {"type": "number"}]})


def _read_flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    shown = repr(value) if isinstance(value, str) else kind_of(value)
    raise RecipeError("recipe-type", f"{shown} is not true or false", hint="write true or false")


def _whole(low: int) -> PlainValidator:
    def read(value: object) -> int:
        if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value, re.ASCII):
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value >= low:
            return value
        shown = repr(value) if isinstance(value, str | int) else kind_of(value)
        hint = f"write digits only, {low} or more"
        raise RecipeError("recipe-type", f"{shown} is not a whole number", hint=hint)

    return _guarded(read)


def _read_format(value: object) -> int:
    if value == "1" or (isinstance(value, int) and value == 1 and value is not True):
        return 1
    shown = repr(value) if isinstance(value, str | int) else kind_of(value)
    raise invalid(
        f"{shown} is not a format that this kernforge reads",
        "write 1; a newer format needs a newer kernforge",
        "recipe-format",
    )


Expected = Literal["target"] | tuple[Arch, ...]
"""What a library must hold code for: the target's archs, or these."""


def _read_expected(value: object) -> Expected:
    if isinstance(value, list | tuple):
        return canonical(parse_arch(_text(item)) for item in value)
    if value == "target":
        return "target"
    shown = repr(value) if isinstance(value, str) else kind_of(value)
    hint = 'write target, or a list as ["9.0a", "10.0f"]'
    raise invalid(f"{shown} is neither 'target' nor a list of archs", hint)


def _show_expected(value: Expected) -> str | list[str]:
    return value if isinstance(value, str) else [str(arch) for arch in value]


def _read_cuda(text: str) -> str:
    parse_cuda(text)
    return text


def _read_loader_key(text: str) -> str:
    if text != "default":
        parse_device(text)
    return text


Line = Annotated[str, _reader(values.read_line), _kind("text")]
Block = Annotated[str, _reader(str), _kind("text of any lines")]
Format = Annotated[int, _guarded(_read_format), WithJsonSchema({"const": 1})]
Flag = Annotated[bool, _guarded(_read_flag), WithJsonSchema({"type": "boolean"})]
Count = Annotated[int, _whole(1), WithJsonSchema({"type": "integer", "minimum": 1})]
Strip = Annotated[int, _whole(0), WithJsonSchema({"type": "integer", "minimum": 0})]
Memory = Annotated[
    int,
    _reader(values.read_memory),
    PlainSerializer(values.show_memory),
    _kind("memory", values.MEMORY),
]
RecipeName = Annotated[str, _reader(values.read_name), _kind("recipe name", _NAME)]
SourceName = Annotated[
    str, _matching(_SOURCE, "a source name", "my-source"), _kind("source name", _SOURCE)
]
DistributionName = Annotated[
    str, _matching(_DIST, "a distribution name", "my-kernels"), _kind("distribution name", _DIST)
]
ModuleName = Annotated[
    str, _matching(_MODULE, "a module name", "package.module"), _kind("module name", _MODULE)
]
GitTag = Annotated[str, _matching(_TAG, "a git tag", "v1.2.3"), _kind("git tag", _TAG)]
RelPath = Annotated[str, _reader(values.read_path), _kind("path")]
LockPath = Annotated[str, _reader(values.read_lock_path), _kind("source name and path")]
ProgramName = Annotated[
    str, _matching(_PROGRAM, "the name of a program", "protoc"), _kind("program name", _PROGRAM)
]
Glob = Annotated[str, _reader(values.read_path), _kind("pattern of paths")]
KernelPattern = Annotated[str, _reader(values.read_line), _kind("pattern of kernel names")]
GitUrl = Annotated[str, _reader(values.read_git_url), _kind("git address")]
ArchiveAddress = Annotated[str, _reader(values.read_archive), _kind("address or path")]
Commit = Annotated[str, _reader(values.read_commit), _kind("commit", "[0-9a-f]{40}")]
Sha256 = Annotated[
    str,
    _matching("[0-9a-f]{64}", "a SHA-256", "64 lower-case hexadecimal digits", "recipe-sha256"),
    _kind("SHA-256", "[0-9a-f]{64}"),
]
Version = Annotated[
    str,
    _matching(values.VERSION, "a public version in its normal form", "1.2.3"),
    _number_like("version", values.VERSION),
]
ExpectedVersion = Annotated[
    str,
    _matching(values.EXPECTED_VERSION, "a version or its beginning", "0.4.* or 0.4.2"),
    _number_like("version or its beginning", values.EXPECTED_VERSION),
]
Requirement = Annotated[str, _reader(values.read_requirement), _kind("requirement")]
CMakeName = Annotated[
    str, _matching(_CMAKE, "the name of a CMake variable", "MY_OPTION"), _kind("name", _CMAKE)
]
EnvName = Annotated[
    str, _matching(_ENV, "the name of an environment variable", "MY_OPTION"), _kind("name", _ENV)
]
BuildText = Annotated[
    str,
    _reader(lambda text: check_template(text, BUILD_NAMES)),
    WithJsonSchema({"type": ["string", "number", "boolean"], "title": "text"}),
]
LocalText = Annotated[str, _reader(check_local_template), _kind("local version")]
ArchList = Annotated[
    tuple[Arch, ...],
    _reader(parse_archs),
    PlainSerializer(format_archs),
    _number_like("archs", _ARCHS),
]
ExpectedArchs = Annotated[
    Expected,
    _guarded(_read_expected),
    PlainSerializer(_show_expected),
    WithJsonSchema(
        {
            "title": "`target` or list of archs",
            "anyOf": [
                {"const": "target"},
                {
                    "type": "array",
                    "items": {
                        "anyOf": [{"type": "string", "pattern": f"^{_ARCH}$"}, {"type": "number"}]
                    },
                },
            ],
        }
    ),
]
Cuda = Annotated[str, _reader(_read_cuda), _number_like("CUDA release", r"\d{1,2}\.\d")]
Torch = Annotated[str, _reader(values.read_torch), _number_like("torch version", values.TORCH)]
Python = Annotated[str, _reader(values.read_python), _number_like("Python version", values.PYTHON)]
LoaderKey = Annotated[
    str, _reader(_read_loader_key), _kind("device or `default`", r"default|\d{1,2}\.\d")
]


class Mapped:
    """Marks a tuple of pairs that is a mapping in the document; kept sorted by its keys."""

    def __get_pydantic_core_schema__(
        self, source: type[tuple[tuple[str, Any], ...]], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Read as a mapping, keep as pairs, write as a mapping."""
        key, value = get_args(get_args(source)[0])
        mapping = core_schema.dict_schema(
            handler.generate_schema(key), handler.generate_schema(value)
        )
        return core_schema.no_info_after_validator_function(
            _sorted_pairs,
            mapping,
            serialization=core_schema.wrap_serializer_function_ser_schema(
                _as_mapping, schema=mapping
            ),
        )


def _sorted_pairs(mapping: dict[str, T]) -> tuple[tuple[str, T], ...]:
    return tuple(sorted(mapping.items(), key=lambda pair: pair[0]))


def _as_mapping(
    pairs: tuple[tuple[str, object], ...], handler: core_schema.SerializerFunctionWrapHandler
) -> object:
    return handler(dict(pairs))
