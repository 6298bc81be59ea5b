"""What the demangler stands on: reading codes and numbers, limits, and texts of types. Pure.

Room `binary`; used by `demangle` alone.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass

_LENGTH_LIMIT = 1 << 16
_STEP_LIMIT = 1 << 16
_WRITTEN_LIMIT = 1 << 24
_DIGITS = re.compile(r"\d+", re.ASCII)
_SEQUENCE = re.compile(r"[0-9A-Z]*_", re.ASCII)


class UnknownNameError(Exception):
    """The name uses what is not known here, or unfolds to too much."""


@dataclass(frozen=True, slots=True)
class Text:
    """A type or name: what stands before and after the place of a declared name.

    ``open`` says that a pointer to it needs parentheses (functions and arrays).
    """

    left: str
    right: str = ""
    open: bool = False

    @property
    def all(self) -> str:
        """The type by itself."""
        return self.left + self.right


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack of template arguments."""

    items: tuple[Text | Pack, ...]


Arguments = tuple[Text | Pack, ...]


@dataclass(frozen=True, slots=True)
class _Known:
    """What can be referred to.

    ``arguments`` are those it depends on, if it does; ``start`` is where it is read from again
    when it is referred to under others.
    """

    text: Text
    arguments: Arguments | None
    start: int | None


class Cursor(ABC):
    """Reads one mangled name from left to right and remembers what can be referred to.

    Attributes:
        name: the mangled name.
        at: where the next code stands.
        arguments: template arguments that ``T_`` and its kin stand for.
        uses: how often one of them was used so far.
        again: whether something is read a second time, so that it is not remembered.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.at = 2
        self.arguments: Arguments = ()
        self.uses = 0
        self.again = False
        self.known: list[_Known] = []
        self._steps = 0
        self._written = 0

    def peek(self, size: int = 1) -> str:
        """The next characters, fewer at the end."""
        return self.name[self.at : self.at + size]

    def skip(self, text: str) -> bool:
        """Go past a text if it stands here."""
        if not self.name.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def expect(self, text: str) -> None:
        """Go past a text that must stand here."""
        if not self.skip(text):
            raise UnknownNameError

    def number(self) -> int:
        """A decimal number."""
        match = _DIGITS.match(self.name, self.at)
        if match is None or len(match[0]) > 18:
            raise UnknownNameError
        self.at = match.end()
        return int(match[0])

    def sequence(self) -> int:
        """``_`` is 0, ``0_`` is 1, ``A_`` is 11: numbers of base 36 that begin late."""
        match = _SEQUENCE.match(self.name, self.at)
        if match is None or len(match[0]) > 12:
            raise UnknownNameError
        self.at = match.end()
        return int(match[0][:-1], 36) + 1 if len(match[0]) > 1 else 0

    def step(self, text: str = "") -> None:
        """Count work and length; a name that needs too much of either is given up."""
        self._steps += 1
        self._written += len(text)
        if self._steps > _STEP_LIMIT or len(text) > _LENGTH_LIMIT or self._written > _WRITTEN_LIMIT:
            raise UnknownNameError

    def remember(self, text: Text, uses: int, start: int | None = None) -> Text:
        """Make a text one that can be referred to.

        Args:
            text: what was read.
            uses: `uses` before it was read, which tells whether it depends on arguments.
            start: where a type was read from, if nothing but this type is read from there.
        """
        self.step(text.all)
        if not self.again:
            arguments = self.arguments if self.uses > uses else None
            self.known.append(_Known(text, arguments, start))
        return text

    def recall(self, number: int) -> Text:
        """What is referred to; read again where it depends on arguments and others hold now."""
        if number >= len(self.known):
            raise UnknownNameError
        found = self.known[number]
        if found.arguments is None:
            return found.text
        self.uses += 1
        if found.arguments is self.arguments:
            return found.text
        if found.start is None:
            raise UnknownNameError
        kept = self.at, self.again
        self.at, self.again = found.start, True
        text = self.type()
        self.at, self.again = kept
        return text

    @abstractmethod
    def type(self) -> Text:
        """Read one type."""

    def clones(self) -> str:
        """What compilers put behind the name, as libstdc++ shows it."""
        rest = self.name[self.at :]
        if rest and not rest.startswith("."):
            raise UnknownNameError
        return f" [clone {rest}]" if rest else ""


def flatten(pack: Pack) -> list[Text]:
    """The texts of a pack, packs in it unfolded."""
    found: list[Text] = []
    for item in pack.items:
        found += [item] if isinstance(item, Text) else flatten(item)
    return found


def pointer(inner: Text, sign: str) -> Text:
    """A pointer to something, or with another sign a pointer to a member."""
    if inner.open:
        gap = " " if inner.right.startswith("[") else ""
        return Text(f"{inner.left}({sign}", f"){gap}{inner.right}")
    space = " " if sign[0] != "*" and not inner.left.endswith("(") else ""
    return Text(inner.left + space + sign, inner.right)


def reference(inner: Text, sign: str) -> Text:
    """A reference; one to a reference collapses."""
    if inner.left.endswith("&"):
        kept = inner.left.rstrip("&")
        both = sign == "&&" and inner.left.endswith("&&")
        return Text(kept + ("&&" if both else "&"), inner.right)
    return pointer(inner, sign) if inner.open else Text(inner.left + sign, inner.right)
