"""What an index holds: one record a wheel, and the catalogue that keeps them. Pure.

Room `publish`. The catalogue is the index's memory: pages are made from it, and it says which file
name stands for which bytes for ever. What is read from one is checked field by field, since a
catalogue may come from a stranger's server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from kernforge.canonical import canonical_json, digest
from kernforge.errors import PublishError

FORMAT = 1
CATALOGUE = "catalog.json"
CATALOGUE_LIMIT = 64 << 20
"""Bytes of a catalogue that are still read."""

FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+!-]*\.whl", re.ASCII)
"""What a wheel may be called: nothing that leads out of a folder or needs quoting in a shell."""
_LEAF = re.compile(r"cu\d{2,3}(/torch\d+\.\d+)?/sm[0-9]+[a-z]*(\.[0-9]+[a-z]*)*", re.ASCII)
_PROJECT = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What is known of a wheel on one device: each level in order with its answer.

    ``expected``: its code was made for another device, and runs on this one by NVIDIA's rule of
    binary compatibility; nobody has seen it.
    """

    device: str
    levels: tuple[tuple[str, str], ...]
    expected: bool = False

    @property
    def reached(self) -> str | None:
        """The highest level reached, or None."""
        reached = [level for level, answer in self.levels if answer == "reached"]
        return reached[-1] if reached else None

    @property
    def needs_gpu(self) -> bool:
        """Whether the wheel holds device code, so that the device matters at all."""
        return dict(self.levels).get("code") != "not needed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One wheel of an index.

    Attributes:
        file: the wheel's file name.
        project: the distribution's name, normalised.
        version: with its local part.
        leaf: which part of the index it stands in: ``cu130/torch2.14/sm120a``.
        sha256: of the wheel.
        size: bytes of the wheel.
        metadata_sha256: of its METADATA.
        provenance_sha256: of the statement beside it, or None where there is none.
        requires_python: as METADATA says, or None.
        summary: one line, or empty.
        recipe: name of the recipe.
        job: id of the job.
        build_key: 64 hex digits.
        archs: what it was compiled for, as ``12.0a``.
        cuda: as ``13.0``.
        torch: as ``2.14.1``, or None.
        python: the Python that it was built with, as ``3.11``.
        require: the level that its recipe demands.
        claims: one a device.
        published: UTC time as ``2026-11-30T12:00:00Z``.
        yanked: why it is no longer offered by itself, or None.
    """

    file: str
    project: str
    version: str
    leaf: str
    sha256: str
    size: int
    metadata_sha256: str
    provenance_sha256: str | None
    requires_python: str | None
    summary: str
    recipe: str
    job: str
    build_key: str
    archs: tuple[str, ...]
    cuda: str
    torch: str | None
    python: str
    require: str
    claims: tuple[Claim, ...]
    published: str
    yanked: str | None = None

    @property
    def place(self) -> str:
        """The wheel's path in the index."""
        return f"{self.leaf}/{self.project}/{self.file}"


_OPTIONAL = frozenset({"provenance_sha256", "requires_python", "torch", "yanked"})
_NOT_TEXT = frozenset({"size", "archs", "claims"})


def catalogue_text(wheels: tuple[Listed, ...], base_url: str | None) -> str:
    """The catalogue of an index: its wheels, sorted by place, and their digest.

    Args:
        wheels: all wheels.
        base_url: where the index is served, as the publisher told it, or None.
    """
    body = {
        "format": FORMAT,
        "base_url": base_url,
        "wheels": [asdict(wheel) for wheel in sorted(wheels, key=lambda w: w.place)],
    }
    return canonical_json({"body": body, "digest": digest(body)}) + "\n"


def damaged(where: str, why: str) -> PublishError:
    """The one way to tell of a catalogue or index that is not what it was written as."""
    return PublishError(
        "index-damaged",
        f"The index {where!r} is damaged: {why}",
        hint="restore it from its backup, or publish into a new folder",
    )


def read_catalogue(text: bytes, where: str) -> tuple[tuple[Listed, ...], str | None]:
    """The wheels of a catalogue, and the address that the publisher named.

    Raises:
        PublishError: ``index-damaged`` where any of it is not what we write.
    """
    try:
        data = json.loads(text)
        body = data["body"]
        if digest(body) != data["digest"]:
            raise damaged(where, "its catalogue has other content than it was written with")
        if body["format"] != FORMAT:
            raise damaged(where, f"its catalogue has format {body['format']!r}, not {FORMAT}")
        wheels = tuple(_listed(entry) for entry in body["wheels"])
        base_url = body["base_url"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise damaged(where, f"its catalogue cannot be read: {error}") from error
    if not isinstance(base_url, str | None):
        raise damaged(where, "its catalogue cannot be read: base_url is no text")
    if len({wheel.file for wheel in wheels}) != len(wheels):
        raise damaged(where, "its catalogue names a file twice")
    return wheels, base_url


def _listed(entry: Mapping[str, Any]) -> Listed:
    for field in fields(Listed):
        value = entry[field.name]
        if field.name in _NOT_TEXT or (value is None and field.name in _OPTIONAL):
            continue
        if not isinstance(value, str):
            raise TypeError(f"{field.name} is no text")
    claims = tuple(_claim(said) for said in entry["claims"])
    archs = tuple(_text(arch) for arch in entry["archs"])
    wheel = Listed(**{**entry, "claims": claims, "archs": archs})
    _check_forms(wheel)
    return wheel


def _claim(said: Mapping[str, Any]) -> Claim:
    expected = said.get("expected", False)
    if not isinstance(expected, bool):
        raise TypeError(f"{expected!r} is no answer")
    levels = tuple((_text(level), _text(answer)) for level, answer in said["levels"])
    return Claim(device=_text(said["device"]), levels=levels, expected=expected)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _check_forms(wheel: Listed) -> None:
    hashes = [wheel.sha256, wheel.metadata_sha256, wheel.provenance_sha256 or "0" * 64]
    forms = [(FILE_NAME, wheel.file), (_LEAF, wheel.leaf), (_PROJECT, wheel.project)]
    forms += [(_SHA256, text) for text in hashes]
    for pattern, text in forms:
        if pattern.fullmatch(text) is None:
            raise ValueError(f"{text!r} is not in its form")
    if type(wheel.size) is not int or wheel.size < 0:
        raise ValueError(f"size {wheel.size!r}")
