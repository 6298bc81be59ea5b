"""Commands that only look: list, show, verify, schema."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import yaml

from kernforge.arch import parse_device
from kernforge.binary.wheel import read_wheel
from kernforge.cli.choice import FindPlace, blaming, find_recipe
from kernforge.cli.output import json_option
from kernforge.errors import VerifyError
from kernforge.recipe.load import find_recipes
from kernforge.recipe.matrix import expand
from kernforge.recipe.schema import schema_text
from kernforge.report.documents import verdict_document
from kernforge.report.errors import dump
from kernforge.report.terminal import verdict_text
from kernforge.verify.policy import Rules, judge


@click.command("list")
@json_option
@click.pass_obj
def list_(place: FindPlace, *, as_json: bool) -> None:
    """Name the recipes and their jobs."""
    where = place()
    answers = []
    for path in find_recipes(where.project / "recipes"):
        recipe = find_recipe(where, path.stem)
        jobs = [job.id for job in expand(recipe)]
        answers.append({"name": recipe.name, "summary": recipe.summary, "jobs": jobs})
        if not as_json:
            click.echo(f"{recipe.name:<20} {recipe.summary or ''}".rstrip())
            for job in jobs:
                click.echo(f"  {job}")
    if as_json:
        click.echo(dump(answers))


@click.command()
@click.argument("name")
@json_option
@click.pass_obj
def show(place: FindPlace, name: str, *, as_json: bool) -> None:
    """Show a recipe as it was understood, every default written out."""
    data = find_recipe(place(), name).to_dict()
    text = dump([data]) if as_json else yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    click.echo(text.rstrip())


@click.command()
@click.argument("wheels", nargs=-1, required=True, metavar="WHEEL...")
@click.option("--device", "devices", multiple=True, required=True, metavar="X.Y",
              help="A GPU by its compute capability, as 12.0; may be given again.")  # fmt: skip
@click.option("--allow-jit", is_flag=True, help="Let PTX count as code.")
@json_option
@click.pass_obj
def verify(
    _place: FindPlace,
    wheels: tuple[str, ...],
    devices: tuple[str, ...],
    *,
    allow_jit: bool,
    as_json: bool,
) -> None:
    """Say, library by library, whether a wheel holds code for a device. Nothing is executed."""
    with blaming("--device"):
        wanted = tuple(dict.fromkeys(parse_device(device) for device in devices))
    answers, failed = [], False
    for name in wheels:
        if not Path(name).is_file():
            raise VerifyError("wheel-missing", f"{name!r} is no file", hint="name a .whl file")
        facts = read_wheel(Path(name))
        verdict = judge(facts.libraries, wanted, Rules(require="code", allow_jit=allow_jit))
        failed = failed or not verdict.passed
        answers.append({"wheel": name, **verdict_document(verdict)})
        if not as_json:
            click.echo(verdict_text(Path(name).name, verdict))
    if as_json:
        click.echo(dump(answers))
    sys.exit(VerifyError.exit_code if failed else 0)


@click.command()
def schema() -> None:
    """Print the JSON Schema of recipes, for editors."""
    click.echo(schema_text().rstrip())
