"""Reads what a plan needs: the lock and the sources' content. Offline; no compiler, no GPU."""

from __future__ import annotations

from pathlib import Path

from kernforge.build.backend import environment_needs
from kernforge.build.plan import DEFAULT_EPOCH, Inputs, Plan, SourceInput, make_plan
from kernforge.errors import SourceError
from kernforge.pipeline.needs import required_jobs
from kernforge.pipeline.settings import Settings
from kernforge.recipe.matrix import Job
from kernforge.recipe.model import PathSource, Recipe
from kernforge.source.tree import tree_hash
from kernforge.toolchain.lock import Lock, check_needs, load_lock
from kernforge.toolchain.sandbox import KF, Layout


def path_sources(recipe: Recipe) -> tuple[tuple[str, PathSource], ...]:
    """The sources of a recipe, all of kind ``path``.

    Raises:
        SourceError: ``source-later`` where one is of a kind, or has a key, that comes later.
    """
    found: list[tuple[str, PathSource]] = []
    for name, source in recipe.sources:
        extra = [k for k in ("patches", "edits", "into", "fetchcontent") if getattr(source, k)]
        if not isinstance(source, PathSource) or extra:
            what = f"key {extra[0]!r}" if extra else f"kind {source.KIND!r}"
            raise SourceError(
                "source-later",
                f"{recipe.name}: source {name!r} has the {what}, which this version only parses",
                hint="git, archive and pypi sources and patches come with the next release",
            )
        found.append((name, source))
    return tuple(found)


def source_folder(settings: Settings, source: PathSource) -> Path:
    """The real folder of a path source.

    Raises:
        SourceError: ``source-outside`` where a link leads out of the project.
    """
    root = settings.project.resolve()
    folder = (root / source.path).resolve()
    if folder != root and root not in folder.parents:
        raise SourceError(
            "source-outside",
            f"{source.path!r} leads out of the project {str(root)!r}",
            hint="copy the source into the project",
        )
    return folder


def job_lock(job: Job, settings: Settings) -> Lock:
    """A job's lock, held against what the recipe asks for.

    Raises:
        ToolchainError: ``lock-missing``, ``lock-invalid`` or ``lock-mismatch``.
    """
    make = settings.lock_command(job)
    lock = load_lock(settings.lock_path(job), make=make)
    check_needs(lock, environment_needs(job), make=make)
    return lock


def plan_job(
    job: Job, settings: Settings, *, layout: Layout = KF, way: tuple[str, ...] = ()
) -> Plan:
    """Plan a job, and what it requires, from files alone.

    Args:
        job: what is planned.
        settings: say where files are.
        layout: where the build will see things.
        way: names of the recipes that led here, to find circles.

    Raises:
        ToolchainError: as :func:`job_lock`.
        SourceError: as :func:`path_sources`, or as :func:`kernforge.source.tree.entries`.
        RecipeError: ``env-reserved``.
        SelectionError: ``requires-circle``.
    """
    way = (*way, job.recipe.name)
    requires = tuple(
        (needed.recipe.name, plan_job(needed, settings, way=way).recipe_key)
        for needed in required_jobs(job, settings, way=way[:-1])
    )
    lock = job_lock(job, settings)
    sources = tuple(
        SourceInput(
            name=name,
            kind=source.KIND,
            tree=tree_hash(source_folder(settings, source), source.exclude),
        )
        for name, source in path_sources(job.recipe)
    )
    inputs = Inputs(sources=sources, lock=lock, epoch=DEFAULT_EPOCH, requires=requires)
    return make_plan(job, inputs, layout)
