"""Fetching by kind of source: into the cache with network, out of it without."""

from __future__ import annotations

import shutil
from pathlib import Path

from kernforge.errors import SourceError
from kernforge.process import Runner
from kernforge.recipe.model import ArchiveSource, CargoSource, GitSource, PypiSource
from kernforge.source.archive import archive_fetched, fetch_archive, newest, place_archive
from kernforge.source.cache import disk_faults
from kernforge.source.cargo import cargo_fetched, fetch_cargo, place_cargo
from kernforge.source.checkout import fetch_git, git_epoch, git_fetched, place_git
from kernforge.source.identity import Fetched
from kernforge.source.pypi import fetch_pypi, place_pypi, pypi_fetched
from kernforge.source.settings import FetchSettings, Told


def fetch(source: Fetched, settings: FetchSettings, *, runner: Runner, told: Told) -> None:
    """Have all of a source in the cache; no network where it is there, checked by its hash.

    Raises:
        SourceError: it cannot be had, or is not what the recipe pins.
        CacheError: ``disk-full`` or ``cache-unwritable``.
        ToolchainError: ``program-missing``: git is not there.
    """
    match source:
        case GitSource():
            fetch_git(source, settings, runner, told)
        case ArchiveSource():
            fetch_archive(source, settings, told)
        case PypiSource():
            fetch_pypi(source, settings, told)
        case CargoSource():
            fetch_cargo(source, settings, runner, told)


def fetched(source: Fetched, settings: FetchSettings) -> bool:
    """Whether a source is in the cache. Runs nothing and uses no network."""
    match source:
        case GitSource():
            return git_fetched(source, settings)
        case ArchiveSource():
            return archive_fetched(source, settings)
        case PypiSource():
            return pypi_fetched(source, settings)
        case CargoSource():
            return cargo_fetched(source, settings)


def epoch(source: Fetched, settings: FetchSettings) -> int | None:
    """When a source was made: its commit's date, or the newest time in its archive.

    Seconds since 1970; None where it was not fetched, or says nothing of use.
    """
    match source:
        case GitSource():
            return git_epoch(source, settings)
        case ArchiveSource() | PypiSource():
            return newest(source.sha256, settings)
        case CargoSource():
            return None  # never the source that holds the project


def place(source: Fetched, settings: FetchSettings, into: Path, *, runner: Runner) -> None:
    """Write a fetched source as a tree of plain files, without network.

    The tree holds files of mode 644 and 755, folders, and links that stay inside. There is no
    ``.git`` but with ``git_metadata``, which makes one commit with a fixed author and date.

    Args:
        source: the source.
        settings: where it lies.
        into: a folder that is not there yet, or is empty; nothing is left of it on an error.
        runner: runs git.

    Raises:
        SourceError: ``offline-missing``, ``place-occupied``, or what is wrong with the bytes.
        CacheError: ``disk-full`` or ``cache-unwritable``.
        ToolchainError: ``program-missing``: git is not there.
    """
    with disk_faults(into):
        into.mkdir(parents=True, exist_ok=True)
        if any(into.iterdir()):
            raise SourceError("place-occupied", f"{str(into)!r} is not empty")
        try:
            _place(source, settings, into, runner)
        except BaseException:
            shutil.rmtree(into, ignore_errors=True)
            raise


def _place(source: Fetched, settings: FetchSettings, into: Path, runner: Runner) -> None:
    match source:
        case GitSource():
            place_git(source, settings, into, runner)
        case ArchiveSource():
            place_archive(source, settings, into)
        case PypiSource():
            place_pypi(source, settings, into)
        case CargoSource():
            place_cargo(source, settings, into, runner)
