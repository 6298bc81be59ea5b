"""Two wheels held against each other at three levels: bytes, normalised, device code.

Room `reproduce`. Normalised means: the archive's own order, times and compression are left out; in
native libraries the sections that only identify or describe (build id, compiler comment, symbol
tables of the linker); in dist-info what repeats the key. Device code means: each cubin and each PTX
of every library has the same unpacked bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernforge.binary.elf import MAGIC
from kernforge.pack.archive import checked_members
from kernforge.reproduce.images import DeviceCode, device_code, section_digests

LEVELS = ("device code", "normalised", "bytes")
"""Ways of being equal, each holding those before it."""

_CHUNK = 1 << 20
_DESCRIBING = frozenset(
    ".note.gnu.build-id .comment .symtab .strtab .shstrtab .gnu_debuglink".split()
)
_TEXT = ".text."
# Measured with nvcc 13.0.88: _GLOBAL__N__edcf73da_14_verify_tree_cu_739bd39c
_HASHES = re.compile(r"(_GLOBAL__N__|_INTERNAL_|_cu_)[0-9a-f]{8}(?=[_\d]|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One place where two wheels differ.

    Attributes:
        level: the level that it breaks.
        file: path in the wheel, or empty for the archive itself.
        section: section of the host ELF or of the cubin, or None.
        image: which image, as ``module 3, 12.0a``, or None.
        kernel: name of the kernel as compiled, or None.
        text: what differs, in a few words.
    """

    level: str
    file: str
    text: str
    section: str | None = None
    image: str | None = None
    kernel: str | None = None

    def __str__(self) -> str:
        places = (self.file, self.image, self.kernel or self.section)
        return f"{', '.join(place for place in places if place) or 'archive'}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How far two wheels are equal, and what keeps them from more.

    Attributes:
        equal: ``bytes``, ``normalised``, ``device code``, or None.
        differences: the most telling first: device code, then other content, then the archive.
    """

    equal: str | None
    differences: tuple[Difference, ...]


def compare_wheels(before: Path, now: Path) -> Comparison:
    """Hold two wheels against each other.

    Raises:
        VerifyError: ``wheel-member`` where a wheel holds names that lead out of it.
    """
    if _file_digest(before) == _file_digest(now):
        return Comparison(equal="bytes", differences=())
    with zipfile.ZipFile(before) as old, zipfile.ZipFile(now) as new:
        differences = list(_member_differences((old, before), (new, now)))
    differences.sort(key=lambda d: (LEVELS.index(d.level), d.file))
    broken = {difference.level for difference in differences}
    if "device code" in broken:
        equal = None
    else:
        equal = "device code" if "normalised" in broken else "normalised"
    if not differences:
        text = "members are equal; their order, times or compression differ"
        differences.append(Difference(level="bytes", file="", text=text))
    return Comparison(equal=equal, differences=tuple(differences))


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digests(archive: zipfile.ZipFile, wheel: Path) -> dict[str, str]:
    found = {}
    for info in checked_members(archive, wheel):
        digest = hashlib.sha256()
        with archive.open(info) as member:
            while chunk := member.read(_CHUNK):
                digest.update(chunk)
        found[info.filename] = digest.hexdigest()
    return found


_Opened = tuple[zipfile.ZipFile, Path]


def _member_differences(before: _Opened, now: _Opened) -> list[Difference]:
    old, new = _digests(*before), _digests(*now)
    found: list[Difference] = []
    for name in sorted(old.keys() | new.keys()):
        if name not in new or name not in old:
            archive, text = (before, "is gone") if name in old else (now, "is new")
            coded = device_code(archive[0].read(name)) if _is_elf(archive[0], name) else ()
            level = "device code" if coded else "normalised"
            found.append(Difference(level=level, file=name, text=text))
        elif old[name] != new[name]:
            found += _content_differences(name, before[0], now[0])
    return found


def _is_elf(archive: zipfile.ZipFile, name: str) -> bool:
    with archive.open(name) as member:
        return member.read(4) == MAGIC


def _content_differences(name: str, old: zipfile.ZipFile, new: zipfile.ZipFile) -> list[Difference]:
    if name.endswith(".dist-info/RECORD"):
        return [Difference(level="bytes", file=name, text="lists what differs elsewhere")]
    before, now = old.read(name), new.read(name)
    if before[:4] == MAGIC and now[:4] == MAGIC:
        return _library_differences(name, before, now)
    if _plain_text(name, before) == _plain_text(name, now):
        return [Difference(level="bytes", file=name, text="repeats another key")]
    return [Difference(level="normalised", file=name, text=_first_line(before, now))]


def _plain_text(name: str, data: bytes) -> bytes:
    """A text of dist-info without what repeats the key."""
    if name.endswith(".dist-info/WHEEL"):
        return b"\n".join(line for line in data.splitlines() if not line.startswith(b"Build:"))
    if name.endswith((".dist-info/build.json", ".cdx.json")):
        try:
            return json.dumps(_keyless(json.loads(data)), sort_keys=True).encode()
        except (ValueError, RecursionError):
            return data
    return data


def _keyless(document: Any) -> Any:
    if not isinstance(document, dict):
        return document
    kept = {k: v for k, v in document.items() if k not in {"build_key", "machine", "serialNumber"}}
    if isinstance(kept.get("metadata"), dict):
        kept["metadata"] = {k: v for k, v in kept["metadata"].items() if k != "properties"}
    return kept


def _first_line(before: bytes, now: bytes) -> str:
    old, new = before.splitlines(), now.splitlines()
    pairs = enumerate(zip(old, new, strict=False), 1)
    number = next((n for n, (a, b) in pairs if a != b), min(len(old), len(new)) + 1)
    return f"{len(before)} and {len(now)} bytes, first in line {number}"


def _library_differences(name: str, before: bytes, now: bytes) -> list[Difference]:
    found = _code_differences(name, device_code(before), device_code(now))
    old, new = dict(section_digests(before)), dict(section_digests(now))
    for section in dict.fromkeys([*old, *new]):
        if old.get(section) != new.get(section):
            level = "bytes" if section in _DESCRIBING else "normalised"
            text = "has other bytes" if section in old and section in new else "is in one only"
            found.append(Difference(level=level, file=name, section=section, text=text))
    if not found:
        text = "headers of the file or of its sections differ"
        found.append(Difference(level="normalised", file=name, text=text))
    return found


def _code_differences(
    name: str, before: tuple[DeviceCode, ...], now: tuple[DeviceCode, ...]
) -> list[Difference]:
    """Images that have no equal on the other side, told kernel by kernel where they pair up."""
    old, new = _unpaired(before, now), _unpaired(now, before)
    found: list[Difference] = []
    for place in dict.fromkeys([*old, *new]):
        module, label = place
        image = f"module {module}, {label}"
        if place not in old or place not in new:
            text = "is gone" if place in old else "is new"
            found.append(Difference(level="device code", file=name, image=image, text=text))
            continue
        found += _image_differences(name, image, old[place], new[place])
    return found


def _unpaired(
    these: tuple[DeviceCode, ...], others: tuple[DeviceCode, ...]
) -> dict[tuple[int, str], DeviceCode]:
    left = Counter((code.label, code.sha256) for code in others)
    found = {}
    for code in these:
        if left[code.label, code.sha256] > 0:
            left[code.label, code.sha256] -= 1
        else:
            found[code.module, code.label] = code
    return found


def _hashless(name: str) -> str:
    """A name without the hashes of its source file that nvcc puts into internal names."""
    return _HASHES.sub(r"\1", name)


def _image_differences(
    name: str, image: str, before: DeviceCode, now: DeviceCode
) -> list[Difference]:
    old, new = dict(before.sections), dict(now.sections)
    changed = [s for s in dict.fromkeys([*old, *new]) if old.get(s) != new.get(s)]
    kernels = [section for section in changed if section.startswith(_TEXT)]
    plain = {_hashless(section) for section in old}, {_hashless(section) for section in new}
    found: dict[str, Difference] = {}
    for section in kernels or changed:
        common = _hashless(section) in plain[0] & plain[1]
        if section in old and section in new:
            text = "has other code" if kernels else "differs; the code of every kernel is equal"
        elif common:
            text = "is named by another hash of its source file or that file's path"
        else:
            text = "is in one only"
        found.setdefault(
            _hashless(section) if common else section,
            Difference(
                level="device code",
                file=name,
                image=image,
                section=section,
                kernel=section.removeprefix(_TEXT) if section.startswith(_TEXT) else None,
                text=text,
            ),
        )
    if found:
        return list(found.values())
    return [Difference(level="device code", file=name, image=image, text="has other bytes")]
