"""What the pipeline says while it works, as values. Bottom layer; rendering is elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStarted:
    """A stage of a job begins."""

    job: str
    stage: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEnded:
    """A stage of a job ended well."""

    job: str
    stage: str
    seconds: float
    detail: str = ""
    reused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One line that a child process wrote."""

    job: str
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something the user should know; never an error."""

    job: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Another process holds what this one needs."""

    what: str
    owner: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A compiler call that runs now.

    Attributes:
        what: its source, else what it makes; below the source or build folder.
        archs: number of targets it compiles for; 0 for none.
        seconds: since it was let in.
        memory: of all its processes together, in bytes.
        alone: whether it is tried again, alone, after a kill for memory.
    """

    what: str
    archs: int
    seconds: float
    memory: int
    alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiling:
    """Where a compile stands; told about twice a second.

    Attributes:
        job: whose compile.
        done: steps finished, by the build tool's own count where it has one.
        total: steps in all; None where the build tool does not say.
        running: what runs now, longest first.
        waiting: calls that wait for memory or a free slot.
        admitted: memory promised to what runs, in bytes; None where nobody admits.
        budget: memory that may be promised, in bytes; None where nobody admits.
        hits: units that the compile cache had.
        misses: units that it had not.
        left: seconds left, as far as earlier builds tell; None where they do not.
    """

    job: str
    done: int
    total: int | None = None
    running: tuple[Running, ...] = ()
    waiting: int = 0
    admitted: int | None = None
    budget: int | None = None
    hits: int = 0
    misses: int = 0
    left: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitEnded:
    """A compiler call has ended.

    Attributes:
        job: whose compile.
        done: its number, and ``total`` of how many, as in :class:`Compiling`.
        total: steps in all, or None.
        what: its source, else what it made.
        archs: targets really compiled, as ``sm_120a``; none for host code.
        seconds: wall time.
        peak: memory of its processes in bytes; None where unknown.
        cache: what the compile cache said (``hit``, ``miss``, ``off``); None where unknown.
        failed: whether it ended with a fault.
    """

    job: str
    done: int
    total: int | None
    what: str
    archs: tuple[str, ...]
    seconds: float
    peak: int | None
    cache: str | None
    failed: bool


Event = StageStarted | StageEnded | Output | Note | Waiting | Compiling | UnitEnded
Listener = Callable[[Event], None]


def silent(_event: Event) -> None:
    """A listener that drops everything."""
