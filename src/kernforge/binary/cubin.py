"""Read the kernels of one device image: entry functions of a cubin, entries of PTX text.

Room `binary`. Entry functions only: device functions differ between archs and mean nothing.

Facts measured on images of nvcc 13.0.88 and of published wheels: a cubin is an ELF of machine
190; an entry function is a symbol of type FUNC whose st_other has bit 0x10 (`cuobjdump
--dump-elf-symbols` prints those as ENTRY); its code is the whole section it stands in. From 7.0
on an instruction has 16 bytes with its operation in the low 12 bits: 0x95c is BPT.TRAP; those of
the tensor cores were read off nvdisasm 13.x for every kind of mma, wgmma and tcgen05.mma that
ptxas 13.0 takes, and stood for nothing else in 300 images of sgl-kernel. Texts that device code
prints stand in `.nv.global.init`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from itertools import islice

from kernforge.binary.elf import (
    EM_CUDA,
    ET_EXEC,
    MAGIC,
    SHT_SYMTAB,
    SHT_SYMTAB_SHNDX,
    Elf,
    Section,
    Strings,
    read_elf,
)
from kernforge.binary.facts import Kernel
from kernforge.binary.findings import GarbledError

_SYMBOL = struct.Struct("<IBBHQQ")
_FUNC = 2
_ENTRY_BIT = 0x10
_ENTRY_LIMIT = 1 << 17
_SHN_XINDEX = 0xFFFF
_BLOCK = 1 << 15
_TRAP_LOW, _TRAP_HIGH = 0x5C, 0x09
_MATRIX = {  # low byte of the operation: its possible high four bits
    0x36: {2},  # HMMA of 7.0
    0x37: {2},  # IMMA
    0x3C: {2},  # HMMA
    0x3D: {2},  # BMMA
    0x3F: {2},  # DMMA
    0x7A: {2, 4},  # QMMA
    0x7F: {2, 4},  # OMMA
    0xEA: {5, 9, 13, 15},  # UTCHMMA, UTCQMMA, UTCIMMA, UTCOMMA
    0xF0: {9, 13},  # HGMMA
    0xF1: {9, 13},  # IGMMA
    0xF2: {9, 13},  # BGMMA
    0xF3: {9, 13},  # QGMMA
}
_MATRIX_LOW = re.compile(b"[" + re.escape(bytes(_MATRIX)) + b"]")
_TEXTS = b".nv.global.init"
_REFUSAL = re.compile(
    rb"(?:without CUTE_ARCH_\w{1,60}_ENABLED|Arch conditional MMA instruction used"
    rb"|not implemented|kernel only supports sm)[ -~]{0,80}"
)
_PRINTABLE_END = re.compile(rb"[ -~]+\Z")
_REFUSAL_LIMIT = 64
_PTX_VERSION = re.compile(rb"^[ \t]*\.version[ \t]+(\d{1,3}\.\d{1,3})", re.MULTILINE)
_PTX_NAME = re.compile(rb"\s{1,200}([A-Za-z0-9_$%]{1,65536})")
_ENTRY_WORD = b".entry"
_LINE = 200
_COMMENT_OR_TEXT = re.compile(rb"[/\"]")


def is_executable(head: memoryview | bytes) -> bool:
    """Whether the first 64 bytes of an image are those of a linked cubin (ET_EXEC)."""
    if len(head) < 64 or head[:4] != MAGIC:
        return False
    return _short(head, 16) == ET_EXEC and _short(head, 18) == EM_CUDA


def compiled_number(head: memoryview | bytes) -> int | None:
    """The arch number that the first 64 bytes of a cubin tell, as 120; None where they do not.

    They do not tell the suffix: 12.0, 12.0f and 12.0a have the same flags in some releases.
    """
    if len(head) < 64 or head[:4] != MAGIC or _short(head, 18) != EM_CUDA:
        return None
    flags = int.from_bytes(head[48:52], "little")
    match head[8]:
        case 7:  # nvcc up to 12.x
            return flags & 0xFF
        case 8:  # nvcc 12.x for 10.0 and later, and 13.x
            return flags >> 8 & 0xFF
        case _:
            return None


def _short(data: memoryview | bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little")


def _traps(part: bytes, low: bytes) -> int:
    found = 0
    at = low.find(_TRAP_LOW)
    while at >= 0:
        high = 16 * at + 1
        found += high < len(part) and part[high] & 0x0F == _TRAP_HIGH
        at = low.find(_TRAP_LOW, at + 1)
    return found


def _has_matrix(part: bytes, low: bytes) -> bool:
    for match in _MATRIX_LOW.finditer(low):
        high = 16 * match.start() + 1
        if high < len(part) and part[high] & 0x0F in _MATRIX[match[0][0]]:
            return True
    return False


def read_code(code: memoryview) -> tuple[int, bool]:
    """How many of these 16-byte instructions are BPT.TRAP, and whether one is of tensor cores."""
    traps, matrix = 0, False
    for start in range(0, len(code), _BLOCK):
        # A copy first: slicing bytes with a step takes a quarter of the time that it takes on a
        # view (0.06 s against 0.23 s for 1.1 GB).
        part = bytes(code[start : start + _BLOCK])
        low = part[::16]
        traps += _traps(part, low)
        matrix = matrix or _has_matrix(part, low)
    return traps, matrix


def _refusals(elf: Elf) -> tuple[str, ...]:
    """Texts with which CuTe, CUTLASS and FlashMLA refuse an arch, sorted, each once."""
    found: set[str] = set()
    for _, section in elf.find(_TEXTS):
        texts = elf.bytes_of(section)
        for match in islice(_REFUSAL.finditer(texts), _REFUSAL_LIMIT):
            # What stands before is looked for from each match only: a pattern that begins with it
            # would try a hundred lengths at every byte.
            before = _PRINTABLE_END.search(texts[max(0, match.start() - 100) : match.start()])
            text = (before[0] if before else b"") + match[0]
            found.add(text.decode("ascii").lstrip("~ "))
    return tuple(sorted(found))


def _entry_symbols(table: memoryview) -> list[tuple[int, int, int]]:
    """(index, name offset, section index) of each entry function."""
    if len(table) % _SYMBOL.size:
        raise GarbledError("kernels-garbled", f"a symbol table of {len(table)} bytes")
    entries = (
        (index, name, section)
        for index, (name, info, other, section, _, _) in enumerate(_SYMBOL.iter_unpack(table))
        if info & 0x0F == _FUNC and other & _ENTRY_BIT and section
    )
    found = list(islice(entries, _ENTRY_LIMIT + 1))
    if len(found) > _ENTRY_LIMIT:
        raise GarbledError("kernels-garbled", f"more than {_ENTRY_LIMIT} entry functions")
    return found


def _extended_indexes(elf: Elf) -> memoryview:
    """Section numbers, four bytes a symbol, of symbols whose own field is too small for them."""
    section = elf.of_type(SHT_SYMTAB_SHNDX)
    return elf.bytes_of(section) if section else elf.data[:0]


def _section_of(elf: Elf, index: int, section: int, extended: memoryview) -> Section:
    if section == _SHN_XINDEX:
        section = int.from_bytes(extended[4 * index : 4 * index + 4], "little")
    if not 0 < section < len(elf.sections):
        raise GarbledError("kernels-garbled", f"an entry function stands in section {section}")
    return elf.sections[section]


def cubin_kernels(data: memoryview, *, wide: bool) -> tuple[Kernel, ...]:
    """The entry functions of a cubin, sorted by name; see :func:`cubin_content`."""
    return cubin_content(data, wide=wide)[0]


def cubin_content(data: memoryview, *, wide: bool) -> tuple[tuple[Kernel, ...], tuple[str, ...]]:
    """The entry functions of a cubin, sorted by name, and its texts of refusal.

    Args:
        data: the unpacked image.
        wide: whether instructions have 16 bytes (7.0 and later), so that they can be read.

    Raises:
        GarbledError: where header, sections, symbols or names do not fit the bytes.
    """
    elf = read_elf(data)
    if elf.machine != EM_CUDA:
        raise GarbledError("kernels-garbled", f"an ELF for machine {elf.machine} is no cubin")
    symbols = elf.of_type(SHT_SYMTAB)
    if symbols is None:
        return (), ()
    names = Strings(elf.bytes_of(elf.linked(symbols)))
    kernels = []
    left = 2 * len(data)
    extended = _extended_indexes(elf)
    for index, name, place in _entry_symbols(elf.bytes_of(symbols)):
        code = elf.bytes_of(_section_of(elf, index, place, extended))
        left -= len(code)
        if left < 0:
            raise GarbledError("kernels-garbled", "entry functions share code more than once")
        traps, matrix = read_code(code) if wide else (0, False)
        size = len(code)
        kernel = Kernel(name=names.at(name), code_bytes=size, traps=traps, matrix=matrix)
        kernels.append(kernel)
    refusals = _refusals(elf) if kernels else ()
    return tuple(sorted(kernels, key=lambda kernel: kernel.name)), refusals


def _ptx_entries(text: bytes) -> Iterator[str]:
    """Names behind ``.entry``, comments and quoted texts left out."""
    at = text.find(_ENTRY_WORD)
    while at >= 0:
        line = max(text.rfind(b"\n", max(0, at - _LINE), at) + 1, at - _LINE)
        name = _PTX_NAME.match(text, at + len(_ENTRY_WORD))
        if name and not _COMMENT_OR_TEXT.search(text, max(0, line), at):
            yield name[1].decode("ascii")
        at = text.find(_ENTRY_WORD, at + 1)


def ptx_kernels(data: memoryview) -> tuple[str | None, tuple[Kernel, ...]]:
    """ISA version and entry names of PTX text; the version is None where none is written."""
    text = bytes(data)
    version = _PTX_VERSION.search(text)
    names = sorted(set(_ptx_entries(text)))
    kernels = tuple(Kernel(name=name, code_bytes=0, traps=0) for name in names)
    return (version[1].decode("ascii") if version else None), kernels
