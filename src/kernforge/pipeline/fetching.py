"""Fetches all that a job needs from elsewhere: sources, and the packages of its environment."""

from __future__ import annotations

from pathlib import Path

from kernforge.events import Listener, Note
from kernforge.pipeline.gather import plan_job
from kernforge.pipeline.make import job_maker, ready_environment
from kernforge.pipeline.needs import required_jobs
from kernforge.pipeline.settings import Settings
from kernforge.pipeline.sources import fetch_sources
from kernforge.process import Runner
from kernforge.recipe.matrix import Job


def fetch_job(
    job: Job, settings: Settings, *, runner: Runner, listen: Listener
) -> tuple[int, Path]:
    """Fetch what a job and those that it requires need; a later build works offline.

    Answers how many pinned sources there are, and the environment's folder. The wheels of required
    recipes are not in that environment: they are built first, and put in then.

    Raises:
        SourceError: a source cannot be had.
        ToolchainError: the environment cannot be made.
    """
    for needed in required_jobs(job, settings):
        fetch_job(needed, settings, runner=runner, listen=listen)

    def told(text: str) -> None:
        listen(Note(job=job.id, text=text))

    count = fetch_sources(job, settings, runner=runner, told=told)
    maker = job_maker(plan_job(job, settings), settings, runner=runner, listen=listen)
    return count, ready_environment(maker).path
