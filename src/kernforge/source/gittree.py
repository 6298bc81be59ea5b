"""What a commit holds, proved by hashes: its files from the commit's own hash down to each byte.

git checks hashes when objects arrive. This checks them again when they are used, so that neither a
damaged cache nor git's own conversions (line ends, keywords, filters) can change a tree unseen.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernforge.errors import SourceError

GITLINK = "160000"
"""Mode of an entry that is a submodule's commit."""

_LINK = "120000"
_FILE = "100"
_EXECUTABLE = "100755"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One file, link or submodule of a commit: octal mode, object's hash, path in the commit."""

    mode: str
    oid: str
    path: str


def read_listing(data: bytes) -> tuple[Entry, ...]:
    """The output of ``git ls-tree -r -z``."""
    entries = []
    for line in data.split(b"\0"):
        if line:
            head, _, path = line.partition(b"\t")
            mode, _, oid = head.decode("ascii").split(" ")
            entries.append(Entry(mode=mode, oid=oid, path=os.fsdecode(path)))
    return tuple(entries)


def object_id(kind: str, data: bytes) -> str:
    """The hash of an object with this content."""
    head = f"{kind} {len(data)}\0".encode()
    return hashlib.sha1(head + data, usedforsecurity=False).hexdigest()


def commit_tree(commit: str, data: bytes) -> str:
    """The tree that a commit names.

    Args:
        commit: its hash.
        data: its content.

    Raises:
        SourceError: ``source-damaged`` where the content has another hash.
    """
    if object_id("commit", data) != commit:
        raise damaged(commit, "the commit's own hash differs")
    return data.split(b"\n", 1)[0].removeprefix(b"tree ").decode("ascii", "replace")


def commit_time(data: bytes) -> int | None:
    """The committer's date (seconds since 1970) in a commit's content."""
    for line in data.split(b"\n\n", 1)[0].split(b"\n"):
        if line.startswith(b"committer "):
            words = line.split(b" ")
            return int(words[-2]) if len(words) > 2 and words[-2].isdigit() else None
    return None


def damaged(commit: str, why: str) -> SourceError:
    """The fault of a cached repository that no longer gives what its hashes say."""
    return SourceError(
        "source-damaged",
        f"The cached repository does not give commit {commit}: {why}",
        hint="remove the cache's folder of that repository and run `kernforge fetch` again",
    )


def root_hash(entries: Iterable[Entry]) -> str:
    """The hash of the tree that holds exactly these entries."""
    nested: dict[str, object] = {}
    for entry in entries:
        *folders, name = entry.path.split("/")
        place = nested
        for folder in folders:
            below = place.setdefault(folder, {})
            if not isinstance(below, dict):
                return ""  # a file and a folder of one name: no tree has that
            place = below
        place[name] = entry
    return _tree_hash(nested)


def _tree_hash(tree: dict[str, object]) -> str:
    rows = []
    for name, value in tree.items():
        raw = os.fsencode(name)
        if isinstance(value, Entry):
            rows.append((raw, value.mode.encode(), value.oid))
        elif isinstance(value, dict):
            rows.append((raw + b"/", b"40000", _tree_hash(value)))
    content = b"".join(
        mode + b" " + raw.rstrip(b"/") + b"\0" + bytes.fromhex(oid)
        for raw, mode, oid in sorted(rows)
    )
    return object_id("tree", content)


def selected(entries: Iterable[Entry], paths: Iterable[str]) -> tuple[Entry, ...]:
    """The entries in these folders, or that are one of these paths; no paths mean all."""
    wanted = tuple(paths)
    if not wanted:
        return tuple(entries)
    return tuple(e for e in entries if any(within(e.path, path) for path in wanted))


def within(path: str, folder: str) -> bool:
    """Whether a path is a folder, or in it."""
    return path == folder or path.startswith(f"{folder}/")


def check_files(base: Path, commit: str, entries: tuple[Entry, ...]) -> None:
    """Compare what stands on disk with a commit's entries, byte for byte.

    Args:
        base: the folder that the commit was written to.
        commit: its hash, for the message.
        entries: all that should stand there; submodules are passed over.

    Raises:
        SourceError: ``source-damaged``.
    """
    for entry in entries:
        if entry.mode != GITLINK and _file_hash(base / entry.path, entry.mode) != entry.oid:
            raise damaged(commit, f"{entry.path!r} has other bytes")


def _file_hash(path: Path, mode: str) -> str:
    try:
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode):
            return object_id("blob", os.fsencode(path.readlink())) if mode == _LINK else ""
        executable = bool(found.st_mode & stat.S_IXUSR)
        plain = stat.S_ISREG(found.st_mode) and mode.startswith(_FILE)
        if not plain or executable != (mode == _EXECUTABLE):
            return ""
        digest = hashlib.sha1(f"blob {found.st_size}\0".encode(), usedforsecurity=False)
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    except OSError:
        return ""
    return digest.hexdigest()
