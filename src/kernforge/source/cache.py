"""The folder of fetched sources: its places, locks, and faults of the disk.

::

    git/NAME-HASH/      bare repository, one for each address (without user or password)
    files/SHA256        downloads, named by their content
    facts/SHA256.json   what was read of a download once: its newest time
    partial/SHA256      downloads under way, kept to go on with
    locks/
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from kernforge.errors import CacheError
from kernforge.source.redact import bare_url
from kernforge.source.settings import Told

_POLL_SECONDS = 0.1
_TELL_SECONDS = 10.0
_FULL = frozenset({28, 122})  # ENOSPC, EDQUOT


@contextlib.contextmanager
def disk_faults(root: Path) -> Iterator[None]:
    """Turn the operating system's faults of a folder into ours.

    Raises:
        CacheError: ``disk-full`` or ``cache-unwritable``.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise CacheError(
                "disk-full",
                f"No space is left for sources in {str(root)!r}",
                hint="free some (`kernforge cache gc`), or choose another folder with --cache",
            ) from error
        raise CacheError(
            "cache-unwritable",
            f"Sources cannot be kept in {str(root)!r}: {error.strerror or type(error).__name__}",
            hint="choose another folder with --cache or KERNFORGE_CACHE",
        ) from error


def mirror_folder(cache: Path, url: str) -> Path:
    """Where the bare repository of an address lies; its name tells no secret."""
    bare = bare_url(url)
    last = re.split(r"[/:]", bare.rstrip("/").removesuffix(".git"))[-1]
    name = re.sub(r"[^A-Za-z0-9._]", "-", last)[:40].strip(".-") or "repository"
    return cache / "git" / f"{name}-{hashlib.sha256(bare.encode()).hexdigest()[:16]}"


def file_place(cache: Path, sha256: str) -> Path:
    """Where a download lies, or would."""
    return cache / "files" / sha256


def file_sha256(path: Path) -> str | None:
    """SHA-256 of a file; None where none is there or it cannot be read."""
    try:
        if not path.is_file():  # a device may have no end
            return None
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def write_whole(path: Path, data: bytes) -> None:
    """Write a small file by one rename, so that nobody sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}-{uuid.uuid4().hex[:12]}")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def locked(cache: Path, name: str, told: Told) -> Iterator[None]:
    """Hold the lock of a mirror or file; the kernel frees it when we die.

    Raises:
        CacheError: ``disk-full`` or ``cache-unwritable``.
    """
    with disk_faults(cache):
        folder = cache / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f"{name}.lock")
        _acquire(lock, name, told)
    try:
        yield
    finally:
        lock.release()


def _acquire(lock: FileLock, name: str, told: Told) -> None:
    next_word = time.monotonic()
    while True:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if time.monotonic() >= next_word:
                told(f"Waiting: another process fetches {name}")
                next_word += _TELL_SECONDS
            time.sleep(_POLL_SECONDS)
        else:
            return
