"""The types in a mangled C++ name: pointers, functions, arrays, packs. Pure.

Room `binary`; used by `demangle` alone, which reads names and expressions.
"""

from __future__ import annotations

from abc import abstractmethod

from kernforge.binary.demangle_tables import BUILTINS
from kernforge.binary.mangled import Cursor, Text, UnknownNameError, pointer, reference

_DEPTH_LIMIT = 120
QUALIFIERS = {"r": " restrict", "V": " volatile", "K": " const"}
REFERENCES = {"R": "&", "O": "&&"}


class TypeReader(Cursor):
    """Reads types; what they are made of besides types is read by the class below.

    Attributes:
        chosen: which member of a pack its name stands for, while a pack is expanded.
        pack_size: members of the pack that was met there.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.chosen: int | None = None
        self.pack_size: int | None = None
        self._depth = 0

    @abstractmethod
    def class_name(self) -> Text:
        """Read the name of a class or enumeration."""

    @abstractmethod
    def substitution(self) -> Text:
        """Read a reference to something before, or to a name of the standard library."""

    @abstractmethod
    def template_arguments(self) -> str:
        """Read arguments in angle brackets."""

    @abstractmethod
    def parameter(self) -> Text:
        """Read what a template parameter stands for."""

    @abstractmethod
    def expression(self) -> str:
        """Read an expression."""

    @abstractmethod
    def source_name(self) -> str:
        """Read an identifier."""

    def parameters(self) -> str:
        """Read the types of parameters up to their end."""
        types = []
        while self.at < len(self.name) and self.peek() not in {"E", "."}:
            types += self.types()
        return ", ".join(t.all for t in types if t.all != "void" or len(types) > 1)

    def types(self) -> list[Text]:
        """One type, or all types of a pack that is expanded here."""
        if not self.skip("Dp"):
            return [self.type()]
        start, known = self.at, len(self.known)
        outer = self.chosen, self.pack_size
        self.chosen, self.pack_size = 0, None
        found = [self.type()]
        size, remembered = self.pack_size, self.known[known:]
        if size is None:
            raise UnknownNameError
        for number in range(1, size):
            del self.known[known:]
            self.at, self.chosen = start, number
            found.append(self.type())
        self.known[known:] = remembered
        self.chosen, self.pack_size = outer
        return found[:size]

    def type(self) -> Text:
        """Read one type."""
        self._depth += 1
        if self._depth > _DEPTH_LIMIT:
            raise UnknownNameError
        found = self._any_type()
        self._depth -= 1
        self.step(found.all)
        return found

    def _any_type(self) -> Text:
        for width in (1, 2):
            if (code := self.peek(width)) in BUILTINS:
                self.at += width
                return Text(BUILTINS[code])
        uses, start, code = self.uses, self.at, self.peek()
        if code == "S" and self.peek(2) != "St":
            return self._with_arguments(self.substitution())
        if code == "T" and self.peek(2)[1:] not in {"s", "u", "e"}:
            found = self.parameter()
            alone = None if self.peek() == "I" else start
            return self._with_arguments(self.remember(found, uses, alone))
        if code in QUALIFIERS:
            found = self._qualified()
        elif code in {"N", "Z", "S"} or code.isdigit():
            found = self.class_name()
        else:
            found = self._compound()
        return self.remember(found, uses, start)

    def _qualified(self) -> Text:
        found = ""
        while self.peek() in QUALIFIERS:
            found = QUALIFIERS[self.peek()] + found
            self.at += 1
        inner = self.type()
        if inner.open:
            return Text(inner.left, inner.right + found, open=True)
        return Text(inner.left + found, inner.right)

    def _with_arguments(self, found: Text) -> Text:
        """A template that was referred to, with the arguments that follow it."""
        if self.peek() != "I":
            return found
        uses = self.uses
        return self.remember(Text(found.all + self.template_arguments()), uses)

    def _compound(self) -> Text:
        code = self.peek()
        read = {
            "F": self._function,
            "A": self._array,
            "M": self._member_pointer,
            "D": self._extended,
        }.get(code)
        if read is not None:
            return read()
        self.at += 1
        if code == "P":
            return pointer(self.type(), "*")
        if code in REFERENCES:
            return reference(self.type(), REFERENCES[code])
        if code != "U":
            raise UnknownNameError
        word = self.source_name()
        return Text(f"{self.type().all} {word}")

    def _extended(self) -> Text:
        if self.peek(2) in {"Dt", "DT"}:
            return self.decltype()
        if self.skip("Do"):
            inner = self._function()
            return Text(inner.left, f"{inner.right} noexcept", open=True)
        wide = self.skip("DF")
        if not wide:
            self.expect("Dv")
        size = self.number()
        self.expect("_")
        return Text(f"_Float{size}" if wide else f"{self.type().all} __vector({size})")

    def _function(self) -> Text:
        self.expect("F")
        self.skip("Y")
        result = self.type()
        parameters = self.parameters()
        self.expect("E")
        space = "" if result.open else " "
        return Text(result.left + space, f"({parameters}){result.right}", open=True)

    def _array(self) -> Text:
        self.expect("A")
        size = str(self.number()) if self.peek().isdigit() else ""
        self.expect("_")
        inner = self.type()
        right = inner.right.removeprefix(" ")
        return Text(inner.left + ("" if inner.open else " "), f"[{size}]{right}", open=True)

    def _member_pointer(self) -> Text:
        self.expect("M")
        scope = self.type().all
        return pointer(self.type(), f"{scope}::*")

    def decltype(self) -> Text:
        """Read the type of an expression."""
        self.at += 2
        text = self.expression()
        self.expect("E")
        return Text(f"decltype ({text})")
