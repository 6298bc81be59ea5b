import dataclasses
import importlib.util

import pytest
from binary.published import wheel

from kernforge.binary.facts import ElfFacts, Finding, Library, Symbol, WheelFacts
from kernforge.binary.wheel import read_wheel
from kernforge.verify.tagging import check_tags

HAS_AUDIT = importlib.util.find_spec("abi3info") is not None
ELF = ElfFacts(
    kind="shared",
    machine="x86_64",
    soname=None,
    needed=(),
    runpath=(),
    rpath=(),
    floors=(("CXXABI", "1.3.9"), ("GLIBC", "2.14"), ("GLIBCXX", "3.4.21")),
    defined=("PyInit_ops",),
    undefined=(Symbol(name="PyObject_Call"), Symbol(name="_PyDict_GetItem_KnownHash")),
)


def facts(*tags, elf=ELF, path="pkg/ops.abi3.so", findings=()):
    return WheelFacts(
        file="x.whl",
        size=1,
        name="x",
        version="1",
        build="",
        tags=tags,
        metadata=(),
        wheel=(),
        members=1,
        libraries=(Library(path=path, size=1, modules=0, images=(), elf=elf, findings=()),),
        findings=findings,
    )


def words(found):
    return [fault.word for fault in found.faults]


@pytest.mark.parametrize(
    ("platform", "true"),
    [
        ("manylinux1", False),
        ("manylinux2014", False),
        ("manylinux_2_17", False),
        ("manylinux_2_24", True),
        ("manylinux_2_28", True),
        ("manylinux_2_99", True),
        ("linux", True),
        ("musllinux_1_2", True),
    ],
)
def test_floors_against_the_platform_tag(platform, true):
    found = words(check_tags(facts(f"cp311-cp311-{platform}_x86_64")))
    assert found == ([] if true else ["tag-manylinux"])


def test_the_lowest_of_several_tags_is_the_promise():
    tags = ("cp311-cp311-manylinux_2_28_x86_64", "cp311-cp311-manylinux_2_17_x86_64")
    assert words(check_tags(facts(*tags))) == ["tag-manylinux"]


def test_the_message_names_what_is_needed_and_what_there_is():
    (fault,) = check_tags(facts("cp311-cp311-manylinux2014_x86_64")).faults
    assert "GLIBCXX_3.4.21 (there: 3.4.19)" in fault.text
    assert "manylinux_2_17" in fault.text


def test_a_newer_glibc_than_promised():
    elf = dataclasses.replace(ELF, floors=(("GLIBC", "2.27"),))
    (fault,) = check_tags(facts("cp311-cp311-manylinux2014_x86_64", elf=elf)).faults
    assert "GLIBC_2.27 (there: 2.17)" in fault.text


def test_contradictions_that_the_reader_found_are_faults():
    finding = Finding(word="tag-python", text="'a.cpython-310.so' loads on cp310 only")
    other = Finding(word="record-missing", text="no RECORD")
    assert words(check_tags(facts(findings=(finding, other)))) == ["tag-python"]


@pytest.mark.skipif(HAS_AUDIT, reason="the extra `audit` is installed")
def test_without_the_library_the_stable_abi_is_not_verified():
    found = check_tags(facts("cp310-abi3-linux_x86_64"))
    assert not found.faults
    assert found.notes == (
        "stable ABI: not verified; install kernforge[audit], which brings abi3info",
    )


@pytest.mark.skipif(not HAS_AUDIT, reason="the extra `audit` is not installed")
def test_a_symbol_outside_the_stable_abi():
    (fault,) = check_tags(facts("cp310-abi3-linux_x86_64")).faults
    assert fault.word == "tag-abi3"
    assert "_PyDict_GetItem_KnownHash" in fault.text
    assert "PyObject_Call," not in fault.text


def test_the_stable_abi_binds_only_where_it_is_promised():
    assert check_tags(facts("cp311-cp311-linux_x86_64")).notes == ()


@pytest.mark.network
def test_sglang_kernel_0_4_10_has_a_cp310_module_under_an_abi3_tag():
    found = check_tags(read_wheel(wheel("sglang-kernel==0.4.10"), kernels=False))
    (python,) = [fault.text for fault in found.faults if fault.word == "tag-python"]
    assert "infllm_ops.cpython-310-x86_64-linux-gnu.so' loads on cp310 only" in python
    assert words(found).count("tag-manylinux") == 6
