"""Faults as text and as JSON. Imports nothing heavy: every failing call needs it."""

from __future__ import annotations

import json
from typing import Any

from kernforge.errors import KernforgeError, ManyErrors


def dump(value: list[Any]) -> str:
    """One array, for reading by programs and people."""
    return json.dumps(value, indent=1, ensure_ascii=False)


def printable(text: str) -> str:
    """A line with control characters spelled out: names come from strangers' files."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\t\n" else repr(c)[1:-1] for c in text)


def one_line(text: str) -> str:
    """A text that may not begin another line, or another column."""
    return printable(text.replace("\n", "\\n").replace("\t", " "))


def github_lines(error: KernforgeError) -> list[str]:
    """A fault, or each of several, as GitHub's workflow commands: a line each."""
    errors = error.errors if isinstance(error, ManyErrors) else (error,)
    return [f"::error title={one.word}::{_escaped(one)}" for one in errors]


def _escaped(error: KernforgeError) -> str:
    said = printable(error.message) + (f"\nhint: {error.hint}" if error.hint else "")
    return said.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def error_documents(error: KernforgeError, **about: str) -> list[dict[str, Any]]:
    """A fault, or each of several, with its stable word."""
    errors = error.errors if isinstance(error, ManyErrors) else (error,)
    return [
        {
            **about,
            "error": e.word,
            "message": e.message,
            "hint": e.hint,
            "exit": e.exit_code,
            "detail": list(e.detail),
        }
        for e in errors
    ]


def error_text(error: KernforgeError) -> str:
    """A fault for standard error: the program's own last lines, the message, the hint."""
    errors = error.errors if isinstance(error, ManyErrors) else (error,)
    lines = [f"  | {printable(line)}" for line in error.detail]
    for one in errors:
        lines.append(f"error[{one.word}]: {printable(one.message)}")
        lines += [f"  hint: {one.hint}"] if one.hint else []
    return "\n".join(lines)
