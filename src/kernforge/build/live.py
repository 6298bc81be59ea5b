"""What a compile does now, followed from outside its sandbox: what the live view shows.

Level of build: reads two files of the ledger and the backend's lines; starts nothing. The build can
write to those files, and a kill can cut them short: whatever stands there, nothing here fails.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernforge.build.failures import names_probe
from kernforge.build.history import Took
from kernforge.events import Compiling, Listener, Output, Running, UnitEnded

_STEPS = re.compile(r"\[(\d{1,6})/(\d{1,6})\] ")  # ninja, told of no other NINJA_STATUS
_UNITS = frozenset({"compile", "device-link", "link"})
_READ = 4 << 20  # bytes at once; a longer record is passed over
_TRUST = 0.1  # part of the expected work that must end before this run counts as much as history
_STALE = 15.0  # seconds after which a state is no more what runs now
_MOST = 1 << 50  # seconds and bytes beyond it are nonsense
_KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that runs or waits, as the steward tells it.

    Attributes:
        what: its source, else what it makes.
        archs: number of targets.
        since: when it came to this state, in seconds since 1970.
        memory: bytes that its processes take.
        expected: seconds that it took last time, or None.
        alone: whether it is tried again, alone, after a kill for memory.
    """

    what: str
    archs: int
    since: float
    memory: int
    expected: float | None
    alone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What the steward last said.

    Attributes:
        time: when, in seconds since 1970.
        budget: bytes that calls may take together.
        admitted: bytes that the running ones hold.
        slots: calls that may run at once.
        running: what runs, longest first.
        waiting: what waits to be let in.
    """

    time: float
    budget: int
    admitted: int
    slots: int
    running: tuple[Call, ...]
    waiting: tuple[Call, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A finished call that compiled or linked something, as far as the view needs it."""

    what: str
    archs: tuple[str, ...]
    start: float
    seconds: float
    peak: int | None
    cache: str | None
    failed: bool


def steps_of(line: str) -> tuple[int, int] | None:
    """Finished and all steps, from a line of ninja: ``[12/143] Building ...``."""
    found = _STEPS.match(line)
    done, total = (int(found[1]), int(found[2])) if found else (0, 0)
    return (done, total) if done <= total and total else None


def _number(value: object) -> float | None:
    """A plain number from 0 on, else None."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST
    return float(value) if fits and isinstance(value, int | float) else None


def _whole(value: object) -> int:
    return int(_number(value) or 0)


def _names(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _calls(value: object) -> tuple[Call, ...]:
    found = [
        Call(
            what=str(raw.get("what")),
            archs=_whole(raw.get("archs")),
            since=_number(raw.get("since")) or 0.0,
            memory=_whole(raw.get("memory")),
            expected=_number(raw.get("expected")),
            alone=raw.get("alone") is True,
        )
        for raw in (value if isinstance(value, list) else ())
        if isinstance(raw, dict) and not names_probe(str(raw.get("what")))
    ]
    return tuple(sorted(found, key=lambda call: call.since))


def read_state(text: bytes) -> State | None:
    """The steward's state; None where the text is none."""
    raw = _object(text)
    budget, moment = _number(raw.get("budget")), _number(raw.get("time"))
    if budget is None or moment is None:
        return None
    return State(
        time=moment,
        budget=int(budget),
        admitted=_whole(raw.get("admitted")),
        slots=max(1, _whole(raw.get("slots"))),
        running=_calls(raw.get("running")),
        waiting=_calls(raw.get("waiting")),
    )


def read_unit(line: bytes) -> Unit | None:
    """A record of the ledger that compiled or linked something for the build, else None."""
    raw = _object(line)
    start, seconds = _number(raw.get("start")), _number(raw.get("seconds"))
    sources, output = _names(raw.get("sources")), str(raw.get("output"))
    if str(raw.get("kind")) not in _UNITS or raw.get("nested") is not False:
        return None
    if start is None or seconds is None or names_probe(*sources, output, str(raw.get("cwd"))):
        return None
    peak, cache = _number(raw.get("peak_kib")), raw.get("cache")
    return Unit(
        what=(*sources, output)[0],
        archs=_names(raw.get("archs_after")),
        start=start,
        seconds=seconds,
        peak=int(peak) * _KIB if peak else None,
        cache=cache if isinstance(cache, str) else None,
        failed=raw.get("exit") != 0,
    )


def time_left(state: State, expected: Mapping[str, float], now: float) -> float | None:
    """Seconds until all is done, by what units took in earlier builds; None where that is unknown.

    Args:
        state: what runs and waits. The unfinished work is shared by as many calls as run now where
            others wait for room, else by all slots; it cannot end before its longest call.
        expected: unit and its seconds, for each that has not finished.
        now: seconds since 1970.
    """
    rest = dict(expected)
    for call in (*state.waiting, *state.running):
        took = rest.get(call.what, call.expected)
        if took is None:
            return None
        rest[call.what] = took
    for call in state.running:
        rest[call.what] = max(0.0, rest[call.what] - (now - call.since))
    at_once = len(state.running) if state.waiting and state.running else state.slots
    return max(sum(rest.values()) / at_once, max(rest.values(), default=0.0)) or None


def expected_of(history: Mapping[str, Took], archs: int) -> dict[str, float]:
    """Seconds by unit, of the calls in a history that compiled for the nearest number of archs."""
    found: dict[str, tuple[int, float]] = {}
    for name, took in history.items():
        what, _, count = name.partition(" ")[2].rpartition(" ")
        off = abs(int(count) - archs) if count.isdigit() else archs
        if what and off <= found.get(what, (off, 0.0))[0]:
            found[what] = (off, took.seconds)
    return {what: seconds for what, (_, seconds) in found.items()}


def _content(path: Path, offset: int = 0) -> bytes:
    """Some bytes of a file, empty where there are none: the build may have put a pipe there."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb"):
            return os.pread(handle, _READ, offset)  # which pipes and folders refuse
    except OSError:
        return b""


class Watch:
    """Follows one compile and tells a listener of it: give it each line, and ticks.

    Args:
        ledger: the workspace's folder with ``live.json`` and ``calls.jsonl``.
        job: for the events.
        listen: hears :class:`Output`, :class:`Compiling` and :class:`UnitEnded`.
        jobs: compiles at once; None where the compile is another process's, whose lines are not
            heard: what has ended by now counts, untold.
        expected: seconds that each unit took in an earlier build, by its source.
    """

    def __init__(
        self,
        ledger: Path,
        job: str,
        listen: Listener,
        *,
        jobs: int | None,
        expected: Mapping[str, float] | None = None,
    ) -> None:
        self._ledger, self._job, self._listen, self._jobs = ledger, job, listen, jobs or 0
        told = (expected or {}).items()
        self._rest = {what: seconds for what, seconds in told if not names_probe(what)}
        self._trust = _TRUST * sum(self._rest.values()) or 1.0
        self._took = self._thought = 0.0  # by finished units, and what was expected of those
        self._began, self._untold = time.time() if jobs else 0.0, jobs is None
        self._offset = self._units = self._done = self._hits = self._misses = 0
        self._total: int | None = None
        self._announced: int | None = None

    def line(self, text: str) -> None:
        """Hear a line of the backend."""
        steps = steps_of(text)
        if steps is not None:
            self._follow()  # the record of a step is there before ninja speaks of it
            self._stepped(*steps)
        self._listen(Output(job=self._job, line=text))

    def tick(self) -> None:
        """Look at what the shims and the steward have left, and tell it."""
        self._follow()
        state, now = read_state(_content(self._ledger / "live.json")), time.time()
        if state is None or now - state.time > _STALE:
            self._listen(self._counts())
            return
        running = tuple(
            Running(
                what=call.what,
                archs=call.archs,
                seconds=max(0.0, now - call.since),
                memory=call.memory,
                alone=call.alone,
            )
            for call in state.running
        )
        self._listen(
            replace(
                self._counts(),
                running=running,
                waiting=len(state.waiting),
                admitted=state.admitted,
                budget=state.budget,
                left=self._left(state, now),
            )
        )

    def _counts(self) -> Compiling:
        return Compiling(
            job=self._job,
            done=self._done,
            total=self._total,
            hits=self._hits,
            misses=self._misses,
        )

    def _left(self, state: State, now: float) -> float | None:
        """Seconds left, where earlier builds knew about as many units as there are steps left.

        What finished units took beside what was expected of them corrects the rest: the machine is
        busier now, there are more archs, or the compile cache answers.
        """
        units = len(self._rest)
        steps = units if self._total is None else self._total - self._done
        alike = steps * 3 // 4 <= units <= steps * 5 // 4 + 2
        if not units or not alike:
            return None
        pace = (self._took + self._trust) / (self._thought + self._trust)
        return time_left(state, {what: s * pace for what, s in self._rest.items()}, now)

    def _stepped(self, done: int, total: int) -> None:
        """Take over ninja's count, which has steps that call no compiler.

        Ours may be ahead by what has ended and was not announced; not by more, for a step may call
        several compilers.
        """
        same = total == self._total and done >= (self._announced or 0)
        ahead = min(self._done, done + self._jobs) if same else 0
        self._done, self._total, self._announced = max(done, ahead), total, done

    def _lines(self) -> Iterator[bytes]:
        """Whole lines of the ledger that were not read before."""
        content = _content(self._ledger / "calls.jsonl", self._offset)
        end = content.rfind(b"\n") + 1 or (len(content) if len(content) == _READ else 0)
        self._offset += end
        return iter(content[:end].splitlines())

    def _follow(self) -> None:
        for line in self._lines():
            unit = read_unit(line)
            if unit is None:
                continue
            expected = None if unit.failed else self._rest.pop(unit.what, None)
            if unit.start < self._began:  # of a run that this one resumes
                continue
            if expected is not None:
                self._took, self._thought = self._took + unit.seconds, self._thought + expected
            self._ended(unit)
        self._untold = False

    def _ended(self, unit: Unit) -> None:
        self._units += 1
        if self._announced == self._total:  # ninja was done: what comes now is no step of its
            self._total, self._done = None, self._units
        else:
            self._done = min(self._done + 1, self._total or self._units)
        self._hits += unit.cache in {"whole", "hit"}
        self._misses += unit.cache in {"miss", "part"}
        if self._untold:
            return
        self._listen(
            UnitEnded(
                job=self._job,
                done=self._done,
                total=self._total,
                what=unit.what,
                archs=unit.archs,
                seconds=unit.seconds,
                peak=unit.peak,
                cache=unit.cache,
                failed=unit.failed,
            )
        )
