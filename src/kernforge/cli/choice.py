"""Which jobs a call means: recipe names and the options that choose targets."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from kernforge.arch import parse_archs, parse_cuda
from kernforge.cli.place import Place
from kernforge.errors import RecipeError, SelectionError
from kernforge.recipe.checks import WHEEL_TOOLKIT_SINCE
from kernforge.recipe.load import find_recipes, load_recipe
from kernforge.recipe.matrix import Job, expand, retarget
from kernforge.recipe.model import Recipe

FindPlace = Callable[[], Place]
"""What commands get: finds the place when it is needed, so that `--help` never fails."""


def find_recipe(place: Place, name: str) -> Recipe:
    """Load a recipe by name.

    Raises:
        SelectionError: ``recipe-missing``, with the nearest name.
        RecipeError: as :func:`kernforge.recipe.load.load_recipe`.
    """
    folder = place.project / "recipes"
    path = folder / f"{name}.yaml"
    if path.parent == folder and path.is_file():
        shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        return load_recipe(shown)
    names = [found.stem for found in find_recipes(folder)]
    near = difflib.get_close_matches(name, names, n=1)
    raise SelectionError(
        "recipe-missing",
        f"There is no recipe {name!r} in {str(folder)!r}",
        hint=f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names) or 'none'}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which targets a call names."""

    arch: str | None
    python: str | None
    torch: str | None
    cuda: str | None
    job: str | None


@contextlib.contextmanager
def blaming(option: str) -> Iterator[None]:
    """Say which option a fault stands in."""
    try:
        yield
    except (RecipeError, SelectionError) as error:
        raise type(error)(error.word, f"{option}: {error.message}", hint=error.hint) from error


def _check_toolkit(job: Job) -> None:
    cuda = job.target.cuda
    if job.recipe.build.toolkit == "wheels" and parse_cuda(cuda) < WHEEL_TOOLKIT_SINCE:
        raise RecipeError(
            "recipe-toolkit",
            f"CUDA {cuda} has no compiler in wheels; they begin with 13.0",
            hint=f"write toolkit: host in build of {job.recipe.name}, or name a newer CUDA",
        )


def choose_jobs(place: Place, names: Iterable[str], choice: Choice) -> list[Job]:
    """The jobs that names and options choose, in the order of recipe and matrix.

    Raises:
        SelectionError: ``recipe-missing`` or ``job-missing``.
        RecipeError: a recipe or option is not valid.
    """
    with blaming("--arch"):
        archs = parse_archs(choice.arch) if choice.arch is not None else None
    found: list[Job] = []
    for name in dict.fromkeys(names):
        jobs = expand(find_recipe(place, name))
        found += retarget(
            jobs, archs=archs, python=choice.python, torch=choice.torch, cuda=choice.cuda
        )
    for job in found:
        _check_toolkit(job)
    chosen = [job for job in found if choice.job in {None, job.id}]
    if not chosen:
        ids = ", ".join(job.id for job in found)
        raise SelectionError("job-missing", f"No job is {choice.job!r}", hint=f"there are: {ids}")
    return chosen


def target_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose targets."""
    options = (
        click.option("--arch", metavar="LIST", help="GPU archs, as 12.0a or '9.0;12.0a'."),
        click.option("--python", metavar="X.Y", help="Python version."),
        click.option("--torch", metavar="X.Y.Z", help="Version of torch."),
        click.option("--cuda", metavar="X.Y", help="CUDA release."),
        click.option("--job", metavar="ID", help="One job, by its id."),
    )
    for option in reversed(options):
        function = option(function)
    return function
