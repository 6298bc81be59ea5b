"""An index in a folder: a new generation is written whole, then shown by one rename.

Room `publish`. ``current`` is a link to a folder in ``generations``; a web server serves what it
points at. A reader sees the old index or the new one, never a part, and a publisher that is killed
leaves the old one. Wheels are hard links from generation to generation, so none is copied twice.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from kernforge.errors import PublishError
from kernforge.publish.candidate import file_sha256
from kernforge.publish.listing import (
    CATALOGUE,
    CATALOGUE_LIMIT,
    Listed,
    damaged,
    read_catalogue,
)

CURRENT = "current"
_GENERATIONS = "generations"
_DRAFT = ".draft-"
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
_POLL_SECONDS = 0.2
_FRONT = (
    '<!DOCTYPE html>\n<meta charset="utf-8"><title>Wheels</title>'
    '<meta http-equiv="refresh" content="0; url=current/"><a href="current/">Wheels</a>\n'
)

Waiting = Callable[[float], None]
"""Called with the seconds waited so far while another publisher holds the folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What an index shows now: its folder (None where it is new), wheels and told address."""

    path: Path | None
    wheels: tuple[Listed, ...]
    base_url: str | None


@contextlib.contextmanager
def faults_told(root: Path) -> Iterator[None]:
    """Tell what the file system refuses as faults of the index.

    Raises:
        PublishError: ``index-full`` or ``index-unwritable``.
    """
    try:
        yield
    except OSError as error:
        raise _fault(error, root) from error


def _fault(error: OSError, root: Path) -> PublishError:
    if error.errno in _NO_SPACE:
        return PublishError(
            "index-full",
            f"No space is left for the index {str(root)!r}; it stays as it was",
            hint="free some; every wheel is kept once and never removed",
        )
    return PublishError(
        "index-unwritable",
        f"The index {str(root)!r} cannot be written: {error.strerror or error}",
    )


@contextlib.contextmanager
def claimed(root: Path, *, waiting: Waiting) -> Iterator[None]:
    """Hold the folder for one publisher; the kernel lets go when it dies.

    Raises:
        PublishError: ``index-foreign`` where the folder holds something else.
    """
    with faults_told(root):
        _check_ours(root)
        if not (root / _GENERATIONS).exists():
            (root / _GENERATIONS).mkdir(parents=True, exist_ok=True)
            for folder in (root, root / _GENERATIONS):
                folder.chmod(0o755)  # a web server reads it, whatever our umask
    lock, waited = FileLock(root / ".lock"), 0.0
    while not _taken(lock, root):
        waiting(waited)
        waited += _POLL_SECONDS
    try:
        yield
    finally:
        lock.release()


def _taken(lock: FileLock, root: Path) -> bool:
    try:
        lock.acquire(timeout=_POLL_SECONDS)
    except Timeout:  # an OSError too, and no fault
        return False
    except OSError as error:
        raise _fault(error, root) from error
    return True


def _check_ours(root: Path) -> None:
    if not root.exists() or (root / _GENERATIONS).is_dir():
        return
    if not root.is_dir() or any(root.iterdir()):
        raise PublishError(
            "index-foreign",
            f"{str(root)!r} is there and is no index of ours",
            hint="name a new or empty folder",
        )


def read_shown(root: Path) -> Shown:
    """What an index shows, every wheel's bytes held against the catalogue.

    Raises:
        PublishError: ``index-damaged``.
    """
    link = root / CURRENT
    if not link.is_symlink():
        if link.exists():
            raise damaged(str(root), "'current' is no link")
        return Shown(path=None, wheels=(), base_url=None)
    folder = link.parent / link.readlink()
    if folder.parent != root / _GENERATIONS or folder.is_symlink() or not folder.is_dir():
        raise damaged(str(root), "'current' does not lead to a generation of its own")
    wheels, base_url = read_catalogue(_plain_bytes(folder / CATALOGUE, root), str(root))
    for wheel in wheels:
        _check_bytes(folder / wheel.place, wheel, root)
    return Shown(path=folder, wheels=wheels, base_url=base_url)


def _plain_bytes(path: Path, root: Path) -> bytes:
    try:
        if not stat.S_ISREG(path.lstat().st_mode) or path.lstat().st_size > CATALOGUE_LIMIT:
            raise damaged(str(root), f"{path.name!r} is no plain file, or too large")
        return path.read_bytes()
    except OSError as error:
        raise damaged(str(root), f"{path.name!r} cannot be read: {error.strerror}") from error


def _check_bytes(path: Path, wheel: Listed, root: Path) -> None:
    related = [(path, wheel.sha256), (_beside(path, "metadata"), wheel.metadata_sha256)]
    if wheel.provenance_sha256 is not None:
        related.append((_beside(path, "provenance.json"), wheel.provenance_sha256))
    try:
        for file, sha256 in related:
            if not stat.S_ISREG(file.lstat().st_mode):
                raise damaged(str(root), f"{file.name!r} is no plain file")
            if file_sha256(file) != sha256:
                raise damaged(str(root), f"{file.name!r} has other bytes than were published")
    except OSError as error:
        raise damaged(str(root), f"{wheel.file!r} cannot be read: {error.strerror}") from error


def _beside(wheel: Path, kind: str) -> Path:
    return wheel.with_name(f"{wheel.name}.{kind}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """The bytes of one new wheel: its file, METADATA and provenance statement."""

    listed: Listed
    path: Path
    metadata: bytes
    provenance: bytes | None


def write_generation(
    root: Path, shown: Shown, added: tuple[Added, ...], pages: Mapping[str, str]
) -> Path:
    """Write the next generation and show it; answers its folder. The caller holds the folder.

    Args:
        root: the index's folder.
        shown: what it shows now; its wheels all stay.
        added: wheels that are not there yet.
        pages: path and text of every page, the catalogue among them.

    Raises:
        PublishError: ``index-full``, ``index-unwritable`` or ``wheel-changed``.
    """
    home = root / _GENERATIONS
    with faults_told(root):
        _sweep(home, keep=shown.path)
        draft = home / f"{_DRAFT}{uuid.uuid4().hex}"
        try:
            _fill(draft, shown, added, pages)
            place = home / _next_name(home)
            _sync_tree(draft)
            draft.rename(place)
            _sync(home)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)  # a full disk needs the room at once
            raise
        _show(root, place)
        _sweep(home, keep=shown.path, shown=place)
    return place


def _next_name(home: Path) -> str:
    numbers = [int(path.name) for path in home.iterdir() if path.name.isdecimal()]
    return f"{max(numbers, default=0) + 1:06}"


def _sweep(home: Path, *, keep: Path | None, shown: Path | None = None) -> None:
    """Remove drafts of killed publishers and generations that nobody can still be reading."""
    for path in home.iterdir():
        if path not in {keep, shown}:
            shutil.rmtree(path, ignore_errors=True)


def _fill(draft: Path, shown: Shown, added: tuple[Added, ...], pages: Mapping[str, str]) -> None:
    draft.mkdir()
    if shown.path is not None:
        for wheel in shown.wheels:
            _carry(shown.path / wheel.place, draft / wheel.place, wheel)
    for new in added:
        target = draft / new.listed.place
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy(new.path, target)
        if file_sha256(target) != new.listed.sha256:
            raise PublishError(
                "wheel-changed",
                f"{new.path.name} changed while it was published",
                hint="publish again when nothing writes to it",
            )
        _beside(target, "metadata").write_bytes(new.metadata)
        if new.provenance is not None:
            _beside(target, "provenance.json").write_bytes(new.provenance)
    for name, text in pages.items():
        page = draft / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")


def _carry(source: Path, target: Path, wheel: Listed) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    kinds = ["metadata", *(["provenance.json"] if wheel.provenance_sha256 else [])]
    for old, new in ((source, target), *((_beside(source, k), _beside(target, k)) for k in kinds)):
        try:
            os.link(old, new, follow_symlinks=False)
        except OSError as error:
            if error.errno in _NO_SPACE:
                raise
            _copy(old, new)  # a file system without hard links


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    target.chmod(0o644)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_tree(root: Path) -> None:
    for folder, _, files in os.walk(root, topdown=False):
        Path(folder).chmod(0o755)
        for name in files:
            path = Path(folder, name)
            if path.stat().st_nlink == 1:  # a hard link was synced when it was first written
                path.chmod(0o644)
                _sync(path)
        _sync(Path(folder))


def _show(root: Path, place: Path) -> None:
    link = root / f".{CURRENT}-{uuid.uuid4().hex}"
    try:
        link.symlink_to(place.relative_to(root))
        link.replace(root / CURRENT)
    except BaseException:
        link.unlink(missing_ok=True)
        raise
    _sync(root)
    for left in root.glob(f".{CURRENT}-*"):
        left.unlink(missing_ok=True)
    front = root / "index.html"
    if not front.exists():
        front.write_text(_FRONT, encoding="utf-8")
