"""The options that say how much a build may use: compiles, memory, compile cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from kernforge.cli.choice import blaming
from kernforge.errors import SelectionError
from kernforge.store.upkeep import parse_size

_Command = Callable[..., Any]
_LEAST_MEMORY = 64 << 20
_OPTIONS = (
    click.option(
        "--jobs",
        "-j",
        type=click.IntRange(1),
        metavar="N",
        help="Compiles at once (default: as many as processors that this process may use).",
    ),
    click.option(
        "--nvcc-threads",
        type=click.IntRange(1),
        default=1,
        metavar="N",
        help="Archs that one nvcc call compiles at once; each counts as a compile (default: 1).",
    ),
    click.option(
        "--memory",
        metavar="SIZE",
        help="Memory of all compiles together, as 24GiB (default: what is free, less a tenth).",
    ),
    click.option("--no-compile-cache", is_flag=True, help="Take nothing from the compile cache."),
    click.option("--fresh", is_flag=True, help="Begin anew a compile that has stopped."),
)


def effort_options(command: _Command) -> _Command:
    """Give a command these options; :func:`take_effort` reads them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _read_memory(text: str) -> int:
    size = parse_size(text)
    if size < _LEAST_MEMORY:
        raise SelectionError(
            "size-invalid",
            f"{text!r} is less than any compile takes",
            hint=f"write it with its unit, as 24GiB; {_LEAST_MEMORY >> 20}MiB is the least",
        )
    return size


def take_effort(options: dict[str, Any]) -> dict[str, Any]:
    """Take these options out of a command's and give them as the words of `place.Wishes`.

    Raises:
        SelectionError: ``size-invalid``.
    """
    memory = options.pop("memory")
    with blaming("--memory"):
        size = None if memory is None else _read_memory(memory)
    return {
        "jobs": options.pop("jobs"),
        "threads": options.pop("nvcc_threads"),
        "memory": size,
        "compile_cache": not options.pop("no_compile_cache"),
        "fresh": options.pop("fresh"),
    }
