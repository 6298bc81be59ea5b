"""Reading a file system that may be hostile: bounded, and never stopping at a pipe or a loop.

Room `doctor`, lowest module. Links to folders are not followed when a tree is walked; only regular
files are opened. What cannot be read is None or left out, and the caller says so.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TEXT_LIMIT = 8 << 20
"""Bytes of one text."""
LISTING_LIMIT = 20_000
"""Names in one folder."""
WALK_LIMIT = 200_000
"""Files and folders in one tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One file or folder: its path, whether it is a folder or a link, its size and mtime (ns)."""

    path: Path
    folder: bool
    link: bool
    size: int
    changed: int


def read_bytes(path: Path, limit: int = TEXT_LIMIT) -> bytes | None:
    """The first bytes of a regular file; None where it is none, or cannot be read."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # waits for no writer
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            return None
        with os.fdopen(number, "rb", closefd=False) as file:
            return file.read(limit)
    except OSError:
        return None
    finally:
        os.close(number)


def read_text(path: Path, limit: int = TEXT_LIMIT) -> str | None:
    """The same as text; bytes that are not UTF-8 are spelled out."""
    data = read_bytes(path, limit)
    return None if data is None else data.decode("utf-8", "backslashreplace")


def regular(path: Path) -> os.stat_result | None:
    """What the system says of a regular file, links followed; None where it is none."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def is_folder(path: Path) -> bool:
    """Whether a folder is there, links followed; never raises."""
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def listing(folder: Path) -> tuple[Found, ...] | None:
    """What lies in a folder, sorted by name; None where it cannot be read or has too many names.

    What is neither file, folder nor link to one is left out.
    """
    found: list[Found] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if len(found) >= LISTING_LIMIT:
                    return None
                if (one := _found(entry)) is not None:
                    found.append(one)
    except OSError:
        return None
    return tuple(sorted(found, key=lambda one: one.path.name))


def odd_files(site: Path) -> tuple[Path, ...]:
    """What looks like a library in the folders of an environment's libraries and is no file.

    A pipe or a device there would stop whoever opens it.
    """
    patterns = ("torch/lib/*.so*", "nvidia/*/lib/*.so*", "nvidia/*/lib64/*.so*", "*.libs/*.so*")
    try:
        named = [path for pattern in patterns for path in site.glob(pattern)]
    except OSError:
        return (site,)
    return tuple(path for path in named if path.exists() and regular(path) is None)


def _found(entry: os.DirEntry[str]) -> Found | None:
    try:
        status = entry.stat()
    except OSError:  # a link that leads nowhere, or in a circle
        return None
    folder = stat.S_ISDIR(status.st_mode)
    if not folder and not stat.S_ISREG(status.st_mode):
        return None
    return Found(
        path=Path(entry.path),
        folder=folder,
        link=entry.is_symlink(),
        size=status.st_size,
        changed=status.st_mtime_ns,
    )


class Walk:
    """Files below a folder, breadth first; ``whole`` says afterwards whether all were seen."""

    def __init__(self, root: Path, skipped: frozenset[str] = frozenset()) -> None:
        self._root = root
        self._skipped = skipped
        self.whole = True

    def __iter__(self) -> Iterator[Found]:
        waiting, seen = [self._root], 0
        while waiting:
            names = listing(waiting.pop(0))
            self.whole = self.whole and names is not None
            for one in names or ():
                seen += 1
                if seen > WALK_LIMIT:
                    self.whole = False
                    return
                if not one.folder:
                    yield one
                elif not one.link and one.path.name not in self._skipped:
                    waiting.append(one.path)
