"""Changes to a tree, made in memory first and written all or not at all.

What is removed or replaced is moved aside, never written into, so that a file that shares its
bytes with a cache by a hard link leaves the cache as it is.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kernforge.errors import SourceError
from kernforge.source.patch import FILE, LINK, PROGRAM

_LONGEST = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A file or link: its bytes (of a link, the target) and git's mode for its kind."""

    data: bytes
    mode: int

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """One file before and after. Hashes are SHA-256 of its bytes; None where there is no file."""

    path: str
    before: str | None
    after: str | None
    mode_before: int | None
    mode_after: int | None


def _parents(path: str) -> Iterator[str]:
    """The folders above a path, outermost first."""
    parts = path.split("/")
    return ("/".join(parts[:end]) for end in range(1, len(parts)))


def path_problem(path: str) -> str | None:
    """Why a path names nothing that a tree may hold, or None where it does."""
    parts = path.split("/")
    if path.startswith("/"):
        return "is absolute"
    if {"", ".", ".."} & set(parts):
        return "is not plain: it holds '..', '.' or '//'"
    if ".git" in {part.lower() for part in parts}:
        return "lies in a repository's own folder"
    if (
        "\0" in path
        or len(os.fsencode(path)) > _LONGEST
        or any(len(os.fsencode(p)) > 255 for p in parts)
    ):
        return "is no name that a file can have"
    return None


def _in_the_way(path: str, other: str) -> SourceError:
    return SourceError(
        "tree-path-taken",
        f"{path!r} cannot be made: {other!r} is in its way",
        hint="remove or rename that first",
    )


class Draft:
    """A tree with changes that are not written yet.

    Attributes:
        tree: the folder.
    """

    def __init__(self, tree: Path, files: dict[str, Content | None] | None = None) -> None:
        self.tree = tree
        self._files = dict(files or {})

    def copy(self) -> Draft:
        """The same draft, to be changed apart."""
        return Draft(self.tree, self._files)

    def read(self, path: str) -> Content | None:
        """A file or link as the draft has it; None where there is none.

        Raises:
            SourceError: ``tree-link-in-path``, ``tree-special-file`` or ``tree-unreadable``.
        """
        known = path in self._files
        for parent in _parents(path):
            known = known or parent in self._files
            if not known and (self.tree / parent).is_symlink():
                raise SourceError(
                    "tree-link-in-path",
                    f"{path!r} leads through the link {parent!r}",
                    hint="name the file by the path that it really has",
                )
        return self._seen(path)

    def _seen(self, path: str) -> Content | None:
        """As :meth:`read`; below a link there is nothing that could be meant."""
        if path in self._files:
            return self._files[path]
        if any(parent in self._files for parent in _parents(path)):
            return None
        return _on_disk(self.tree, path)

    def write(self, path: str, content: Content | None) -> None:
        """Put a file, or None to remove it. Nothing is written to disk."""
        self._files[path] = content

    def changes(self, since: Draft) -> tuple[Touched, ...]:
        """The files that differ from an earlier draft, by path.

        Raises:
            SourceError: as :meth:`read`.
        """
        found = []
        for path, after in sorted(self._files.items()):
            before = since._seen(path)
            if before != after:
                found.append(
                    Touched(
                        path=path,
                        before=before.digest if before else None,
                        after=after.digest if after else None,
                        mode_before=before.mode if before else None,
                        mode_after=after.mode if after else None,
                    )
                )
        return tuple(found)

    def check(self) -> None:
        """Refuse files that stand where a folder must be, folders where a file, and wild links.

        Raises:
            SourceError: ``tree-path-taken`` or ``tree-link-outside``.
        """
        for path, content in self._files.items():
            if content is None:
                continue
            for parent in _parents(path):
                if self._holds_file(parent):
                    raise _in_the_way(path, parent)
            for below in self._below(path):
                raise _in_the_way(path, below)
            if content.mode == LINK:
                _check_link(path, content)

    def _holds_file(self, path: str) -> bool:
        if path in self._files:
            return self._files[path] is not None
        return os.path.lexists(self.tree / path) and not (self.tree / path).is_dir()

    def _below(self, path: str) -> Iterator[str]:
        if (self.tree / path).is_symlink() or not (self.tree / path).is_dir():
            return
        for folder, _, names in os.walk(self.tree / path):
            for name in names:
                below = (Path(folder) / name).relative_to(self.tree).as_posix()
                if below not in self._files or self._files[below] is not None:
                    yield below

    def land(self) -> None:
        """Write everything to the tree; if that fails midway, put all back as it was.

        Raises:
            SourceError: ``tree-unwritable``, or as :meth:`check`.
        """
        self.check()
        wanted = {p: c for p, c in self._files.items() if _on_disk(self.tree, p) != c}
        if not wanted:
            return
        try:
            aside = Path(tempfile.mkdtemp(prefix=".kernforge-", dir=self.tree))
        except OSError as error:
            raise _unwritable(self.tree, error) from error
        try:
            made = {
                p: _staged(aside / f"new{n}", c) for n, (p, c) in enumerate(wanted.items()) if c
            }
            _swap(self.tree, aside, wanted, made)
        except OSError as error:
            raise _unwritable(self.tree, error) from error
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def _unwritable(tree: Path, error: OSError) -> SourceError:
    return SourceError(
        "tree-unwritable",
        f"{str(tree)!r} cannot be changed: {error.strerror}; it is left as it was",
        hint="free space, or mend its permissions",
    )


def _on_disk(tree: Path, path: str) -> Content | None:
    if any((tree / parent).is_symlink() for parent in _parents(path)):
        return None
    try:
        status = (tree / path).lstat()
        if stat.S_ISLNK(status.st_mode):
            return Content(data=os.fsencode((tree / path).readlink()), mode=LINK)
        if stat.S_ISREG(status.st_mode):
            mode = PROGRAM if status.st_mode & stat.S_IXUSR else FILE
            return Content(data=(tree / path).read_bytes(), mode=mode)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SourceError(
            "tree-unreadable", f"{path!r} in {str(tree)!r} cannot be read: {error.strerror}"
        ) from error
    if stat.S_ISDIR(status.st_mode):
        return None
    raise SourceError("tree-special-file", f"{path!r} is neither file, folder nor link")


def _check_link(path: str, content: Content) -> None:
    target = PurePosixPath(os.fsdecode(content.data))
    landing = os.path.normpath(PurePosixPath(path).parent / target)
    if b"\0" in content.data or target.is_absolute() or landing.split("/")[0] in {"..", "."}:
        raise SourceError(
            "tree-link-outside",
            f"{path!r} would be a link to {str(target)!r}, outside the tree",
            hint="put a file there in its place",
        )


def _staged(place: Path, content: Content) -> Path:
    if content.mode == LINK:
        place.symlink_to(os.fsdecode(content.data))
    else:
        place.write_bytes(content.data)
        place.chmod(0o755 if content.mode == PROGRAM else 0o644)
    return place


def _move(undo: ExitStack, source: Path, target: Path) -> None:
    source.rename(target)
    undo.callback(target.rename, source)


def _step(undo: ExitStack, do: Callable[[], None], back: Callable[[], None]) -> None:
    do()
    undo.callback(back)


def _swap(
    tree: Path, aside: Path, wanted: dict[str, Content | None], made: dict[str, Path]
) -> None:
    """Move old files out and new ones in. Whatever stops it, the steps taken are undone."""
    with ExitStack() as undo:
        for number, path in enumerate(sorted(wanted)):
            if _on_disk(tree, path) is not None:
                _move(undo, tree / path, aside / f"old{number}")
        for folder in _emptied(tree, wanted):
            _step(undo, folder.rmdir, folder.mkdir)
        for path, staged in made.items():
            for parent in _parents(path):
                folder = tree / parent
                if not folder.exists():
                    _step(undo, folder.mkdir, folder.rmdir)
            _move(undo, staged, tree / path)
        undo.pop_all()


def _emptied(tree: Path, wanted: dict[str, Content | None]) -> Iterator[Path]:
    """Folders that removals have left empty, innermost first; those in a new file's place too."""
    above = {parent for path in wanted for parent in _parents(path)}
    inside = {
        (Path(folder) / name).relative_to(tree).as_posix()
        for path, content in wanted.items()
        if content is not None and (tree / path).is_dir() and not (tree / path).is_symlink()
        for folder, names, _ in os.walk(tree / path)
        for name in names
    }
    taken = {path for path, content in wanted.items() if content is not None}
    for path in sorted(above | inside | taken, key=lambda name: (-name.count("/"), name)):
        folder = tree / path
        if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
            yield folder
