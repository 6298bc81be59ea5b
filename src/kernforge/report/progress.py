"""Progress as plain lines: what has ended, a line each."""

from __future__ import annotations

import time
from collections.abc import Callable

from kernforge.events import (
    Compiling,
    Event,
    Note,
    Output,
    StageEnded,
    StageStarted,
    UnitEnded,
    Waiting,
)
from kernforge.report.errors import one_line, printable
from kernforge.report.terminal import amount

Write = Callable[[str], None]
_MINUTE, _HOUR = 60, 3600
_NAMED = 3
_CACHE = {"whole": "hit", "hit": "hit", "part": "part", "miss": "miss"}
_SILENCE = 240.0  # seconds; CI services end jobs that say nothing for ten minutes


def clock(seconds: float) -> str:
    """Time that has passed: ``0:07``, ``12:03``, ``1:02:03``."""
    whole = int(seconds)
    hours, minutes = whole // _HOUR, whole % _HOUR // _MINUTE
    rest = f"{whole % _MINUTE:02}"
    return f"{hours}:{minutes:02}:{rest}" if hours else f"{minutes}:{rest}"


def unit_line(unit: UnitEnded) -> str:
    """A finished unit: ``[12/143] csrc/a.cu  sm_120a  12.3 s  1.2 GiB  hit``."""
    number = f"[{unit.done}/{unit.total}] " if unit.total else ""
    peak = amount(unit.peak) if unit.peak else ""
    said = "failed" if unit.failed else _CACHE.get(unit.cache or "", "")
    words = (unit.what, " ".join(unit.archs), f"{unit.seconds:.1f} s", peak, said or "")
    return one_line("  ".join((number + words[0], *filter(None, words[1:]))))


class Quiet:
    """Says notes alone."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def __call__(self, event: Event) -> None:
        """Show one event."""
        if isinstance(event, Note):
            self._write(f"{event.job}: note: {printable(event.text)}")

    def close(self) -> None:
        """Nothing is left."""


class Plain(Quiet):
    """Says one line a finished stage, one a finished unit of a compile, and one after a silence.

    Args:
        write: takes a line.
        clock: seconds from some moment on.
    """

    def __init__(self, write: Write, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(write)
        self._clock = clock
        self._spoken = clock()

    def __call__(self, event: Event) -> None:
        """Show one event."""
        if isinstance(event, Compiling):
            self._break_silence(event)
            return
        self._spoken = self._spoken if isinstance(event, Output) else self._clock()
        match event:
            case StageEnded():
                done = "reused" if event.reused else f"{event.seconds:.1f} s"
                detail = f"  {event.detail}" if event.detail else ""
                self._write(f"{event.job}: {event.stage:<5}  {done:>8}{detail}")
            case UnitEnded():
                self._write(unit_line(event))
            case Waiting():
                self._write(
                    f"Waiting for {event.what}: {event.owner} has it, {event.seconds:.0f} s"
                )
            case Note():
                super().__call__(event)
            case StageStarted() | Output():
                return

    def _break_silence(self, compiling: Compiling) -> None:
        if not compiling.running or self._clock() - self._spoken < _SILENCE:
            return
        self._spoken = self._clock()
        longest, more = compiling.running[:_NAMED], len(compiling.running) - _NAMED
        told = [f"{one_line(call.what)} {clock(call.seconds)}" for call in longest]
        told += [f"{more} more"] if more > 0 else []
        self._write(f"{compiling.job}: still compiling: {', '.join(told)}")


class Folded(Plain):
    """The same for GitHub's logs: the units of a stage fold away under its name."""

    def __init__(self, write: Write) -> None:
        super().__init__(write)
        self._open = False

    def __call__(self, event: Event) -> None:
        """Show one event."""
        if isinstance(event, StageEnded):
            self.close()
        if isinstance(event, UnitEnded) and not self._open:
            self._write(f"::group::{event.job}: compiler calls")
            self._open = True
        super().__call__(event)

    def close(self) -> None:
        """End the fold: faults must not be hidden in it."""
        if self._open:
            self._write("::endgroup::")
        self._open = False
