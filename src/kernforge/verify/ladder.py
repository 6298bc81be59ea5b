"""The levels one above the other: what each module judged, put into one verdict. Pure.

A level is reached only where every level below it is: a wheel that imports and has no code for a
device has reached nothing there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kernforge.arch import Device
from kernforge.verify.fault import Fault
from kernforge.verify.policy import LEVELS, Answer, DeviceVerdict, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """What was found about one level.

    Attributes:
        level: one of :data:`kernforge.verify.policy.LEVELS`.
        answers: what is known of it for each device; a device that is missing is not verified.
        faults: why it failed.
        notes: what a reader should know: what was not verified, and why.
    """

    level: str
    answers: tuple[tuple[Device, Answer], ...]
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()


def rung(
    level: str,
    devices: Iterable[Device],
    faults: Iterable[Fault],
    *,
    unknown: str | None = None,
    notes: tuple[str, ...] = (),
) -> Rung:
    """The answer of a level: failed where a fault concerns a device, else reached.

    Args:
        level: the level.
        devices: the devices asked about.
        faults: what speaks against it; one without a device speaks against all.
        unknown: why nothing can be said; then a device without a fault is not verified.
        notes: what else a reader should know.
    """
    found = tuple(faults)
    good = Answer.REACHED if unknown is None else Answer.NOT_VERIFIED
    answers = []
    for device in devices:
        failed = any(fault.device in {None, device} for fault in found)
        answers.append((device, Answer.FAILED if failed else good))
    told = notes if unknown is None else (unknown, *notes)
    return Rung(level=level, answers=tuple(answers), faults=found, notes=told)


def merged(rungs: Iterable[Rung]) -> Rung:
    """Several answers on one level, each of other devices, as one; notes are told once."""
    steps = tuple(rungs)
    return Rung(
        level=steps[0].level,
        answers=tuple(answer for step in steps for answer in step.answers),
        faults=tuple(fault for step in steps for fault in step.faults),
        notes=tuple(dict.fromkeys(note for step in steps for note in step.notes)),
    )


def climb(verdict: Verdict, rungs: Iterable[Rung]) -> Verdict:
    """A verdict with more levels judged.

    A fault found twice for one level (``code`` may be judged by several) fails it; what was failed
    stays failed. A level that was found good while one below it is not counts as not verified,
    because the answer for the whole is what the lowest one says.
    """
    steps = tuple(rungs)
    devices = []
    for one in verdict.devices:
        known = dict(one.levels)
        for step in steps:
            answer = dict(step.answers).get(one.device, Answer.NOT_VERIFIED)
            known[step.level] = _worse(known[step.level], answer, level=step.level)
        devices.append(DeviceVerdict(device=one.device, levels=_in_order(known)))
    faults = tuple(fault for step in steps for fault in step.faults)
    notes = tuple(note for step in steps for note in step.notes)
    return replace(
        verdict,
        devices=tuple(devices),
        faults=(*verdict.faults, *faults),
        notes=(*verdict.notes, *notes),
    )


def _worse(old: Answer, new: Answer, *, level: str) -> Answer:
    if Answer.FAILED in {old, new}:
        return Answer.FAILED
    # `code` is judged before this; for the others an open answer waits to be filled.
    return old if level == LEVELS[0] else new


def _in_order(known: dict[str, Answer]) -> tuple[tuple[str, Answer], ...]:
    levels = []
    standing = True
    for level in LEVELS:
        answer = known[level]
        if answer is Answer.REACHED and not standing:
            answer = Answer.NOT_VERIFIED
        standing = standing and answer.good
        levels.append((level, answer))
    return tuple(levels)
