"""What shows progress: a display that moves on a terminal, plain lines elsewhere.

All of it goes to standard error. Nothing of a display is left after :meth:`Display.close`.
"""

from __future__ import annotations

from typing import Protocol

from kernforge.events import Event
from kernforge.report.progress import Folded, Plain, Quiet, Write


class Display(Protocol):
    """Shows what happens."""

    def __call__(self, event: Event) -> None:
        """Show one event."""

    def close(self) -> None:
        """Leave the terminal as it was; may be called again, and used again."""


def make_display(mode: str, write: Write) -> Display:
    """The display of a mode: ``live``, ``plain``, ``github`` or ``none``."""
    match mode:
        case "live":
            from kernforge.report.moving import Moving  # noqa: PLC0415 - only a terminal pays for rich

            return Moving()
        case "github":
            return Folded(write)
        case "none":
            return Quiet(write)
        case _:
            return Plain(write)
