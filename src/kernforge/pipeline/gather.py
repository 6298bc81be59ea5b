"""Reads what a plan needs: the lock and the sources' content. Offline; no compiler, no GPU."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from kernforge.build.backend import environment_needs, source_place
from kernforge.build.plan import DEFAULT_EPOCH, Inputs, Plan, SourceInput, make_plan
from kernforge.canonical import canonical_json
from kernforge.errors import SourceError
from kernforge.pipeline.needs import required_jobs
from kernforge.pipeline.settings import Settings
from kernforge.recipe.matrix import Job
from kernforge.recipe.model import CargoSource, PathSource, Recipe, Source
from kernforge.source.identity import identity
from kernforge.source.tree import tree_hash
from kernforge.toolchain.lock import Lock, check_needs, load_lock
from kernforge.toolchain.sandbox import KF, Layout


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
    job: Job,
    settings: Settings,
    *,
    layout: Layout = KF,
    way: tuple[str, ...] = (),
    epoch: int | None = None,
) -> Plan:
    """Plan a job, and what it requires, from files alone.

    Args:
        job: what is planned.
        settings: say where files are.
        layout: where the build will see things.
        way: names of the recipes that led here, to find circles.
        epoch: SOURCE_DATE_EPOCH of the main source in seconds, once it is known.

    Raises:
        ToolchainError: as :func:`job_lock`.
        SourceError: ``source-circle``, as :func:`read_patches`, or as
            :func:`kernforge.source.tree.entries`.
        RecipeError: ``env-reserved``.
        SelectionError: ``requires-circle``.
    """
    way = (*way, job.recipe.name)
    requires = tuple(
        (needed.recipe.name, plan_job(needed, settings, way=way).recipe_key)
        for needed in required_jobs(job, settings, way=way[:-1])
    )
    lock = job_lock(job, settings)
    main = dict(job.recipe.sources)[job.recipe.main_source]
    inputs = Inputs(
        sources=tuple(_read_source(job, name, settings) for name in placing_order(job.recipe)),
        lock=lock,
        epoch=DEFAULT_EPOCH if isinstance(main, PathSource) else epoch,
        requires=requires,
    )
    return make_plan(job, inputs, layout)


def placing_order(recipe: Recipe) -> tuple[str, ...]:
    """Names of the sources so that each comes after those that it is put into or read from.

    Raises:
        SourceError: ``source-circle``.
    """
    before = {name: _before(source) - {name} for name, source in recipe.sources}
    ordered: list[str] = []
    waiting = list(before)
    while waiting:
        ready = [name for name in waiting if before[name].isdisjoint(waiting)]
        if not ready:
            raise SourceError(
                "source-circle",
                f"{recipe.name}: sources are put into each other: {', '.join(waiting)}",
                hint="mend into",
            )
        ordered += ready
        waiting = [name for name in waiting if name not in ready]
    return tuple(ordered)


def _before(source: Source) -> set[str]:
    """What is placed before a source: where it is put into, and what holds its Cargo.lock."""
    paths = [source.into or "", source.cargo if isinstance(source, CargoSource) else ""]
    return {path.split("/")[0] for path in paths}


def _read_source(job: Job, name: str, settings: Settings) -> SourceInput:
    source = dict(job.recipe.sources)[name]
    if isinstance(source, PathSource):
        tree = tree_hash(source_folder(settings, source), source.exclude)
        pins: object = {"kind": "path", "tree": tree}
    else:
        pins = identity(source)
    return SourceInput(
        name=name,
        pins=canonical_json(pins),
        place=source_place(job, name),
        patches=tuple((n, sha256(data).hexdigest()) for n, data in read_patches(source, settings)),
        edits=canonical_json([edit.model_dump(mode="json") for edit in source.edits]),
    )


def read_patches(source: Source, settings: Settings) -> tuple[tuple[str, bytes], ...]:
    """Name and bytes of a source's patches, in order.

    Raises:
        SourceError: ``patch-missing`` or ``patch-unreadable``.
    """
    found = []
    for name in source.patches:
        path = settings.project / "patches" / name
        try:
            found.append((name, path.read_bytes()))
        except FileNotFoundError:
            raise SourceError(
                "patch-missing",
                f"patches/{name} is not there",
                hint="paths of patches are relative to the folder patches",
            ) from None
        except OSError as error:
            raise SourceError(
                "patch-unreadable", f"patches/{name} cannot be read: {error.strerror}"
            ) from error
    return tuple(found)
