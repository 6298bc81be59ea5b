"""Keys: SHA-256 over canonical JSON of what decides a result. Pure.

Never in a key: paths of this machine, times, job counts, where a source was fetched from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernforge.canonical import digest

KEY_VERSION = 2


def stage_key(stage: str, before: str, parts: Mapping[str, Any]) -> str:
    """The key of a stage, chained to the key of the stage before it."""
    return digest({"key": KEY_VERSION, "stage": stage, "before": before, "parts": dict(parts)})


def build_key(recipe_key: str, machine: Mapping[str, Any]) -> str:
    """The BuildKey: recipe key, host toolchain, sandbox layout, our programs that run inside."""
    return stage_key("artifact", recipe_key, machine)
