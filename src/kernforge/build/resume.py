"""A compile that stopped goes on where it was: the sources put back, what is whole left.

ninja goes by the time of files, and by a log of the steps that ended. Sources carry one fixed date,
so a file that is put back is no newer than what was made of it, and only what is unfinished is
compiled. make and setuptools take every file that is there for whole, half-written ones too; so of
what they keep only that stays which a compiler call of the ledger has left as it is.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

from kernforge.build.ledger import Made
from kernforge.canonical import canonical_json

_STAMP = "stamp.json"
_NINJA, _CARGO = ".ninja_log", ".rustc_info.json"
_MAKE = frozenset({"Makefile", "makefile", "GNUmakefile"})
_OF_SETUPTOOLS = ("lib.linux-", "bdist.linux-")
_PRODUCTS = (".o", ".obj", ".lo", ".a", ".la", ".so")
_VERSION = 1
_CHUNK = 1 << 20


def stamp(root: Path, key: str, tree: str) -> None:
    """Say that a workspace holds the whole sources of a compile, and of which."""
    text = canonical_json({"version": _VERSION, "key": key, "tree": tree})
    draft = root / f"{_STAMP}.draft"
    draft.write_text(text, encoding="utf-8")
    draft.replace(root / _STAMP)


def is_stamped(root: Path, key: str, tree: str) -> bool:
    """Whether a workspace holds an unfinished compile of this key, from these sources."""
    try:
        found = json.loads((root / _STAMP).read_bytes())
    except (OSError, ValueError):
        return False
    return bool(found == {"version": _VERSION, "key": key, "tree": tree})


def unstamp(root: Path) -> None:
    """Say that a workspace holds nothing to go on with."""
    (root / _STAMP).unlink(missing_ok=True)


def restore(fresh: Path, tree: Path, whole: tuple[str, ...]) -> int:
    """Put back what a build changed in its sources; answers how many files that were.

    Args:
        fresh: the sources as they are placed; moved from here.
        tree: the sources that the build has worked in. What it made beside them stays.
        whole: folders in which nothing else stays: copies that a configure step edits in place.
    """
    changed = 0
    for folder in whole:
        changed += _drop_strangers(fresh / folder, tree / folder)
    for path in sorted(fresh.rglob("*")):
        place = tree / path.relative_to(fresh)
        if path.is_dir() and not path.is_symlink():
            if place.is_symlink() or (place.exists() and not place.is_dir()):
                place.unlink()
            place.mkdir(exist_ok=True)
        elif not _same(path, place):
            _remove(place)
            path.rename(place)
            changed += 1
    return changed


def drop_unfinished(root: Path, placed: frozenset[str], made: Made) -> int:
    """Remove what a program that was killed may have left half-written; answers how many files.

    Args:
        root: folder of sources, or of a build.
        placed: sources in it, by their paths.
        made: what compiler calls have left there; that stays.
    """
    dropped = 0
    front = [(root, "")]
    while front:
        folder, above = front.pop()
        entries = sorted(folder.iterdir())
        keeper = _keeper(folder.name, above, {path.name for path in entries})
        for path in entries:
            name = path.relative_to(root).as_posix()
            if path.is_dir() and not path.is_symlink():
                front.append((path, keeper))
            elif name in placed or not _is_doubtful(path, keeper):
                continue
            elif not _is_plain(path) or not made.holds(name, path):
                path.unlink()
                dropped += 1
    return dropped


def _keeper(folder: str, above: str, names: set[str]) -> str:
    """Which program looks after a folder: ``ninja`` and ``cargo`` know what they have finished.

    Args:
        folder: its name.
        above: which one looks after the folder that it lies in; empty for none.
        names: what lies in it.
    """
    if above == "cargo" or _CARGO in names:
        return "cargo"
    if _NINJA in names:
        return "ninja"
    if folder.startswith(_OF_SETUPTOOLS):  # also where ninja works in the folder above it
        return ""
    return "make" if above and names & _MAKE else above


def _is_doubtful(path: Path, keeper: str) -> bool:
    """Whether a file may be half-written: ninja makes what it has not finished again.

    A make that ninja has started is asked again and believes its products; its other files may be
    a copy of sources, which ninja holds to be finished.
    """
    product = path.name.endswith(_PRODUCTS) or ".so." in path.name
    return not keeper or (keeper == "make" and product)


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _drop_strangers(fresh: Path, tree: Path) -> int:
    count = 0
    for path in sorted(tree.rglob("*"), reverse=True):
        if not os.path.lexists(fresh / path.relative_to(tree)):
            _remove(path)
            count += 1
    return count


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _same(one: Path, other: Path) -> bool:
    try:
        a, b = one.lstat(), other.lstat()
    except OSError:
        return False
    if (a.st_mode, a.st_size) != (b.st_mode, b.st_size):
        return False
    if stat.S_ISLNK(a.st_mode):
        return one.readlink() == other.readlink()
    if a.st_mtime_ns != b.st_mtime_ns:
        return False
    with one.open("rb") as first, other.open("rb") as second:
        while chunk := first.read(_CHUNK):
            if chunk != second.read(_CHUNK):
                return False
    return True
