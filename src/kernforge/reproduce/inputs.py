"""Which input differs between two builds, told from their ``build.json`` alone. Pure.

Room `reproduce`. The host toolchain comes first: where it differs, nothing else need be looked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kernforge.canonical import canonical_json

LAYOUT = "sandbox layout"
"""What the difference between a sandbox and the real folder is called."""
_MISSING = "(not there)"
_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class InputDifference:
    """One input that is not the same: its name, and both values as text."""

    name: str
    before: str
    now: str

    def __str__(self) -> str:
        return f"{self.name}: {self.before} -> {self.now}"


def input_differences(
    before: Mapping[str, Any], now: Mapping[str, Any]
) -> tuple[InputDifference, ...]:
    """Every input that differs, host toolchain first, then in the order of the stages.

    Args:
        before: ``machine`` and ``stages`` as a wheel's ``build.json`` has them.
        now: the same of the plan that would be built.
    """
    old, new = dict(_labelled(before)), dict(_labelled(now))
    return tuple(
        InputDifference(name=name, before=_short(old, name), now=_short(new, name))
        for name in dict.fromkeys([*old, *new])
        if old.get(name, _MISSING) != new.get(name, _MISSING)
    )


def _short(values: Mapping[str, str], name: str) -> str:
    text = values.get(name, _MISSING)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _text(value: object) -> str:
    return value if isinstance(value, str) else canonical_json(value)


def _labelled(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Name and value of every input, in the order in which they are told."""
    machine, stages = _mapping(document.get("machine")), _mapping(document.get("stages"))
    for key, value in sorted(_mapping(machine.get("host")).items()):
        yield f"host toolchain, {key}", _text(value)
    for key, value in sorted(machine.items()):
        if key != "host":
            name = {"layout": LAYOUT, "inside": "kernforge's programs in the sandbox"}
            yield name.get(key, f"machine, {key}"), _text(value)
    for stage in dict.fromkeys(["fetch", "patch", "env", "build", "pack", *stages]):
        yield from _stage(stage, _mapping(stages.get(stage)))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _stage(stage: str, parts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in sorted(parts.items()):
        if key in {"sources", "lock"} and isinstance(value, list):
            for row in value:
                yield from _row(stage, row)
        else:
            yield f"{stage}, {key}", _text(value)


def _row(stage: str, row: object) -> Iterator[tuple[str, str]]:
    """One source or package, whose rows begin with its name."""
    if not isinstance(row, list) or len(row) < 2 or not isinstance(row[0], str):
        yield f"{stage}, {_text(row)[:40]}", _text(row)
        return
    name, rest = row[0], row[1:]
    match stage, rest:
        case "fetch", [place, dict() as pins]:
            yield f"source {name!r}, place", _text(place)
            yield from ((f"source {name!r}, {k}", _text(v)) for k, v in sorted(pins.items()))
        case "patch", [list() as patches, edits]:
            for number, patch in enumerate(patches, 1):
                yield f"source {name!r}, patch {number}", " ".join(map(_text, patch))
            yield f"source {name!r}, edits", _text(edits)
        case "env", [version, hashes]:
            yield f"package {name!r}, version", _text(version)
            yield f"package {name!r}, hashes", _text(hashes)
        case _:
            yield f"{stage}, {name!r}", _text(rest)
