"""C++ names for people: `_Z5scalePf` is `scale(float*)`. Pure, and bounded whatever the name is.

Room `binary`. The demangler of libstdc++ gives up at about 1,024 characters, which many CUTLASS
kernels exceed, and has no limit on what a hostile name unfolds to; this one takes names of any
length, never unfolds to more than 64 KiB, and answers None where a name uses a corner of the
grammar that kernels do not (the tests compare it with libstdc++ on published kernels).

Grammar: Itanium C++ ABI, chapter 5.1 "External Names (a.k.a. Mangling)".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kernforge.binary.demangle_tables import BUILTINS, LITERAL_SUFFIXES, OPERATORS, STANDARD

_LENGTH_LIMIT = 1 << 16
_STEP_LIMIT = 1 << 16
_DEPTH_LIMIT = 120
_DIGITS = re.compile(r"\d+", re.ASCII)
_SEQUENCE = re.compile(r"[0-9A-Z]*_", re.ASCII)
_QUALIFIERS = {"r": " restrict", "V": " volatile", "K": " const"}
_REFERENCES = {"R": "&", "O": "&&"}


class _UnknownError(Exception):
    """The name uses what is not known here, or unfolds to too much."""


@dataclass(frozen=True, slots=True)
class _Text:
    """A type or name: what stands before and after the place of a declared name.

    ``open`` says that a pointer to it needs parentheses (functions and arrays).
    """

    left: str
    right: str = ""
    open: bool = False

    @property
    def all(self) -> str:
        return self.left + self.right


@dataclass(frozen=True, slots=True)
class _Pack:
    """A pack of template arguments."""

    items: tuple[_Text | _Pack, ...]


@dataclass(slots=True)
class _Name:
    """A function's or object's name while it is read."""

    text: str
    template: bool = False
    special: bool = False
    """Constructor, destructor or conversion: it has no return type."""
    qualifiers: str = ""


def demangle(name: str) -> str | None:
    """The C++ name, or None where it is none or is not understood."""
    if not name.startswith("_Z"):
        return None
    parser = _Parser(name)
    try:
        text = parser.encoding()
        return text + parser.clones()
    except (_UnknownError, IndexError, RecursionError):
        return None


class _Parser:
    """Reads one mangled name from left to right."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.at = 2
        self.known: list[_Text] = []
        self.arguments: tuple[_Text | _Pack, ...] = ()
        self.chosen: int | None = None
        self.pack_size: int | None = None
        self.steps = 0
        self.depth = 0

    # Reading characters.

    def peek(self, size: int = 1) -> str:
        return self.name[self.at : self.at + size]

    def skip(self, text: str) -> bool:
        if not self.name.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def expect(self, text: str) -> None:
        if not self.skip(text):
            raise _UnknownError

    def number(self) -> int:
        match = _DIGITS.match(self.name, self.at)
        if match is None or len(match[0]) > 18:
            raise _UnknownError
        self.at = match.end()
        return int(match[0])

    def sequence(self) -> int:
        """``_`` is 0, ``0_`` is 1, ``A_`` is 11: numbers of base 36 that begin late."""
        match = _SEQUENCE.match(self.name, self.at)
        if match is None or len(match[0]) > 12:
            raise _UnknownError
        self.at = match.end()
        return int(match[0][:-1], 36) + 1 if len(match[0]) > 1 else 0

    def step(self, text: str = "") -> None:
        self.steps += 1
        if self.steps > _STEP_LIMIT or len(text) > _LENGTH_LIMIT:
            raise _UnknownError

    def remember(self, text: _Text) -> _Text:
        self.step(text.all)
        self.known.append(text)
        return text

    def clones(self) -> str:
        rest = self.name[self.at :]
        if rest and not rest.startswith("."):
            raise _UnknownError
        return f" [clone {rest}]" if rest else ""

    # Names.

    def encoding(self) -> str:
        name = self.function_name()
        if self.at >= len(self.name) or self.peek() in {"E", "."}:
            return name.text
        result = _Text("")
        if name.template and not name.special:
            given = self.type()
            result = _Text(given.left + ("" if given.open else " "), given.right)
        parameters = self.parameters()
        text = f"{result.left}{name.text}({parameters}){name.qualifiers}{result.right}"
        self.step(text)
        return text

    def parameters(self) -> str:
        types = []
        while self.at < len(self.name) and self.peek() not in {"E", "."}:
            types += self.types()
        return ", ".join(t.all for t in types if t.all != "void" or len(types) > 1)

    def function_name(self) -> _Name:
        if self.skip("N"):
            return self.nested()
        if self.skip("Z"):
            return self.local()
        name = self.unscoped()
        if self.peek() == "I":
            # A template's own name can be referred to; where it came by reference it is known.
            self.remember(_Text(name.text))
            name.text += self.template_arguments(outermost=True)
            name.template = True
        return name

    def unscoped(self) -> _Name:
        scope = "std::" if self.skip("St") else ""
        name = self.unqualified("")
        return _Name(scope + name.text, special=name.special)

    def local(self) -> _Name:
        kept = self.arguments
        scope = self.encoding()
        self.expect("E")
        if self.skip("s"):
            self.discriminator()
            return _Name(f"{scope}::string literal")
        if self.peek() == "d":
            raise _UnknownError
        self.arguments = kept
        inner = self.function_name()
        self.discriminator()
        inner.text = f"{scope}::{inner.text}"
        return inner

    def discriminator(self) -> None:
        if self.skip("__"):
            self.number()
            self.expect("_")
        elif self.peek() == "_" and self.peek(2)[1:].isdigit():
            self.at += 2

    def nested(self) -> _Name:
        name = _Name("", qualifiers=self.member_qualifiers())
        last = ""
        while not self.skip("E"):
            self.step(name.text)
            code = self.peek()
            known = code == "S" and self.peek(2) != "St"
            if code == "I":
                name.text += self.template_arguments(outermost=True)
                name.template = True
            elif known:
                name.text = self.substitution().all
            elif code == "T":
                name.text = self.parameter().all
            elif self.skip("St"):
                name.text, known = "std", True
            elif self.peek(2) in {"Dt", "DT"}:
                name.text = self.decltype().all
            else:
                part = self.unqualified(last)
                last = part.text
                name.text = f"{name.text}::{part.text}" if name.text else part.text
                name.template, name.special = False, part.special
            if not known and self.peek() != "E":
                self.remember(_Text(name.text))
        return name

    def member_qualifiers(self) -> str:
        found = ""
        while self.peek() in _QUALIFIERS:
            found = _QUALIFIERS[self.peek()] + found
            self.at += 1
        if self.peek() in _REFERENCES:
            found += f" {_REFERENCES[self.peek()]}"
            self.at += 1
        return found

    def unqualified(self, scope: str) -> _Name:
        self.skip("L")
        code = self.peek(2)
        if code[:1].isdigit():
            name = _Name(self.source_name())
        elif code == "Ut":
            self.at += 2
            name = _Name(f"{{unnamed type#{self.sequence() + 1}}}")
        elif code == "Ul":
            name = self.closure()
        elif code[:1] in {"C", "D"} and code[1:].isdigit() and scope:
            self.at += 2
            name = _Name(scope if code[0] == "C" else f"~{scope}", special=True)
        else:
            name = self.operator()
        while self.skip("B"):
            name.text += f"[abi:{self.source_name()}]"
        return name

    def source_name(self) -> str:
        size = self.number()
        text = self.name[self.at : self.at + size]
        if not size or len(text) < size:
            raise _UnknownError
        self.at += size
        return "(anonymous namespace)" if re.match(r"_GLOBAL_[._$]N", text) else text

    def closure(self) -> _Name:
        self.expect("Ul")
        parameters = self.parameters()
        self.expect("E")
        return _Name(f"{{lambda({parameters})#{self.sequence() + 1}}}")

    def operator(self) -> _Name:
        code = self.peek(2)
        if code == "cv":
            self.at += 2
            return _Name(f"operator {self.type().all}", special=True)
        if code not in OPERATORS:
            raise _UnknownError
        self.at += 2
        sign = OPERATORS[code][0]
        return _Name(f"operator{' ' if sign[0].isalpha() else ''}{sign}")

    # Types.

    def types(self) -> list[_Text]:
        """One type, or all types of a pack that is expanded here."""
        if not self.skip("Dp"):
            return [self.type()]
        start, known = self.at, len(self.known)
        outer = self.chosen, self.pack_size
        self.chosen, self.pack_size = 0, None
        found = [self.type()]
        size, remembered = self.pack_size, self.known[known:]
        if size is None:
            raise _UnknownError
        for number in range(1, size):
            del self.known[known:]
            self.at, self.chosen = start, number
            found.append(self.type())
        self.known[known:] = remembered
        self.chosen, self.pack_size = outer
        return found[:size]

    def type(self) -> _Text:
        self.step()
        self.depth += 1
        if self.depth > _DEPTH_LIMIT:
            raise _UnknownError
        found = self.any_type()
        self.depth -= 1
        return found

    def any_type(self) -> _Text:
        code = self.peek()
        for width in (1, 2):
            if self.peek(width) in BUILTINS:
                self.at += width
                return _Text(BUILTINS[self.name[self.at - width : self.at]])
        if code in _QUALIFIERS:
            return self.remember(self.qualified())
        if code == "S" and self.peek(2) != "St":
            return self.substituted()
        if code == "T" and self.peek(2)[1:] not in {"s", "u", "e"}:
            return self.template_parameter()
        if code in {"N", "Z", "S"} or code.isdigit():
            return self.remember(self.class_name())
        return self.remember(self.compound())

    def qualified(self) -> _Text:
        found = ""
        while self.peek() in _QUALIFIERS:
            found = _QUALIFIERS[self.peek()] + found
            self.at += 1
        inner = self.type()
        if inner.open:
            return _Text(inner.left, inner.right + found, open=True)
        return _Text(inner.left + found, inner.right)

    def substituted(self) -> _Text:
        found = self.substitution()
        if self.peek() != "I":
            return found
        return self.remember(_Text(found.all + self.template_arguments()))

    def template_parameter(self) -> _Text:
        found = self.remember(self.parameter())
        if self.peek() != "I":
            return found
        return self.remember(_Text(found.all + self.template_arguments()))

    def class_name(self) -> _Text:
        if self.skip("N"):
            kept = self.arguments
            name = self.nested()
            self.arguments = kept
            return _Text(name.text)
        if self.skip("Z"):
            kept = self.arguments
            name = self.local()
            self.arguments = kept
            return _Text(name.text)
        text = self.unscoped().text
        if self.peek() == "I":
            self.remember(_Text(text))
            text += self.template_arguments()
        return _Text(text)

    def compound(self) -> _Text:
        code = self.peek()
        if code == "P":
            self.at += 1
            return _pointer(self.type(), "*")
        if code in _REFERENCES:
            self.at += 1
            return _reference(self.type(), _REFERENCES[code])
        match code:
            case "F":
                return self.function()
            case "A":
                return self.array()
            case "M":
                return self.member_pointer()
            case "U":
                self.at += 1
                word = self.source_name()
                return _Text(f"{self.type().all} {word}")
            case "D":
                return self.extended()
            case _:
                raise _UnknownError

    def extended(self) -> _Text:
        if self.peek(2) in {"Dt", "DT"}:
            return self.decltype()
        if self.skip("Do"):
            inner = self.function()
            return _Text(inner.left, f"{inner.right} noexcept", open=True)
        if self.skip("DF"):
            bits = self.number()
            self.expect("_")
            return _Text(f"_Float{bits}")
        if self.skip("Dv"):
            size = self.number()
            self.expect("_")
            return _Text(f"{self.type().all} __vector({size})")
        raise _UnknownError

    def function(self) -> _Text:
        self.expect("F")
        self.skip("Y")
        result = self.type()
        parameters = self.parameters()
        self.expect("E")
        space = "" if result.open else " "
        return _Text(result.left + space, f"({parameters}){result.right}", open=True)

    def array(self) -> _Text:
        self.expect("A")
        size = str(self.number()) if self.peek().isdigit() else ""
        self.expect("_")
        inner = self.type()
        right = inner.right.removeprefix(" ")
        return _Text(inner.left + ("" if inner.open else " "), f"[{size}]{right}", open=True)

    def member_pointer(self) -> _Text:
        self.expect("M")
        scope = self.type().all
        return _pointer(self.type(), f"{scope}::*")

    def decltype(self) -> _Text:
        self.at += 2
        text = self.expression()
        self.expect("E")
        return _Text(f"decltype ({text})")

    # Substitutions and templates.

    def substitution(self) -> _Text:
        self.expect("S")
        code = self.peek()
        if code in STANDARD:
            self.at += 1
            return _Text(STANDARD[code])
        number = self.sequence()
        if number >= len(self.known):
            raise _UnknownError
        return self.known[number]

    def parameter(self) -> _Text:
        self.expect("T")
        number = self.sequence()
        if number >= len(self.arguments):
            raise _UnknownError
        found = self.arguments[number]
        if isinstance(found, _Text):
            return found
        items = _flatten(found)
        if self.chosen is None:
            return _Text(", ".join(item.all for item in items))
        self.pack_size = len(items)
        return items[self.chosen] if self.chosen < len(items) else _Text("")

    def template_arguments(self, *, outermost: bool = False) -> str:
        found = self.argument_list("I")
        if outermost:
            self.arguments = found
        text = ", ".join(item.all for item in _flatten(_Pack(found)))
        return f"<{text} >" if text.endswith(">") else f"<{text}>"

    def argument_list(self, opening: str) -> tuple[_Text | _Pack, ...]:
        self.expect(opening)
        found: list[_Text | _Pack] = []
        while not self.skip("E"):
            self.step()
            code = self.peek()
            if code == "J":
                found.append(_Pack(self.argument_list("J")))
            elif code == "L":
                found.append(_Text(self.literal()))
            elif self.skip("X"):
                found.append(_Text(self.expression()))
                self.expect("E")
            else:
                found += self.types()
        return tuple(found)

    # Expressions, as far as kernels have them.

    def literal(self) -> str:
        self.expect("L")
        if self.skip("_Z") or self.skip("Z"):
            text = self.bare_encoding()
            self.expect("E")
            return text
        code = self.peek()
        kind = self.type().all
        stop = self.name.index("E", self.at) if "E" in self.name[self.at :] else -1
        value = self.name[self.at : stop].replace("n", "-")
        if stop < 0 or not re.fullmatch(r"-?[0-9a-f]*", value):
            raise _UnknownError
        self.at = stop + 1
        if code == "b" and value in {"0", "1"}:
            return "true" if value == "1" else "false"
        if code in LITERAL_SUFFIXES:
            return value + LITERAL_SUFFIXES[code]
        return f"({kind}){value}" if value else f"({kind})0"

    def bare_encoding(self) -> str:
        kept = self.arguments
        text = self.encoding()
        self.arguments = kept
        return text

    def expression(self) -> str:
        self.step()
        code = self.peek()
        if code == "L":
            return self.literal()
        if code == "T":
            return self.parameter().all
        if self.skip("st"):
            return f"sizeof ({self.type().all})"
        if self.skip("sr"):
            scope = self.type().all
            text = f"{scope}::{self.source_name()}"
            return text + self.template_arguments() if self.peek() == "I" else text
        sign, operands = OPERATORS.get(self.peek(2), ("", 0))
        self.at += 2
        if operands == 1:
            return self.unary(sign)
        if operands == 2:
            left, right = self.expression(), self.expression()
            return f"(({left}){sign}({right}))" if sign == ">" else f"({left}){sign}({right})"
        raise _UnknownError

    def unary(self, sign: str) -> str:
        if sign == "&" and self.skip("L_Z"):
            kept = self.arguments
            name = self.function_name()
            if self.peek() != "E":
                if name.template:
                    self.type()
                self.parameters()
            self.arguments = kept
            self.expect("E")
            return f"&{name.text}"
        return f"{sign}({self.expression()})"


def _flatten(pack: _Pack) -> list[_Text]:
    found: list[_Text] = []
    for item in pack.items:
        found += [item] if isinstance(item, _Text) else _flatten(item)
    return found


def _pointer(inner: _Text, sign: str) -> _Text:
    if inner.open:
        gap = " " if inner.right.startswith("[") else ""
        return _Text(f"{inner.left}({sign}", f"){gap}{inner.right}")
    space = " " if sign[0] != "*" and not inner.left.endswith("(") else ""
    return _Text(inner.left + space + sign, inner.right)


def _reference(inner: _Text, sign: str) -> _Text:
    if inner.left.endswith("&"):
        kept = inner.left.rstrip("&")
        both = sign == "&&" and inner.left.endswith("&&")
        return _Text(kept + ("&&" if both else "&"), inner.right)
    return _pointer(inner, sign) if inner.open else _Text(inner.left + sign, inner.right)
