"""What each compiler call took last time: memory and seconds by file and number of archs.

One small file a recipe, beside the store; it decides in what order and how many at once, never what
is compiled, and enters no key. A file that cannot be read counts as empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernforge.build.failures import is_probe
from kernforge.build.ledger import FROM_CACHE, Record

_VERSION = 1
_TIMED = frozenset({"compile", "device-link", "link"})
_LIMIT = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """What one call took: bytes of all its processes together, seconds."""

    memory: int
    seconds: float


History = dict[str, Took]
"""By tool, file and number of archs, as ``nvcc csrc/a.cu 2``: the shim's own name of a call."""


def name_of(record: Record) -> str:
    """The name of a call."""
    what = (*record.sources, record.output or record.tool)[0]
    return f"{record.tool} {what} {len(record.archs_after or ())}"


def read_history(path: Path) -> History:
    """Read a history; empty where there is none or it is no such file."""
    try:
        data = json.loads(path.read_bytes())
        if data["version"] != _VERSION:
            return {}
        return {
            str(name): Took(memory=int(memory), seconds=float(seconds))
            for name, (memory, seconds) in data["calls"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def learned(history: History, records: Iterable[Record]) -> History:
    """A history with what a build's calls took; what the compile cache answered teaches nothing."""
    new = dict(history)
    for record in records:
        useful = record.kind in _TIMED and not record.nested and not is_probe(record)
        useful = useful and record.exit == 0
        if not useful or record.cache in FROM_CACHE:
            continue
        memory = max(record.peak_kib or 0, record.max_rss_kib) << 10
        name = name_of(record)
        new.pop(name, None)  # the latest stand last, and stay when there are too many
        new[name] = Took(memory=memory, seconds=round(record.seconds, 3))
    return dict(list(new.items())[-_LIMIT:])


def write_history(path: Path, history: History) -> None:
    """Write a history. The caller holds a lock, so that no other build's is lost.

    Raises:
        OSError: it cannot be written.
    """
    calls = {name: [took.memory, took.seconds] for name, took in history.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps({"version": _VERSION, "calls": calls}), encoding="utf-8")
    draft.replace(path)
