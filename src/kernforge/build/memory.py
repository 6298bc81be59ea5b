"""How much memory a build's compiles may take, and the control group that holds them to it.

Reads /proc and the file systems of control groups (v1 and v2); starts nothing.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernforge.build.groups import Group, own_groups, read_words

_LIMITS = {1: "memory.limit_in_bytes", 2: "memory.max"}
_SWAP = {1: "memory.memsw.limit_in_bytes", 2: "memory.swap.max"}  # v1: memory and swap together
_USED = {1: "memory.usage_in_bytes", 2: "memory.current"}
_UNLIMITED = 1 << 60
_PREFIX = "kernforge-"
_TRIES, _PAUSE = 40, 0.05  # seconds between two tries to remove a group
_RESERVE_SHARE, _RESERVE_LEAST, _RESERVE_MOST = 10, 256 << 20, 4 << 30
_SLACK_LEAST, _SLACK_SHARE = 1 << 30, 8  # above the budget: build tools, page cache in use


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What all compiles of a build may take together.

    Attributes:
        size: bytes.
        named: whether the user named it; else it follows from what was free, and the machine's
            free memory is looked at again before each compile.
        hard: bytes at which a control group ends processes: the budget and what the build tools
            take.
    """

    size: int
    named: bool
    hard: int


def choose_budget(free: int, named: int | None) -> Budget:
    """The budget: what the user names, else what is free less a reserve of a tenth.

    Args:
        free: bytes that this process may still take.
        named: bytes that the user named, or None.
    """
    if named is not None:
        return Budget(size=named, named=True, hard=named + max(_SLACK_LEAST, named // _SLACK_SHARE))
    reserve = min(max(free // _RESERVE_SHARE, _RESERVE_LEAST), _RESERVE_MOST)
    size = max(free - reserve, free // 2)
    return Budget(size=size, named=False, hard=free)


def _amount(path: Path) -> int | None:
    words = read_words(path)
    return int(words[0]) if words and words[0].isdigit() else None


def _left(group: Group) -> int:
    limit = _amount(group.folder / _LIMITS[group.version])
    used = _amount(group.folder / _USED[group.version])
    if limit is None or used is None or limit >= _UNLIMITED:
        return _UNLIMITED
    return max(0, limit - used + _reclaimable(group))


def _reclaimable(group: Group) -> int:
    """Bytes of file pages that count as used and are given up when needed."""
    with contextlib.suppress(OSError):
        for line in (group.folder / "memory.stat").read_text(encoding="ascii").splitlines():
            name, _, amount = line.partition(" ")
            if name in {"total_inactive_file", "inactive_file"} and amount.isdigit():
                return int(amount)
    return 0


def free_memory() -> int:
    """Bytes that this process may still take: the least of the machine's and its groups'."""
    free = _UNLIMITED
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) << 10
    return min([free, *map(_left, own_groups("memory"))])


@contextlib.contextmanager
def limited(hard: int) -> Iterator[Path | None]:
    """A memory control group of that many bytes for one build, or None where none can be made."""
    made = _make_group(hard)
    try:
        yield made
    finally:
        if made is not None:
            _remove(made)


def _remove(folder: Path) -> None:
    """Remove a group; the last of its processes may take a moment to end."""
    for _ in range(_TRIES):
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(_PAUSE)
        else:
            return


def hold(group: Group, hard: int) -> None:
    """Hold a group to that many bytes of memory, and to no swap where the kernel counts swap.

    Raises:
        OSError: its memory cannot be limited.
    """
    (group.folder / _LIMITS[group.version]).write_text(str(hard))
    swap = group.folder / _SWAP[group.version]
    if swap.exists():
        with contextlib.suppress(OSError):
            swap.write_text(str(hard) if group.version == 1 else "0")


def _make_group(hard: int) -> Path | None:
    for group in own_groups("memory")[:2]:
        _sweep(group.folder)
        folder = group.folder / f"{_PREFIX}{os.getpid()}-{uuid.uuid4().hex[:8]}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            hold(Group(folder=folder, version=group.version), hard)
        except OSError:  # v2 without the controller for children
            folder.rmdir()
            continue
        return folder
    return None


def _sweep(folder: Path) -> None:
    """Remove what killed builds left: the kernel refuses to remove a group with processes."""
    for left in folder.glob(f"{_PREFIX}*"):
        process = left.name.split("-")[1]
        if not Path("/proc", process).exists():
            with contextlib.suppress(OSError):
                left.rmdir()
