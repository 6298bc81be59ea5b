import pytest

from kernforge.binary.cubin import count_traps, cubin_kernels, is_executable, ptx_kernels
from kernforge.binary.facts import Kernel
from kernforge.binary.findings import GarbledError

from .forge import EXIT, TRAP, Part, make_cubin, make_elf, pack_symbol


def test_entry_functions_are_read_and_device_functions_are_not():
    data = make_cubin({"k2": EXIT * 4, "k1": EXIT + TRAP * 2}, device_functions=("helper",))
    assert cubin_kernels(memoryview(data), wide=True) == (
        Kernel(name="k1", code_bytes=48, traps=2),
        Kernel(name="k2", code_bytes=64, traps=0),
    )


def test_traps_are_not_counted_where_instructions_have_eight_bytes():
    data = make_cubin({"k": TRAP})
    assert cubin_kernels(memoryview(data), wide=False)[0].traps == 0


@pytest.mark.parametrize(
    ("code", "traps"),
    [
        (b"", 0),
        (TRAP, 1),
        (TRAP + EXIT + TRAP, 2),
        (bytes(8) + TRAP[:8], 0),  # the pattern in the upper half of an instruction
        (b"\x5c\x0a" + bytes(14), 0),  # 0xa5c is another operation
        (b"\x5c\x89" + bytes(14), 1),  # a predicated trap
        (bytes(16) + b"\x5c", 0),  # cut off
        (EXIT * 70_000 + TRAP, 1),  # past the first block
    ],
)
def test_trap_instructions_are_told_by_twelve_bits(code, traps):
    assert count_traps(memoryview(code)) == traps


def test_more_sections_than_sixteen_bits_hold_are_followed():
    """The section of a symbol then stands in a table of its own (SHN_XINDEX)."""
    symbols = bytes(24) + pack_symbol(1, other=0x10, place=0xFFFF)
    parts = [
        Part(".text.k", 1, EXIT),
        Part(".strtab", 3, b"\0k\0"),
        Part(".symtab", 2, symbols, link=".strtab"),
        Part(".symtab_shndx", 18, bytes(4) + (1).to_bytes(4, "little")),
    ]
    data = make_elf(parts, kind=2, machine=190)
    assert [k.name for k in cubin_kernels(memoryview(data), wide=True)] == ["k"]


def test_a_cubin_without_symbols_has_no_kernels():
    assert cubin_kernels(memoryview(make_elf([], kind=2, machine=190)), wide=True) == ()


def _with_symbols(table, strings=b"\0k\0", code=EXIT):
    parts = [
        Part(".text.k", 1, code),
        Part(".strtab", 3, strings),
        Part(".symtab", 2, table, link=".strtab"),
    ]
    return memoryview(make_elf(parts, kind=2, machine=190))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (_with_symbols(bytes(23)), "a symbol table of 23 bytes"),
        (_with_symbols(pack_symbol(1, other=0x10, place=77)), "stands in section 77"),
        (_with_symbols(pack_symbol(1, other=0x10, place=0xFFFF)), "stands in section 0"),
        (_with_symbols(pack_symbol(9, other=0x10)), "no string ends after offset 9"),
        (_with_symbols(pack_symbol(1, other=0x10), strings=b"\0k"), "no string ends"),
        (_with_symbols(pack_symbol(1, other=0x10) * 9, code=EXIT * 99), "share code more than"),
        (memoryview(make_cubin({"k": EXIT}, machine=62)), "for machine 62"),
    ],
)
def test_symbols_that_do_not_fit_are_refused(data, text):
    with pytest.raises(GarbledError, match=text):
        cubin_kernels(data, wide=True)


@pytest.mark.parametrize(
    ("head", "answer"),
    [
        (make_cubin({}), True),
        (make_cubin({}, linked=False), False),
        (b"\x7fELF", False),
    ],
)
def test_linked_images_are_told_from_relocatable_ones(head, answer):
    assert is_executable(head[:64]) is answer


PTX = b"""
//
// .visible .entry not_this_one(
.version 8.7
.target sm_90
.address_size 64
.extern .func helper
.visible .entry _Z3twoPf(
\t.param .u64 p
)
{ trap; }
.weak .entry one() { ret; }
.entry $three() { ret; }
"""


def test_entries_and_version_of_ptx():
    version, kernels = ptx_kernels(memoryview(PTX))
    assert version == "8.7"
    assert [k.name for k in kernels] == ["$three", "_Z3twoPf", "one"]
    assert {(k.code_bytes, k.traps) for k in kernels} == {(0, 0)}


def test_ptx_without_a_version():
    assert ptx_kernels(memoryview(b"\0\0")) == (None, ())
