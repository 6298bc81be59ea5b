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


Event = StageStarted | StageEnded | Output | Note | Waiting
Listener = Callable[[Event], None]


def silent(_event: Event) -> None:
    """A listener that drops everything."""
