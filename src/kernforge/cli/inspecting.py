"""The command `inspect`: facts about a binary, no judgement, nothing executed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from kernforge.binary.thing import read_thing
from kernforge.cli.output import json_option, say
from kernforge.errors import KernforgeError
from kernforge.report.errors import dump, error_documents, error_text
from kernforge.report.inspect import (
    KernelChoice,
    inspect_document,
    print_facts,
    print_kernels,
)


def _search(python: str | None) -> tuple[Path, ...]:
    if python is None:
        return tuple(Path(entry) for entry in sys.path if entry.endswith("-packages"))
    prefix = Path(python).absolute().parent.parent
    return tuple(sorted(prefix.glob("lib/python3*/site-packages")))


@click.command()
@click.argument("things", nargs=-1, required=True, metavar="THING...")
@click.option("--kernels", is_flag=False, flag_value="*", metavar="[PATTERN]",
              help="List kernels x archs; give it behind the things.")  # fmt: skip
@click.option("--demangle", is_flag=True, help="Show C++ names.")
@click.option("--archs-only", is_flag=True, help="Leave the kernels unread: faster.")
@click.option("--python", metavar="PATH", help="Whose installed distributions are looked at.")
@json_option
def inspect(
    things: tuple[str, ...], *, kernels: str | None, python: str | None, **flags: bool
) -> None:
    """Say what files, folders, wheels or installed distributions hold, for which GPUs."""
    pattern = None if kernels == "*" else kernels
    choice = KernelChoice(pattern=pattern, demangled=flags["demangle"]) if kernels else None
    console = Console(highlight=False)
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
        if flags["as_json"]:
            answers.append(inspect_document(thing, facts, kernels=choice))
            continue
        print_facts(thing, facts, console)
        if choice is not None:
            print_kernels(facts, choice, console)
    if flags["as_json"]:
        click.echo(dump(answers))
    sys.exit(status)
