"""YAML as plainly as it gets: every scalar stays text, every value knows its line.

Built on PyYAML's event stream, so nothing is ever resolved: no booleans, floats, dates or tags.
Anchors, aliases, merge keys and duplicate keys are faults; what is not YAML at all raises at once.
Knows nothing of recipes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from kernforge.errors import RecipeError
from kernforge.recipe.fault import Fault, Loc

MAX_BYTES = 1 << 20
MAX_DEPTH = 20

_Begin = yaml.MappingStartEvent | yaml.SequenceStartEvent | yaml.ScalarEvent
Plain = dict[str, "Plain"] | list["Plain"] | str | None

# libyaml reads a recipe of 40 lines in 0.14 ms, the pure Python loader in 1.5 ms (measured).
_LOADER: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A YAML document as plain values, and where each stands.

    Attributes:
        value: mappings, lists, text, and None for a value left empty.
        keys: line and column, from 1, of each mapping key by location.
        values: line and column, from 1, of each value by location.
        faults: what the document may not hold, though it is YAML.
    """

    value: dict[str, Plain]
    keys: dict[Loc, tuple[int, int]]
    values: dict[Loc, tuple[int, int]]
    faults: tuple[Fault, ...]

    def position(self, loc: Loc, *, on_key: bool = False) -> tuple[int, int]:
        """Line and column of a value or key; of the nearest block around it where it is missing."""
        known = self.keys if on_key and loc in self.keys else self.values
        while loc not in known:
            loc = loc[:-1]
            known = self.keys if loc in self.keys else self.values
        return known[loc]


def parse_document(data: bytes, where: str) -> Document:
    """Read one document whose top is a mapping.

    Args:
        data: the file's bytes.
        where: the file's name, for messages.

    Raises:
        RecipeError: words ``yaml-large``, ``yaml-bom``, ``yaml-encoding``, ``yaml-syntax``,
            ``yaml-tab``, ``yaml-empty``, ``yaml-documents``, ``yaml-mapping``, ``yaml-deep``.
    """
    text = _decoded(data, where)
    try:
        # An iterator of PyYAML's that disposes of its parser when it ends.
        events = yaml.parse(text, Loader=_LOADER)
        return _Reader(where=where, events=events).document()
    except yaml.YAMLError as error:
        raise _syntax(error, text, where) from error


def _decoded(data: bytes, where: str) -> str:
    if len(data) > MAX_BYTES:
        raise RecipeError(
            "yaml-large", f"{where}: larger than {MAX_BYTES >> 20} MiB", hint="is it a recipe?"
        )
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise RecipeError(
            "yaml-bom",
            f"{where}:1: begins with a byte order mark",
            hint="save the file as UTF-8 without a BOM",
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise RecipeError(
            "yaml-encoding",
            f"{where}:{line}: byte 0x{data[error.start]:02x} is not UTF-8",
            hint="save the file as UTF-8",
        ) from error


def _syntax(error: yaml.YAMLError, text: str, where: str) -> RecipeError:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        at = getattr(error, "position", 0)
        line = text.count("\n", 0, at) + 1
        return RecipeError(
            "yaml-syntax",
            f"{where}:{line}: holds a control character",
            hint="remove it, or write it as an escape in double quotes",
        )
    lines = text.splitlines()
    mark = error.problem_mark
    content = lines[mark.line] if mark.line < len(lines) else ""
    indent = content[: len(content) - len(content.lstrip())]
    if "\t" in indent or content[mark.column : mark.column + 1] == "\t":
        return RecipeError(
            "yaml-tab",
            f"{where}:{mark.line + 1}: a tab stands where only blanks may indent",
            hint="indent with blanks",
        )
    if "nesting depth" in (error.problem or ""):
        return _too_deep(where, mark.line + 1)
    context = f" {error.context}" if error.context else ""
    if error.context_mark is not None and error.context_mark.line != mark.line:
        context += f" that begins on line {error.context_mark.line + 1}"
    line = max(1, min(mark.line + 1, len(lines)))
    return RecipeError(
        "yaml-syntax",
        f"{where}:{line}: is not YAML: {error.problem}{context}",
        hint=_syntax_hint(error.problem or ""),
    )


def _too_deep(where: str, line: int) -> RecipeError:
    said = f"{where}:{line}: nested deeper than {MAX_DEPTH} levels"
    return RecipeError("yaml-deep", said, hint="a recipe needs five")


def _syntax_hint(problem: str) -> str:
    if "mapping values are not allowed" in problem:
        return "put text that holds ': ' in quotes"
    if "expected ',' or" in problem:
        return "close the bracket"
    if "cannot start any token" in problem:
        return "put text that begins with a special character in quotes"
    if "end of stream" in problem:
        return "close the quote"
    return "look at the indentation, quotes and brackets of this line and the one before"


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Turns one stream of events into a document; used once."""

    where: str
    events: Iterator[yaml.Event]
    keys: dict[Loc, tuple[int, int]] = field(default_factory=dict)
    values: dict[Loc, tuple[int, int]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def document(self) -> Document:
        """Read the one document; raises what is wrong with the text as a whole."""
        next(self.events)
        if not isinstance(next(self.events), yaml.DocumentStartEvent):
            raise self._error("yaml-empty", 1, "is empty", "begin with format: 1")
        top = next(self.events)
        if not isinstance(top, yaml.MappingStartEvent):
            line = _start(top)[0]
            what = "a mapping is needed at the top, as format: 1"
            raise self._error("yaml-mapping", line, what, "write KEY: VALUE lines")
        value = self._mapping((), top)
        next(self.events)
        after = next(self.events)
        if isinstance(after, yaml.DocumentStartEvent):
            line = _start(after)[0]
            what = "a second document begins; a file holds one"
            raise self._error("yaml-documents", line, what, "move it to a file of its own")
        return Document(value=value, keys=self.keys, values=self.values, faults=tuple(self.faults))

    def _error(self, word: str, line: int, message: str, hint: str) -> RecipeError:
        return RecipeError(word, f"{self.where}:{line}: {message}", hint=hint)

    def _fault(self, loc: Loc, word: str, message: str, hint: str) -> None:
        self.faults.append(Fault(loc=loc, error=RecipeError(word, message, hint=hint)))

    def _value(self, loc: Loc, event: yaml.Event) -> Plain:
        match event:
            case yaml.AliasEvent():
                self.values[loc] = _start(event)
                self._refuse_name(loc, f"*{event.anchor}")
                return None
            case yaml.MappingStartEvent():
                return self._mapping(loc, event)
            case yaml.SequenceStartEvent():
                return self._sequence(loc, event)
            case yaml.ScalarEvent():
                self._begin(loc, event)
                plain = event.style is None or event.style == ""
                return None if plain and event.value == "" else str(event.value)
            case _:  # pragma: no cover - the parser gives no other event in this place
                raise AssertionError(event)

    def _begin(self, loc: Loc, event: _Begin) -> None:
        """Note where a value begins and refuse what may not stand before it."""
        self.values[loc] = _start(event)
        if len(loc) > MAX_DEPTH:
            raise _too_deep(self.where, _start(event)[0])
        self._refuse_marks(loc, event)

    def _refuse_marks(self, loc: Loc, event: _Begin) -> None:
        if event.anchor is not None:
            self._refuse_name(loc, f"&{event.anchor}")
        if event.tag is not None:
            what = f"tag {event.tag!r}: a recipe has no tags"
            self._fault(loc, "yaml-tag", what, "leave the tag out; values are text")

    def _refuse_name(self, loc: Loc, name: str) -> None:
        what = f"{name!r}: a recipe has no anchors and aliases"
        hint = "write the value out; put text that begins with & or * in quotes"
        self._fault(loc, "yaml-anchor", what, hint)

    def _sequence(self, loc: Loc, start: yaml.SequenceStartEvent) -> list[Plain]:
        self._begin(loc, start)
        items: list[Plain] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self._value((*loc, len(items)), event))
        return items

    def _mapping(self, loc: Loc, start: yaml.MappingStartEvent) -> dict[str, Plain]:
        self._begin(loc, start)
        found: dict[str, Plain] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = self._key(loc, event)
            at = (*loc, key)
            if key in found or key == "<<":
                self._skipped(at, event, repeated=key in found)
                continue
            self.keys[at] = _start(event)
            found[key] = self._value(at, next(self.events))
        return found

    def _key(self, loc: Loc, event: yaml.Event) -> str:
        if isinstance(event, yaml.ScalarEvent):
            self._refuse_marks((*loc, str(event.value)), event)
            return str(event.value)
        raise self._error(
            "yaml-mapping", _start(event)[0], "a key must be text", "write KEY: VALUE"
        )

    def _skipped(self, at: Loc, event: yaml.Event, *, repeated: bool) -> None:
        """Read over the value of a key that may not be, and keep a fault for it."""
        aside = _Reader(where=self.where, events=self.events)
        aside._value(at, next(self.events))
        if not repeated:
            self.keys[at] = self.values[at] = _start(event)
            self._fault(at, "yaml-merge", "a recipe has no merge keys", "write the keys out")
            return
        what = f"a second {at[-1]!r}; the first stands on line {self.keys[at][0]}"
        error = RecipeError("yaml-duplicate-key", what, hint="keep one of them")
        self.faults.append(Fault(loc=at, error=error, position=_start(event)))


def _start(event: yaml.Event) -> tuple[int, int]:
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
