import pytest

from kernforge.binary.facts import ImageKind, State
from kernforge.binary.library import is_native, read_library, read_library_file

from .forge import (
    EXIT,
    Dynamic,
    Part,
    make_container,
    make_cubin,
    make_elf,
    make_entry,
    make_library,
)

IMAGE = make_entry(make_cubin({"k": EXIT}), 120, suffix="a")


def test_a_library_with_device_code():
    data = make_library(
        fatbin=make_container(IMAGE) * 2, extra=Dynamic(needed=("libx.so",)).parts()
    )
    library = read_library(data, "a/b.so")
    assert (library.path, library.size, library.modules) == ("a/b.so", len(data), 2)
    assert (library.state, library.findings) == (State.DEVICE_CODE, ())
    assert [i.module for i in library.images] == [0, 1]
    assert library.elf.needed == ("libx.so",)


def test_relocatable_sections_are_read_too_and_never_count_as_linked():
    library = read_library(
        make_library(fatbin=make_container(IMAGE), relfatbin=make_container(IMAGE)), "x"
    )
    assert [i.serves_code for i in library.images] == [True, False]
    assert library.modules == 2


def test_a_host_only_library_is_told_apart_from_an_unreadable_one():
    assert read_library(make_library(), "x").state is State.HOST_ONLY
    assert read_library(make_library(fatbin=b""), "x").state is State.HOST_ONLY
    assert read_library(b"\x7fELF", "x").state is State.UNREADABLE
    assert read_library(make_library(fatbin=b"garbage"), "x").state is State.UNREADABLE


def test_garbled_host_tables_do_not_hide_that_there_is_no_device_code():
    library = read_library(make_elf([Part(".dynamic", 6, bytes(32))]), "x")
    assert [f.word for f in library.findings] == ["dynamic-garbled"]
    assert library.state is State.HOST_ONLY


def test_a_section_that_reaches_past_the_file_is_a_finding_and_the_next_is_read():
    parts = [
        Part(".nv_fatbin", 1, b"", nobits_size=1 << 50),
        Part("__nv_relfatbin", 1, make_container(IMAGE)),
    ]
    library = read_library(make_elf(parts), "x")
    assert [f.word for f in library.findings] == ["elf-truncated"]
    assert len(library.images) == 1


def test_names_of_sections_that_cannot_be_read_are_a_finding():
    data = bytearray(make_library(fatbin=make_container(IMAGE)))
    start = int.from_bytes(data[40:48], "little")
    data[start + 64 * 2 + 32 : start + 64 * 2 + 40] = b"\xff" * 8
    library = read_library(data, "x")
    assert [f.word for f in library.findings] == ["elf-truncated"]
    assert library.state is State.UNREADABLE


def test_a_bare_fat_binary_is_a_library_of_one_module():
    library = read_library(make_container(IMAGE), "x.fatbin")
    assert (library.modules, library.elf, library.findings) == (1, None, ())
    assert [i.serves_code for i in library.images] == [True]


def _cubin(flags, version):
    data = bytearray(make_cubin({"k": EXIT}))
    data[8] = version
    data[48:52] = flags.to_bytes(4, "little")
    return bytes(data)


@pytest.mark.parametrize(
    ("flags", "version", "label", "words"),
    [
        (0x560556, 7, "8.6", []),
        (0x5A055A, 7, "9.0a", ["cubin-suffix"]),
        (0x6007802, 8, "12.0a", ["cubin-suffix"]),
    ],
)
def test_a_bare_cubin_is_taken_as_the_narrowest_target_it_may_be(flags, version, label, words):
    library = read_library(_cubin(flags, version), "x.cubin")
    assert [i.label for i in library.images] == [label]
    assert [f.word for f in library.findings] == words
    assert library.images[0].kernels[0].name == "k"


@pytest.mark.parametrize(("flags", "version"), [(0x6007802, 9), (0, 7)])
def test_a_bare_cubin_of_an_unknown_release_is_unreadable(flags, version):
    library = read_library(_cubin(flags, version), "x.cubin")
    assert [f.word for f in library.findings] == ["image-garbled"]
    assert library.state is State.UNREADABLE


def test_an_entry_whose_cubin_is_for_another_arch_is_a_finding():
    entry = make_entry(_cubin(0x5A055A, 7), 86)
    library = read_library(make_library(fatbin=make_container(entry)), "x")
    assert [f.word for f in library.findings] == ["image-arch-differs"]
    assert library.findings[0].text == "module 0 lists code for 90 as 8.6"


def test_without_kernels_no_image_is_unpacked():
    library = read_library(make_library(fatbin=make_container(IMAGE)), "x", kernels=False)
    assert [(i.kind, i.linked, i.kernels) for i in library.images] == [
        (ImageKind.CUBIN, True, None)
    ]


@pytest.mark.parametrize("data", [b"", make_library(fatbin=make_container(IMAGE))])
def test_a_file_is_read_from_disk_as_from_memory(tmp_path, data):
    file = tmp_path / "x.so"
    file.write_bytes(data)
    assert read_library_file(file, "x") == read_library(data, "x")


@pytest.mark.parametrize(
    ("head", "answer"),
    [(b"\x7fELF\x02", True), (b"\x50\xed\x55\xba", True), (b"#!/b", False), (b"", False)],
)
def test_native_files_are_told_by_their_first_bytes(head, answer):
    assert is_native(head) is answer
