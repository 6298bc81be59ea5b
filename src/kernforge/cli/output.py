"""What commands share: the JSON option, progress, faults, and the way to standard error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from kernforge.cli.place import on_github, progress_mode
from kernforge.errors import KernforgeError

if TYPE_CHECKING:
    from kernforge.report.display import Display

_PROGRESS = "kernforge.progress"


def json_option(function: Callable[..., None]) -> Callable[..., None]:
    """Add `--json`: the answer as one array."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON array.")(function)


def _keep(context: click.Context, _parameter: click.Parameter, value: str) -> None:
    context.meta[_PROGRESS] = value


def progress_option(function: Callable[..., None]) -> Callable[..., None]:
    """Add `--progress`; the command gets its display from :func:`open_display`."""
    return click.option(
        "--progress",
        type=click.Choice(("auto", "live", "plain", "github", "none")),
        default="auto",
        envvar="KERNFORGE_PROGRESS",
        expose_value=False,
        callback=_keep,
        help="How it is shown what happens; auto: live on a terminal, else a line a step.",
    )(function)


def open_display() -> Display:
    """The display that the call asks for; it is closed when the command ends, however it ends."""
    from kernforge.report.display import make_display

    context = click.get_current_context()
    asked = context.meta[_PROGRESS]
    display = make_display(progress_mode() if asked == "auto" else asked, say)
    context.call_on_close(display.close)
    return display


def say(text: str) -> None:
    """Write a line to standard error; standard output holds answers only."""
    click.echo(text, err=True)


def say_fault(error: KernforgeError) -> None:
    """Tell a fault; on GitHub the page of the run shows it too."""
    from kernforge.report.errors import error_text, github_lines

    say(error_text(error))
    for line in github_lines(error) if on_github() else ():
        say(line)
