"""What commands share: the JSON option and the way to standard error."""

from __future__ import annotations

from collections.abc import Callable

import click


def json_option(function: Callable[..., None]) -> Callable[..., None]:
    """Add `--json`: the answer as one array."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON array.")(function)


def say(text: str) -> None:
    """Write a line to standard error; standard output holds answers only."""
    click.echo(text, err=True)
