"""The compile cache of a build: whole calls (`inside/recall.py`), and their steps by sccache.

Of sccache one server a build, started by the steward inside that build's own sandbox and ended with
it; only folders are shared between builds. Names of variables and counts are those of sccache 0.16.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernforge.canonical import digest
from kernforge.toolchain.sandbox import Layout, Mount

_PLACE, _FOLDER = "sccache/sccache", "sccache/cache"  # by another name it plays a compiler
_CALLS = "calls"
_CALLS_LIMIT = 10 << 30  # bytes, as sccache's own
_OUTSIDE = ("/usr/include",)
"""What a sandbox shows of the host and compilers read, beside programs of the host's identity."""
_DEVICE_STEPS = ("PTX", "CUBIN")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileCache:
    """A compile cache that a build may use.

    Attributes:
        program: sccache, or None where there is none that works with this nvcc.
        folder: sccache's folder on this machine.
        calls: folder of whole calls.
        storage: settings of a storage that machines share, as sccache names them; empty for none.
        salt: enters every entry's name: what of the host sccache's look at a compiler does not see.
        world: enters the name of every whole call: all that a compiler can read and the build
            cannot write. Empty: none is kept.
        shown: what else of the host a sandbox shows, by its path: Python's headers among them.
    """

    program: Path | None
    folder: Path
    calls: Path
    storage: tuple[tuple[str, str], ...] = ()
    salt: str = ""
    world: str = ""
    shown: tuple[str, ...] = ()

    @property
    def network(self) -> bool:
        """Whether its server needs a network."""
        return bool(self.storage) and self.program is not None

    @property
    def kind(self) -> str:
        """``local`` or ``network``."""
        return "network" if self.network else "local"

    def mounts(self) -> tuple[Mount, ...]:
        """What the sandbox binds for it."""
        calls = Mount(source=self.calls, place=_CALLS, writable=True)
        if self.program is None:
            return (calls,)
        return (
            calls,
            Mount(source=self.program, place=_PLACE, writable=False),
            Mount(source=self.folder, place=_FOLDER, writable=True),
        )

    def calls_order(self, layout: Layout, *, bound: bool) -> dict[str, Any] | None:
        """What the steward is told of whole calls; None where they cannot be named.

        Args:
            layout: where the build sees things.
            bound: whether a sandbox shows the build nothing that ``world`` does not name.
        """
        if not bound or not self.world:
            return None
        packages = [layout.at(name) for name in ("env", "cuda", "toolkit")]
        outside = [*_OUTSIDE, *(path for path in self.shown if "/include/" in path)]
        return {
            "folder": layout.at(_CALLS),
            "limit": _CALLS_LIMIT,
            "roots": [layout.at("src"), layout.at("build")],
            "fixed": [*packages, layout.at("shim"), layout.at("host"), *outside],
            "packages": packages,
            "outside": outside,
            "salt": self.world,
        }

    def order(self, layout: Layout, *, bound: bool) -> dict[str, Any] | None:
        """What the steward is told of sccache; None where there is none.

        Args:
            layout: where the build sees things.
            bound: whether its mounts are bound; else it is used where it lies.
        """
        if self.program is None:
            return None
        path = ":".join((layout.at("host"), layout.at("env/bin")))
        program, folder = str(self.program), str(self.folder)
        if bound:
            program, folder = layout.at(_PLACE), layout.at(_FOLDER)
        server = dict(self.storage) | {
            "PATH": path,
            "SCCACHE_DIR": folder,
            "SCCACHE_DIRECT": "false",  # else a new header that comes to stand before one is missed
            "SCCACHE_IDLE_TIMEOUT": "0",
        }
        client = {
            "SCCACHE_SERVER_UDS": layout.at("ledger/sccache"),
            "SCCACHE_IGNORE_SERVER_IO_ERROR": "1",
            "SCCACHE_C_CUSTOM_CACHE_BUSTER": self.salt,
        }
        return {"program": program, "server": server, "client": client}


def host_salt(identity: tuple[tuple[str, str], ...]) -> str:
    """What of a host enters the name of a cache entry: sccache looks at a compiler's driver only.

    Args:
        identity: as :attr:`kernforge.toolchain.host.Host.identity`.
    """
    return digest(dict(identity))


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What a server answered from its cache, and what it had compiled, by language.

    Languages are ``C/C++``, ``CUDA`` (the host half of a CUDA file), ``PTX``, ``CUBIN``.
    """

    hits: tuple[tuple[str, int], ...] = ()
    misses: tuple[tuple[str, int], ...] = ()
    errors: int = 0

    @property
    def hit_count(self) -> int:
        """All hits."""
        return sum(count for _, count in self.hits)

    @property
    def miss_count(self) -> int:
        """All misses."""
        return sum(count for _, count in self.misses)

    @property
    def text(self) -> str:
        """One line: ``40 of 64 steps (CUBIN 10/16, PTX 10/16 ...)``; else empty."""
        hits, misses = dict(self.hits), dict(self.misses)
        total = self.hit_count + self.miss_count
        if not total:
            return ""
        each = [
            f"{name} {hits.get(name, 0)}/{hits.get(name, 0) + misses.get(name, 0)}"
            for name in sorted(hits.keys() | misses.keys())
        ]
        return f"{self.hit_count} of {total} steps ({', '.join(each)})"

    def to_dict(self) -> dict[str, Any]:
        """The counts as plain data."""
        return {"hits": dict(self.hits), "misses": dict(self.misses), "errors": self.errors}


def _counts(value: object) -> dict[str, int]:
    """Counts by language. nvcc as a whole is never kept ("Device code"): its steps are."""
    raw = value.get("counts") if isinstance(value, dict) else None
    found = raw.items() if isinstance(raw, dict) else ()
    return {str(k): v for k, v in found if isinstance(v, int) and k != "CUDA (Device code)"}


def read_counts(text: bytes) -> Counts:
    """Read a server's statistics; zeros where the text is none."""
    try:
        stats = json.loads(text)["stats"]
        hits, misses = _counts(stats["cache_hits"]), _counts(stats["cache_misses"])
        errors = sum(_counts(stats["cache_errors"]).values())
    except (ValueError, KeyError, TypeError):
        return Counts()
    return Counts(
        hits=tuple(sorted(hits.items())), misses=tuple(sorted(misses.items())), errors=errors
    )


def works(again: Counts) -> bool:
    """Whether the same kernel, compiled a second time, came from the cache: PTX and cubin."""
    hits, misses = dict(again.hits), dict(again.misses)
    return all(hits.get(step) and not misses.get(step) for step in _DEVICE_STEPS)
