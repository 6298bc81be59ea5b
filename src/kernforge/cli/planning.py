"""Commands that come before a build: plan, lock, fetch."""

from __future__ import annotations

from typing import Any

import click

from kernforge.build.plan import Plan
from kernforge.cli.choice import Choice, FindPlace, choose_jobs, target_options
from kernforge.cli.output import json_option, open_display, progress_option
from kernforge.cli.place import make_settings
from kernforge.events import Listener
from kernforge.pipeline.gather import plan_job
from kernforge.pipeline.settings import Settings
from kernforge.process import SystemRunner
from kernforge.report.documents import plan_document
from kernforge.report.errors import dump
from kernforge.report.terminal import plan_text


def _probed(planned: Plan, settings: Settings, listen: Listener) -> dict[str, object]:
    from kernforge.pipeline.probe import probe_plan

    return probe_plan(planned, settings, runner=SystemRunner(), listen=listen)


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@target_options
@click.option("--probe", is_flag=True, help="Ask compiler and sandbox too; gives the BuildKey.")
@progress_option
@json_option
@click.pass_obj
def plan(
    place: FindPlace,
    /,
    names: tuple[str, ...],
    *,
    probe: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Show what a build would do, and its key: from files alone, offline."""
    where = place()
    settings = make_settings(where)
    display = open_display()
    answers = []
    for job in choose_jobs(where, names, Choice(**options)):
        planned = plan_job(job, settings)
        probed = _probed(planned, settings, display) if probe else None
        answers.append(plan_document(planned, probed))
        if not as_json:
            click.echo(plan_text(planned, probed))
    if as_json:
        click.echo(dump(answers))


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@target_options
@json_option
@click.pass_obj
def lock(place: FindPlace, /, names: tuple[str, ...], *, as_json: bool, **options: Any) -> None:
    """Resolve and write the locks of the named recipes: versions and hashes of every package."""
    from kernforge.pipeline.locking import make_lock

    where = place()
    settings = make_settings(where)
    answers = []
    done = set()
    for job in choose_jobs(where, names, Choice(**options)):
        path = settings.lock_path(job)
        if path in done:
            continue
        done.add(path)
        made = make_lock(job, settings, runner=SystemRunner())
        answers.append({"lock": str(path), "packages": len(made.pins)})
        if not as_json:
            click.echo(f"{path}  {len(made.pins)} packages")
    if as_json:
        click.echo(dump(answers))


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@target_options
@progress_option
@json_option
@click.pass_obj
def fetch(place: FindPlace, /, names: tuple[str, ...], *, as_json: bool, **options: Any) -> None:
    """Fetch sources and build environments, so that builds need no network."""
    from kernforge.pipeline.fetching import fetch_job

    where = place()
    settings = make_settings(where)
    display = open_display()
    answers = []
    for job in choose_jobs(where, names, Choice(**options)):
        count, environment = fetch_job(job, settings, runner=SystemRunner(), listen=display)
        answers.append({"job": job.id, "sources": count, "environment": str(environment)})
        if not as_json:
            click.echo(f"{job.id}: {count} pinned sources, environment {environment}")
    if as_json:
        click.echo(dump(answers))
