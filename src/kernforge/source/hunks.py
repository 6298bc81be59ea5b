"""Hunks against a file: whether each stands at its line, and where it does not, why. Pure.

A hunk stands where its old lines are, byte for byte, at the line that it states. Nothing else is
tried before the answer is no; then everything that may help to say why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from kernforge.source.patch import Hunk

_MOST_PLACES = 3
_SHOWN = 60


class Standing(StrEnum):
    """What a file says of one hunk."""

    STANDS = "stands"
    """Its old lines are at its line."""
    APPLIED = "applied"
    """Its new lines are at its line."""
    MERGED = "merged"
    """Its new lines are in the file, at another line."""
    OFFSET = "offset"
    """Its old lines are in the file, at another line."""
    LINE_ENDS = "line-ends"
    """Its old lines are at its line but for CRLF and LF."""
    NEWLINE = "newline"
    """Its old lines are at its line but for the newline at the end of the file."""
    CONTEXT = "context"
    """Other lines are at its line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One hunk against the file. ``number`` counts from 1; ``text`` reads after "hunk N"."""

    number: int
    hunk: Hunk
    standing: Standing
    text: str


def patched(lines: tuple[bytes, ...], hunks: tuple[Hunk, ...]) -> tuple[bytes, ...] | None:
    """The new lines, or None unless every hunk stands at its line."""
    out: list[bytes] = []
    at = 0
    for hunk in hunks:
        if not _stands(lines, hunk, hunk.old, hunk.index):
            return None
        out += lines[at : hunk.index]
        out += hunk.new
        at = hunk.index + hunk.old_count
    return (*out, *lines[at:])


def findings(lines: tuple[bytes, ...], hunks: tuple[Hunk, ...]) -> tuple[Finding, ...]:
    """What the file says of each hunk, lines counted as those that are applied have moved them."""
    found = []
    moved = 0
    for number, hunk in enumerate(hunks, 1):
        standing, text = _finding(lines, hunk, moved)
        if standing is Standing.APPLIED:
            moved += hunk.new_count - hunk.old_count
        found.append(Finding(number=number, hunk=hunk, standing=standing, text=text))
    return tuple(found)


def _stands(lines: tuple[bytes, ...], hunk: Hunk, side: tuple[bytes, ...], index: int) -> bool:
    """Whether one side is there. No lines are there only in an empty file: else any place would do.

    A hunk that only adds, with no unchanged line beside, is so refused, as `git apply` does.
    """
    end = index + len(side)
    if not side or index < 0 or lines[index:end] != side:
        return not side and not lines and index == 0
    return end == len(lines) or not hunk.ends_file


def _places(lines: tuple[bytes, ...], hunk: Hunk, side: tuple[bytes, ...]) -> Iterator[int]:
    for index in range(len(lines) - len(side) + 1 if side else 0):
        if lines[index] == side[0] and _stands(lines, hunk, side, index):
            yield index


def _finding(lines: tuple[bytes, ...], hunk: Hunk, moved: int) -> tuple[Standing, str]:
    index = hunk.index + moved
    if _stands(lines, hunk, hunk.old, index):
        return Standing.STANDS, f"is not applied (line {index + 1})"
    if _stands(lines, hunk, hunk.new, index):
        return Standing.APPLIED, f"is applied already (line {index + 1})"
    return _misfit(lines, hunk, index)


def _misfit(lines: tuple[bytes, ...], hunk: Hunk, index: int) -> tuple[Standing, str]:
    """Why neither the old lines nor the new ones stand where they should."""
    if not hunk.old:
        return Standing.CONTEXT, _without_old(lines, index)
    here = lines[max(index, 0) : max(index, 0) + hunk.old_count]
    if here and _unended(here) == _unended(hunk.old):
        return _ends(here, hunk, index)
    fits = list(_places(lines, hunk, hunk.old))
    if fits:
        return Standing.OFFSET, _offset(fits, index)
    merged = next(_places(lines, hunk, hunk.new), None)
    if merged is not None:
        return Standing.MERGED, f"has its new lines at line {merged + 1} already"
    return Standing.CONTEXT, _difference(lines, hunk, index)


def _unended(lines: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return tuple(line.removesuffix(b"\n").removesuffix(b"\r") for line in lines)


def _ends(here: tuple[bytes, ...], hunk: Hunk, index: int) -> tuple[Standing, str]:
    """Say how lines differ that are equal but for their ends."""
    for number, (have, want) in enumerate(zip(here, hunk.old, strict=True), index + 1):
        if have.endswith(b"\n") and not want.endswith(b"\n"):
            return Standing.NEWLINE, f"expects no newline at the end of line {number}; it has one"
        if want.endswith(b"\n") and not have.endswith(b"\n"):
            return Standing.NEWLINE, f"expects a newline at the end of line {number}; it has none"
        if have != want:
            ends = ("CRLF", "LF") if have.rstrip(b"\n").endswith(b"\r") else ("LF", "CRLF")
            return (
                Standing.LINE_ENDS,
                f"differs at line {number} in its line end: {ends[0]} in the file, {ends[1]} here",
            )
    return Standing.CONTEXT, (
        f"ends with its change, as at the end of a file; the file goes on after line "
        f"{index + len(here)}"
    )


def _offset(fits: list[int], index: int) -> str:
    if len(fits) == 1:
        lines = abs(fits[0] - index)
        way = "below" if fits[0] > index else "above"
        plural = "" if lines == 1 else "s"
        place = f"{lines} line{plural} {way}, at line {fits[0] + 1}"
        return f"does not stand at line {index + 1}; it fits {place}"
    named = ", ".join(str(place + 1) for place in fits[:_MOST_PLACES])
    more = "" if len(fits) <= _MOST_PLACES else f" and {len(fits) - _MOST_PLACES} more"
    return f"does not stand at line {index + 1}; it would fit at lines {named}{more}"


def shown(line: bytes) -> str:
    """A line for a message: quoted, without its end, cut where it is long."""
    text = line.removesuffix(b"\n").decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def _difference(lines: tuple[bytes, ...], hunk: Hunk, index: int) -> str:
    for number, want in enumerate(hunk.old, index):
        if not 0 <= number < len(lines):
            return f"expects {shown(want)} at line {number + 1}; the file has {len(lines)} lines"
        if lines[number] != want:
            have = lines[number]
            return f"differs at line {number + 1}: {shown(want)} expected, {shown(have)} found"
    return f"expects {len(hunk.old)} lines at line {index + 1}; the file has {len(lines)}"


def _without_old(lines: tuple[bytes, ...], index: int) -> str:
    if not index:
        return f"is for an empty file; it has {len(lines)} lines"
    return f"adds lines after line {index} with no unchanged line beside them to compare"
