"""Whether a wheel's tags are true of every module in it: platform, Python, stable ABI.

Reads files only through what the optional library `abi3info` ships. What cannot be checked without
it is said to be not verified, never passed.

Floors of the manylinux policies: PEP 600 and the policy table of auditwheel 6.8, read 2026-11-30.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kernforge.binary.abi import module_names, python_symbols
from kernforge.binary.facts import ElfFacts, Library, WheelFacts
from kernforge.binary.tags import python_module
from kernforge.verify.fault import Fault

_UNTRUE = frozenset({"tag-python", "tag-platform", "tags-differ", "purelib-native"})
_ALIASES = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_PLATFORM = re.compile(r"manylinux_(\d+)_(\d+)_|(manylinux\d+)_", re.ASCII)
_ABI3 = re.compile(r"cp3(\d+)-abi3-", re.ASCII)
# glibc of the policy -> highest versions of libstdc++ that it has, on x86_64
_LIBSTDCXX = {
    (2, 5): ("3.4.8", "1.3.1"),
    (2, 12): ("3.4.13", "1.3.3"),
    (2, 17): ("3.4.19", "1.3.7"),
    (2, 24): ("3.4.22", "1.3.10"),
    (2, 27): ("3.4.24", "1.3.11"),
    (2, 31): ("3.4.28", "1.3.12"),
    (2, 34): ("3.4.29", "1.3.13"),
    (2, 35): ("3.4.30", "1.3.13"),
    (2, 39): ("3.4.33", "1.3.15"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TagReport:
    """What came of holding a wheel's tags against its modules.

    ``notes`` say what was not verified.
    """

    faults: tuple[Fault, ...]
    notes: tuple[str, ...]


def _number(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def _promised(tags: Iterable[str]) -> tuple[int, int] | None:
    """The glibc that the tags promise to do with: the lowest of them."""
    found = []
    for tag in tags:
        if match := _PLATFORM.search(tag):
            plain = (int(match[1]), int(match[2])) if match[1] else None
            number = plain or _ALIASES.get(match[3])
            found.extend([number] if number else [])
    return min(found, default=None)


def _ceilings(glibc: tuple[int, int]) -> dict[str, tuple[int, ...]]:
    row = max((known for known in _LIBSTDCXX if known <= glibc), default=(2, 5))
    glibcxx, cxxabi = _LIBSTDCXX[row]
    return {"GLIBC": glibc, "GLIBCXX": _number(glibcxx), "CXXABI": _number(cxxabi)}


def _platform_faults(library: Library, elf: ElfFacts, glibc: tuple[int, int]) -> Iterator[Fault]:
    floors = dict(elf.floors)
    over = [
        f"{family}_{floors[family]} (there: {'.'.join(map(str, ceiling))})"
        for family, ceiling in _ceilings(glibc).items()
        if family in floors and _number(floors[family]) > ceiling
    ]
    if over:
        tag = f"manylinux_{glibc[0]}_{glibc[1]}"
        text = f"{library.path}: needs {', '.join(over)}, more than the tag {tag} promises"
        yield Fault(word="tag-manylinux", text=text)


def _stable_names(minor: int) -> frozenset[str] | None:
    """Names of the stable ABI of 3.``minor``; None where `abi3info` is not there."""
    try:
        info: Any = importlib.import_module("abi3info")
    except ImportError:
        return None
    entries = {**info.FUNCTIONS, **info.DATAS}
    return frozenset(
        symbol.name
        for symbol, entry in entries.items()
        if (entry.added.major, entry.added.minor) <= (3, minor)
    )


def _abi3_minor(tags: Iterable[str]) -> int | None:
    """The lowest Python 3 that a stable ABI tag promises; None where there is no such tag."""
    return min((int(match[1]) for tag in tags if (match := _ABI3.match(tag))), default=None)


def _abi3_faults(
    library: Library, elf: ElfFacts, minor: int, stable: frozenset[str]
) -> Iterator[Fault]:
    if strange := [name for name in python_symbols(elf) if name not in stable]:
        text = (
            f"{library.path}: calls {', '.join(strange[:3])} ({len(strange)} in all), not of the "
            f"stable ABI of Python 3.{minor} that its tag promises"
        )
        yield Fault(word="tag-abi3", text=text)


def _is_module(library: Library, elf: ElfFacts) -> bool:
    """Whether Python imports it: it defines PyInit or is named as a module."""
    return bool(module_names(elf)) or python_module(library.path) is not None


def check_tags(wheel: WheelFacts) -> TagReport:
    """Hold every module against the wheel's tags.

    Returns:
        Faults with the words ``tag-python``, ``tag-platform``, ``tags-differ``,
        ``purelib-native`` (contradictions that the reader found), ``tag-manylinux`` and
        ``tag-abi3``.
    """
    faults = [Fault(word=f.word, text=f.text) for f in wheel.findings if f.word in _UNTRUE]
    notes: list[str] = []
    glibc, minor = _promised(wheel.tags), _abi3_minor(wheel.tags)
    stable = _stable_names(minor) if minor is not None else None
    if minor is not None and stable is None:
        notes.append("stable ABI: not verified; install kernforge[audit], which brings abi3info")
    for library in wheel.libraries:
        elf = library.elf
        if elf is None:
            continue
        if glibc is not None:
            faults += _platform_faults(library, elf, glibc)
        python = python_module(library.path)
        if minor is not None and stable is not None and python in {"abi3", None}:
            faults += _abi3_faults(library, elf, minor, stable) if _is_module(library, elf) else ()
    return TagReport(faults=tuple(faults), notes=tuple(notes))
