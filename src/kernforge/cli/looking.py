"""Commands that only look: list, show, verify, schema."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import yaml

from kernforge.arch import Device, parse_device
from kernforge.binary.wheel import read_wheel
from kernforge.cli.choice import FindPlace, blaming, find_recipe
from kernforge.cli.output import json_option, say
from kernforge.errors import KernforgeError, VerifyError
from kernforge.recipe.load import find_recipes
from kernforge.recipe.matrix import expand
from kernforge.recipe.schema import reference_text, schema_text
from kernforge.report.documents import verdict_document
from kernforge.report.errors import dump, error_documents, error_text
from kernforge.report.terminal import verdict_text
from kernforge.verify.policy import Rules, Verdict, judge


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


def _judged(wheel: Path, devices: tuple[Device, ...], rules: Rules) -> Verdict:
    if not wheel.is_file():
        raise VerifyError("wheel-missing", f"{str(wheel)!r} is no file", hint="name a .whl file")
    facts = read_wheel(wheel)
    for finding in facts.findings:
        if finding.word == "archive-garbled":
            raise VerifyError("wheel-unreadable", f"{str(wheel)!r} is no wheel: {finding.text}")
    return judge(facts.libraries, devices, rules, facts.findings)


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
    rules = Rules(require="code", allow_jit=allow_jit)
    answers: list[dict[str, Any]] = []
    failed = False
    for name in wheels:
        try:
            verdict = _judged(Path(name), wanted, rules)
        except KernforgeError as error:
            failed = True
            answers += error_documents(error, wheel=name)
            say(error_text(error))
            continue
        failed = failed or not verdict.passed
        answers.append({"wheel": name, **verdict_document(verdict)})
        if not as_json:
            click.echo(verdict_text(Path(name).name, verdict))
    if as_json:
        click.echo(dump(answers))
    sys.exit(VerifyError.exit_code if failed else 0)


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
