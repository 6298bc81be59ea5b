"""Which torch and CUDA a distribution was built for, how that is known, and whether it fits here.

Room `doctor`. Pure but for what `verify.surroundings` reads of the environment's libraries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from kernforge.binary.abi import cuda_majors, torch_symbols
from kernforge.binary.facts import Library, WheelFacts
from kernforge.doctor.files import regular
from kernforge.doctor.installed import Installed, unknown_version
from kernforge.doctor.targets import SUCCESSOR
from kernforge.verify.fault import Fault
from kernforge.verify.linkage import judge_links
from kernforge.verify.surroundings import Surroundings

_LOCAL_CUDA = re.compile(r"(?:^|[.])cu(\d{2})(\d)")
_LOCAL_TORCH = re.compile(r"(?:^|[.]|cu\d{3})(?:torch|pt)(\d+\.\d+(?:\.\d+)?)")
_LINK_WORDS = frozenset({"library-missing", "cuda-major", "abi-torch", "abi-cxx11",
                         "symbol-undefined"})  # fmt: skip
"""What speaks against an installed library; run paths and tags matter to a wheel that travels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One thing that is known: the value and where it stands.

    Attributes:
        value: as ``2.14.1`` for torch, ``13.0`` or ``13`` for CUDA.
        source: ``build.json``, ``version``, ``requirement`` or ``linkage``.
    """

    value: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltFor:
    """What a distribution was built for.

    Attributes:
        torch: torch's version; None where nothing says it.
        cuda: the CUDA release or major; None where nothing says it.
        uses_torch: whether a library asks torch for symbols.
    """

    torch: Known | None
    cuda: Known | None
    uses_torch: bool


def built_for(one: Installed, libraries: Iterable[Library]) -> BuiltFor:
    """What a distribution was built for, by the strongest thing that says it."""
    elves = [library.elf for library in libraries if library.elf is not None]
    majors = sorted({major for elf in elves for major in cuda_majors(elf)})
    linked = Known(value=" and ".join(map(str, majors)), source="linkage") if majors else None
    local = (one.version or "").partition("+")[2]
    torch = cuda = None
    if one.built is not None:
        cuda = Known(value=one.built.cuda, source="build.json")
        torch = Known(value=one.built.torch, source="build.json") if one.built.torch else None
    else:
        if match := _LOCAL_CUDA.search(local):
            cuda = Known(value=f"{match[1]}.{match[2]}", source="version")
        if match := _LOCAL_TORCH.search(local):
            torch = Known(value=match[1], source="version")
        elif pin := _pinned(one, "torch"):
            torch = Known(value=pin, source="requirement")
    uses = any(torch_symbols(elf) for elf in elves)
    return BuiltFor(torch=torch, cuda=cuda or linked, uses_torch=uses)


def _pinned(one: Installed, name: str) -> str | None:
    for need in requirements(one):
        pins = [s.version for s in need.specifier if s.operator == "=="]
        if canonicalize_name(need.name) == name and need.marker is None and pins:
            return pins[0]
    return None


def requirements(one: Installed) -> tuple[Requirement, ...]:
    """What METADATA requires; lines that are no requirement are left out."""
    found = []
    for key, value in one.metadata:
        if key.lower() == "requires-dist":
            try:
                found.append(Requirement(value))
            except InvalidRequirement:
                continue
    return tuple(found)


def mismatch(known: BuiltFor, torch: str | None, cuda: str | None) -> str | None:
    """How what it was built for differs from the environment's torch; None where it does not.

    A label alone convicts only where the minor release differs: patch releases of torch keep their
    ABI in practice, and symbols are looked up besides.
    """
    if known.torch and torch and _minor(known.torch.value) != _minor(torch):
        return (
            f"built for torch {known.torch.value} (by its {known.torch.source}), "
            f"here is torch {torch}"
        )
    if known.cuda and cuda and known.cuda.value.split(".")[0] != cuda.split(".")[0]:
        return (
            f"built for CUDA {known.cuda.value} (by its {known.cuda.source}), "
            f"torch here is built with CUDA {cuda}"
        )
    return None


def _minor(text: str) -> tuple[int, ...]:
    try:
        return Version(text.replace(".*", "")).release[:2]
    except InvalidVersion:
        return ()


def link_faults(
    one: Installed, libraries: tuple[Library, ...], root: Path, around: Surroundings
) -> tuple[Fault, ...]:
    """What the libraries ask for and this environment does not have.

    A library that its own run path leads to counts as had, and what it defines is not looked up:
    such a library is accused of nothing but another torch.

    Args:
        one: the distribution.
        libraries: its native files, as read.
        root: what their paths are relative to.
        around: the environment's libraries.
    """
    facts = WheelFacts(
        file=one.info.name, size=0, name=one.key, version=one.version or "", build="", tags=(),
        metadata=one.metadata, wheel=(), members=0, libraries=libraries, findings=(),
    )  # fmt: skip
    found = judge_links(facts, (), around).faults
    had = {x.path: _by_run_path(x, root) for x in libraries}
    return tuple(f for f in found if f.word in _LINK_WORDS and not _excused(f, had))


def _by_run_path(library: Library, root: Path) -> frozenset[str]:
    """Names in NEEDED that the run path of a library leads to."""
    if library.elf is None:
        return frozenset()
    origin = str((root / library.path).parent)
    entries = (*library.elf.runpath, *library.elf.rpath)
    folders = [Path(e.replace("$ORIGIN", origin).replace("${ORIGIN}", origin)) for e in entries]
    needed = library.elf.needed
    return frozenset(n for n in needed if any(regular(folder / n) for folder in folders))


def _excused(fault: Fault, had: dict[str, frozenset[str]]) -> bool:
    path = next((path for path in had if fault.text.startswith(f"{path}: ")), None)
    if path is None or not had[path]:
        return False
    missing = any(f"needs {name!r}" in fault.text for name in had[path])
    return fault.word == "symbol-undefined" or (fault.word == "library-missing" and missing)


def _other_names(name: str) -> list[str]:
    """Names that a distribution had before, or has now."""
    return [b if a == name else a for a, b in SUCCESSOR.items() if name in {a, b}]


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A requirement that is not met, or of which nothing can be said.

    Attributes:
        text: the requirement as METADATA has it.
        have: the version that is there; where it is absent, a former or later name of it with its
            version, or None.
        state: ``absent``, ``other`` or ``unknown``.
    """

    text: str
    have: str | None
    state: str


def needs(one: Installed, present: dict[str, str | None], watched: frozenset[str]) -> list[Need]:
    """The watched requirements of a distribution that do not hold. Pure.

    Args:
        one: the distribution.
        present: version of each installed distribution by compared name.
        watched: names that are looked at: torch and all that holds device code.
    """
    found = []
    for need in requirements(one):
        name = canonicalize_name(need.name)
        if name not in watched or need.marker is not None:
            continue
        have = present.get(name)
        if name not in present:
            kin = [n for n in _other_names(name) if n in present]
            other = f"{kin[0]} {present[kin[0]]}" if kin else None
            found.append(Need(text=str(need), have=other, state="absent"))
        elif unknown_version(have):
            found.append(Need(text=str(need), have=have, state="unknown"))
        elif have and not need.specifier.contains(have, prereleases=True):
            found.append(Need(text=str(need), have=have, state="other"))
    return found
