"""The command `build`. Imports only what a hit needs; what makes things is imported later."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import click

from kernforge.build.hostenv import unheard
from kernforge.cli.choice import Choice, FindPlace, choose_jobs, target_options
from kernforge.cli.effort import effort_options, take_effort
from kernforge.cli.output import json_option, open_display, progress_option, say, say_fault
from kernforge.cli.place import Wishes, environment_names, make_settings
from kernforge.errors import CacheError, Interrupted, KernforgeError
from kernforge.pipeline.job import build_job, demand
from kernforge.process import SystemRunner
from kernforge.recipe.matrix import Job
from kernforge.report.documents import outcome_document
from kernforge.report.errors import dump, error_documents
from kernforge.report.terminal import outcome_text


def _name_unheard(jobs: list[Job]) -> None:
    heard = {key for job in jobs for key, _ in job.recipe.build.env}
    if any(job.recipe.build.toolkit == "host" for job in jobs):
        heard |= {"CUDA_HOME", "CUDA_PATH"}
    for name, carried_by in unheard(environment_names(), heard):
        say(f"note: {name} is set and no build hears it; what carries it: {carried_by}")


def _copy_out(wheel: Path, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(wheel, folder / wheel.name)
        statement = wheel.with_name("provenance.json")
        shutil.copyfile(statement, folder / f"{wheel.name}.{statement.name}")
    except OSError as error:
        raise CacheError(
            "out-unwritable",
            f"The wheel cannot be copied to {str(folder)!r}: {error.strerror}",
            hint=f"it is in the store: {wheel}",
        ) from error


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@target_options
@effort_options
@click.option("--no-sandbox", is_flag=True, help="Build in the constant real folder instead.")
@click.option("--offline", is_flag=True, help="Use no network: everything was fetched before.")
@click.option("--out", metavar="DIR", help="Copy the wheels here too, each with its provenance.")
@progress_option
@json_option
@click.pass_obj
def build(
    place: FindPlace, /, names: tuple[str, ...], *, out: str | None, as_json: bool, **options: Any
) -> None:
    """Build every job of the named recipes, or find it in the store."""
    where = place()
    wishes = Wishes(
        **take_effort(options),
        sandbox=not options.pop("no_sandbox"),
        offline=options.pop("offline"),
    )
    settings = make_settings(where, wishes)
    display = open_display()
    answers: list[dict[str, Any]] = []
    status = 0
    jobs = choose_jobs(where, names, Choice(**options))
    _name_unheard(jobs)
    for job in jobs:
        try:
            outcome = build_job(job, settings, runner=SystemRunner(), listen=display)
            answers.append(outcome_document(outcome))
            if not as_json:
                click.echo(outcome_text(outcome))
            demand(outcome)
            if out is not None:
                _copy_out(outcome.wheel, Path(out))
        except Interrupted:
            raise
        except KernforgeError as error:
            display.close()
            status = status or error.exit_code
            answers += error_documents(error, job=job.id) if as_json else []
            say_fault(error)
    if as_json:
        click.echo(dump(answers))
    sys.exit(status)
