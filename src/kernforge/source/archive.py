"""Sources of kind ``archive``, and the parts that sdists share with them.

An archive of the project is read where it lies; one with an address is downloaded into the cache.
Every use checks the SHA-256 of the very bytes that are unpacked.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kernforge.errors import SourceError
from kernforge.recipe.model import ArchiveSource
from kernforge.source.cache import disk_faults, file_place, file_sha256, write_whole
from kernforge.source.download import Download, download
from kernforge.source.formats import members
from kernforge.source.redact import bare_url
from kernforge.source.settings import FetchSettings, Told
from kernforge.source.unpack import Unpacking, bounded, unpack

_EARLIEST = 315_532_800  # 1980-01-01, what zip files can say at the least


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """An archive at hand.

    Attributes:
        path: the file.
        sha256: what its bytes must give.
        what: what it is, for messages.
    """

    path: Path
    sha256: str
    what: str


def fetch_archive(source: ArchiveSource, settings: FetchSettings, told: Told) -> None:
    """Have the archive at hand, whole and readable.

    Raises:
        SourceError: as :func:`kernforge.source.download.download`,
            :func:`kernforge.source.formats.members`, or ``source-outside``.
        CacheError: ``disk-full`` or ``cache-unwritable``.
    """
    packed = _packed(source, settings)
    if "://" in source.archive:
        download(_wanted(source), settings, told)
    note_time(packed, settings)


def archive_fetched(source: ArchiveSource, settings: FetchSettings) -> bool:
    """Whether the right archive is at hand."""
    return file_sha256(_packed(source, settings).path) == source.sha256


def place_archive(source: ArchiveSource, settings: FetchSettings, into: Path) -> None:
    """Unpack the archive into a new folder.

    Raises:
        SourceError: ``offline-missing``, ``hash-mismatch``, or as
            :func:`kernforge.source.unpack.unpack`.
    """
    place_packed(_packed(source, settings), settings, into, strip=source.strip)


def _what(source: ArchiveSource) -> str:
    return f"archive {bare_url(source.archive)!r}"


def _wanted(source: ArchiveSource) -> Download:
    return Download(url=source.archive, sha256=source.sha256, what=_what(source))


def _packed(source: ArchiveSource, settings: FetchSettings) -> Packed:
    if "://" in source.archive:
        path = file_place(settings.cache, source.sha256)
    else:
        root = settings.project.resolve()
        path = (root / source.archive).resolve()
        if root not in path.parents:
            raise SourceError(
                "source-outside",
                f"{source.archive!r} leads out of the project {str(root)!r}",
                hint="copy the archive into the project",
            )
    return Packed(path=path, sha256=source.sha256, what=_what(source))


@contextmanager
def opened(packed: Packed) -> Iterator[IO[bytes]]:
    """The archive's bytes, their hash checked on the very file that is then read.

    Raises:
        SourceError: ``offline-missing`` or ``hash-mismatch``.
    """
    try:
        file = packed.path.open("rb")
    except OSError as error:
        raise SourceError(
            "offline-missing",
            f"{packed.what} is not at hand: {error.strerror}",
            hint="run `kernforge fetch` with network first",
        ) from error
    with file:
        got = hashlib.file_digest(file, "sha256").hexdigest()
        if got != packed.sha256:
            raise SourceError(
                "hash-mismatch",
                f"{packed.what} has SHA-256 {got}, not {packed.sha256}",
                hint="the file was changed, or the recipe's sha256 is wrong: find out which",
            )
        file.seek(0)
        yield file


def place_packed(packed: Packed, settings: FetchSettings, into: Path, *, strip: int) -> None:
    """Unpack an archive at hand into a new folder.

    Raises:
        SourceError: as :func:`opened` and :func:`kernforge.source.unpack.unpack`.
    """
    with opened(packed) as file:
        unpack(members(file, packed.what), _order(packed, settings, file, into, strip))


def _order(
    packed: Packed, settings: FetchSettings, file: IO[bytes], into: Path, strip: int
) -> Unpacking:
    return Unpacking(
        what=packed.what,
        root=into,
        strip=strip,
        packed=os.fstat(file.fileno()).st_size,
        limits=settings.limits,
    )


def note_time(packed: Packed, settings: FetchSettings) -> None:
    """Read the archive through once and keep the newest time of its files, for :func:`newest`.

    Raises:
        SourceError: as :func:`opened` and :func:`kernforge.source.formats.members`.
    """
    facts = _facts(settings, packed.sha256)
    with opened(packed) as file, disk_faults(settings.cache):
        if facts.exists():
            return
        order = _order(packed, settings, file, settings.cache, 0)
        found = bounded(members(file, packed.what), order)
        times = [member.mtime for member in found if member.kind == "file"]
        write_whole(facts, json.dumps({"newest": max(times, default=0)}).encode())


def newest(sha256: str, settings: FetchSettings) -> int | None:
    """The newest time (seconds since 1970) in a fetched archive.

    None where it was not fetched, or where its times tell nothing (before 1980).
    """
    try:
        when = json.loads(_facts(settings, sha256).read_bytes())["newest"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return when if isinstance(when, int) and when >= _EARLIEST else None


def _facts(settings: FetchSettings, sha256: str) -> Path:
    return settings.cache / "facts" / f"{sha256}.json"
