"""Read the skeleton of an ELF file, host or device: header, sections, string tables.

Room `binary`. Every offset and count is checked against the bytes at hand before it is used, and
every loop is bounded by them; what does not fit raises :class:`GarbledError`. pyelftools is not
used here: it builds an object a symbol (some hundred times the time on a library with 20,000
kernels) and follows counts of the file without a limit. The tests compare with it.

Layout: System V ABI, "Object files" (gabi 4.1), 64-bit little-endian only, as CUDA itself.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from mmap import mmap

from kernforge.binary.findings import GarbledError

Buffer = bytes | bytearray | memoryview | mmap

MAGIC = b"\x7fELF"
ET_REL, ET_EXEC, ET_DYN = 1, 2, 3
EM_X86_64, EM_AARCH64, EM_CUDA = 62, 183, 190
SHT_SYMTAB, SHT_STRTAB, SHT_DYNAMIC, SHT_NOBITS, SHT_DYNSYM = 2, 3, 6, 8, 11
SHT_SYMTAB_SHNDX = 18
SHT_GNU_VERNEED, SHT_GNU_VERSYM = 0x6FFFFFFE, 0x6FFFFFFF

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NAME_LIMIT = 1 << 16
_ZERO = re.compile(rb"\0")
_SECTION_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One section header.

    Attributes:
        name: offset of the name in the table of names.
        type: SHT_*.
        offset: first byte, counted from the start of the file.
        size: bytes in the file.
        link: index of a related section.
    """

    name: int
    type: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Elf:
    """A readable ELF: the bytes, the header's facts and all section headers.

    Attributes:
        data: the whole file.
        type: ET_*.
        machine: EM_*.
        sections: all of them, index 0 included.
        names: index of the section that holds the names of sections.
    """

    data: memoryview
    type: int
    machine: int
    sections: tuple[Section, ...]
    names: int

    def bytes_of(self, section: Section) -> memoryview:
        """The bytes of a section.

        Raises:
            GarbledError: word ``elf-truncated`` where it reaches past the end of the file.
        """
        end = section.offset + section.size
        if section.type == SHT_NOBITS:
            return self.data[:0]
        if end > len(self.data):
            text = f"a section ends at {end}, the file at {len(self.data)}"
            raise GarbledError("elf-truncated", text)
        return self.data[section.offset : end]

    def linked(self, section: Section) -> Section:
        """The section that another one points at, as a symbol table at its strings.

        Raises:
            GarbledError: word ``elf-garbled`` where there is no such section.
        """
        if not 0 < section.link < len(self.sections):
            raise GarbledError("elf-garbled", f"a section links to section {section.link}")
        return self.sections[section.link]

    def find(self, *names: bytes) -> tuple[tuple[bytes, Section], ...]:
        """The sections of these names, in the order of the file.

        Raises:
            GarbledError: where the table of names cannot be read.
        """
        if not 0 < self.names < len(self.sections):
            return ()
        table = self.bytes_of(self.sections[self.names])
        # Most images have no section of the name; one search tells, without a look at each.
        stops = [name + b"\0" for name in names]
        wanted = {stop: stop[:-1] for stop in stops if re.search(re.escape(stop), table)}
        if not wanted:
            return ()
        found = []
        for section in self.sections:
            for stop, name in wanted.items():
                if table[section.name : section.name + len(stop)] == stop:
                    found.append((name, section))
        return tuple(found)

    def of_type(self, kind: int) -> Section | None:
        """The first section of a type."""
        return next((s for s in self.sections if s.type == kind), None)


class Strings:
    """A string table whose readers together may read only so much of it.

    A hostile symbol table can point a million symbols at one long string; the limit keeps the
    work linear in the size of the file.
    """

    def __init__(self, table: memoryview) -> None:
        self._table = table
        self._left = 16 * len(self._table) + _NAME_LIMIT

    def at(self, offset: int) -> str:
        """The string that begins at an offset, undecodable bytes escaped.

        The table is searched where it stands: a copy of each image's names costs more than that.

        Raises:
            GarbledError: word ``elf-garbled`` where it lies outside the table or has no end.
        """
        found = None
        if offset < len(self._table):
            found = _ZERO.search(self._table, offset, offset + _NAME_LIMIT)
        if found is None:
            raise GarbledError("elf-garbled", f"no string ends after offset {offset} of its table")
        end = found.start()
        self._left -= end - offset
        if self._left < 0:
            raise GarbledError("elf-garbled", "names overlap more than any compiler makes them")
        return bytes(self._table[offset:end]).decode("utf-8", "backslashreplace")


def read_elf(data: Buffer) -> Elf:
    """Read header and sections.

    Raises:
        GarbledError: words ``elf-garbled`` (no ELF, or fields that do not fit), ``elf-truncated``
            (section headers past the end) or ``elf-unsupported`` (32 bits or big-endian).
    """
    view = memoryview(data)
    if len(view) < _HEADER.size or view[:4] != MAGIC:
        raise GarbledError("elf-garbled", f"no ELF header in {len(view)} bytes")
    head = _HEADER.unpack_from(view)
    if head[0][4:6] != b"\x02\x01":
        raise GarbledError("elf-unsupported", "only 64-bit little-endian ELF is read")
    start, entry_size, count, names = head[6], head[11], head[12], head[13]
    if start == 0:
        return Elf(data=view, type=head[1], machine=head[2], sections=(), names=0)
    if entry_size != _SECTION.size:
        raise GarbledError("elf-garbled", f"section headers of {entry_size} bytes")
    if start + _SECTION.size > len(view):
        raise GarbledError("elf-truncated", f"section headers at {start} of {len(view)} bytes")
    first = _SECTION.unpack_from(view, start)
    # More than 65,279 sections: the count and index of names stand in section 0.
    count = count or first[5]
    names = first[6] if names == 0xFFFF else names
    end = start + count * _SECTION.size
    if end > len(view):
        raise GarbledError("elf-truncated", f"{count} section headers end at {end} of {len(view)}")
    if count > _SECTION_LIMIT:
        raise GarbledError("elf-garbled", f"{count} sections are more than any compiler makes")
    sections = tuple(
        Section(name=s[0], type=s[1], offset=s[4], size=s[5], link=s[6])
        for s in _SECTION.iter_unpack(view[start:end])
    )
    return Elf(data=view, type=head[1], machine=head[2], sections=sections, names=names)
