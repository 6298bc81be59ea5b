"""The libraries that a target offers to a wheel: torch's, CUDA's, the system's, the interpreter's.

Reads the dynamic tables of files in an environment and on this machine, each once and only where
it is asked for. Nothing is loaded or executed.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kernforge.binary.dynamic import elf_facts
from kernforge.binary.elf import read_elf
from kernforge.binary.facts import ElfFacts
from kernforge.binary.findings import FindingLog, GarbledError
from kernforge.binary.opening import open_file
from kernforge.toolchain.torchfacts import torch_cuda, torch_folder

SYSTEM_FOLDERS = tuple(
    Path(name)
    for name in (
        "/lib/x86_64-linux-gnu",
        "/usr/lib/x86_64-linux-gnu",
        "/lib/aarch64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/lib64",
        "/usr/lib64",
        "/lib",
        "/usr/lib",
    )
)
"""Where the loader of a Linux distribution looks, in its order."""
_PACKAGED = ("torch/lib", "nvidia/*/lib", "nvidia/*/lib64", "*.libs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A library that may define symbols.

    Attributes:
        name: its file name, as NEEDED has it.
        origin: ``torch``, ``cuda``, ``environment``, ``python``, ``system`` or ``wheel``.
        needed: what it needs in turn.
        defined: names of the symbols that it defines.
    """

    name: str
    origin: str
    needed: tuple[str, ...]
    defined: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a wheel is held against.

    Attributes:
        site: the environment's site-packages.
        python: its interpreter, links resolved.
        torch: whether torch is in it.
        cuda: the CUDA release that torch was built with; None without torch or CUDA.
        system: folders of the system's libraries.
    """

    site: Path
    python: Path
    torch: bool
    cuda: str | None
    system: tuple[Path, ...] = SYSTEM_FOLDERS


def target_of(environment: Path) -> Target:
    """The target that an environment is.

    Raises:
        OSError: where it holds no interpreter, or torch's own facts cannot be read.
    """
    python = (environment / "bin/python").resolve(strict=True)
    folder = torch_folder(environment)
    site = folder.parent if folder else _site(environment)
    cuda = torch_cuda(folder) if folder else None
    return Target(site=site, python=python, torch=folder is not None, cuda=cuda)


def _site(environment: Path) -> Path:
    found = sorted(environment.glob("lib/python3*/site-packages"))
    if not found:
        raise FileNotFoundError(2, "no site-packages", str(environment))
    return found[0]


def read_dynamic(path: Path) -> ElfFacts | None:
    """The dynamic part of a library on disk; None where it is no library that can be read."""
    try:
        with (
            open_file(path) as stream,
            mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            return _parsed(data)
    except (OSError, ValueError):  # ValueError: an empty file cannot be mapped
        return None


def _parsed(data: mmap.mmap) -> ElfFacts | None:
    # Caught in here: a mapping cannot be closed while an exception's frames hold views of it.
    try:
        return elf_facts(read_elf(data), FindingLog())
    except GarbledError:
        return None


class Surroundings:
    """Finds the libraries of a target by the name that NEEDED gives them."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._known: dict[str, Provider | None] = {}
        self._facts: dict[Path, ElfFacts | None] = {}
        self._packaged = dict(self._packaged_files())

    @property
    def target(self) -> Target:
        """What they surround."""
        return self._target

    def _packaged_files(self) -> Iterator[tuple[str, Path]]:
        for pattern in reversed(_PACKAGED):
            for folder in sorted(self._target.site.glob(pattern)):
                for path in sorted(folder.glob("*.so*")):
                    yield path.name, path

    def _origin(self, path: Path) -> str:
        parts = path.relative_to(self._target.site).parts
        return {"torch": "torch", "nvidia": "cuda"}.get(parts[0], "environment")

    def find(self, name: str) -> Provider | None:
        """The library of a name, or None where the target has none."""
        if name not in self._known:
            self._known[name] = self._read(name)
        return self._known[name]

    def _read(self, name: str) -> Provider | None:
        if (packaged := self._packaged.get(name)) is not None:
            return self._provider(name, packaged, self._origin(packaged))
        for folder in (self._target.python.parent.parent / "lib", *self._target.system):
            if (folder / name).exists():
                origin = "system" if folder in self._target.system else "python"
                return self._provider(name, folder / name, origin)
        return None

    def _provider(self, name: str, path: Path, origin: str) -> Provider | None:
        elf = self._dynamic(path)
        if elf is None:
            return None
        return Provider(name=name, origin=origin, needed=elf.needed, defined=frozenset(elf.defined))

    def _dynamic(self, path: Path) -> ElfFacts | None:
        """The dynamic part of a file, read once: both levels ask for torch's large libraries."""
        real = path.resolve()
        if real not in self._facts:
            self._facts[real] = read_dynamic(real)
        return self._facts[real]

    def interpreter(self) -> tuple[Provider, ...]:
        """The interpreter and the libraries that it needs: what every module finds loaded."""
        program = self._provider(self._target.python.name, self._target.python, "python")
        if program is None:
            return ()
        return (program, *self.closure(program.needed))

    def closure(self, needed: Iterable[str]) -> tuple[Provider, ...]:
        """Every library that is needed, and what those need, in the loader's order."""
        waiting, seen = list(needed), set[str]()
        found = []
        while waiting:
            name = waiting.pop(0)
            if name in seen:
                continue
            seen.add(name)
            if (provider := self.find(name)) is not None:
                found.append(provider)
                waiting += provider.needed
        return tuple(found)

    def packaged(self) -> Iterator[Provider]:
        """Every library that packages of the environment bring, torch's first."""
        for name, path in sorted(
            self._packaged.items(), key=lambda item: (self._origin(item[1]) != "torch", item[0])
        ):
            if (provider := self.find(name)) is not None and path.is_file():
                yield provider

    def packaged_facts(self) -> Iterator[ElfFacts]:
        """The dynamic part of every library that packages of the environment bring."""
        for path in {path.resolve() for path in self._packaged.values()}:
            if (elf := self._dynamic(path)) is not None:
                yield elf
