"""The level `links`: whether every symbol of a wheel's libraries is defined in the target.

Held against the wheel's own libraries, what NEEDED names (torch's, CUDA's, the system's), the
interpreter, and the driver, of which any function is taken for granted: it is not there at build
time. A symbol that a library of the environment defines though NEEDED does not lead there counts
as resolved, because packages do load libraries beforehand; it is told. Nothing is executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from kernforge.arch import Device
from kernforge.binary.abi import cuda_majors, cxx11_abi, torch_symbols
from kernforge.binary.demangle import demangle
from kernforge.binary.facts import ElfFacts, Library, Symbol, WheelFacts
from kernforge.verify.fault import Fault
from kernforge.verify.ladder import Rung, rung
from kernforge.verify.surroundings import Provider, Surroundings
from kernforge.verify.tagging import check_tags

_DRIVER = re.compile(r"lib(?:cuda|nvidia-ml|nvcuvid|nvidia-encode)\.so(\.1)?", re.ASCII)
_DRIVER_SYMBOL = re.compile(r"(?:cu[A-Z]|nvml|cuvid|NvEnc)\w*", re.ASCII)
_SYSTEM_RUNPATH = re.compile(r"/(?:usr/)?lib(?:64)?(?:/|$)|/usr/local/cuda[^/]*/")
_OWNERS = (
    (re.compile(r"^_ZN[KVrRO]*3c104cuda"), "libc10_cuda.so"),
    (re.compile(r"^_ZN[KVrRO]*3c10"), "libc10.so"),
    (re.compile(r"^_ZN[KVrRO]*(?:2at|5torch)4cuda"), "libtorch_cuda.so"),
    (re.compile(r"^THP|^_Z\w*(?:THPVariable|6python)"), "libtorch_python.so"),
    (re.compile(r"^_Z\w*(?:2at|5torch|6caffe2)|^(?:aoti_)?torch_"), "libtorch_cpu.so"),
    (re.compile(r"^_Z\w*3c10"), "libc10.so"),
    (re.compile(r"^cublasLt"), "libcublasLt"),
    (re.compile(r"^cublas"), "libcublas"),
    (re.compile(r"^cudnn"), "libcudnn"),
    (re.compile(r"^nccl"), "libnccl"),
    (re.compile(r"^nvrtc"), "libnvrtc"),
    (re.compile(r"^cuda[A-Z]|^__cuda"), "libcudart"),
    (re.compile(r"^_?Py"), "the interpreter"),
)
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Unresolved:
    """A symbol that nothing in the target defines.

    Attributes:
        symbol: as linked.
        text: demangled, where it is a C++ name.
        owner: the library that should have it, as far as its name tells.
        near: a function of the same name with other parameters that the target has, demangled.
    """

    symbol: Symbol
    text: str
    owner: str | None
    near: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Linkage:
    """What came of linking one library, without doing it.

    Attributes:
        path: the library in the wheel.
        missing: what NEEDED names and nobody has.
        unresolved: symbols that nothing defines.
        loose: symbols that a library defines to which NEEDED does not lead: (symbol, library).
        resolved: how many symbols were found.
    """

    path: str
    missing: tuple[str, ...]
    unresolved: tuple[Unresolved, ...]
    loose: tuple[tuple[str, str], ...]
    resolved: int


def own_providers(libraries: Iterable[Library]) -> tuple[Provider, ...]:
    """The libraries of a wheel, under their file names and sonames."""
    found = []
    for library in libraries:
        if library.elf is not None:
            names = {PurePosixPath(library.path).name, library.elf.soname or ""} - {""}
            found += [
                Provider(
                    name=name,
                    origin="wheel",
                    needed=library.elf.needed,
                    defined=frozenset(library.elf.defined),
                )
                for name in sorted(names)
            ]
    return tuple(found)


def _scope(
    elf: ElfFacts, own: tuple[Provider, ...], around: Surroundings
) -> tuple[list[Provider], list[str]]:
    """What NEEDED leads to, and the names of what is missing there."""
    mine = {provider.name: provider for provider in own}
    waiting, seen = list(elf.needed), set[str]()
    scope, missing = [], []
    while waiting:
        name = waiting.pop(0)
        if name in seen or _DRIVER.fullmatch(name):
            continue
        seen.add(name)
        provider = mine.get(name) or around.find(name)
        if provider is not None:
            scope.append(provider)
            waiting += provider.needed
        elif name in elf.needed:
            missing.append(name)
    return scope, missing


def link(library: Library, own: tuple[Provider, ...], around: Surroundings) -> Linkage | None:
    """Resolve the symbols of one library; None where it has no host part."""
    elf = library.elf
    if elf is None:
        return None
    scope, missing = _scope(elf, own, around)
    at_hand = frozenset[str]().union(*(p.defined for p in (*scope, *around.interpreter())))
    wanted = [s for s in elf.undefined if not s.weak]
    open_ones = [
        s
        for s in wanted
        if s.name not in at_hand and not (not s.version and _DRIVER_SYMBOL.fullmatch(s.name))
    ]
    loose: list[tuple[str, str]] = []
    if open_ones:
        loose = _loose(open_ones, (*own, *around.packaged()))
    found = {name for name, _ in loose}
    lost = [s for s in open_ones if s.name not in found]
    everything = [*own, *around.packaged()] if lost else []
    return Linkage(
        path=library.path,
        missing=tuple(missing),
        unresolved=tuple(_unresolved(symbol, everything) for symbol in lost),
        loose=tuple(loose),
        resolved=len(wanted) - len(lost),
    )


def _loose(symbols: list[Symbol], providers: Iterable[Provider]) -> list[tuple[str, str]]:
    left = {symbol.name for symbol in symbols}
    found = []
    for provider in providers:
        if not left:
            break
        here = sorted(left & provider.defined)
        found += [(name, provider.name) for name in here]
        left -= set(here)
    return found


def _stem(name: str) -> str:
    """A mangled function name without its parameters: ``_ZN3c105ErrorC2E``."""
    match = re.match(r"_ZN[KVrRO]*", name)
    if match is None:
        return ""
    at = match.end()
    while number := re.compile(r"\d+").match(name, at):
        at = number.end() + int(number[0])
    return name[:at] if at < len(name) else ""


def _near(name: str, providers: Iterable[Provider]) -> str | None:
    """What the target has under the same C++ name with other parameters."""
    stem = _stem(name)
    wanted = (demangle(name) or "").partition("(")[0]
    if not stem or not wanted:
        return None
    for provider in providers:
        for other in provider.defined:
            if other.startswith(stem):
                text = demangle(other) or ""
                if text.partition("(")[0] == wanted:
                    return f"{text} in {provider.name}"
    return None


def _unresolved(symbol: Symbol, providers: list[Provider]) -> Unresolved:
    owner = next((name for rule, name in _OWNERS if rule.search(symbol.name)), None)
    family = symbol.version.partition("_")[0]
    versions = {"GLIBC": "libc.so.6", "GLIBCXX": "libstdc++.so.6", "CXXABI": "libstdc++.so.6"}
    return Unresolved(
        symbol=symbol,
        text=demangle(symbol.name) or symbol.name,
        owner=versions.get(family) or owner,
        near=_near(symbol.name, providers),
    )


def _symbol_word(one: Unresolved, elf: ElfFacts) -> str:
    """The class of an unresolved symbol: C++11 ABI, torch ABI, or any other."""
    is_torch = one.symbol in torch_symbols(elf)
    near = one.near or ""
    if is_torch and cxx11_abi(elf) is False and ("__cxx11" in near or "basic_string" in near):
        return "abi-cxx11"
    return "abi-torch" if is_torch else "symbol-undefined"


def _symbol_faults(linkage: Linkage, elf: ElfFacts) -> Iterator[Fault]:
    for one in linkage.unresolved[:_SHOWN]:
        owner = f", which {one.owner} should define" if one.owner else ""
        near = f"; the target has {one.near}" if one.near else ""
        text = f"{linkage.path}: nothing defines {one.text!r}{owner}{near}"
        yield Fault(word=_symbol_word(one, elf), text=text)
    if (more := len(linkage.unresolved) - _SHOWN) > 0:
        yield Fault(
            word="symbol-undefined", text=f"{linkage.path}: {more} more symbols are undefined"
        )


def _runpath_faults(path: str, elf: ElfFacts) -> Iterator[Fault]:
    for entry in (*elf.runpath, *elf.rpath):
        if not entry.startswith(("$ORIGIN", "${ORIGIN}")) and not _SYSTEM_RUNPATH.match(entry):
            text = f"{path}: its run path names {entry!r}, a folder of the machine that built it"
            yield Fault(word="runpath-build", text=text)


def _cuda_faults(path: str, elf: ElfFacts, cuda: str | None) -> Iterator[Fault]:
    majors = cuda_majors(elf)
    wanted = cuda.partition(".")[0] if cuda else None
    strange = [m for m in majors if wanted is not None and str(m) != wanted]
    if len(majors) > 1 or strange:
        need = " and ".join(f"CUDA {major}" for major in majors)
        text = f"{path}: is linked with {need}"
        told = f", the target's torch is built with CUDA {cuda}" if cuda else ""
        yield Fault(word="cuda-major", text=text + told)


def _library_faults(linkage: Linkage, elf: ElfFacts, around: Surroundings) -> list[Fault]:
    where = "neither the wheel nor the target has"
    faults = [
        Fault(word="library-missing", text=f"{linkage.path}: needs {name!r}, which {where}")
        for name in linkage.missing
    ]
    faults += _cuda_faults(linkage.path, elf, around.target.cuda)
    faults += _symbol_faults(linkage, elf)
    faults += _runpath_faults(linkage.path, elf)
    return faults


def judge_links(wheel: WheelFacts, devices: Iterable[Device], around: Surroundings | None) -> Rung:
    """The level `links` of a wheel in a target.

    Args:
        wheel: its facts.
        devices: the devices asked about; symbols are the same for all.
        around: the target's libraries; None where there is no target, then nothing is verified
            but the wheel's own tags.

    Returns:
        Faults with the words ``library-missing``, ``cuda-major``, ``abi-torch``, ``abi-cxx11``,
        ``symbol-undefined``, ``runpath-build`` and those of
        :func:`kernforge.verify.tagging.check_tags`.
    """
    tags = check_tags(wheel)
    faults = list(tags.faults)
    notes = list(tags.notes)
    if around is None:
        unknown = "links: not verified; no target environment was given"
        return rung("links", devices, faults, unknown=unknown, notes=tuple(notes))
    own = own_providers(wheel.libraries)
    for library in wheel.libraries:
        linkage = link(library, own, around)
        if linkage is None or library.elf is None:
            faults.append(
                Fault(word="links-unread", text=f"{library.path}: its symbols cannot be read")
            )
            continue
        faults += _library_faults(linkage, library.elf, around)
        if linkage.loose:
            name, owner = linkage.loose[0]
            many = f"{len(linkage.loose)} symbols, as {name!r} of {owner}"
            notes.append(f"{library.path}: NEEDED does not lead to {many}")
    return rung("links", devices, faults, notes=tuple(notes))
