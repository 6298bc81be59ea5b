"""Commands that only look: list, show, schema."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import yaml

from kernforge.cli.choice import FindPlace, find_recipe
from kernforge.cli.output import json_option, say
from kernforge.errors import KernforgeError
from kernforge.recipe.load import find_recipes
from kernforge.recipe.matrix import expand
from kernforge.recipe.schema import reference_text, schema_text
from kernforge.report.errors import dump, error_documents, error_text


@click.command("list")
@json_option
@click.pass_obj
def list_(place: FindPlace, *, as_json: bool) -> None:
    """Name the recipes and their jobs."""
    where = place()
    answers: list[dict[str, Any]] = []
    status = 0
    for path in find_recipes(where.project / "recipes"):
        try:
            recipe = find_recipe(where, path.stem)
        except KernforgeError as error:
            status = error.exit_code
            answers += error_documents(error, name=path.stem)
            say(error_text(error))
            continue
        jobs = [job.id for job in expand(recipe)]
        answers.append({"name": recipe.name, "summary": recipe.summary, "jobs": jobs})
        if not as_json:
            click.echo(f"{recipe.name:<20} {recipe.summary or ''}".rstrip())
            for job in jobs:
                click.echo(f"  {job}")
    if as_json:
        click.echo(dump(answers))
    sys.exit(status)


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
@click.option("--write", metavar="DIR", help="Write it, and the reference page, into a folder.")
def schema(*, write: str | None) -> None:
    """Print the JSON Schema of recipes, for editors."""
    if write is None:
        click.echo(schema_text().rstrip())
        return
    for name, text in (
        ("recipe.schema.json", schema_text()),
        ("recipe-reference.md", reference_text()),
    ):
        (Path(write) / name).write_text(text, encoding="utf-8")
        click.echo(str(Path(write) / name))
