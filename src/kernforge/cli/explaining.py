"""The command `explain`: what a key is made of, and what differs between two."""

from __future__ import annotations

from typing import Any

import click

from kernforge.cli.choice import FindPlace
from kernforge.cli.output import json_option
from kernforge.pipeline.explain import components, differences, find_artifact
from kernforge.report.errors import dump
from kernforge.store.local import Store


@click.command()
@click.argument("key")
@click.argument("other", required=False)
@json_option
@click.pass_obj
def explain(place: FindPlace, /, key: str, *, other: str | None, as_json: bool) -> None:
    """Show every component of a key, or what differs between two."""
    store = Store(place().cache)
    first = components(find_artifact(store, key))
    answers: list[dict[str, Any]]
    if other is None:
        answers = [{"component": name, "value": value} for name, value in first.items()]
        lines = [f"{name}  {value}" for name, value in first.items()]
    else:
        found = differences(first, components(find_artifact(store, other)))
        answers = [{"component": d.component, "before": d.before, "after": d.after} for d in found]
        lines = [
            line
            for d in found
            for line in (d.component, f"  - {d.before or 'nothing'}", f"  + {d.after or 'nothing'}")
        ]
        lines = lines or ["The two keys have the same components"]
    click.echo(dump(answers) if as_json else "\n".join(lines))
