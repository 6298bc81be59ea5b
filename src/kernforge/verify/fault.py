"""What a verdict rests on: one reason why a wheel falls short. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from kernforge.arch import Device


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One reason why a wheel falls short: a stable word and a sentence.

    ``device`` is the device it concerns, or None where it concerns all.
    """

    word: str
    text: str
    device: Device | None = None
