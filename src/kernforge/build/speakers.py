"""Whose words a line of a build's log are. Pure.

ninja shows a failed step by a header, its command, and what its programs said; elsewhere a line may
name a source, by more or less of its path.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kernforge.build.ledger import Record

FILE_WORD = re.compile(r"[\w./+-]+")
_STEPS_OF_NVCC = (".ptx", ".cubin", ".ii", ".gpu", ".fatbin")
FAILED = "FAILED:"
_STEP_ENDS = re.compile(r"\[\d+/\d+\] |FAILED:|ninja: build stopped")
_LOUD = re.compile(r"\b(?:fatal )?error\b\s*:|\bfatal\s*:|^FAILED:|Error:", re.IGNORECASE)


def place_of(record: Record) -> str:
    """A call's file and what it was compiled for: ``csrc/scale.cu for sm_120a``."""
    archs = f" for {', '.join(record.archs_after)}" if record.archs_after else ""
    return f"{', '.join(record.sources) or record.output}{archs}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedStep:
    """What ninja shows of a failed step.

    Attributes:
        header: ``FAILED: [code=1] build/scale.o``.
        at: index of that line in the log.
        first, end: where the words of its programs begin, and the line after them.
    """

    header: str
    at: int
    first: int
    end: int


def failed_steps(lines: Sequence[str]) -> tuple[FailedStep, ...]:
    """The failed steps of a log of ninja's: header, command, and what the programs said."""
    found = []
    for at, line in enumerate(lines):
        if not line.startswith(FAILED):
            continue
        command = not any(map(is_complaint, lines[at + 1 : at + 2]))
        first = min(at + 1 + command, len(lines))
        ends = (n for n in range(first, len(lines)) if _STEP_ENDS.match(lines[n]))
        found.append(FailedStep(header=line, at=at, first=first, end=next(ends, len(lines))))
    return tuple(found)


def alike(one: str, other: str) -> int:
    """How many parts two paths have in common at their ends; 0 where neither is the other's end."""
    a, b = one.split("/")[::-1], other.split("/")[::-1]
    count = min(len(a), len(b))
    return count if a[:count] == b[:count] else 0


def made_by(block: FailedStep, calls: Sequence[Record]) -> Record | None:
    """The call that a failed step is."""
    words = block.header.split()[1:]
    outputs = ((call, call.output) for call in calls if call.output)
    return next((call for call, out in outputs if any(alike(word, out) for word in words)), None)


def named_in(line: str, calls: Sequence[Record]) -> Record | None:
    """The call whose source a line names the most exactly, by path or as a step of nvcc's."""
    scored = []
    for word in FILE_WORD.findall(line):
        step = word.rpartition("/")[2].split(".")[0] if word.endswith(_STEPS_OF_NVCC) else None
        for call in calls:
            for source in call.sources:
                by_step = step is not None and source.rpartition("/")[2].split(".")[0] == step
                scored.append((alike(word, source) or by_step / 2, call))
    best = max((score for score, _ in scored), default=0)
    named: dict[tuple[str, ...], Record] = {}
    for score, call in scored:
        if score == best and best:
            named.setdefault(call.sources, call)
    return next(iter(named.values())) if len(named) == 1 else None


def speaker(line: str, block: FailedStep | None, calls: Sequence[Record]) -> str:
    """The place of the failed call that a line speaks of, in brackets; empty where it is not known.

    ninja says whose words they are; else the line names a source, or there is but one call.
    """
    call = made_by(block, calls) if block else None
    call = call or named_in(line, calls) or (calls[0] if len(calls) == 1 else None)
    return f" [{place_of(call)}]" if call is not None and call.sources else ""


def heard(lines: Sequence[str]) -> Sequence[str]:
    """A log whose failed steps alone speak, where ninja tells them apart; line numbers stay."""
    blocks = failed_steps(lines)
    if not blocks:
        return lines
    kept = {n for block in blocks for n in (block.at, *range(block.first, block.end))}
    return [line if n in kept else "" for n, line in enumerate(lines)]


def what_of(record: Record) -> str:
    """The file that a call is known by: its source, else what it makes."""
    return (*record.sources, record.output or record.tool)[0]


def is_complaint(line: str) -> bool:
    """Whether a line speaks of an error."""
    return bool(_LOUD.search(line))
