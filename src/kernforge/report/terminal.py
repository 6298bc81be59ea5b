"""Answers and progress for people: one line a stage; a live line on a terminal."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING

from kernforge.build.plan import Plan
from kernforge.events import Event, Note, Output, StageEnded, StageStarted, Waiting
from kernforge.pipeline.job import Outcome
from kernforge.report.errors import printable
from kernforge.store.local import Entry
from kernforge.verify.coverage import Served, Service
from kernforge.verify.policy import DeviceVerdict, Verdict

if TYPE_CHECKING:
    from rich.status import Status

Write = Callable[[str], None]
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def amount(size: int) -> str:
    """Bytes for reading: ``12.3 MiB``."""
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"


class Progress:
    """Listens to a run and writes one plain line a finished stage to standard error."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def __call__(self, event: Event) -> None:
        """Show one event."""
        match event:
            case StageEnded():
                done = "reused" if event.reused else f"{event.seconds:.1f} s"
                detail = f"  {event.detail}" if event.detail else ""
                self._write(f"{event.job}: {event.stage:<5}  {done:>8}{detail}")
            case Note():
                self._write(f"{event.job}: note: {event.text}")
            case Waiting():
                self._write(
                    f"Waiting for {event.what}: {event.owner} has it, {event.seconds:.0f} s"
                )
            case StageStarted() | Output():
                return


class LiveProgress:
    """The same on a terminal, with a line that moves while a stage runs."""

    def __init__(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - only a terminal pays for rich

        self._console = Console(stderr=True, highlight=False)
        self._status: Status | None = None
        self._plain = Progress(self._print)
        self._stage = ""

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)

    def __call__(self, event: Event) -> None:
        """Show one event."""
        if isinstance(event, StageStarted):
            self._stage = f"{event.job}: {event.stage}  {event.detail}"
            self._status = self._status or self._console.status("")
            self._status.start()
            self._update("")
        elif isinstance(event, Output):
            self._update(event.line)
        else:
            if isinstance(event, StageEnded):
                self.close()
            self._plain(event)

    def _update(self, line: str) -> None:
        from rich.text import Text  # noqa: PLC0415 - only a terminal pays for rich

        if self._status is not None:
            text = textwrap.shorten(f"{self._stage}  {line}", max(20, self._console.width - 4))
            self._status.update(Text(text, overflow="ellipsis", no_wrap=True))

    def close(self) -> None:
        """Take the moving line away."""
        if self._status is not None:
            self._status.stop()


def _device_line(device: DeviceVerdict) -> str:
    said: dict[str, list[str]] = {}
    for level, answer in device.levels:
        said.setdefault(answer.value, []).append(level)
    parts = [f"{', '.join(levels)} {answer}" for answer, levels in said.items()]
    return f"device {device.device}: {'; '.join(parts)}"


def _row(served: Served, width: int) -> str:
    if served.service is Service.UNREAD:
        said = f"{served.image_count} images found"
    elif served.service is Service.EMPTY:
        said = f"{served.image_count} images, all empty ({', '.join(served.images)})"
    elif served.archs:
        said = f"{served.kernels} of {served.total} kernels ({', '.join(served.archs)})"
    else:
        said = f"{served.kernels} of {served.total} kernels (holds {', '.join(served.images)})"
    gap = f", without {served.missing[0]}" if served.missing else ""
    if served.absent and not served.missing:
        gap = f", no PTX of {served.absent[0]}"
    return f"{served.path:<{width}}  {served.device!s:>5}  {served.service.value:<9}  {said}{gap}"


def verdict_lines(verdict: Verdict) -> list[str]:
    """A verdict: a line a device, a row a library and device, then what no row tells."""
    lines = [_device_line(device) for device in verdict.devices]
    width = max((len(row.path) for row in verdict.served), default=0)
    lines += [_row(row, width) for row in verdict.served]
    if verdict.host_only:
        lines.append(f"without device code: {', '.join(verdict.host_only)}")
    told = {row.device for row in verdict.served}
    for fault in verdict.faults:  # what a library lacks for a device stands in its row
        if fault.word != "code-missing" or fault.device not in told:
            lines.append(f"fault[{fault.word}]: {fault.text}")
    if verdict.unjudged:
        lines.append(f"not judged by this version: {', '.join(verdict.unjudged)}")
    return [printable(line) for line in lines]


def outcome_text(outcome: Outcome) -> str:
    """What a build gave."""
    how = "found in the store" if outcome.cached else "built"
    head = f"{outcome.job}: {how} in {outcome.seconds:.2f} s"
    lines = [
        f"wheel   {outcome.wheel}",
        f"sha256  {outcome.sha256}  ({amount(outcome.size)})",
        f"key     {outcome.key}",
        *verdict_lines(outcome.verdict),
        *outcome.notes,
    ]
    return "\n".join([head, *(f"  {line}" for line in lines)])


def verdict_text(name: str, verdict: Verdict) -> str:
    """The judgement on a wheel."""
    head = f"{name}: {'reaches' if verdict.passed else 'falls short of'} {verdict.require}"
    return "\n".join([printable(head), *(f"  {line}" for line in verdict_lines(verdict))])


def plan_text(plan: Plan, probed: dict[str, object] | None) -> str:
    """A plan: keys, and the command with its environment."""
    lines = [plan.job.id, f"  recipe key  {plan.recipe_key}"]
    if probed:
        lines += [f"  {key.replace('_', ' '):<10}  {value}" for key, value in probed.items()]
    lines += [f"  {stage.name:<10}  {stage.key}" for stage in plan.stages]
    lines.append(f"  in {plan.call.cwd}")
    lines.append(f"  $ {' '.join(plan.call.argv)}")
    lines += [f"    {key}={value}" for key, value in plan.call.env]
    return "\n".join(lines)


def make_progress(write: Write) -> Progress | LiveProgress:
    """Live on a terminal, plain lines elsewhere."""
    return LiveProgress() if sys.stderr.isatty() else Progress(write)


def entry_line(entry: Entry) -> str:
    """One entry of the store."""
    facts = entry.facts()
    name = facts.get("wheel", "")
    return f"{entry.kind:<9} {entry.key[:16]}  {amount(entry.size):>10}  {name}"
