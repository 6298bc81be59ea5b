"""What a moving display shows at one moment, laid out for a terminal's width. Pure.

Imports rich, which only a terminal pays for: see :mod:`kernforge.report.display`.
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, OverflowMethod, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kernforge.events import Compiling, Running
from kernforge.report.errors import one_line
from kernforge.report.progress import clock
from kernforge.report.terminal import amount

_ROWS = 12
_HEAD_ROWS = 3
_INDENT = "  "
_ECHOED = 4
_TURNS = ("|/-\\", "\u280b\u2819\u2839\u2838\u283c\u2834\u2826\u2827\u2807\u280f")
_TURNS_A_SECOND = 4
_BAR, _LEAST_BAR = 40, 5
_LEAST_NAME = 12
_MOST_NAME = 43  # rows stay below 80 columns: what a narrower window wraps cannot be taken away
_COLUMNS = 31  # what stands in a row beside the name
_ALONE = "  retried"
_MINUTE, _HOUR = 60, 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that a frame is made of.

    Attributes:
        job: whose stage.
        stage: its name.
        detail: more of it, or empty.
        seconds: since it began.
        line: what the child last wrote; shown while nothing better is known.
        compiling: where the compile stands, or None.
    """

    job: str
    stage: str
    detail: str
    seconds: float
    line: str = ""
    compiling: Compiling | None = None


def about(seconds: float) -> str:
    """Time to come, no more exact than a guess is: ``about 40 s``, ``about 1 h 10 min``."""
    if seconds < _MINUTE:
        return f"about {max(5, round(seconds / 5) * 5)} s"
    if seconds < _HOUR:
        return f"about {round(seconds / _MINUTE)} min"
    tens = round(seconds / (10 * _MINUTE))
    return f"about {tens // 6} h" + (f" {tens % 6}0 min" if tens % 6 else "")


def middle(text: str, width: int, dots: str = "\N{HORIZONTAL ELLIPSIS}") -> str:
    """A path cut in its middle to at most ``width`` characters: its end says most."""
    if len(text) <= width:
        return text
    room = max(1, width - len(dots))
    end = (room * 2 + 2) // 3
    return text[: room - end] + dots + text[-end:]


def _counts(compiling: Compiling) -> str:
    parts = []
    if compiling.budget:
        used, all_of_it = amount(compiling.admitted or 0), amount(compiling.budget)
        if used.split()[-1] == all_of_it.split()[-1]:
            used = used.split()[0]
        parts.append(f"memory {used} of {all_of_it}")
    if tried := compiling.hits + compiling.misses:
        parts.append(f"cache {compiling.hits} of {tried} hit")
    if compiling.waiting:
        parts.append(f"{compiling.waiting} waiting")
    return ", ".join(parts)


def _row(call: Running, name: int, dots: str) -> str:
    archs = f"{call.archs} arch{'s' if call.archs > 1 else ''}" if call.archs else ""
    what = middle(one_line(call.what), name, dots)
    last = _ALONE if call.alone else ""
    return f"{what:<{name}}  {archs:>8}  {clock(call.seconds):>7}  {amount(call.memory):>10}{last}"


def rows(running: tuple[Running, ...], width: int, most: int, dots: str) -> list[str]:
    """A line a running call, at most ``most``; the last says how many are left out."""
    shown = running if len(running) <= most else running[: most - 1]
    columns = _COLUMNS + (len(_ALONE) if any(call.alone for call in shown) else 0)
    name = max(_LEAST_NAME, min(_MOST_NAME, width - columns))
    lines = [_row(call, name, dots) for call in shown]
    if len(shown) < len(running):
        lines.append(f"and {len(running) - len(shown)} more")
    return lines


def _bar(compiling: Compiling, width: int) -> RenderableType:
    left = "" if compiling.left is None else f"  {about(compiling.left)} left"
    if compiling.total is None:
        return Text(f"{_INDENT}{compiling.done} done{left}")
    said = f"  {compiling.done}/{compiling.total}{left}"[: width - _LEAST_BAR]
    bar = ProgressBar(
        total=compiling.total,
        completed=compiling.done,
        width=max(_LEAST_BAR, min(_BAR, width - len(said))),
        style="bright_black",
        complete_style="green",
        finished_style="green",
    )
    grid = Table.grid()
    grid.add_row(Text(_INDENT), bar, Text(said))
    return grid


def _compile(compiling: Compiling, width: int, most: int, dots: str) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if compiling.done or compiling.total:
        parts.append(_bar(compiling, width))
    if counts := _counts(compiling):
        parts.append(Text(_INDENT + counts, style="dim"))
    shown = rows(compiling.running, width, most, dots)
    return [*parts, *(Text(_INDENT + line) for line in shown)]


def frame(view: View, console: Console) -> list[RenderableType]:
    """The lines of one moment, at most 12 and fewer than the console has.

    Each ends with its last word and leaves room for what a terminal echoes (``^C``, pressed twice):
    that must not begin another line, or the display could not be taken away.
    """
    width, wide = console.width - _ECHOED, console.encoding.startswith("utf")
    detail = f"  {view.detail}" if view.detail else ""
    turn = _TURNS[wide][int(view.seconds * _TURNS_A_SECOND) % len(_TURNS[wide])]
    told = f"  {view.stage}  {clock(view.seconds)}{detail}"
    head = Text.assemble((turn, "green"), " ", (view.job, "bold"), told)
    cut: OverflowMethod = "ellipsis" if wide else "crop"
    parts: list[RenderableType] = []
    if view.compiling is not None:
        most = max(1, min(_ROWS, console.height - 1) - _HEAD_ROWS)
        dots = "\N{HORIZONTAL ELLIPSIS}" if wide else "..."
        parts = _compile(view.compiling, width - len(_INDENT), most, dots)
    if view.line and not (view.compiling and view.compiling.running):
        parts.append(Text(_INDENT + one_line(view.line), style="dim"))
    for text in (head, *parts):
        if isinstance(text, Text):
            text.truncate(width, overflow=cut)
    return [head, *parts]
