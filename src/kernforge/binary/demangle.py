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

from kernforge.binary.demangle_tables import LITERAL_SUFFIXES, OPERATORS, SPECIAL, STANDARD
from kernforge.binary.mangled import Pack, Text, UnknownNameError, flatten
from kernforge.binary.mangled_types import QUALIFIERS, REFERENCES, TypeReader

# Stands for the arguments of a generic closure, whose parameters have no types of their own.
_AUTO = (Text("auto"),)


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
    except (UnknownNameError, IndexError, RecursionError):
        return None


class _Parser(TypeReader):
    """Reads one mangled name from left to right."""

    # Names.

    def encoding(self, *, result: bool = True) -> str:
        """Read a whole name; the place of a local name is told without its result."""
        if self.peek() in {"T", "G"}:
            return self.special_name()
        name = self.function_name()
        if self.at >= len(self.name) or self.peek() in {"E", "."}:
            return name.text
        left = right = ""
        if name.template and not name.special:
            given = self.type()
            if result:
                left, right = given.left + ("" if given.open else " "), given.right
        parameters = self.parameters()
        text = f"{left}{name.text}({parameters}){name.qualifiers}{right}"
        self.step(text)
        return text

    def special_name(self) -> str:
        """Read a <special-name>: a table or guard, and what it is of."""
        code = self.peek(2)
        if code not in SPECIAL:
            raise UnknownNameError
        self.at += 2
        inner = self.function_name().text if code == "GV" else self.type().all
        return SPECIAL[code] + inner

    def function_name(self) -> _Name:
        """Read a <name>: nested, local, substituted or plain, with its template arguments."""
        if self.skip("N"):
            return self.nested(outermost=True)
        if self.skip("Z"):
            return self.local()
        referred = self.peek() == "S" and self.peek(2) != "St"
        name = _Name(self.substitution().all) if referred else self.unscoped()
        if self.peek() == "I":
            if not referred:
                self.remember(Text(name.text), self.uses)
            name.text += self.template_arguments(outermost=True)
            name.template = True
        return name

    def unscoped(self) -> _Name:
        """Read an <unscoped-name>."""
        scope = "std::" if self.skip("St") else ""
        name = self.unqualified("")
        return _Name(scope + name.text, special=name.special)

    def local(self) -> _Name:
        """Read a <local-name>: what stands in a function."""
        kept = self.arguments
        scope = self.encoding(result=False)
        self.expect("E")
        if self.skip("s"):
            self.discriminator()
            return _Name(f"{scope}::string literal")
        if self.peek() == "d":
            raise UnknownNameError
        self.arguments = kept
        inner = self.function_name()
        self.discriminator()
        inner.text = f"{scope}::{inner.text}"
        return inner

    def discriminator(self) -> None:
        """Pass over a <discriminator>."""
        if self.skip("__"):
            self.number()
            self.expect("_")
        elif self.peek() == "_" and self.peek(2)[1:].isdigit():
            self.at += 2

    def nested(self, *, outermost: bool = False) -> _Name:
        """Read a <nested-name> after its ``N``."""
        uses = self.uses
        name = _Name("", qualifiers=self.member_qualifiers())
        last = ""
        while not self.skip("E"):
            self.step(name.text)
            code = self.peek()
            known = code == "S" and self.peek(2) != "St"
            if code == "I":
                name.text += self.template_arguments(outermost=outermost)
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
                self.remember(Text(name.text), uses)
        return name

    def member_qualifiers(self) -> str:
        """Read the qualifiers of a member function, the last first."""
        found = ""
        while self.peek() in QUALIFIERS:
            found = QUALIFIERS[self.peek()] + found
            self.at += 1
        if self.peek() in REFERENCES:
            found += f" {REFERENCES[self.peek()]}"
            self.at += 1
        return found

    def unqualified(self, scope: str) -> _Name:
        """Read an <unqualified-name> in a scope."""
        self.skip("L")
        code = self.peek(2)
        if code[:1].isdigit():
            name = _Name(self.source_name())
        elif code == "Ut":
            self.at += 2
            name = _Name(f"{{unnamed type#{self.ordinal()}}}")
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
        """Read a <source-name>: a length and so many characters."""
        size = self.number()
        text = self.name[self.at : self.at + size]
        if not size or len(text) < size:
            raise UnknownNameError
        self.at += size
        return "(anonymous namespace)" if re.match(r"_GLOBAL_[._$]N", text) else text

    def closure(self) -> _Name:
        """Read the <closure-type-name> of a lambda."""
        self.expect("Ul")
        kept, self.arguments = self.arguments, _AUTO
        parameters = self.parameters()
        self.arguments = kept
        self.expect("E")
        return _Name(f"{{lambda({parameters})#{self.ordinal()}}}")

    def ordinal(self) -> int:
        """``_`` is the first, ``0_`` the second, ``10_`` the twelfth."""
        number = self.number() + 2 if self.peek().isdigit() else 1
        self.expect("_")
        return number

    def operator(self) -> _Name:
        """Read an <operator-name>."""
        code = self.peek(2)
        if code == "cv":
            self.at += 2
            return _Name(f"operator {self.type().all}", special=True)
        if code not in OPERATORS:
            raise UnknownNameError
        self.at += 2
        sign = OPERATORS[code][0]
        return _Name(f"operator{' ' if sign[0].isalpha() else ''}{sign}")

    def class_name(self) -> Text:
        """Read a <class-enum-type>."""
        if self.skip("N"):
            return Text(self.nested().text)
        if self.skip("Z"):
            kept = self.arguments
            name = self.local()
            self.arguments = kept
            return Text(name.text)
        text = self.unscoped().text
        if self.peek() == "I":
            self.remember(Text(text), self.uses)
            text += self.template_arguments()
        return Text(text)

    # Substitutions and templates.

    def substitution(self) -> Text:
        """Read a <substitution>: something read before, or a name of the standard library."""
        self.expect("S")
        code = self.peek()
        if code in STANDARD:
            self.at += 1
            return Text(STANDARD[code])
        return self.recall(self.sequence())

    def parameter(self) -> Text:
        """Read a <template-param>: an argument read before."""
        self.expect("T")
        number = self.sequence()
        if self.arguments is _AUTO:
            self.uses += 1
            return Text(f"auto:{number + 1}")
        if number >= len(self.arguments):
            raise UnknownNameError
        self.uses += 1
        found = self.arguments[number]
        if isinstance(found, Text):
            return found
        items = flatten(found)
        if self.chosen is None:
            return Text(", ".join(item.all for item in items))
        self.pack_size = len(items)
        return items[self.chosen] if self.chosen < len(items) else Text("")

    def template_arguments(self, *, outermost: bool = False) -> str:
        """Read <template-args> as text."""
        found = self.argument_list("I")
        if outermost:
            self.arguments = found
        text = ", ".join(item.all for item in flatten(Pack(found)))
        # libstdc++ leaves the blank out where an empty pack stands last.
        empty = bool(found) and isinstance(found[-1], Pack) and not flatten(found[-1])
        return f"<{text} >" if text.endswith(">") and not empty else f"<{text}>"

    def argument_list(self, opening: str) -> tuple[Text | Pack, ...]:
        """Read template arguments up to their ``E``."""
        self.expect(opening)
        found: list[Text | Pack] = []
        while not self.skip("E"):
            self.step()
            code = self.peek()
            if code == "J":
                found.append(Pack(self.argument_list("J")))
            elif code == "L":
                found.append(Text(self.literal()))
            elif self.skip("X"):
                found.append(Text(self.expression()))
                self.expect("E")
            else:
                found += self.types()
        return tuple(found)

    # Expressions, as far as kernels have them.

    def literal(self) -> str:
        """Read an <expr-primary>."""
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
            raise UnknownNameError
        self.at = stop + 1
        if code == "b" and value in {"0", "1"}:
            return "true" if value == "1" else "false"
        if code in LITERAL_SUFFIXES:
            return value + LITERAL_SUFFIXES[code]
        return f"({kind}){value}" if value else f"({kind})0"

    def bare_encoding(self) -> str:
        """Read an <encoding>; the template arguments at hand stay."""
        kept = self.arguments
        text = self.encoding()
        self.arguments = kept
        return text

    def expression(self) -> str:
        """Read an <expression>."""
        self.step()
        if self.peek() == "L":
            return self.literal()
        if self.peek() == "T":
            return self.parameter().all
        code = self.peek(2)
        self.at += 2
        read = {"tl": self.braces, "sr": self.member, "st": self.size}.get(code)
        return read() if read else self.operation(code)

    def braces(self) -> str:
        """A value of a class as an argument: ``Config{1, true}``."""
        scope = self.type().all
        items = []
        while not self.skip("E"):
            items.append(self.expression())
        return f"{scope}{{{', '.join(items)}}}"

    def member(self) -> str:
        """Read a member of a type, as an expression names it."""
        scope = self.type().all
        text = f"{scope}::{self.source_name()}"
        return text + self.template_arguments() if self.peek() == "I" else text

    def size(self) -> str:
        """Read the operand of ``sizeof``."""
        return f"sizeof ({self.type().all})"

    def operation(self, code: str) -> str:
        """Read the operands of an operator."""
        sign, operands = OPERATORS.get(code, ("", 0))
        if operands == 1:
            return self.unary(sign)
        if operands == 2:
            left, right = self.expression(), self.expression()
            return f"(({left}){sign}({right}))" if sign == ">" else f"({left}){sign}({right})"
        raise UnknownNameError

    def address(self) -> str:
        """A function as an argument: a plain one by its name, others with all of their types."""
        kept, start, known = self.arguments, self.at, len(self.known)
        plain = self.peek() == "N"
        name = self.function_name()
        if plain and not name.template:
            self.parameters()
            text = f"&{name.text}"
        else:
            self.at = start
            del self.known[known:]
            text = f"&({self.encoding()})"
        self.arguments = kept
        self.expect("E")
        return text

    def unary(self, sign: str) -> str:
        """Read the operand of an operator that takes one."""
        if sign == "&" and self.skip("L_Z"):
            return self.address()
        return f"{sign}({self.expression()})"
