import io
import struct
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from kernforge.binary.elf import SHT_NOBITS, SHT_SYMTAB, Strings, read_elf
from kernforge.binary.findings import GarbledError

from .forge import Part, make_elf

TWO = make_elf([Part(".one", 1, b"abc"), Part(".two", 1, b"defg", link=".one")])


def test_sections_are_found_by_name_and_type():
    elf = read_elf(TWO)
    ((name, section),) = elf.find(b".two", b".absent")
    assert (name, bytes(elf.bytes_of(section))) == (b".two", b"defg")
    assert bytes(elf.bytes_of(elf.linked(section))) == b"abc"
    assert elf.of_type(SHT_SYMTAB) is None


def test_our_reading_agrees_with_pyelftools_on_the_interpreter():
    data = Path(sys.executable).read_bytes()
    elf = read_elf(data)
    theirs = list(ELFFile(io.BytesIO(data)).iter_sections())
    assert len(elf.sections) == len(theirs)
    for ours, other in zip(elf.sections, theirs, strict=True):
        assert (ours.offset, ours.size, ours.link) == (
            other["sh_offset"],
            other["sh_size"],
            other["sh_link"],
        )


def test_a_section_without_bits_is_empty():
    elf = read_elf(make_elf([Part(".bss", SHT_NOBITS, b"", nobits_size=1 << 40)]))
    assert bytes(elf.bytes_of(elf.sections[1])) == b""


def test_the_number_of_sections_may_stand_in_the_first_of_them():
    data = bytearray(TWO)
    start = struct.unpack_from("<Q", data, 40)[0]
    count, names = struct.unpack_from("<HH", data, 60)
    struct.pack_into("<HH", data, 60, 0, 0xFFFF)
    struct.pack_into("<Q", data, start + 32, count)
    struct.pack_into("<I", data, start + 40, names)
    assert read_elf(data).find(b".two") == read_elf(TWO).find(b".two")


def test_a_file_without_sections_is_an_elf_all_the_same():
    data = bytearray(TWO)
    struct.pack_into("<Q", data, 40, 0)
    assert read_elf(data).find(b".two") == ()


def _changed(offset, form, value):
    data = bytearray(TWO)
    struct.pack_into(form, data, offset, value)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "word", "text"),
    [
        (b"", "elf-garbled", "no ELF header in 0 bytes"),
        (TWO[:63], "elf-garbled", "no ELF header in 63 bytes"),
        (b"X" * 100, "elf-garbled", "no ELF header"),
        (_changed(4, "B", 1), "elf-unsupported", "only 64-bit little-endian"),
        (_changed(5, "B", 2), "elf-unsupported", "only 64-bit little-endian"),
        (_changed(58, "<H", 63), "elf-garbled", "section headers of 63 bytes"),
        (_changed(40, "<Q", 1 << 63), "elf-truncated", "section headers at"),
        (_changed(60, "<H", 60_000), "elf-truncated", "60000 section headers end at"),
        (TWO[:-1], "elf-truncated", "4 section headers end at"),
    ],
)
def test_headers_that_do_not_fit_are_refused(data, word, text):
    with pytest.raises(GarbledError, match=text) as caught:
        read_elf(data)
    assert caught.value.word == word


def test_more_sections_than_any_compiler_makes_are_refused():
    data = bytearray(64) + bytes(64 * ((1 << 20) + 1))
    data[:64] = TWO[:64]
    struct.pack_into("<Q", data, 40, 64)
    struct.pack_into("<HH", data, 60, 0, 0)
    struct.pack_into("<Q", data, 64 + 32, (1 << 20) + 1)
    with pytest.raises(GarbledError, match="1048577 sections are more"):
        read_elf(data)


def test_a_section_past_the_end_is_refused():
    elf = read_elf(make_elf([Part(".big", 1, b"", nobits_size=1 << 62)]))
    with pytest.raises(GarbledError, match="a section ends at"):
        elf.bytes_of(elf.sections[1])


def test_a_link_to_no_section_is_refused():
    elf = read_elf(TWO)
    with pytest.raises(GarbledError, match="links to section 0"):
        elf.linked(elf.sections[1])


def test_strings_end_at_a_zero_byte():
    strings = Strings(memoryview(b"\0abc\0d\xff\0"))
    assert (strings.at(1), strings.at(2), strings.at(5)) == ("abc", "bc", "d\\xff")


@pytest.mark.parametrize("offset", [5, 8, 99, 1 << 63, (1 << 64) - 1])
def test_a_string_without_an_end_is_refused(offset):
    with pytest.raises(GarbledError, match=f"no string ends after offset {offset}"):
        Strings(memoryview(b"\0abc\0xyz")).at(offset)


def test_a_million_names_of_one_long_string_are_refused():
    strings = Strings(memoryview(b"a" * 60_000 + b"\0"))
    for _ in range(10):
        assert len(strings.at(0)) == 60_000
    with pytest.raises(GarbledError, match="names overlap more than any compiler"):
        [strings.at(0) for _ in range(1_000_000)]
