"""The command `inspect`: facts about a binary, no judgement, nothing executed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from kernforge.binary.facts import Facts
from kernforge.binary.thing import read_thing
from kernforge.cli.output import json_option, say
from kernforge.errors import KernforgeError
from kernforge.report.errors import dump, error_documents, error_text
from kernforge.report.inspect import inspect_document, print_facts, print_kernels


def _search(python: str | None) -> tuple[Path, ...]:
    if python is None:
        return tuple(Path(entry) for entry in sys.path if entry.endswith("-packages"))
    prefix = Path(python).absolute().parent.parent
    return tuple(sorted(prefix.glob("lib/python3*/site-packages")))


def _print(thing: str, facts: Facts, *, kernels: bool, pattern: str | None) -> None:
    console = Console(highlight=False)
    print_facts(thing, facts, console)
    if kernels:
        print_kernels(facts, pattern, console)


@click.command()
@click.argument("things", nargs=-1, required=True, metavar="THING...")
@click.option("--kernels", is_flag=True, help="List kernels x archs.")
@click.option("--match", metavar="PATTERN", help="Only kernels like this; implies --kernels.")
@click.option("--archs-only", is_flag=True, help="Leave the kernels unread: faster.")
@click.option("--python", metavar="PATH", help="Where distributions are looked for.")
@json_option
def inspect(
    things: tuple[str, ...],
    *,
    match: str | None,
    python: str | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Say what files, folders, wheels or installed distributions hold, for which GPUs."""
    listed = flags["kernels"] or match is not None
    answers: list[dict[str, Any]] = []
    status = 0
    for thing in things:
        try:
            facts = read_thing(thing, search=_search(python), kernels=not flags["archs_only"])
        except KernforgeError as error:
            status = status or error.exit_code
            answers += error_documents(error, thing=thing)
            say(error_text(error))
            continue
        answers.append(inspect_document(thing, facts, kernels=listed, pattern=match))
        if not as_json:
            _print(thing, facts, kernels=listed, pattern=match)
    if as_json:
        click.echo(dump(answers))
    sys.exit(status)
