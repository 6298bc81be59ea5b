"""What compiles kernels at run time, and whether its compilers are there.

Room `doctor`. Programs are looked up and never started; a toolkit's release is read from its files.
Sources: sglang's kernels/jit and flashinfer look for nvcc by CUDA_HOME, then CUDA_PATH, then PATH,
then `/usr/local/cuda`; triton brings its own ptxas and compiles a launcher in C.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from kernforge.arch import Device, cuda_problem, parse_cuda
from kernforge.doctor.files import is_folder, read_text, regular
from kernforge.doctor.installed import Installed
from kernforge.doctor.interpreter import Interpreter
from kernforge.doctor.targets import native_arch

_CUDA_KIT = ("nvcc", "c++", "ninja")
_COMPILING: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    # distribution -> what it compiles, programs, folders one of which must be there (none: always)
    "sglang": ("its kernels/jit", _CUDA_KIT, ("jit_kernel", "kernels/jit")),
    "flashinfer-python": ("its kernels, but for those of flashinfer-jit-cache", _CUDA_KIT, ()),
    "flashinfer": ("its kernels", _CUDA_KIT, ()),
    "deep-gemm": ("its matrix kernels", ("nvcc",), ()),
    "sgl-deep-gemm": ("its matrix kernels", ("nvcc",), ()),
    "tilelang": ("its kernels", ("nvcc",), ()),
    "triton": ("Triton kernels, with a ptxas of its own", ("cc",), ()),
}
_COMPANIONS = (("flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache"),)
"""Parts of one library that check each other's version when they are imported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """What names compilers: PATH, CUDA_HOME and CUDA_PATH, and where the system keeps toolkits."""

    path: str
    cuda: tuple[str, ...]
    system: Path = Path("/usr/local")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that run-time compilation wants.

    Attributes:
        name: ``nvcc``, ``c++``, ``cc`` or ``ninja``.
        path: where it is, or None.
        release: of nvcc, where its toolkit says it.
        note: what else a reader should know, or empty.
    """

    name: str
    path: str | None
    release: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiling:
    """A distribution that compiles at run time: what, with which programs, and what hinders it."""

    distribution: str
    what: str
    programs: tuple[str, ...]
    troubles: tuple[str, ...]


def find_programs(interpreter: Interpreter, where: Where) -> tuple[Program, ...]:
    """Look up the programs of run-time compilation as the libraries do."""
    path = os.pathsep.join([str(interpreter.prefix / "bin"), where.path])
    found = [_nvcc(interpreter, where, path)]
    for name, others in (("c++", ("c++", "g++")), ("cc", ("gcc", "cc", "clang")), ("ninja", ())):
        places = (shutil.which(word, path=path) for word in (others or (name,)))
        found.append(Program(name=name, path=next((p for p in places if p), None)))
    return tuple(found)


def _nvcc(interpreter: Interpreter, where: Where, path: str) -> Program:
    named = [Path(root) / "bin/nvcc" for root in where.cuda if root]
    on_path = shutil.which("nvcc", path=path)
    usual = where.system / "cuda/bin/nvcc"
    for place in (*named, *([Path(on_path)] if on_path else []), usual):
        if regular(place) is not None:
            real = Path(os.path.realpath(place))
            return Program(name="nvcc", path=str(place), release=_release(real.parent.parent))
    for site in interpreter.sites:
        for root in ("nvidia/cu13", "nvidia/cuda_nvcc", "nvidia/cu12"):
            if regular(site / root / "bin/nvcc") is not None:
                note = f"found only with CUDA_HOME={site / root}"
                return Program(name="nvcc", path=None, note=note)
    lost = f"; CUDA_HOME or CUDA_PATH names {str(named[0].parent.parent)!r}" if named else ""
    return Program(name="nvcc", path=None, note=lost.removeprefix("; "))


def _release(root: Path) -> str | None:
    """The CUDA release of a toolkit, as its version.json says."""
    try:
        document = json.loads(read_text(root / "version.json", 1 << 20) or "")
        version = str(document["cuda"]["version"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return ".".join(version.split(".")[:2])


def compiling(
    installed: dict[str, Path], programs: tuple[Program, ...], devices: tuple[Device, ...]
) -> tuple[Compiling, ...]:
    """Which of the distributions compile at run time, and what is missing for it.

    Args:
        installed: folder of each distribution's package by compared name.
        programs: from :func:`find_programs`.
        devices: what would be compiled for.
    """
    by_name = {program.name: program for program in programs}
    found = []
    for name, (what, wanted, marks) in _COMPILING.items():
        folder = installed.get(name)
        if folder is None or (marks and not any(is_folder(folder / mark) for mark in marks)):
            continue
        troubles = [_trouble(by_name[word], devices) for word in wanted]
        found.append(
            Compiling(
                distribution=name,
                what=what,
                programs=wanted,
                troubles=tuple(text for text in troubles if text),
            )
        )
    return tuple(found)


def _trouble(program: Program, devices: tuple[Device, ...]) -> str:
    if program.path is None:
        return f"{program.name} is not found" + (f" ({program.note})" if program.note else "")
    if program.release is None:
        return ""
    problems = [cuda_problem(native_arch(d), parse_cuda(program.release)) for d in devices]
    told = [problem for problem in problems if problem]
    return f"{program.path}: {told[0]}" if told else ""


def out_of_step(installed: tuple[Installed, ...]) -> list[tuple[str, str]]:
    """Parts of one library that are there in different versions: (distribution, sentence)."""
    by_key = {one.key: one for one in installed}
    found = []
    for parts in _COMPANIONS:
        here = [by_key[part] for part in parts if part in by_key]
        public = {(one.version or "unknown").partition("+")[0] for one in here}
        if len(public) > 1:
            told = ", ".join(f"{one.name} {one.version or 'unknown'}" for one in here)
            text = f"its parts are of different versions and refuse each other: {told}"
            found.append((here[0].key, text))
    return found
