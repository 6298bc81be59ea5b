"""Progress on a terminal: a few lines that move while a stage runs.

Imports rich: see :func:`kernforge.report.display.make_display`, which imports this when needed.
"""

from __future__ import annotations

import time

from rich.console import Console, Group, RenderableType
from rich.live import Live

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
from kernforge.report.frame import View, frame
from kernforge.report.progress import Plain, unit_line

_FRAMES_A_SECOND = 4


class Moving:
    """A display that moves while a stage runs; what has ended stands above it."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False, force_terminal=True)
        self._plain = Plain(self._print)
        self._live: Live | None = None
        self._stage = StageStarted(job="", stage="")
        self._began = 0.0
        self._line = ""
        self._compiling: Compiling | None = None

    def __call__(self, event: Event) -> None:
        """Show one event."""
        match event:
            case StageStarted():
                self._stage, self._began = event, time.monotonic()
                self._line, self._compiling = "", None
                self._start()
            case Output():
                self._line = event.line
            case Compiling():
                if self._live is None:  # no stage of ours: another process builds what we wait for
                    self(StageStarted(job=event.job, stage="build", detail="by another process"))
                self._compiling = event
            case UnitEnded():
                if event.failed:
                    self._print(unit_line(event), "red")
            case StageEnded():
                self.close()
                self._plain(event)
            case Note() | Waiting():
                self._plain(event)

    def _print(self, text: str, style: str | None = None) -> None:
        self._console.print(text, style=style, markup=False, soft_wrap=True)

    def _start(self) -> None:
        self.close()
        self._live = Live(
            console=self._console,
            refresh_per_second=_FRAMES_A_SECOND,
            transient=True,
            redirect_stdout=False,  # answers go where the user sent them
            get_renderable=self._frame,
        )
        self._live.start(refresh=True)

    def _frame(self) -> RenderableType:
        view = View(
            job=self._stage.job,
            stage=self._stage.stage,
            detail=self._stage.detail,
            seconds=time.monotonic() - self._began,
            line=self._line,
            compiling=self._compiling,
        )
        return Group(*frame(view, self._console))

    def close(self) -> None:
        """Take the moving lines away."""
        if self._live is not None:
            self._live.stop()
            self._live = None
