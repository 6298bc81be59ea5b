"""The lines of a patch file, read one after another, and the hunks among them.

Counts in a hunk's head decide where it ends. What does not add up is an error: a line too many
that is taken for a remark would leave out a change without a word.
"""

from __future__ import annotations

import re
from typing import NoReturn

from kernforge.errors import SourceError
from kernforge.source.patch import Hunk, Line

_HEAD = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_SIGNATURES = (b"-- \n", b"--\n", b"-- ", b"--")


def split_lines(data: bytes) -> tuple[bytes, ...]:
    """Lines with their ends. Only a line feed ends a line; the last one may lack it."""
    parts = data.split(b"\n")
    return (*(part + b"\n" for part in parts[:-1]), *((parts[-1],) if parts[-1] else ()))


class PatchLines:
    """A place in a patch file.

    Attributes:
        name: what messages call the patch.
        at: how many lines have been read.
    """

    def __init__(self, data: bytes, name: str) -> None:
        self._lines = split_lines(data)
        self.name = name
        self.at = 0

    def peek(self, ahead: int = 0) -> bytes:
        """A line to come, with its end; empty at the end of the file."""
        at = self.at + ahead
        return self._lines[at] if at < len(self._lines) else b""

    def take(self) -> bytes:
        """The next line, with its end."""
        line = self.peek()
        self.at += 1
        return line

    def head(self) -> bytes:
        """The next line without its end; it must end with a line feed alone.

        Raises:
            SourceError: ``patch-line-ends``.
        """
        line = self.take().removesuffix(b"\n")
        if line.endswith(b"\r"):
            raise SourceError(
                "patch-line-ends",
                f"{self.name!r} line {self.at}: the patch file itself has CRLF line ends",
                hint="write it with LF; only lines of hunks for a CRLF file end with CRLF",
            )
        return line

    def names_ahead(self) -> bool:
        """Whether a pair of ``---`` and ``+++`` lines comes next."""
        return self.peek().startswith(b"--- ") and self.peek(1).startswith(b"+++ ")

    def fail(self, reason: str, hint: str | None = None) -> NoReturn:
        """Say what is wrong with the line read last.

        Raises:
            SourceError: ``patch-malformed``, always.
        """
        raise SourceError(
            "patch-malformed", f"{self.name!r} line {max(self.at, 1)}: {reason}", hint=hint
        )


def read_hunks(lines: PatchLines) -> tuple[Hunk, ...]:
    """Read the hunks that stand here, at least one.

    Raises:
        SourceError: ``patch-malformed``, or ``patch-noop`` for one that changes nothing.
    """
    hunks: list[Hunk] = []
    while lines.peek().startswith(b"@@ "):
        hunks.append(_hunk(lines))
        _check_order(lines, hunks)
    if not hunks:
        lines.fail("a file is named, and no hunk follows", "the patch may have been cut short")
    return tuple(hunks)


def _count(digits: bytes | None) -> int:
    return 1 if digits is None else int(digits)


def _hunk(lines: PatchLines) -> Hunk:
    match = _HEAD.match(lines.take())
    if match is None:
        lines.fail("a hunk begins with '@@ -LINE,COUNT +LINE,COUNT @@'")
    at, old_count, new_count = lines.at, _count(match[2]), _count(match[4])
    old_start, new_start = int(match[1]), int(match[3])
    if (old_count and not old_start) or (new_count and not new_start):
        lines.fail("lines count from 1")
    if not old_count and not new_count:
        lines.fail("the hunk has no lines")
    hunk = Hunk(
        old_start=old_start,
        old_count=old_count,
        new_start=new_start,
        new_count=new_count,
        lines=_body(lines, old_count, new_count),
        at=at,
    )
    _check_ends(lines, hunk)
    if hunk.old == hunk.new:
        raise SourceError(
            "patch-noop",
            f"{lines.name!r} line {at}: the hunk changes nothing",
            hint="remove the hunk",
        )
    return hunk


def _body(lines: PatchLines, old: int, new: int) -> tuple[Line, ...]:
    body: list[Line] = []
    while old > 0 or new > 0 or lines.peek().startswith(b"\\ "):
        raw = lines.take()
        mark = " " if raw == b"\n" else chr(raw[0]) if raw else ""
        if mark == "\\" and body:
            body[-1] = _without_end(lines, body[-1])
            continue
        if mark not in {" ", "-", "+"}:
            lines.fail(
                "the hunk ends before the counts in its head are reached",
                "the patch was cut short, or edited without mending the counts",
            )
        if not raw.endswith(b"\n"):
            lines.fail("the patch ends in the middle of a line", "end it with a line end")
        body.append(Line(mark=mark, data=raw if raw == b"\n" else raw[1:]))
        old -= mark != "+"
        new -= mark != "-"
    if old < 0 or new < 0:
        lines.fail("the hunk has other lines than the counts in its head say")
    return tuple(body)


def _without_end(lines: PatchLines, line: Line) -> Line:
    if not line.data.endswith(b"\n"):
        lines.fail("the mark for a missing newline stands twice")
    return Line(mark=line.mark, data=line.data[:-1])


def _check_ends(lines: PatchLines, hunk: Hunk) -> None:
    """A line without newline is the last of its side; nothing but a new section follows."""
    if not all(line.endswith(b"\n") for side in (hunk.old, hunk.new) for line in side[:-1]):
        lines.fail("a line without newline stands before the end of the file")
    after = lines.peek()
    if after[:1] in {b" ", b"+", b"-", b"\\"} and not lines.names_ahead():
        if after in _SIGNATURES:
            return
        lines.take()
        lines.fail(
            "the hunk has more lines than the counts in its head say",
            "mend the counts, or make the patch anew",
        )


def _check_order(lines: PatchLines, hunks: list[Hunk]) -> None:
    if len(hunks) < 2:
        return
    before, hunk = hunks[-2:]
    if before.index + before.old_count > hunk.index:
        lines.fail("the hunk stands before the end of the one above it")
    if not all(side[-1].endswith(b"\n") for side in (before.old, before.new) if side):
        lines.fail("a line without newline stands before the end of the file")
