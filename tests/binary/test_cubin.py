import pytest

from kernforge.binary.cubin import (
    cubin_content,
    cubin_kernels,
    is_executable,
    ptx_kernels,
    read_code,
)
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
    assert read_code(memoryview(code)) == (traps, False)


@pytest.mark.parametrize(
    ("operation", "answer"),
    [
        (0x23C, True),  # HMMA
        (0x47A, True),  # QMMA
        (0x5EA, True),  # UTCHMMA
        (0xDF0, True),  # HGMMA
        (0x33C, False),
        (0x95C, False),
        (0x947, False),  # BRA
    ],
)
def test_matrix_instructions_are_told_by_twelve_bits(operation, answer):
    code = EXIT * 5000 + (operation | 0x7000).to_bytes(16, "little")
    assert read_code(memoryview(code))[1] is answer
    assert read_code(memoryview(bytes(8) + code))[1] is False


@pytest.mark.parametrize(
    ("texts", "refusals"),
    [
        (b"", ()),
        (
            b"\0ERROR : Arch conditional MMA instruction used\n\0x",
            ("ERROR : Arch conditional MMA instruction used",),
        ),
        (
            b"\0a kernel only supports sm90\0~ it is not implemented yet\0",
            ("a kernel only supports sm90", "it is not implemented yet"),
        ),
        (b"\0" + b"x" * 300 + b" not implemented\0", ("x" * 99 + " not implemented",)),
        (b"\0an ordinary assertion failed: n > 0\0", ()),
        (b"not implemented\0" * 300, ("not implemented",)),
    ],
)
def test_texts_of_refusal_are_found_in_the_texts_of_a_kernel(texts, refusals):
    symbols = pack_symbol(1, other=0x10)
    parts = [
        Part(".text.k", 1, EXIT),
        Part(".strtab", 3, b"\0k\0"),
        Part(".symtab", 2, symbols, link=".strtab"),
        Part(".nv.global.init", 1, texts),
    ]
    data = memoryview(make_elf(parts, kind=2, machine=190))
    assert cubin_content(data, wide=True)[1] == refusals


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
        (_with_symbols(pack_symbol(1, other=0x10) * 131_073), "more than 131072 entry functions"),
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


@pytest.mark.parametrize(
    "text",
    [
        b".entry",
        b".entry\n",
        b"// .entry a(",
        b'.file 1 "x.entry a"',
        b".entry (",
        b".entry" + b" " * 300 + b"a(",
        b"\n" * 9 + b"/ .entry a",
    ],
)
def test_what_is_no_entry_of_ptx(text):
    assert ptx_kernels(memoryview(text))[1] == ()


def test_entries_far_into_a_line_and_over_lines():
    text = b"x" * 500 + b" .entry a(\n.visible .entry\n\tb(\n.entry c(.entry d("
    assert [k.name for k in ptx_kernels(memoryview(text))[1]] == ["a", "b", "c", "d"]


def test_ptx_without_a_version():
    assert ptx_kernels(memoryview(b"\0\0")) == (None, ())
