"""How many processors a build may keep busy: those it may run on, and its share of their time."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable

from kernforge.build.groups import Group, own_groups, read_words


def usable_processors() -> int:
    """Processors that this process may run on, no more than its control groups give time for."""
    return within_quota(len(os.sched_getaffinity(0)), own_groups("cpu"))


def within_quota(processors: int, groups: Iterable[Group]) -> int:
    """That many, or the least quota of the groups, rounded up; 1 at least.

    A container with ``--cpus 4`` on a machine of 128 sees them all, and gets the time of 4.
    """
    quotas = [quota for group in groups if (quota := _quota(group)) is not None]
    return max(1, min([processors, *(math.ceil(quota) for quota in quotas)]))


def _quota(group: Group) -> float | None:
    """Processors' worth of time that a group has, or None where nothing bounds it."""
    if group.version == 1:
        names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        words = [word for name in names for word in read_words(group.folder / name)]
    else:
        words = read_words(group.folder / "cpu.max")
    if len(words) != 2 or not all(word.isdigit() for word in words):
        return None  # "max" in version 2, -1 in version 1
    quota, period = map(int, words)
    return quota / period if period else None
