import ctypes.util
import io
import struct
import sys
import sysconfig
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import SymbolTableSection

from kernforge.binary.dynamic import elf_facts
from kernforge.binary.elf import read_elf
from kernforge.binary.facts import Symbol
from kernforge.binary.findings import FindingLog

from .forge import Dynamic, Part, make_elf


def facts(parts, **kind):
    log = FindingLog()
    return elf_facts(read_elf(make_elf(parts, **kind)), log), log.all


def test_needs_paths_and_names():
    dynamic = Dynamic(
        needed=("libtorch.so", "libcudart.so.13"),
        soname="libdemo.so",
        runpath="$ORIGIN/lib:/opt/x",
        rpath=":/old",
    )
    elf, findings = facts(dynamic.parts())
    assert not findings
    assert elf.needed == ("libtorch.so", "libcudart.so.13")
    assert (elf.soname, elf.runpath, elf.rpath) == (
        "libdemo.so",
        ("$ORIGIN/lib", "/opt/x"),
        ("/old",),
    )
    assert (elf.kind, elf.machine) == ("shared", "x86_64")


def test_floors_are_the_highest_version_of_each_family():
    undefined = (
        ("memcpy", "GLIBC_2.14", "libc.so.6", False),
        ("free", "GLIBC_2.2.5", "libc.so.6", False),
        ("x", "GLIBC_PRIVATE", "libc.so.6", False),
        ("_Znwm", "GLIBCXX_3.4", "libstdc++.so.6", False),
        ("y", "GLIBCXX_3.4.21", "libstdc++.so.6", False),
        ("z", "CXXABI_1.3.9", "libstdc++.so.6", False),
    )
    elf, findings = facts(Dynamic(undefined=undefined).parts())
    assert not findings
    assert elf.floors == (("CXXABI", "1.3.9"), ("GLIBC", "2.14"), ("GLIBCXX", "3.4.21"))


def test_symbols_are_told_with_version_and_weakness():
    undefined = (("puts", "GLIBC_2.2.5", "libc.so.6", False), ("__gmon_start__", "", "", True))
    elf, _ = facts(Dynamic(defined=("PyInit_a", "b"), undefined=undefined).parts())
    assert elf.defined == ("PyInit_a", "b")
    assert elf.undefined == (
        Symbol(name="__gmon_start__", version="", weak=True),
        Symbol(name="puts", version="GLIBC_2.2.5", weak=False),
    )


def test_a_file_without_dynamic_tables_needs_nothing():
    elf, findings = facts([], kind=1, machine=183)
    assert (elf.needed, elf.defined, elf.floors, findings) == ((), (), (), ())
    assert (elf.kind, elf.machine) == ("relocatable", "aarch64")


@pytest.mark.parametrize(("kind", "machine", "said"), [(9, 62, "other"), (2, 7, "executable")])
def test_strange_types_and_machines_are_told_as_they_are(kind, machine, said):
    elf, _ = facts([], kind=kind, machine=machine)
    assert elf.kind == said
    assert elf.machine == ("x86_64" if machine == 62 else "7")


def _need(aux_at, following, count=1):
    return struct.pack("<HHIII", 1, count, 1, aux_at, following)


@pytest.mark.parametrize(
    "needs",
    [
        _need(16, 0),  # no room for the record that follows
        _need(1 << 30, 0) + bytes(16),
        _need(16, 1 << 31) + bytes(16) + bytes(32),
        bytes(15) * 2 + _need(0, 0, 3),
    ],
)
def test_garbled_version_records_are_one_finding(needs):
    parts = [
        Part(".dynstr", 3, b"\0ab\0"),
        Part(".gnu.version_r", 0x6FFFFFFE, needs, link=".dynstr"),
    ]
    _, findings = facts(parts)
    assert [f.word for f in findings] in (["dynamic-garbled"], [])


@pytest.mark.parametrize(
    "needs",
    [
        _need(16, 0) + struct.pack("<IHHII", 0, 0, 2, 1, 0),
        _need(16, 0, 60_000)
        + struct.pack("<IHHII", 0, 0, 2, 1, 0),  # a record that is its own next
        _need(16, 0, 0) * 9,
    ],
)
def test_chains_of_version_records_end(needs):
    parts = [
        Part(".dynstr", 3, b"\0ab\0"),
        Part(".gnu.version_r", 0x6FFFFFFE, needs, link=".dynstr"),
    ]
    _, findings = facts(parts)
    assert findings == ()


@pytest.mark.parametrize(
    "part",
    [
        Part(".dynamic", 6, struct.pack("<qQ", 1, 1 << 40), link=".dynstr"),
        Part(".dynamic", 6, struct.pack("<qQ", 1, 1)),
        Part(
            ".dynsym", 11, bytes(24) + struct.pack("<IBBHQQ", 99, 0x12, 0, 1, 0, 0), link=".dynstr"
        ),
        Part(".dynsym", 11, b"", link=".dynstr", nobits_size=1 << 50),
    ],
)
def test_garbled_tables_are_a_finding_and_leave_the_rest(part):
    elf, findings = facts([Part(".dynstr", 3, b"\0a\0"), part])
    assert [f.word for f in findings] == ["dynamic-garbled"]
    assert elf.machine == "x86_64"


def test_more_dynamic_symbols_than_any_library_has_are_refused():
    table = Part(".dynsym", 11, bytes(24 * ((1 << 21) + 1)), link=".dynstr")
    _, findings = facts([Part(".dynstr", 3, b"\0"), table])
    assert [f.text for f in findings] == [
        "dynamic tables: a dynamic symbol table of 50331672 bytes"
    ]


def _libraries():
    places = [Path(sys.executable), *Path(sysconfig.get_path("platlib")).rglob("*.so")]
    return [p.resolve() for p in places][:40]


@pytest.mark.parametrize("path", _libraries(), ids=lambda p: p.name)
def test_our_reading_agrees_with_pyelftools(path):
    data = path.read_bytes()
    elf = elf_facts(read_elf(data), FindingLog())
    other = ELFFile(io.BytesIO(data))
    needed, versions, undefined, defined = [], set(), set(), set()
    for section in other.iter_sections():
        if isinstance(section, DynamicSection):
            needed += [t.needed for t in section.iter_tags("DT_NEEDED")]
        elif isinstance(section, GNUVerNeedSection):
            versions |= {aux.name for _, items in section.iter_versions() for aux in items}
        elif isinstance(section, SymbolTableSection) and section.name == ".dynsym":
            for symbol in section.iter_symbols():
                if symbol.name and symbol["st_info"]["bind"] != "STB_LOCAL":
                    place = undefined if symbol["st_shndx"] == "SHN_UNDEF" else defined
                    place.add(symbol.name)
    assert elf.needed == tuple(needed)
    assert {s.name for s in elf.undefined} == undefined
    assert set(elf.defined) == defined
    assert {s.version for s in elf.undefined} - {""} <= versions
    assert {family for family, _ in elf.floors} <= {v.rsplit("_", 1)[0] for v in versions}


def test_the_c_library_is_found_so_that_the_comparison_is_not_empty():
    assert ctypes.util.find_library("c")
    assert len(_libraries()) > 5
