import pytest

from kernforge.binary.facts import ElfFacts, Library
from kernforge.binary.tags import expand_tags, name_findings, python_module, tag_findings


def library(path, machine="x86_64"):
    elf = ElfFacts(
        kind="shared",
        machine=machine,
        soname=None,
        needed=(),
        runpath=(),
        rpath=(),
        floors=(),
        defined=(),
        undefined=(),
    )
    return Library(path=path, size=1, modules=0, images=(), elf=elf, findings=())


def words(tag, *libraries, wheel=None):
    tags = expand_tags((tag,))
    fields = (("Tag", tag), ("Root-Is-Purelib", "false")) if wheel is None else wheel
    return [f.word for f in tag_findings(tags, fields, libraries)]


@pytest.mark.parametrize(
    ("path", "python"),
    [
        ("a/b.cpython-310-x86_64-linux-gnu.so", "cp310"),
        ("b.cpython-313t-aarch64-linux-gnu.so", "cp313"),
        ("b.abi3.so", "abi3"),
        ("libb.so", None),
        ("b.cpython-310.txt", None),
    ],
)
def test_the_python_of_a_module(path, python):
    assert python_module(path) == python


@pytest.mark.parametrize(
    ("tag", "path"),
    [
        ("cp311-cp311-linux_x86_64", "b.cpython-311-x86_64-linux-gnu.so"),
        ("cp310-abi3-manylinux2014_x86_64", "b.abi3.so"),
        ("cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64", "b.abi3.so"),
        ("cp313-cp313t-linux_x86_64", "b.cpython-313t-x86_64-linux-gnu.so"),
        ("py3-none-manylinux_2_28_x86_64", "lib/b.so"),
        ("py3-none-linux_x86_64", "b.cpython-311-x86_64-linux-gnu.so"),
    ],
)
def test_wheels_that_tell_the_truth(tag, path):
    assert words(tag, library(path)) == []


@pytest.mark.parametrize(
    ("tag", "path", "word"),
    [
        ("cp310-abi3-linux_x86_64", "b.cpython-310-x86_64-linux-gnu.so", "tag-python"),
        ("cp312-cp312-linux_x86_64", "b.cpython-311-x86_64-linux-gnu.so", "tag-python"),
        ("pp310-pypy310_pp73-linux_x86_64", "b.abi3.so", "tag-python"),
        ("cp311-cp311-linux_aarch64", "b.so", "tag-platform"),
        ("py3-none-any", "b.so", "tag-platform"),
    ],
)
def test_modules_that_the_tags_do_not_fit(tag, path, word):
    assert words(tag, library(path)) == [word]


def test_other_machines_are_not_compared():
    assert words("py3-none-any", library("b.so", machine="cuda")) == []


def test_texts_that_contradict_the_file_name():
    other = (("Tag", "cp39-abi3-linux_x86_64"),)
    assert words("cp39-abi3-manylinux2014_x86_64", wheel=other) == ["tags-differ"]
    assert words("cp39-abi3-linux_x86_64", wheel=()) == ["tags-differ"]
    pure = (("Tag", "cp39-abi3-linux_x86_64"), ("Root-Is-Purelib", "True"))
    assert words("cp39-abi3-linux_x86_64", library("b.abi3.so"), wheel=pure) == ["purelib-native"]


@pytest.mark.parametrize("text", ["", "a-b", "a-b-c-d", "x" * 5000 + "-b-c"])
def test_what_is_no_tag_is_left_out(text):
    assert expand_tags((text,)) == frozenset()


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ((("Name", "Demo_X"), ("Version", "1.0.0")), []),
        ((("Name", "other"), ("Version", "1.0")), ["name-differs"]),
        ((("Name", "demo-x"), ("Version", "1.0+cu130")), ["version-differs"]),
        ((("Name", "demo-x"), ("Version", "nonsense")), ["version-differs"]),
        ((), ["name-differs", "version-differs"]),
    ],
)
def test_names_and_versions(metadata, expected):
    assert [f.word for f in name_findings("demo-x", "1.0", metadata)] == expected
