"""What a key is made of, and what differs between two: read from `build.json` of stored wheels."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kernforge.errors import CacheError, SelectionError
from kernforge.store.local import Entry, Store

_MIN_DIGITS = 8
_SHOWN = 5
_BUILD_TAG = "1kf"  # before the key's digits in a wheel's name
_DAMAGED = (OSError, KeyError, ValueError, AttributeError, StopIteration, zipfile.BadZipFile,
            zlib.error)  # fmt: skip
_NOT_DECISIVE = ("build_key", "recipe_key", "job", "format")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One component that two keys do not share; None where a side has none."""

    component: str
    before: str | None
    after: str | None


def find_artifact(store: Store, prefix: str) -> Entry:
    """The one artifact whose key begins so.

    Raises:
        SelectionError: ``key-short``, ``key-missing`` or ``key-ambiguous``.
    """
    prefix = prefix.lower().removeprefix(_BUILD_TAG)
    if len(prefix) < _MIN_DIGITS:
        raise SelectionError(
            "key-short",
            f"{prefix!r} is too short: give {_MIN_DIGITS} digits or more",
            hint="`kernforge cache ls` lists the keys of all artifacts",
        )
    entries = store.entries()
    found = [e for e in entries if e.kind == "artifact" and e.key.startswith(prefix)]
    if not found:
        hint = "`kernforge cache ls` lists them; only what was built can be explained"
        raise SelectionError("key-missing", f"The store holds no artifact {prefix!r}", hint=hint)
    if len(found) > 1:
        hint = f"write more digits of one: {', '.join(sorted(e.key[:20] for e in found)[:_SHOWN])}"
        text = f"{len(found)} artifacts begin with {prefix!r}"
        raise SelectionError("key-ambiguous", text, hint=hint)
    return found[0]


def components(entry: Entry) -> dict[str, str]:
    """Every component of an artifact's key: dotted name and value, canonical JSON.

    Raises:
        CacheError: ``entry-damaged``.
    """
    try:
        with zipfile.ZipFile(entry.path / entry.facts()["wheel"]) as wheel:
            name = next(n for n in wheel.namelist() if n.endswith(".dist-info/build.json"))
            document = json.loads(wheel.read(name))
        kept = {key: value for key, value in document.items() if key not in _NOT_DECISIVE}
    except _DAMAGED as error:
        raise CacheError(
            "entry-damaged",
            f"Artifact {entry.key[:12]} cannot be read: {type(error).__name__}",
            hint="`kernforge cache check` says more",
        ) from error
    return dict(_flat("", kept))


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in sorted(value.items()):
            yield from _flat(f"{name}.{key}" if name else key, item)
    elif isinstance(value, list) and value and all(_is_named(item) for item in value):
        for item in value:
            yield f"{name}[{item[0]}]", json.dumps(item[1:], ensure_ascii=False)
    else:
        yield name, json.dumps(value, ensure_ascii=False)


def _is_named(item: object) -> bool:
    return isinstance(item, list) and len(item) > 1 and isinstance(item[0], str)


def differences(one: dict[str, str], two: dict[str, str]) -> tuple[Difference, ...]:
    """The components that differ, in order of their names."""
    names = sorted(one.keys() | two.keys())
    return tuple(
        Difference(component=name, before=one.get(name), after=two.get(name))
        for name in names
        if one.get(name) != two.get(name)
    )
