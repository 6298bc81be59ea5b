"""Read fat binaries: containers one after another, each with entries for several archs.

Room `binary`. One bad entry or container is a finding and the rest is read on; the position only
ever grows, so the work is linear in the bytes whatever they say.

Layout as measured on libraries of CUDA 11.8 to 13.x: a container is u32 magic, u16 version, u16
header size, u64 size of what follows; an entry is u16 kind, u16 version, u32 header size, u64
stored size, u32 compressed size (without padding) @16, u16 minor and u16 major of the PTX ISA
@24, u32 arch @28, u64 flags @40, u64 unpacked size @56.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from kernforge.arch import Arch
from kernforge.binary.cubin import compiled_number, cubin_content, is_executable, ptx_kernels
from kernforge.binary.facts import Compression, Image, ImageKind
from kernforge.binary.findings import FindingLog, GarbledError
from kernforge.binary.payload import Content, Packed, unpacked

MAGIC = b"\x50\xed\x55\xba"
_CONTAINER = struct.Struct("<4sHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_MAGIC_AT = re.compile(re.escape(MAGIC))
_NOT_ZERO = re.compile(rb"[^\0]")
_KINDS = {1: ImageKind.PTX, 2: ImageKind.CUBIN, 8: ImageKind.LTO}
_LZ4, _ZSTD = 0x2000, 0x8000
_COMPRESSIONS = {0: Compression.NONE, _LZ4: Compression.LZ4, _ZSTD: Compression.ZSTD}
_SUFFIX_A, _SUFFIX_F = 0x100000, 0x200000
_WIDE_SINCE = (7, 0)
_NUMBERS = range(10, 10_000)
_SUFFIX_SINCE = 90
_PADDING = 4096
_LIMIT = 1 << 18  # images or containers of one library; the richest seen has 4,077


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry(Packed):
    """An entry's header and its stored bytes; ``end`` is where the next one begins."""

    kind: ImageKind
    arch: Arch
    isa: str
    module: int
    end: int


def _arch(number: int, flags: int) -> Arch:
    suffix = "a" if flags & _SUFFIX_A else "f" if flags & _SUFFIX_F else ""
    return Arch(major=number // 10, minor=number % 10, suffix=suffix)


def _read_entry(data: memoryview, at: int, stop: int, module: int) -> _Entry:
    """The entry at ``at`` of a container that ends at ``stop``."""
    if at + _ENTRY.size > stop:
        raise GarbledError("image-truncated", f"{stop - at} bytes at {at} hold no entry")
    fields = _ENTRY.unpack_from(data, at)
    kind, _, header, size, packed, _, minor, major, number, _, _, flags, _, unpacked = fields
    begin, end = at + header, at + header + size
    if header < _ENTRY.size or end > stop:
        text = f"the entry at {at} ends at {end}, its container at {stop}"
        raise GarbledError("image-truncated", text)
    compression = _COMPRESSIONS.get(flags & (_LZ4 | _ZSTD))
    if compression is None:
        raise GarbledError("image-garbled", f"the entry at {at} says LZ4 and zstd at once")
    if packed > size or number not in _NUMBERS:
        text = f"the entry at {at} says arch {number}, {packed} of {size} bytes compressed"
        raise GarbledError("image-garbled", text)
    raw = compression is Compression.NONE
    length = size if raw else packed
    return _Entry(
        kind=_KINDS.get(kind, ImageKind.OTHER),
        arch=_arch(number, flags),
        compression=compression,
        unpacked=size if raw else unpacked,
        isa=f"{major}.{minor}",
        module=module,
        stored=data[begin : begin + length],
        end=end,
    )


def _entry_end(data: memoryview, at: int, stop: int) -> int:
    """Where a garbled entry ends by its own word, or 0 where that cannot be."""
    if at + _ENTRY.size > stop:
        return 0
    fields = _ENTRY.unpack_from(data, at)
    end: int = at + fields[2] + fields[3]
    return end if fields[2] >= _ENTRY.size and end <= stop else 0


def _header_after(data: memoryview, at: int) -> int:
    """Where the next whole container header stands, or the end."""
    while (found := _MAGIC_AT.search(data, at)) is not None:
        at = found.start()
        if at + _CONTAINER.size > len(data):
            break
        if _CONTAINER.unpack_from(data, at)[2] == _CONTAINER.size:
            return at
        at += len(MAGIC)
    return len(data)


def _ends_well(data: memoryview, stop: int) -> bool:
    """Whether a container that ends here is followed by another, or by nothing but padding."""
    if stop > len(data):
        return False
    found = _NOT_ZERO.search(data, stop, stop + _PADDING)
    return found is None or data[found.start() : found.start() + len(MAGIC)] == MAGIC


class FatbinReader:
    """Reads the containers of one library's sections, one section after another.

    Attributes:
        images: every entry read so far.
        modules: containers seen so far.
    """

    def __init__(self, log: FindingLog, *, kernels: bool) -> None:
        self._log = log
        self._kernels = kernels
        self._found = 0
        self.images: list[Image] = []
        self.modules = 0

    def read(self, data: memoryview, *, registered: bool) -> None:
        """Read all containers of a section.

        Args:
            data: the bytes of the section.
            registered: whether the runtime registers this section, so that executable images in
                it count as linked (``.nv_fatbin``, not ``__nv_relfatbin``).
        """
        entries = list(self._entries(data))
        for entry, content in unpacked(entries, whole=self._kernels):
            self.images.append(self._image(entry, content, registered=registered))

    def read_cubin(self, data: memoryview) -> None:
        """Read a file that is one cubin. Its suffix is unknown: the narrowest is taken."""
        number = compiled_number(data)
        if number is None or number < _NUMBERS.start:
            self._log.note("image-garbled", "a cubin whose header names no arch")
            return
        arch = _arch(number, _SUFFIX_A if number >= _SUFFIX_SINCE else 0)
        if arch.suffix:
            text = f"a bare cubin does not say its suffix; {arch}, the narrowest, is taken"
            self._log.note("cubin-suffix", text)
        entry = _Entry(
            compression=Compression.NONE,
            unpacked=len(data),
            stored=data,
            kind=ImageKind.CUBIN,
            arch=arch,
            isa="",
            module=0,
            end=len(data),
        )
        self.images.append(self._image(entry, lambda: data, registered=True))

    def _entries(self, data: memoryview) -> Iterator[_Entry]:
        at = self._next_container(data, 0)
        while at < len(data) and self.modules < _LIMIT and self._found < _LIMIT:
            at = yield from self._container(data, at)
            self.modules += 1
            at = self._next_container(data, at)
        if at < len(data):
            self._log.note("images-many", f"what follows {_LIMIT} images was not read")

    def _next_container(self, data: memoryview, at: int) -> int:
        """The next place with a whole container header; zeros between are padding."""
        stop = _header_after(data, at)
        strange = _NOT_ZERO.search(data, at, stop)
        if strange:
            text = f"{stop - strange.start()} bytes at {strange.start()} are no fat binary"
            self._log.note("fatbin-garbled", text)
        return stop

    def _container(self, data: memoryview, at: int) -> Generator[_Entry, None, int]:
        """Read one container's entries; return where to look for the next container."""
        size: int
        _, _, _, size = _CONTAINER.unpack_from(data, at)
        at += _CONTAINER.size
        stop = at + size
        if not _ends_well(data, stop):
            limit = _header_after(data, at)
            text = f"container {self.modules} ends at {stop}, what follows begins at {limit}"
            self._log.note("fatbin-truncated", text)
            stop = min(stop, limit)
        while at < stop and self._found < _LIMIT:
            try:
                entry = _read_entry(data, at, stop, self.modules)
            except GarbledError as error:
                self._log.add(error.finding)
                after = _entry_end(data, at, stop)
                if not after:
                    return stop
                at = after
            else:
                self._found += 1
                yield entry
                at = entry.end
        return stop

    def _compare(self, entry: _Entry, number: int | None) -> None:
        listed = 10 * entry.arch.major + entry.arch.minor
        if number not in {None, listed}:
            text = f"module {entry.module} lists code for {number} as {entry.arch}"
            self._log.note("image-arch-differs", text)

    def _image(self, entry: _Entry, content: Content, *, registered: bool) -> Image:
        """The facts of one entry; what cannot be unpacked or parsed becomes a finding."""
        executable, isa, kernels = False, None, None
        refusals: tuple[str, ...] = ()
        try:
            if entry.kind is ImageKind.CUBIN:
                data = content()
                executable = is_executable(data)
                self._compare(entry, compiled_number(data))
                if self._kernels:
                    kernels, refusals = cubin_content(data, wide=entry.arch.number >= _WIDE_SINCE)
            elif entry.kind is ImageKind.PTX:
                isa = entry.isa
                if self._kernels:
                    written, kernels = ptx_kernels(content())
                    isa = written or isa
            elif entry.kind is ImageKind.OTHER:
                text = f"module {entry.module} has an entry of unknown kind for {entry.arch}"
                self._log.note("image-unknown", text)
        except GarbledError as error:
            text = f"module {entry.module}, {entry.kind} {entry.arch}: {error}"
            self._log.note(error.word, text)
        return Image(
            kind=entry.kind,
            arch=entry.arch,
            linked=registered and executable,
            module=entry.module,
            size=len(entry.stored),
            unpacked=entry.unpacked,
            compression=entry.compression,
            isa=isa,
            kernels=kernels,
            refusals=refusals,
        )
