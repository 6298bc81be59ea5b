import io
import json

import pytest
from rich.console import Console

from kernforge.binary.library import read_library
from kernforge.binary.thing import read_folder
from kernforge.binary.wheel import read_wheel
from kernforge.report.inspect import (
    KernelChoice,
    inspect_document,
    libraries_of,
    print_facts,
    print_kernels,
    select_kernels,
)

from .forge import (
    EXIT,
    TRAP,
    Dynamic,
    make_container,
    make_cubin,
    make_entry,
    make_library,
    make_wheel,
)

NAMES = {f"_Z{len(name)}{name}v": EXIT for name in ("scale", "norm" * 40)}
DATA = make_library(
    fatbin=make_container(
        make_entry(make_cubin(NAMES), 90),
        make_entry(make_cubin({"_Z5scalev": TRAP}), 120, suffix="a"),
        make_entry(b".version 9.0\n.visible .entry _Z5scalev()\n" * 9, 90, kind=1),
    ),
    relfatbin=make_container(make_entry(make_cubin(NAMES, linked=False), 80)),
    extra=Dynamic(needed=("libcudart.so.13",)).parts(),
)
LIBRARY = read_library(DATA, "demo/a_path_long_enough/" * 3 + "ops.abi3.so")


def shown(show, width=100):
    out = io.StringIO()
    show(Console(file=out, width=width))
    return out.getvalue()


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_the_table_fits_a_hundred_columns(width):
    text = shown(lambda console: print_facts("x.so", LIBRARY, console), width)
    assert max(map(len, text.splitlines())) <= min(width, 100)
    for word in ("12.0a", "9.0+PTX", "8.0 unlinked", "1 (1 trap)", "modules"):
        assert word in text


def test_the_words_of_host_only_and_unreadable_libraries_stand_in_the_table(tmp_path):
    (tmp_path / "host.so").write_bytes(make_library())
    (tmp_path / "bad.so").write_bytes(b"\x7fELF" + bytes(80))
    facts = read_folder(tmp_path)
    text = shown(lambda console: print_facts(str(tmp_path), facts, console))
    assert "no device code" in text
    assert "unreadable" in text
    assert "finding[elf-unsupported]: bad.so: only 64-bit little-endian ELF is read" in text


def test_a_wheel_is_told_by_name_tags_and_findings(tmp_path):
    path = make_wheel(tmp_path, {"ops.abi3.so": DATA}, METADATA="Name: other\nVersion: 1.0\n")
    facts = read_wheel(path)
    text = shown(lambda console: print_facts(path.name, facts, console))
    assert text.startswith("demo 1.0  cp311-cp311-linux_x86_64")
    assert "finding[name-differs]: METADATA says 'other', the file name 'demo'" in text


@pytest.mark.parametrize("width", [70, 100])
def test_kernels_by_archs(width):
    text = shown(
        lambda console: print_kernels(LIBRARY, KernelChoice(pattern="scale"), console), width
    )
    row = next(line for line in text.splitlines() if line.startswith("_Z5scalev"))
    assert row.split() == ["_Z5scalev", "code", "ptx", "1", "trap"]
    assert "norm" not in text
    assert max(map(len, text.splitlines())) <= width


def test_a_kernel_without_code_for_an_arch_is_told():
    text = shown(lambda console: print_kernels(LIBRARY, KernelChoice(pattern="*norm*"), console))
    assert [line.split()[-3:] for line in text.splitlines() if line.startswith("_Z160")] == [
        ["code", "-", "-"]
    ]


def test_kernels_are_shown_as_cpp_writes_them_on_demand():
    choice = KernelChoice(pattern="scale", demangled=True)
    text = shown(lambda console: print_kernels(LIBRARY, choice, console))
    assert "scale()" in text
    assert "_Z5scalev" not in text


def test_nothing_is_printed_where_no_kernel_matches():
    assert (
        shown(lambda console: print_kernels(LIBRARY, KernelChoice(pattern="absent"), console)) == ""
    )


@pytest.mark.parametrize(
    ("pattern", "count"),
    [(None, 2), ("scale", 1), ("*v", 2), ("_Z5*", 1), ("SCALE", 0), ("scale()", 1)],
)
def test_patterns(pattern, count):
    assert len(select_kernels(LIBRARY, pattern)) == count


def test_the_document_of_a_library_has_the_shape_of_all_others():
    document = inspect_document("x.so", LIBRARY)
    assert (document["thing"], document["format"], document["kind"]) == ("x.so", 1, "library")
    (library,) = document["libraries"]
    assert {"path", "modules", "kernels", "archs", "state", "elf", "findings"} <= set(library)
    assert not {"names", "images", "kernel_archs"} & set(library)
    assert library["archs"]["12.0a"]["kernels"] == 1
    assert json.loads(json.dumps(document)) == document


def test_the_document_lists_kernels_on_demand(tmp_path):
    facts = read_wheel(make_wheel(tmp_path, {"ops.abi3.so": DATA}))
    document = inspect_document("w", facts, kernels=KernelChoice(pattern="scale", demangled=True))
    assert document["libraries"][0]["kernel_archs"] == {
        "_Z5scalev": {"9.0": 0, "9.0+PTX": 0, "12.0a": 1}
    }
    assert document["libraries"][0]["demangled"] == {"_Z5scalev": "scale()"}
    assert document["kind"] == "wheel"


def test_libraries_of_anything(tmp_path):
    assert libraries_of(LIBRARY) == (LIBRARY,)
    assert libraries_of(read_folder(tmp_path)) == ()
