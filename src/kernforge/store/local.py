"""The store: finished things under their key, written whole or not at all, checked when read.

An entry is a folder ``store/KIND/ab/KEY`` with a ``manifest.json`` that lists size and SHA-256 of
every file and its own digest. It appears by one rename. The first complete writer wins. A bad entry
is moved to ``quarantine/`` and counts as a miss. Reading needs no lock; making one takes the key's.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from kernforge.canonical import canonical_json
from kernforge.canonical import digest as digest_of
from kernforge.errors import CacheError

_FORMAT = 1
_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# This folder is a cache of kernforge.\n"
_POLL_SECONDS = 0.2
_NAMING_SECONDS, _NAMING_POLL = 1.0, 0.05
"""How long who has just taken a lock is given to write its name; how often it is looked for."""
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Error numbers of a full disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """One file of an entry; ``size`` in bytes."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A complete entry. ``meta`` is canonical JSON text of what the writer said of it."""

    kind: str
    key: str
    path: Path
    files: tuple[StoredFile, ...]
    meta: str

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def facts(self) -> dict[str, Any]:
        """``meta`` as data."""
        data: dict[str, Any] = json.loads(self.meta)
        return data


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _machine_mark() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def _our_name() -> str:
    """A new name that says whose it is."""
    return f"{_machine_mark()}-{os.getpid()}-{uuid.uuid4().hex[:12]}"


def _alive(process: str) -> bool:
    return process.isdigit() and Path("/proc", process).exists()


def cache_fault(error: OSError, root: Path) -> CacheError:
    """The one way to tell of a cache that cannot be written."""
    if error.errno in NO_SPACE:
        return CacheError(
            "disk-full",
            f"No space is left for the cache in {str(root)!r}",
            hint="free some (`kernforge cache gc`), or choose another folder with --cache",
        )
    return CacheError(
        "cache-unwritable",
        f"The cache in {str(root)!r} cannot be written: {error.strerror}",
        hint="choose another folder with --cache or KERNFORGE_CACHE",
    )


class Store:
    """A store in one folder. Construction touches nothing."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, name: str) -> Path:
        """A folder of the cache, made with its CACHEDIR.TAG where it is not there.

        Raises:
            CacheError: ``cache-unwritable`` or ``disk-full``.
        """
        path = self.root / name
        try:
            path.mkdir(parents=True, exist_ok=True)
            tag = self.root / "CACHEDIR.TAG"
            if not tag.exists():
                tag.write_text(_TAG, encoding="utf-8")
        except OSError as error:
            raise cache_fault(error, self.root) from error
        return path

    def place(self, kind: str, key: str) -> Path:
        """Where an entry lies, or would."""
        return self.root / "store" / kind / key[:2] / key

    def get(self, kind: str, key: str, *, told: Callable[[str], None]) -> Entry | None:
        """The whole entry, every file's SHA-256 checked; None where there is none.

        A bad entry is moved to quarantine, told of, and counts as none.
        """
        path = self.place(kind, key)
        if not path.exists():
            return None
        fault = self.fault_of(kind, key)
        if fault is None:
            return _read_entry(kind, key, path)
        self._quarantine(path)
        told(f"Store entry {key[:12]} is damaged ({fault}): moved to quarantine, built again")
        return None

    def fault_of(self, kind: str, key: str) -> str | None:
        """What is wrong with an entry, in a few words; None where nothing is."""
        path = self.place(kind, key)
        try:
            entry = _read_entry(kind, key, path)
            for file in entry.files:
                if (path / file.name).stat().st_size != file.size:
                    return f"{file.name} has another size"
                if _sha256(path / file.name) != file.sha256:
                    return f"{file.name} has other bytes"
        except (OSError, ValueError, KeyError, TypeError) as error:
            return f"its manifest or a file cannot be read: {type(error).__name__}"
        return None

    def _quarantine(self, path: Path) -> None:
        try:
            _move(path, self.folder("quarantine") / f"{path.name}-{uuid.uuid4().hex[:8]}")
        except FileNotFoundError:
            return  # another process was faster
        except OSError as error:
            raise cache_fault(error, self.root) from error

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder of our own on the cache's file system, removed at the end.

        Raises:
            CacheError: ``cache-unwritable`` or ``disk-full``, for what happens in the block too.
        """
        path = self._own_place()
        try:
            path.mkdir()
            yield path
        except OSError as error:
            raise cache_fault(error, self.root) from error
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def sweep(self) -> None:
        """Remove the drafts that killed processes of this machine left."""
        drafts = (self.root / "store").glob("*/*/.*")  # see `_move`
        for path in [*self.folder("tmp").iterdir(), *drafts]:
            machine, process = (*path.name.removeprefix(".").split("-"), "")[:2]
            if machine == _machine_mark() and not _alive(process):
                _erase(path)

    def put(self, kind: str, key: str, files: Mapping[str, Path], meta: object) -> Entry:
        """Keep files (moved here) under a key; an entry that is already there stays.

        Raises:
            CacheError: ``cache-unwritable`` or ``disk-full``.
        """
        place = self.place(kind, key)
        draft = self._own_place()
        try:
            draft.mkdir()
            listed = [_taken(source, draft / name) for name, source in sorted(files.items())]
            body = {"format": _FORMAT, "kind": kind, "key": key, "files": listed, "meta": meta}
            digest = digest_of(body)
            _write_synced(draft / "manifest.json", canonical_json({"body": body, "digest": digest}))
            place.parent.mkdir(parents=True, exist_ok=True)
            _settle(draft, place)
        except OSError as error:
            shutil.rmtree(draft, ignore_errors=True)  # a full disk needs the room at once
            raise cache_fault(error, self.root) from error
        return _read_entry(kind, key, place)

    def entries(self) -> tuple[Entry, ...]:
        """Every entry whose manifest can be read, by kind and key; files are not checked."""
        found = []
        for manifest in sorted((self.root / "store").glob("*/*/*/manifest.json")):
            path = manifest.parent
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                found.append(_read_entry(path.parent.parent.name, path.name, path))
        return tuple(found)

    def listing(self) -> tuple[tuple[str, str], ...]:
        """Kind and key of every entry folder, readable or not."""
        folders = sorted((self.root / "store").glob("*/*/[!.]*"))
        return tuple((path.parent.parent.name, path.name) for path in folders)

    def remove(self, kind: str, key: str) -> None:
        """Remove an entry, as :meth:`discard`.

        Raises:
            CacheError: ``cache-unwritable``.
        """
        self.discard(self.place(kind, key))

    def discard(self, path: Path) -> None:
        """Remove what lies in the cache: out of sight by one rename, then from disk.

        What is half removed when we are killed can so never be taken for whole.

        Raises:
            CacheError: ``cache-unwritable``.
        """
        doomed = self._own_place()
        try:
            path.rename(doomed)
        except FileNotFoundError:
            return  # another process was faster
        except OSError as error:
            if error.errno != errno.EXDEV:  # a folder of the cache may be a link to elsewhere
                raise cache_fault(error, self.root) from error
            doomed = path
        _erase(doomed)

    def _own_place(self) -> Path:
        return self.folder("tmp") / _our_name()

    def touch(self, entry: Entry) -> None:
        """Remember that an entry was used, for `gc`; a read-only cache is no fault."""
        with contextlib.suppress(OSError):
            os.utime(entry.path)

    @contextlib.contextmanager
    def lock(
        self,
        name: str,
        *,
        waiting: Callable[[str, float], None],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Iterator[None]:
        """Hold the lock of a name; the kernel frees it when we die.

        ``waiting`` is called with the owner (in words) and the seconds waited so far: when another
        process holds the lock, as soon as its name is known and within a second, then every ten
        seconds; ``meanwhile`` several times a second.

        Raises:
            CacheError: ``cache-unwritable`` or ``disk-full``.
        """
        folder = self.folder("locks")
        owner = folder / f"{name}.owner"
        lock = FileLock(folder / f"{name}.lock")
        try:
            _acquire(lock, owner, waiting, meanwhile)
        except OSError as error:
            raise cache_fault(error, self.root) from error
        try:
            with contextlib.suppress(OSError):
                owner.write_text(f"process {os.getpid()} on {socket.gethostname()}")
            yield
        finally:
            with contextlib.suppress(OSError):
                owner.unlink()
            lock.release()


def _acquire(
    lock: FileLock,
    owner: Path,
    waiting: Callable[[str, float], None],
    meanwhile: Callable[[], None],
) -> None:
    began, told = time.monotonic(), -1.0
    while True:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            waited, name = time.monotonic() - began, _owner_text(owner)
            due = waited - told >= 10 if told >= 0 else bool(name) or waited >= _NAMING_SECONDS
            if due:
                waiting(name or "another process", waited)
                told = waited
            meanwhile()
            time.sleep(_POLL_SECONDS if told >= 0 else _NAMING_POLL)
        else:
            return


def _owner_text(owner: Path) -> str:
    try:
        return owner.read_text(encoding="utf-8")
    except OSError:
        return ""


def _read_entry(kind: str, key: str, path: Path) -> Entry:
    data = json.loads((path / "manifest.json").read_bytes())
    body = data["body"]
    digest = digest_of(body)
    if digest != data["digest"] or (body["kind"], body["key"]) != (kind, key):
        raise ValueError(path.name)
    if body["format"] != _FORMAT:
        raise ValueError(body["format"])
    files = tuple(StoredFile(**file) for file in body["files"])
    return Entry(kind=kind, key=key, path=path, files=files, meta=canonical_json(body["meta"]))


def _erase(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _taken(source: Path, target: Path) -> dict[str, object]:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(source, target)
    target.chmod(0o644)
    with target.open("rb") as file:
        os.fsync(file.fileno())
    size = target.stat().st_size
    return {"name": target.name, "sha256": _sha256(target), "size": size}


def _write_synced(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _settle(draft: Path, place: Path) -> None:
    try:
        _move(draft, place)
    except OSError:
        if not (place / "manifest.json").exists():
            raise
        shutil.rmtree(draft)  # another writer was first; its bytes stay


def _move(source: Path, target: Path) -> None:
    """Rename a folder; where a folder of the cache is a link to elsewhere, by a copy beside."""
    try:
        source.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        draft = target.parent / f".{_our_name()}"
        try:
            _copy(source, draft)
            draft.rename(target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        shutil.rmtree(source)


def _copy(source: Path, target: Path) -> None:
    """Copy a folder of files; unlike `shutil.copytree` it keeps the number of an error."""
    target.mkdir()
    for path in sorted(source.rglob("*")):
        copy = target / path.relative_to(source)
        if path.is_dir():
            copy.mkdir()
            continue
        shutil.copy2(path, copy)
        with copy.open("rb") as file:
            os.fsync(file.fileno())
