"""What was read from a binary, as values: images, kernels, libraries, wheels. Facts, no judgement.

Lowest module of the room `binary`: knows the architectures and nothing of files or formats.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kernforge.arch import Arch

_HOST_WORDS = frozenset({"dynamic-garbled"})


class ImageKind(StrEnum):
    """What an entry of a fat binary holds."""

    CUBIN = "cubin"
    """Machine code of one architecture."""
    PTX = "ptx"
    """Text that a driver can still compile."""
    LTO = "lto"
    """Compiler intermediate code for link-time optimisation; never loaded."""
    OTHER = "other"
    """A kind that this reader does not know."""


class Compression(StrEnum):
    """How an entry of a fat binary is stored."""

    NONE = "none"
    LZ4 = "lz4"
    ZSTD = "zstd"


class State(StrEnum):
    """What could be said of a library as a whole."""

    DEVICE_CODE = "device code"
    HOST_ONLY = "no device code"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that could not be read, or is not what it says it is.

    Attributes:
        word: stable lower-case identifier, as ``image-truncated``.
        text: one sentence with the place and the values.
    """

    word: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One entry function of one image.

    Attributes:
        name: symbol name as compiled (mangled).
        code_bytes: bytes of machine code in the kernel's own section; 0 for PTX.
        traps: trap instructions in that code; 0 for PTX and for archs below 7.0, whose
            instructions have another size.
        matrix: whether there is a tensor core instruction in that code; False where traps are
            not counted.
    """

    name: str
    code_bytes: int
    traps: int
    matrix: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One entry of one fat binary container.

    Attributes:
        kind: what it holds.
        arch: the target it was compiled for; ``arch.ptx`` is always False.
        linked: True where it is an executable image in a section that the runtime registers;
            False for relocatable images and for all that stands in ``__nv_relfatbin``.
        module: index of its container in the library, counted from 0.
        size: bytes as stored, padding left out where the entry says so.
        unpacked: bytes after decompression.
        compression: how it is stored.
        isa: PTX ISA version as ``9.0`` for PTX, else None.
        kernels: entry functions sorted by name; None where they were not read.
        refusals: texts in it with which libraries of kernels refuse an arch, sorted; they belong
            to some of its kernels, it is not known which.
    """

    kind: ImageKind
    arch: Arch
    linked: bool
    module: int
    size: int
    unpacked: int
    compression: Compression
    isa: str | None = None
    kernels: tuple[Kernel, ...] | None = None
    refusals: tuple[str, ...] = ()

    @property
    def serves_code(self) -> bool:
        """Whether this is linked machine code, the only thing that covers a device."""
        return self.kind is ImageKind.CUBIN and self.linked

    @property
    def label(self) -> str:
        """The arch as inspect prints it: ``12.0a``, or ``9.0+PTX`` for PTX."""
        return f"{self.arch}+PTX" if self.kind is ImageKind.PTX else str(self.arch)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Symbol:
    """One dynamic symbol of a host library.

    Attributes:
        name: as linked (mangled).
        version: version it is bound to, as ``GLIBC_2.17``; empty where there is none.
        weak: whether the loader accepts that an undefined one stays unresolved.
    """

    name: str
    version: str = ""
    weak: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ElfFacts:
    """What the host part of a library asks for and offers.

    Attributes:
        kind: ``shared``, ``executable``, ``relocatable`` or ``other``.
        machine: as ``x86_64`` or ``aarch64``.
        soname: DT_SONAME, or None.
        needed: DT_NEEDED in order.
        runpath: entries of DT_RUNPATH in order, unexpanded.
        rpath: entries of DT_RPATH in order, unexpanded.
        floors: for each version family needed (``GLIBC``, ``GLIBCXX``, ``CXXABI`` ...), the
            highest version, sorted by family.
        defined: names of the dynamic symbols that it defines, sorted.
        undefined: dynamic symbols that others must define, sorted.
    """

    kind: str
    machine: str
    soname: str | None
    needed: tuple[str, ...]
    runpath: tuple[str, ...]
    rpath: tuple[str, ...]
    floors: tuple[tuple[str, str], ...]
    defined: tuple[str, ...]
    undefined: tuple[Symbol, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """One file with native code, host and device.

    Attributes:
        path: where it stands, relative to the wheel or folder it was read from.
        size: bytes of the file.
        modules: fat binary containers found.
        images: their entries in the order of the file.
        elf: the host part; None where it could not be read or there is none.
        findings: what could not be read.
    """

    path: str
    size: int
    modules: int
    images: tuple[Image, ...]
    elf: ElfFacts | None
    findings: tuple[Finding, ...]

    @property
    def state(self) -> State:
        """Whether it holds device code, holds none, or could not be read."""
        if self.images:
            return State.DEVICE_CODE
        doubtful = any(finding.word not in _HOST_WORDS for finding in self.findings)
        return State.UNREADABLE if doubtful else State.HOST_ONLY


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelFacts:
    """One wheel, read without unpacking it to disk.

    Attributes:
        file: name of the file.
        size: bytes of the file.
        name: distribution name of the file name, normalised.
        version: version of the file name.
        build: build tag of the file name, or empty.
        tags: expanded tags of the file name, sorted.
        metadata: header fields of METADATA in order, as (field, value).
        wheel: header fields of WHEEL in order, as (field, value).
        members: files in the archive.
        libraries: files with native code, sorted by path.
        findings: what is wrong with archive, names, metadata or RECORD.
    """

    file: str
    size: int
    name: str
    version: str
    build: str
    tags: tuple[str, ...]
    metadata: tuple[tuple[str, str], ...]
    wheel: tuple[tuple[str, str], ...]
    members: int
    libraries: tuple[Library, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFacts:
    """One folder, or the files of one installed distribution.

    Attributes:
        path: the folder, as it was given.
        name: distribution name, or None for a folder.
        version: distribution version, or None.
        libraries: files with native code, paths relative to the folder, sorted.
        findings: what could not be read.
    """

    path: str
    name: str | None
    version: str | None
    libraries: tuple[Library, ...]
    findings: tuple[Finding, ...]


Facts = Library | WheelFacts | TreeFacts
