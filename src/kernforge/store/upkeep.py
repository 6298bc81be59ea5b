"""Keeping the cache small: removal by key, leftovers, and the oldest entries first."""

from __future__ import annotations

import re
from pathlib import Path

from filelock import FileLock, Timeout

from kernforge.errors import SelectionError
from kernforge.store.local import Store

_UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
          "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}  # fmt: skip
_MIN_DIGITS = 8
_LASTING = frozenset({"report"})
"""Kinds that nothing can make again here: what a GPU elsewhere has said of a wheel."""


def parse_size(text: str) -> int:
    """Read an amount of bytes such as ``20 GiB``.

    Raises:
        SelectionError: ``size-invalid``.
    """
    match = re.fullmatch(r"\s*(\d{1,12}(?:\.\d{1,12})?)\s*([A-Za-z]*)\s*", text, re.ASCII)
    if match is None or match[2].lower() not in _UNITS:
        raise SelectionError(
            "size-invalid", f"{text!r} is not an amount of bytes", hint="write it as 20 GiB"
        )
    return int(float(match[1]) * _UNITS[match[2].lower()])


def remove_entries(store: Store, prefixes: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Remove the one entry that each prefix names, of every kind; answers kind and key.

    Raises:
        SelectionError: ``key-missing``, ``key-ambiguous`` or ``key-short``.
    """
    keys = store.listing()
    doomed: list[tuple[str, str]] = []
    for prefix in prefixes:
        if len(prefix) < _MIN_DIGITS:
            raise SelectionError("key-short", f"{prefix!r} is too short: give 8 digits or more")
        found = [(kind, key) for kind, key in keys if key.startswith(prefix)]
        if not found:
            hint = "`kernforge cache ls` lists them"
            raise SelectionError("key-missing", f"The store holds no entry {prefix!r}", hint=hint)
        if len({key for _, key in found}) > 1:
            raise SelectionError("key-ambiguous", f"{len(found)} entries begin with {prefix!r}")
        doomed += found
    for kind, key in doomed:
        store.remove(kind, key)
    return tuple(doomed)


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files below a folder; links are not followed."""
    if path.is_symlink() or path.is_file():
        return path.lstat().st_size
    return sum(item.lstat().st_size for item in path.rglob("*") if not item.is_dir())


def _drop(store: Store, path: Path) -> tuple[str, int]:
    size = size_of(path)
    store.discard(path)
    return str(path.relative_to(store.root)), size


def _free(store: Store, name: str) -> bool:
    lock = FileLock(store.folder("locks") / f"{name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    lock.release()
    return True


def _leftovers(store: Store) -> list[Path]:
    store.sweep()
    found = list((store.root / "quarantine").glob("*"))
    found += [path for path in (store.root / "envs").glob(".*.draft")
              if _free(store, f"env-{path.name[1:].removesuffix('.draft')}")]  # fmt: skip
    busy = {path.name[5:29] for path in (store.root / "locks").glob("work-*.lock")
            if not _free(store, path.stem)}  # fmt: skip
    found += [path for path in (store.root / "work").glob("*") if path.name not in busy]
    return found


def _unused_envs(store: Store) -> list[Path]:
    """Environments, none while anything is built: a build holds no lock of the one it uses."""
    held = (path.stem for path in (store.root / "locks").glob("*.lock"))
    if any(not _free(store, name) for name in held):
        return []
    return [path for path in (store.root / "envs").glob("*") if not path.name.startswith(".")]


def collect(store: Store, *, keep: int) -> tuple[tuple[str, int], ...]:
    """Remove leftovers, then entries and environments used longest ago, until ``keep`` bytes.

    Answers what was removed and its size in bytes. What a running build holds is left alone, and so
    are reports of GPUs, which only `cache rm` removes.
    """
    removed = [_drop(store, path) for path in _leftovers(store)]
    paths = [store.place(kind, key) for kind, key in store.listing() if kind not in _LASTING]
    paths += _unused_envs(store)
    kept = [(path.stat().st_mtime, path, size_of(path)) for path in paths]
    total = sum(size for _, _, size in kept)
    for _, path, size in sorted(kept):
        if total <= keep:
            break
        removed.append(_drop(store, path))
        total -= size
    return tuple(removed)
