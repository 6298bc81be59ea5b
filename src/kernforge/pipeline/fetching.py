"""Fetches all that a job needs from elsewhere: sources, and the packages of its environment."""

from __future__ import annotations

from pathlib import Path

from kernforge.events import Listener, Note
from kernforge.pipeline.gather import plan_job
from kernforge.pipeline.layout import check_layout
from kernforge.pipeline.maker import job_maker, ready_environment
from kernforge.pipeline.needs import required_jobs
from kernforge.pipeline.settings import Settings
from kernforge.pipeline.sources import fetch_sources, place_sources
from kernforge.process import Runner
from kernforge.recipe.matrix import Job


def fetch_job(
    job: Job, settings: Settings, *, runner: Runner, listen: Listener
) -> tuple[int, Path]:
    """Fetch what a job and those that it requires need; a later build works offline.

    A program that the build calls and that is not there is told before anything is fetched, sources
    that do not lie as the recipe says before the environment is made.

    Answers how many pinned sources there are, and the environment's folder. The wheels of required
    recipes are not in that environment: they are built first, and put in then.

    Raises:
        SourceError: a source cannot be had, patched, or used as the recipe says.
        ToolchainError: a program is missing, or the environment cannot be made.
    """
    for needed in required_jobs(job, settings):
        fetch_job(needed, settings, runner=runner, listen=listen)

    def told(text: str) -> None:
        listen(Note(job=job.id, text=text))

    maker = job_maker(plan_job(job, settings), settings, runner=runner, listen=listen)
    count = fetch_sources(job, settings, runner=runner, told=told)
    with maker.store.scratch() as scratch:
        place_sources(maker.plan, scratch / "src", settings, runner=runner)
        check_layout(job, scratch / "src")
    return count, ready_environment(maker).path
