"""A library's build ID made anew from what is left after stripping.

The linker makes `.note.gnu.build-id` from what it was given, local symbols included, and one of
those is a temporary name (`tmpxft_...cudafe1.cpp`) that a compile cache's objects spell otherwise
(seen: two libraries that differed in these 20 bytes alone). A build ID that follows from the bytes
that are shipped is equal for equal ones. Layout: System V ABI, "Note Section"; the name is `GNU`,
the type NT_GNU_BUILD_ID.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
from pathlib import Path

from kernforge.binary.elf import read_elf
from kernforge.binary.findings import GarbledError

_SECTION = b".note.gnu.build-id"
_NOTE = struct.Struct("<III")
_NAME, _TYPE = b"GNU\0", 3


def settle_build_id(path: Path) -> bool:
    """Write the build ID of an ELF file anew, in its length; answers whether it has one.

    A file that cannot be read as ELF, or whose note is no such note, is left as it is.

    Raises:
        OSError: the file cannot be written.
    """
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        place = _place(data)
        if place is None:
            return False
        start, size = place
        data[start : start + size] = bytes(size)
        data[start : start + size] = hashlib.shake_256(data).digest(size)
    return True


def _place(data: mmap.mmap) -> tuple[int, int] | None:
    """First byte and length of the build ID."""
    try:
        elf = read_elf(data)
        found = [section for _, section in elf.find(_SECTION)]
        if len(found) != 1:
            return None
        offset, size = found[0].offset, found[0].size
        name, length, kind = _NOTE.unpack_from(data, offset)
    except (GarbledError, struct.error):
        return None
    start = offset + _NOTE.size + len(_NAME)
    good = name == len(_NAME) and kind == _TYPE and start + length <= offset + size
    good = good and data[start - len(_NAME) : start] == _NAME
    return (start, length) if good and length else None
