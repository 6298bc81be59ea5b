"""git LFS: pointers told from files, and the files fetched by git-lfs and checked by their SHA-256.

A pointer is a small text that stands in a commit for a file kept elsewhere. git-lfs fetches into
the mirror and never sees a tree, so that no filter runs and no ``.lfsconfig`` of a repository is
obeyed.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernforge.errors import SourceError
from kernforge.source.cache import file_sha256
from kernforge.source.git import REMOTE
from kernforge.source.mirror import Mirror, Want

_LONGEST = 1024
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-[^\n]*\n)*"
    rb"oid sha256:([0-9a-f]{64})\nsize (\d{1,18})\n?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """What stands for a file: its path in the tree, and its SHA-256."""

    path: str
    sha256: str


def pointers(base: Path, paths: Iterable[str]) -> tuple[Pointer, ...]:
    """Those of the files in ``base`` that are pointers."""
    found = []
    for path in paths:
        file = base / path
        if not file.is_symlink() and file.stat().st_size < _LONGEST:
            match = _POINTER.fullmatch(file.read_bytes())
            if match:
                found.append(Pointer(path=path, sha256=match[1].decode("ascii")))
    return tuple(found)


def fetch_files(mirror: Mirror, want: Want, url: str) -> None:
    """Fetch a commit's LFS files into the mirror.

    Raises:
        SourceError: ``lfs-program``, or as :meth:`kernforge.source.git.Git.remote`.
    """
    include = (f"--include={','.join(want.paths)}",) if want.paths else ()
    mirror.remote(url, "lfs", "fetch", *include, REMOTE, want.commit)


def put_files(mirror: Mirror, base: Path, found: tuple[Pointer, ...]) -> None:
    """Replace pointers by the files that they stand for.

    Raises:
        SourceError: ``offline-missing``.
    """
    for pointer in found:
        oid = pointer.sha256
        stored = mirror.folder / "lfs/objects" / oid[:2] / oid[2:4] / oid
        if file_sha256(stored) != oid:
            raise SourceError(
                "offline-missing",
                f"LFS file {pointer.path!r} ({oid[:12]}) is not in the cache",
                hint="run `kernforge fetch` with network first",
            )
        mode = (base / pointer.path).stat().st_mode
        shutil.copyfile(stored, base / pointer.path)
        (base / pointer.path).chmod(mode & 0o777)


def refuse_pointers(found: tuple[Pointer, ...], where: str) -> None:
    """Say that files are missing whose pointers were found.

    Raises:
        SourceError: ``lfs-pointer``.
    """
    if found:
        names = ", ".join(repr(pointer.path) for pointer in found[:3])
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        raise SourceError(
            "lfs-pointer",
            f"{where} holds LFS pointers instead of files: {names}{more}",
            hint="set lfs: true, or name the needed folders in sparse",
        )
