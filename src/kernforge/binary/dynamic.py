"""Read the dynamic part of a host library: what it needs, offers and leaves undefined.

Room `binary`. Facts only; whether they are good for a target is judged in `verify`.

Layout: System V ABI "Dynamic Linking", and the GNU symbol versioning of the LSB core
specification (version needs are a chain of records, bounded here by the size of their section).
"""

from __future__ import annotations

import re
import struct

from kernforge.binary.elf import (
    EM_AARCH64,
    EM_CUDA,
    EM_X86_64,
    ET_DYN,
    ET_EXEC,
    ET_REL,
    SHT_DYNAMIC,
    SHT_DYNSYM,
    SHT_GNU_VERNEED,
    SHT_GNU_VERSYM,
    Elf,
    Strings,
)
from kernforge.binary.facts import ElfFacts, Symbol
from kernforge.binary.findings import FindingLog, GarbledError

_KINDS = {ET_REL: "relocatable", ET_EXEC: "executable", ET_DYN: "shared"}
_MACHINES = {EM_X86_64: "x86_64", EM_AARCH64: "aarch64", EM_CUDA: "cuda"}
_DT_NEEDED, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 1, 14, 15, 29
_DYNAMIC = struct.Struct("<qQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_NEED = struct.Struct("<HHIII")
_NEED_AUX = struct.Struct("<IHHII")
_WEAK, _LOCAL = 2, 0
_SYMBOL_LIMIT = 1 << 21  # libtorch_cpu, the richest seen, has 75,765
_VERSION = re.compile(r"([A-Z][A-Z0-9_]*?)_(\d+(?:\.\d+)*)")


def _dynamic(elf: Elf) -> dict[int, list[str]]:
    """Strings of the dynamic section by tag."""
    found: dict[int, list[str]] = {t: [] for t in (_DT_NEEDED, _DT_SONAME, _DT_RPATH, _DT_RUNPATH)}
    section = elf.of_type(SHT_DYNAMIC)
    if section is None:
        return found
    table = elf.bytes_of(section)
    strings = Strings(elf.bytes_of(elf.linked(section)))
    for tag, value in _DYNAMIC.iter_unpack(table[: len(table) // 16 * 16]):
        if tag == 0:
            break
        if tag in found:
            found[tag].append(strings.at(value))
    return found


def _unpack(form: struct.Struct, data: memoryview, at: int) -> tuple[int, ...]:
    if at + form.size > len(data):
        raise GarbledError("elf-garbled", f"a version record at {at} of {len(data)} bytes")
    return form.unpack_from(data, at)


def _version_needs(elf: Elf) -> dict[int, str]:
    """Names of needed versions by their index."""
    section = elf.of_type(SHT_GNU_VERNEED)
    if section is None:
        return {}
    data = elf.bytes_of(section)
    strings = Strings(elf.bytes_of(elf.linked(section)))
    found: dict[int, str] = {}
    at, steps = 0, len(data) // _NEED.size
    while steps > 0:
        _, count, _, first, following = _unpack(_NEED, data, at)
        aux = at + first
        for _ in range(min(count, steps)):
            _, _, index, name, step = _unpack(_NEED_AUX, data, aux)
            found[index] = strings.at(name)
            aux += step
            steps -= 1
        steps -= 1
        at += following
        if not following:
            break
    return found


def _floors(versions: dict[int, str]) -> tuple[tuple[str, str], ...]:
    """The highest version of each family."""
    best: dict[str, tuple[int, ...]] = {}
    for text in versions.values():
        match = _VERSION.fullmatch(text)
        if match is None:
            continue
        number = tuple(int(part) for part in match[2].split("."))
        best[match[1]] = max(best.get(match[1], ()), number)
    return tuple((family, ".".join(map(str, best[family]))) for family in sorted(best))


def _symbols(elf: Elf, versions: dict[int, str]) -> tuple[tuple[str, ...], tuple[Symbol, ...]]:
    """(defined names, undefined symbols), sorted."""
    section = elf.of_type(SHT_DYNSYM)
    if section is None:
        return (), ()
    table = elf.bytes_of(section)
    if len(table) > _SYMBOL_LIMIT * _SYMBOL.size:
        raise GarbledError("elf-garbled", f"a dynamic symbol table of {len(table)} bytes")
    strings = Strings(elf.bytes_of(elf.linked(section)))
    numbers = elf.of_type(SHT_GNU_VERSYM)
    codes = bytes(elf.bytes_of(numbers)) if numbers else b""
    defined, undefined = [], []
    rows = _SYMBOL.iter_unpack(table[: len(table) // _SYMBOL.size * _SYMBOL.size])
    for index, (name, info, _, place, _, _) in enumerate(rows):
        if info >> 4 == _LOCAL or not name:
            continue
        if place:
            defined.append(strings.at(name))
            continue
        code = int.from_bytes(codes[2 * index : 2 * index + 2], "little") & 0x7FFF
        version = versions.get(code, "")
        undefined.append(Symbol(name=strings.at(name), version=version, weak=info >> 4 == _WEAK))
    return tuple(sorted(set(defined))), tuple(sorted(set(undefined)))


def elf_facts(elf: Elf, log: FindingLog) -> ElfFacts:
    """The host part of a library; a garbled table becomes a finding and counts as empty."""
    tags: dict[int, list[str]] = {}
    versions: dict[int, str] = {}
    symbols: tuple[tuple[str, ...], tuple[Symbol, ...]] = (), ()
    try:
        tags = _dynamic(elf)
        versions = _version_needs(elf)
        symbols = _symbols(elf, versions)
    except GarbledError as error:
        log.note("dynamic-garbled", f"dynamic tables: {error}")
    soname = tags.get(_DT_SONAME)
    return ElfFacts(
        kind=_KINDS.get(elf.type, "other"),
        machine=_MACHINES.get(elf.machine, str(elf.machine)),
        soname=soname[0] if soname else None,
        needed=tuple(tags.get(_DT_NEEDED, ())),
        runpath=_paths(tags.get(_DT_RUNPATH, [])),
        rpath=_paths(tags.get(_DT_RPATH, [])),
        floors=_floors(versions),
        defined=symbols[0],
        undefined=symbols[1],
    )


def _paths(values: list[str]) -> tuple[str, ...]:
    return tuple(part for value in values for part in value.split(":") if part)
