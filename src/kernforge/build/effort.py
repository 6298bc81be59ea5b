"""What one run may use: how many compiles, how much memory, which compile cache. Pure.

Nothing of it enters a key: it decides how fast, never what.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kernforge.build.compilecache import CompileCache
from kernforge.build.history import Took
from kernforge.build.memory import Budget
from kernforge.toolchain.sandbox import Layout

_MARGIN, _LEAST = 1.1, 16 << 20  # above what a call took last time: two runs differ a little
_AHEAD = 16  # calls that wait, at least, so that the longest can be chosen: ninja knows no times
SOCKET, LIVE, STATISTICS = "steward", "live.json", "compile-cache.json"
"""Files of the steward in the ledger's folder."""
FREE = "free"
"""File that tells it the bytes that the build may still take, beside its order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """What a run may use.

    Attributes:
        jobs: compiles at once.
        threads: compiles that one nvcc call may do at once.
        budget: memory of all compiles together.
        processors: how many of them processors can work on at a time.
        default: bytes that a call takes before anything is known of it.
        cache: the compile cache, or None.
        known: what calls took last time, by name.
    """

    jobs: int
    threads: int
    budget: Budget
    processors: int
    default: int
    cache: CompileCache | None = None
    known: Mapping[str, Took] = field(default_factory=dict)


def parallel_environment(effort: Effort) -> tuple[tuple[str, str], ...]:
    """The variables that set parallelism, of Cargo, CMake, torch and CUTLASS's kin (for nvcc).

    What runs compilers by the shim starts more than are let in at once.
    """
    started = str(effort.jobs + max(effort.jobs, _AHEAD))
    return (
        ("CARGO_BUILD_JOBS", str(effort.jobs)),
        ("CMAKE_BUILD_PARALLEL_LEVEL", started),
        ("MAX_JOBS", started),
        ("NVCC_THREADS", str(effort.threads)),
    )


def fill_parallel(text: str, effort: Effort) -> str:
    """Fill ``{jobs}`` and ``{nvcc_threads}``, which keys know only as these words."""
    filled = text.replace("{jobs}", str(effort.jobs))
    return filled.replace("{nvcc_threads}", str(effort.threads))


def steward_order(effort: Effort, layout: Layout, *, bound: bool) -> dict[str, Any]:
    """What the steward is told.

    Args:
        effort: what this run may use.
        layout: where the build sees things.
        bound: whether a sandbox binds places; else the network is nobody's to cut.
    """
    cache = effort.cache
    return {
        "socket": layout.at("ledger", SOCKET),
        "live": layout.at("ledger", LIVE),
        "free": layout.at("shim", FREE),
        "stats": layout.at("ledger", STATISTICS),
        "budget": effort.budget.size,
        "watch": not effort.budget.named,
        "slots": effort.jobs,
        "threads": effort.threads,
        "processors": effort.processors,
        "default": effort.default,
        "known": {
            name: [int(took.memory * _MARGIN) + _LEAST, took.seconds]
            for name, took in effort.known.items()
        },
        "cache": cache.order(layout, bound=bound) if cache else None,
        "calls": cache.calls_order(layout, bound=bound) if cache else None,
        "cut": bool(cache and cache.network and bound),
    }
