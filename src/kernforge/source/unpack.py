"""Writes an archive's members as a tree of plain files; our own check of every member.

Refused: names that are absolute or lead upwards, members below a link or below a file, links that
lead outside (by text, and by following them once all is written), hard links to what is not an
earlier file, devices and pipes, two files of one name, and more than the limits allow. Dropped:
``.git`` folders and files, owners, times, set-uid bits. Modes become 644 or 755.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kernforge.errors import SourceError
from kernforge.source.formats import Member, damaged, reading
from kernforge.source.settings import Limits

_CHUNK = 1 << 20
_MOST_RATIO = 200
_RATIO_FLOOR = 1 << 30  # below 1 GiB a high ratio harms nobody


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacking:
    """How an archive is unpacked.

    Attributes:
        what: what it is, for messages.
        root: the folder that no link may leave.
        below: where in it the members go; ``""`` for the root itself.
        strip: how many leading folders each name loses.
        packed: the archive's own size in bytes.
        limits: the most files and bytes.
    """

    what: str
    root: Path
    below: str = ""
    strip: int = 0
    packed: int
    limits: Limits


def unpack(members: Iterable[Member], order: Unpacking) -> tuple[str, ...]:
    """Write members; answers the paths of all files and links, sorted.

    Raises:
        SourceError: ``archive-member``, ``archive-bomb``, ``archive-strip``, ``archive-empty``, or
            as :func:`kernforge.source.formats.members`.
    """
    tree = _Tree(order)
    for member in bounded(members, order):
        tree.add(member)
    tree.check_links()
    if not tree.files and not tree.links:
        raise SourceError("archive-empty", f"{order.what} holds no file")
    return tuple(sorted(tree.files | tree.links))


def bounded(members: Iterable[Member], order: Unpacking) -> Iterator[Member]:
    """The same members; by what they declare, they must stay within the limits.

    Raises:
        SourceError: ``archive-bomb``.
    """
    total = 0
    for number, member in enumerate(members):
        if number >= order.limits.members:
            raise _bomb(order, f"more than {order.limits.members} members")
        total += member.size if member.kind == "file" else 0
        _check_size(total, order)
        yield member


def _check_size(total: int, order: Unpacking) -> None:
    if total > order.limits.tree:
        raise _bomb(order, f"more than {order.limits.tree} bytes")
    if total > _RATIO_FLOOR and total > _MOST_RATIO * order.packed:
        raise _bomb(order, f"more than {_MOST_RATIO} times its own {order.packed} bytes")


def _bomb(order: Unpacking, why: str) -> SourceError:
    return SourceError(
        "archive-bomb", f"{order.what} unpacks to {why}", hint="is it the right archive?"
    )


class _Tree:
    """The tree under way. Paths in the sets are relative to where the members go."""

    def __init__(self, order: Unpacking) -> None:
        self.order = order
        self.base = order.root / order.below
        self.files: set[str] = set()
        self.links: set[str] = set()
        self.folders: set[str] = {""}
        self.total = 0

    def fault(self, name: str, why: str) -> SourceError:
        return SourceError(
            "archive-member",
            f"{self.order.what} holds {name!r}, {why}",
            hint="such an archive is not unpacked; ask upstream for a clean one",
        )

    def add(self, member: Member) -> None:
        """Write one member, or refuse it."""
        path = self._path(member.name, member)
        if path is None:
            return
        if member.kind == "folder":
            self._make_folder(path, member.name)
            return
        self._make_folder(posixpath.dirname(path), member.name)
        if self._taken(path):
            raise self.fault(member.name, "a second time, or as a folder too")
        if member.kind == "special":
            raise self.fault(member.name, "a device, pipe or socket")
        if member.kind == "link":
            self._make_link(path, member)
        else:
            self._make_file(path, member)

    def _taken(self, path: str) -> bool:
        return path in self.files or path in self.links or path in self.folders

    def _path(self, name: str, member: Member) -> str | None:
        """A member's place; None for what strip or the rule on ``.git`` takes away."""
        parts = self._parts(name)
        rest = parts[self.order.strip :]
        if not rest and parts and member.kind != "folder":
            raise SourceError(
                "archive-strip",
                f"{self.order.what} holds {name!r}; strip {self.order.strip} leaves nothing of it",
                hint="lower `strip`",
            )
        if not rest or any(part.lower() == ".git" for part in rest):
            return None
        return "/".join(rest)

    def _parts(self, name: str) -> list[str]:
        if name.startswith("/"):
            raise self.fault(name, "an absolute name")
        if "\0" in name:
            raise self.fault(name, "a name with a NUL")
        parts = [part for part in name.split("/") if part not in {"", "."}]
        if ".." in parts:
            raise self.fault(name, "which leads out of its folder")
        return parts

    def _make_folder(self, path: str, name: str) -> None:
        if path in self.folders:
            return
        if self._taken(path):
            raise self.fault(name, "below what is no folder")
        self._make_folder(posixpath.dirname(path), name)
        with self._collisions(name):
            (self.base / path).mkdir()
        self.folders.add(path)

    @contextlib.contextmanager
    def _collisions(self, name: str) -> Iterator[None]:
        try:
            yield
        except FileExistsError as error:
            why = "whose name this file system does not tell from another's"
            raise self.fault(name, why) from error
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            raise self.fault(name, "whose name is too long for this file system") from error

    def _make_link(self, path: str, member: Member) -> None:
        target = member.target
        below = posixpath.join(self.order.below, posixpath.dirname(path))
        landing = posixpath.normpath(posixpath.join(below, target))
        if not target or target.startswith("/") or landing.split("/")[0] == ".." or "\0" in target:
            raise self.fault(member.name, f"a link to {target!r}, outside")
        with self._collisions(member.name):
            (self.base / path).symlink_to(target)
        self.links.add(path)

    def _make_file(self, path: str, member: Member) -> None:
        if member.kind == "hardlink":
            source = self._path(member.target, member)
            if source not in self.files:
                raise self.fault(member.name, f"a hard link to {member.target!r}, no earlier file")
            with (self.base / str(source)).open("rb") as data:
                executable = bool(os.fstat(data.fileno()).st_mode & stat.S_IXUSR)
                self._write(path, data, member, executable=executable)
        elif member.data is not None:
            self._write(path, member.data, member, executable=member.executable)
        self.files.add(path)

    def _write(self, path: str, data: IO[bytes], member: Member, *, executable: bool) -> None:
        with self._collisions(member.name):
            mode = 0o755 if executable else 0o644
            opened = os.open(self.base / path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        got = 0
        with open(opened, "wb") as file:  # noqa: PTH123 - Path cannot open a descriptor
            while chunk := self._read(data):
                got += len(chunk)
                self.total += len(chunk)  # hard links too, whose size no member declares
                _check_size(self.total, self.order)
                file.write(chunk)
            os.fchmod(file.fileno(), mode)  # whatever the umask is
        if member.kind == "file" and got != member.size:
            raise damaged(self.order.what, f"{member.name!r} has {got} of {member.size} bytes")

    def _read(self, data: IO[bytes]) -> bytes:
        with reading(self.order.what):
            return data.read(_CHUNK)

    def check_links(self) -> None:
        # By text alone a link may stay inside and, by way of other links, still lead out.
        root = Path(os.path.realpath(self.order.root))
        for path in sorted(self.links):
            landing = Path(os.path.realpath(self.base / path))
            if landing != root and root not in landing.parents:
                raise self.fault(path, "a link that leads outside by way of other links")
