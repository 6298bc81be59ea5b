"""Change libraries where it hurts: fields of headers, tables and entries rather than any byte."""

import struct
from dataclasses import dataclass

from hypothesis import strategies as st

from kernforge.binary.elf import Elf, read_elf
from kernforge.binary.facts import Library
from kernforge.binary.findings import GarbledError
from kernforge.binary.library import read_library

_ELF_HEADER = [(16, 2), (18, 2), (40, 8), (48, 4), (58, 2), (60, 2), (62, 2)]
_SECTION = [(0, 4), (4, 4), (24, 8), (32, 8), (40, 4), (56, 8)]
_SYMBOL = [(0, 4), (4, 1), (5, 1), (6, 2), (8, 8), (16, 8)]
_CONTAINER = [(0, 4), (6, 2), (8, 8)]
_ENTRY = [(0, 2), (4, 4), (8, 8), (16, 4), (24, 2), (26, 2), (28, 4), (40, 8), (56, 8)]
_TABLES = {2: (24, _SYMBOL), 11: (24, _SYMBOL), 6: (16, [(0, 8), (8, 8)]), 18: (4, [(0, 4)])}
_TABLES |= {0x6FFFFFFE: (16, [(0, 2), (2, 2), (4, 4), (8, 4), (12, 4)]), 0x6FFFFFFF: (2, [(0, 2)])}
_ROWS = 40


def _elf_fields(data, start, size):
    """Fields of an ELF that stands at `start`: header, sections and the first rows of tables."""
    yield from ((start + at, width) for at, width in _ELF_HEADER)
    try:
        elf = read_elf(data[start : start + size])
    except GarbledError:
        return
    table = struct.unpack_from("<Q", data, start + 40)[0]
    for number, section in enumerate(elf.sections):
        head = start + table + 64 * number
        yield from ((head + at, width) for at, width in _SECTION)
        row, fields = _TABLES.get(section.type, (0, []))
        for place in range(0, min(section.size, _ROWS * row), row or 1):
            for at, width in fields:
                yield start + section.offset + place + at, width


def _fatbin_fields(data, at, stop):
    """Fields of containers and entries, of cubins stored raw, and of compressed streams."""
    while at + 16 <= stop and data[at : at + 4] == b"\x50\xed\x55\xba":
        yield from ((at + place, width) for place, width in _CONTAINER)
        header, size = struct.unpack_from("<HQ", data, at + 6)
        at += header
        end = min(at + size, stop)
        while at + 64 <= end:
            yield from ((at + place, width) for place, width in _ENTRY)
            head, stored = struct.unpack_from("<IQ", data, at + 4)
            body = at + head
            if data[body : body + 4] == b"\x7fELF":
                yield from _elf_fields(data, body, stored)
            else:
                yield from ((body + place, 1) for place in range(min(stored, 64)))
            at = body + stored


def fields(data):
    """(offset, width) of each field of a library, those of device code last."""
    view = memoryview(data)
    if view[:4] == b"\x50\xed\x55\xba":
        return list(_fatbin_fields(view, 0, len(view)))
    found = list(_elf_fields(view, 0, len(view)))
    elf: Elf = read_elf(view)
    for _, section in elf.find(b".nv_fatbin", b"__nv_relfatbin"):
        found += _fatbin_fields(view, section.offset, section.offset + section.size)
    return [(at, width) for at, width in found if at >= 4 and at + width <= len(view)]


VALUES = st.one_of(
    st.sampled_from([0, 1, 2, 8, 0x10, 0xFF, 0x7FFF, 0xFFFE, 0xFFFF, 0x10000]),
    st.sampled_from([(1 << n) - d for n in (31, 32, 40, 62, 63, 64) for d in (0, 1)]),
    st.integers(-70, 70).map(lambda n: n % (1 << 64)),
    st.integers(0, (1 << 64) - 1),
)


@dataclass
class Edit:
    """Write a value, or with `add` add it to what stands there, in the chosen field."""

    field: int
    value: int
    add: bool


edits = st.lists(
    st.builds(Edit, field=st.integers(0, (1 << 20) - 1), value=VALUES, add=st.booleans()),
    min_size=1,
    max_size=6,
)


class Target:
    """A library that is changed in place and put back."""

    def __init__(self, name, data):
        self.name = name
        self.data = bytearray(data)
        self.fields = fields(data)
        self.count = 0
        self.past_magic = 0

    def apply(self, changes):
        """Change fields; answers what stood there, for undoing."""
        undo = []
        for change in changes:
            at, width = self.fields[change.field % len(self.fields)]
            old = bytes(self.data[at : at + width])
            value = change.value + (int.from_bytes(old, "little") if change.add else 0)
            undo.append((at, old))
            self.data[at : at + width] = (value % (1 << 8 * width)).to_bytes(width, "little")
        return undo

    def check(self, changes, cut):
        """Read the changed library and say what must hold whatever the bytes are."""
        undo = self.apply(changes)
        try:
            with memoryview(self.data) as view:
                library = read_library(view[: len(view) - cut], self.name)
        finally:
            for at, old in reversed(undo):
                self.data[at : at + len(old)] = old
        self.count += 1
        self.past_magic += library.elf is not None or bool(library.images)
        check(library)


def check(library: Library):
    """What holds of every library, however hostile."""
    assert len(library.findings) <= 101
    assert library.modules <= 1 << 18
    for image in library.images:
        assert not (image.linked and image.kind != "cubin")
        assert 1 <= image.arch.major < 1000
        if image.kernels:
            assert [k.name for k in image.kernels] == sorted(k.name for k in image.kernels)
            assert sum(k.code_bytes for k in image.kernels) <= 2 * image.unpacked
            assert all(16 * k.traps <= k.code_bytes + 15 for k in image.kernels)


def shorten(data, most=1 << 17):
    """The same library, each section of device code declared to end after 128 KiB of containers."""
    data = bytearray(data)
    elf = read_elf(bytes(data))
    table = struct.unpack_from("<Q", data, 40)[0]
    for _, section in elf.find(b".nv_fatbin", b"__nv_relfatbin"):
        at, stop = section.offset, section.offset + section.size
        while at < min(stop, section.offset + most) and data[at : at + 4] == b"\x50\xed\x55\xba":
            at += 16 + struct.unpack_from("<Q", data, at + 8)[0]
        head = table + 64 * elf.sections.index(section)
        struct.pack_into("<Q", data, head + 32, min(section.size, at - section.offset))
    return bytes(data)


def raw(library_data, most=1 << 17):
    """The first containers of a library as a bare fat binary with every image stored raw."""
    from kernforge.binary.facts import Compression
    from kernforge.binary.payload import Packed, unpack

    from .forge import make_container

    view = memoryview(library_data)
    out = b""
    for _, section in read_elf(view).find(b".nv_fatbin", b"__nv_relfatbin"):
        at, stop = section.offset, section.offset + section.size
        while at < stop and len(out) < most and view[at : at + 4] == b"\x50\xed\x55\xba":
            header, size = struct.unpack_from("<HQ", view, at + 6)
            place, end, entries = at + header, at + header + size, []
            while place < end:
                head, stored, packed = struct.unpack_from("<IQI", view, place + 4)
                flags, unpacked = struct.unpack_from("<Q8xQ", view, place + 40)
                body = view[place + head : place + head + stored]
                how = Compression.ZSTD if flags & 0x8000 else Compression.LZ4
                if flags & 0xA000:
                    piece = Packed(compression=how, unpacked=unpacked, stored=body[:packed])
                    body = unpack(piece, _Fresh())
                entry = bytearray(view[place : place + 64])
                content = bytes(body) + bytes(-len(body) % 8)
                struct.pack_into("<IQI", entry, 4, 64, len(content), 0)
                struct.pack_into("<Q", entry, 40, flags & ~0xA000)
                entries.append(bytes(entry) + content)
                place += head + stored
            out += make_container(*entries)
            at = end
    return out


class _Fresh:
    """New memory for each image."""

    def take(self, size):
        return memoryview(bytearray(size))
