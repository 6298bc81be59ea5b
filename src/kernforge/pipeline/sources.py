"""Fetches a job's sources into the cache, and places them, patched, into a workspace."""

from __future__ import annotations

import json
import os
from pathlib import Path

from kernforge.build.backend import source_place
from kernforge.build.plan import DEFAULT_EPOCH, Plan
from kernforge.errors import SourceError
from kernforge.pipeline.gather import placing_order, read_patches, source_folder
from kernforge.pipeline.settings import Settings
from kernforge.process import Runner
from kernforge.recipe.matrix import Job
from kernforge.recipe.model import CargoSource, GitSource, PathSource, Source
from kernforge.source.cargo import check_lock, keep_lock, lock_kept, write_config
from kernforge.source.edits import apply_edits
from kernforge.source.fetch import epoch, fetch, place
from kernforge.source.metadata import make_repository
from kernforge.source.patches import apply_series
from kernforge.source.settings import Told
from kernforge.source.tree import copy_tree, tree_hash
from kernforge.store.local import Store


def fetch_sources(job: Job, settings: Settings, *, runner: Runner, told: Told) -> int:
    """Have all that a job's recipe pins in the cache; answers how many sources were asked for.

    Raises:
        SourceError: a source cannot be had, or is not what the recipe pins.
        CacheError: ``disk-full`` or ``cache-unwritable``.
    """
    sources = dict(job.recipe.sources)
    count = 0
    for source in (sources[name] for name in placing_order(job.recipe)):
        if isinstance(source, PathSource):
            continue
        if isinstance(source, CargoSource):
            _keep_lock(job, source, settings, runner=runner, told=told)
        fetch(source, settings.fetching, runner=runner, told=told)
        count += 1
    return count


def _keep_lock(
    job: Job, source: CargoSource, settings: Settings, *, runner: Runner, told: Told
) -> None:
    """Have the lock that names the crates in the cache, from the source that holds it."""
    if lock_kept(source, settings.fetching):
        return
    name, _, path = source.cargo.partition("/")
    owner = dict(job.recipe.sources)[name]
    with Store(settings.cache).scratch() as scratch:
        tree = scratch / "tree"
        place_pristine(owner, tree, settings, runner=runner, told=told)
        _change(owner, tree, settings)
        keep_lock(source, tree / path, settings.fetching)


def source_epoch(job: Job, settings: Settings) -> int:
    """SOURCE_DATE_EPOCH of a job whose sources are fetched: of its main source, else 2020-01-01."""
    main = dict(job.recipe.sources)[job.recipe.main_source]
    if isinstance(main, PathSource):
        return DEFAULT_EPOCH
    return epoch(main, settings.fetching) or DEFAULT_EPOCH


def place_sources(plan: Plan, into: Path, settings: Settings, *, runner: Runner) -> str:
    """Write all sources of a plan, patched and edited, below a folder; answers the tree's hash.

    Raises:
        SourceError: a source is not in the cache, changed since it was planned, or a patch or edit
            does not fit exactly.
    """
    job = plan.job
    for name in placing_order(job.recipe):
        source = dict(job.recipe.sources)[name]
        target = into / source_place(job, name)
        if isinstance(source, CargoSource):
            owner, _, path = source.cargo.partition("/")
            check_lock(source, into / source_place(job, owner) / path)
            write_config(source, settings.fetching, into, source_place(job, name))
        _place_one(plan, name, target, settings, runner)
        _change(source, target, settings)
        _settle_times(target, plan.epoch or DEFAULT_EPOCH)
        if isinstance(source, GitSource) and source.git_metadata:
            make_repository(target, plan.epoch or DEFAULT_EPOCH, settings.fetching, runner)
    return tree_hash(into)


def _settle_times(tree: Path, epoch: int) -> None:
    """Give every file one date: nvcc's line tables (-lineinfo) hold that of each source file."""
    for path in (*tree.rglob("*"), tree):
        os.utime(path, (epoch, epoch), follow_symlinks=False)


def place_pristine(
    source: Source, into: Path, settings: Settings, *, runner: Runner, told: Told
) -> None:
    """Write one source into a new folder as it comes, without patches and edits; fetched first.

    Raises:
        SourceError: it cannot be had.
    """
    if isinstance(source, PathSource):
        folder = source_folder(settings, source)
        copy_tree(folder, into, exclude=source.exclude, epoch=DEFAULT_EPOCH)
        return
    fetch(source, settings.fetching, runner=runner, told=told)
    place(source, settings.fetching, into, runner=runner)


def _place_one(plan: Plan, name: str, target: Path, settings: Settings, runner: Runner) -> None:
    source = dict(plan.job.recipe.sources)[name]
    if not isinstance(source, PathSource):
        if isinstance(source, GitSource):  # the repository is made of what the patches leave
            source = source.model_copy(update={"git_metadata": False})
        place(source, settings.fetching, target, runner=runner)
        return
    planned = {n: pins for n, _, pins in json.loads(plan.stage("fetch").parts)["sources"]}
    folder = source_folder(settings, source)
    copy_tree(folder, target, exclude=source.exclude, epoch=plan.epoch or 0)
    if tree_hash(target) != planned[name]["tree"]:
        raise SourceError(
            "source-changed",
            f"{plan.job.id}: source {name!r} changed while it was read",
            hint="build again when nothing writes to it",
        )


def _change(source: Source, target: Path, settings: Settings) -> None:
    patches = read_patches(source, settings)
    if patches:
        apply_series(target, patches)
    if source.edits:
        apply_edits(target, source.edits)
