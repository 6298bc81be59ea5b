"""The control groups that hold this process. Reads; starts nothing.

Names and meanings are those of the kernel's documents on control groups, versions 1 and 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A control group: its folder and the version, 1 or 2, that says how its files are named."""

    folder: Path
    version: int


def own_groups(
    controller: str, membership: str | None = None, root: Path = _ROOT
) -> tuple[Group, ...]:
    """The groups of one controller that hold this process, its own first, then those above.

    Args:
        controller: ``memory`` or ``cpu``.
        membership: what ``/proc/self/cgroup`` says; None to read it.
        root: where control groups are mounted.
    """
    text = _OWN.read_text(encoding="utf-8") if membership is None else membership
    for line in text.splitlines():
        number, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controller in controllers.split(","):
            mounts = (root / controllers, root / controller)
            mount = next((mount for mount in mounts if mount.is_dir()), mounts[1])
            return _upward(mount, path, version=1)
        if number == "0" and not controllers and (root / "cgroup.controllers").exists():
            return _upward(root, path, version=2)
    return ()


def _upward(root: Path, path: str, *, version: int) -> tuple[Group, ...]:
    """In a container the path may be one of the host's, that is not there: then the root."""
    below = Path(path.strip("/"))
    folders = [root / below, *(root / parent for parent in below.parents)]
    there = [folder for folder in dict.fromkeys(folders) if folder.is_dir()]
    return tuple(Group(folder=folder, version=version) for folder in there)


def read_words(path: Path) -> list[str]:
    """The words of a group's file; none where there is no such file or it may not be read."""
    try:
        return path.read_text(encoding="ascii").split()
    except OSError:
        return []
