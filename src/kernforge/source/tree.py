"""Trees of plain files: their content hash, and copies with normal modes and times.

A tree's hash covers names, contents, link targets and the executable bit; never owners, times or
the order in which a file system lists things.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from kernforge.errors import SourceError

_NEVER = frozenset({".git", ".hg", ".svn", "__pycache__", ".venv", ".mypy_cache", ".ruff_cache"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One file or link of a tree. ``path`` is relative, with ``/``; ``link`` is a link's target."""

    path: str
    executable: bool
    link: str | None


def _skipped(relative: str, name: str, exclude: tuple[str, ...]) -> bool:
    return name in _NEVER or name.endswith(".pyc") or any(fnmatchcase(relative, g) for g in exclude)


def _checked_link(root: Path, path: Path, relative: str) -> str:
    target = path.readlink()
    landing = Path(os.path.normpath(path.parent / target))
    if target.is_absolute() or root not in landing.parents:
        raise SourceError(
            "tree-link-outside",
            f"{relative!r} in {str(root)!r} is a link to {str(target)!r}, outside the tree",
            hint="replace the link by what it points to, or exclude it",
        )
    return str(target)


def entries(root: Path, exclude: tuple[str, ...] = ()) -> tuple[Entry, ...]:
    """List a tree, sorted by path. Version control folders and Python's caches are left out.

    Args:
        root: the folder.
        exclude: globs over relative paths, as ``build/*``; ``*`` crosses ``/``.

    Raises:
        SourceError: ``source-missing``, ``tree-unreadable``, ``tree-link-outside`` or
            ``tree-special-file``.
    """
    if not root.is_dir():
        raise SourceError(
            "source-missing", f"{str(root)!r} is not a folder", hint="mend the recipe's path"
        )
    return tuple(sorted(_walk(root, "", exclude), key=lambda entry: entry.path))


def _walk(root: Path, below: str, exclude: tuple[str, ...]) -> Iterator[Entry]:
    try:
        listing = sorted(os.scandir(root / below), key=lambda item: item.name)
    except OSError as error:
        raise SourceError(
            "tree-unreadable", f"{str(root / below)!r} cannot be read: {error.strerror}"
        ) from error
    for item in listing:
        relative = f"{below}/{item.name}" if below else item.name
        if _skipped(relative, item.name, exclude):
            continue
        if item.is_symlink():
            link = _checked_link(root, Path(item.path), relative)
            yield Entry(path=relative, executable=False, link=link)
        elif item.is_dir():
            yield from _walk(root, relative, exclude)
        elif item.is_file():
            mode = item.stat().st_mode
            yield Entry(path=relative, executable=bool(mode & stat.S_IXUSR), link=None)
        else:
            raise SourceError(
                "tree-special-file",
                f"{relative!r} in {str(root)!r} is neither file, folder nor link",
                hint="remove it, or exclude it",
            )


def _file_digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SourceError(
            "tree-unreadable", f"{str(path)!r} cannot be read: {error.strerror}"
        ) from error


def tree_hash(root: Path, exclude: tuple[str, ...] = ()) -> str:
    """SHA-256 (64 hex digits) over a tree.

    Raises:
        SourceError: as :func:`entries`.
    """
    digest = hashlib.sha256(b"kernforge tree 1\0")
    for entry in entries(root, exclude):
        name = os.fsencode(entry.path)
        if entry.link is not None:
            digest.update(b"l\0%b\0%b\0" % (name, os.fsencode(entry.link)))
        else:
            kind = b"x" if entry.executable else b"f"
            content = _file_digest(root / entry.path).encode()
            digest.update(b"%b\0%b\0%b\0" % (kind, name, content))
    return digest.hexdigest()


def copy_tree(root: Path, into: Path, *, exclude: tuple[str, ...], epoch: int) -> None:
    """Copy a tree: modes 644 or 755, all times ``epoch`` (seconds since 1970).

    Raises:
        SourceError: as :func:`entries`.
    """
    into.mkdir(parents=True, exist_ok=True)
    for entry in entries(root, exclude):
        target = into / entry.path
        target.parent.mkdir(parents=True, exist_ok=True)
        if entry.link is not None:
            target.symlink_to(entry.link)
            os.utime(target, (epoch, epoch), follow_symlinks=False)
            continue
        shutil.copyfile(root / entry.path, target)
        target.chmod(0o755 if entry.executable else 0o644)
        os.utime(target, (epoch, epoch))
    for folder, _, _ in os.walk(into, topdown=False):
        Path(folder).chmod(0o755)
        os.utime(folder, (epoch, epoch))
