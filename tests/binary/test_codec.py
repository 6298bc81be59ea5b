import json

import pytest

from kernforge.arch import Arch
from kernforge.binary.codec import FORMAT, from_json, to_json, wheel_from_json
from kernforge.binary.facts import (
    Compression,
    ElfFacts,
    Finding,
    Image,
    ImageKind,
    Kernel,
    Library,
    Symbol,
    TreeFacts,
    WheelFacts,
)
from kernforge.errors import VerifyError

FINDING = Finding(word="w", text="t é")
KERNELS = (
    Kernel(name="k1", code_bytes=16, traps=1, matrix=True),
    Kernel(name="k2", code_bytes=0, traps=0),
)


def image(**changes):
    values = {
        "kind": ImageKind.CUBIN,
        "arch": Arch(major=12, minor=0, suffix="a"),
        "linked": True,
        "module": 0,
        "size": 10,
        "unpacked": 20,
        "compression": Compression.ZSTD,
        "kernels": KERNELS,
        "refusals": ("not implemented",),
    }
    return Image(**(values | changes))


LIBRARY = Library(
    path="a.abi3.so",
    size=100,
    modules=2,
    images=(
        image(),
        image(kernels=None, linked=False),
        image(kernels=()),
        image(kind=ImageKind.PTX, isa="9.0", linked=False, arch=Arch(major=9, minor=0)),
        image(kind=ImageKind.LTO, kernels=None, arch=Arch(major=100, minor=3, suffix="f")),
        image(kind=ImageKind.OTHER, kernels=None),
    ),
    elf=ElfFacts(
        kind="shared",
        machine="x86_64",
        soname="x",
        needed=("libcudart.so.13",),
        runpath=("$ORIGIN",),
        rpath=(),
        floors=(("CXXABI", "1.3"), ("GLIBC", "2.17")),
        defined=("PyInit_a",),
        undefined=(Symbol(name="puts", version="GLIBC_2.2.5", weak=True),),
    ),
    findings=(FINDING,),
)
BARE = Library(path="b", size=0, modules=0, images=(), elf=None, findings=())
WHEEL = WheelFacts(
    file="demo-1.0-1-cp310-abi3-any.whl",
    size=5,
    name="demo",
    version="1.0",
    build="1",
    tags=("cp310-abi3-any",),
    metadata=(("Name", "demo"), ("Name", "again")),
    wheel=(),
    members=3,
    libraries=(LIBRARY, BARE),
    findings=(FINDING,),
)
TREE = TreeFacts(path="/x", name=None, version="1", libraries=(BARE,), findings=())


@pytest.mark.parametrize("facts", [LIBRARY, BARE, WHEEL, TREE], ids=lambda f: type(f).__name__)
def test_facts_come_back_as_they_were(facts):
    text = json.dumps(to_json(facts), sort_keys=True)
    back = from_json(json.loads(text))
    assert back == facts
    assert hash(back) == hash(facts)
    assert json.dumps(to_json(back), sort_keys=True) == text


def test_a_library_tells_what_readers_ask_first():
    document = to_json(LIBRARY)
    assert (document["path"], document["modules"], document["kernels"]) == ("a.abi3.so", 2, 2)
    assert document["archs"]["12.0a"] == {
        "images": 2,
        "kernels": 2,
        "code_bytes": 16,
        "stored_bytes": 20,
        "trapping": 1,
    }
    assert set(document["archs"]) == {"9.0+PTX", "12.0a"}
    assert document["names"] == ["k1", "k2"]
    assert (document["python"], document["state"]) == ("abi3", "device code")
    assert document["elf"]["cuda_majors"] == [13]
    assert document["elf"]["modules"] == ["a"]


def test_kernels_not_read_are_null_and_none_at_all_is_zero():
    unread = Library(
        path="x", size=0, modules=1, images=(image(kernels=None),), elf=None, findings=()
    )
    assert to_json(unread)["kernels"] is None
    assert to_json(BARE)["kernels"] == 0


def test_only_a_wheel_is_a_wheel():
    assert wheel_from_json(to_json(WHEEL)) == WHEEL
    with pytest.raises(VerifyError, match="Facts of a 'tree' where a wheel's belong"):
        wheel_from_json(to_json(TREE))


def _without(key):
    document = to_json(LIBRARY)
    del document[key]
    return document


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"format": FORMAT},
        {"format": FORMAT + 1, "kind": "library"},
        {"format": FORMAT, "kind": "nonsense"},
        {"format": [], "kind": "library"},
        _without("images"),
        to_json(LIBRARY) | {"images": [{"kernels": [[99, 1, 1]]}]},
        to_json(LIBRARY) | {"images": [to_json(LIBRARY)["images"][0] | {"arch": "x"}]},
        to_json(LIBRARY) | {"images": [to_json(LIBRARY)["images"][0] | {"kernels": [[99, 1, 1]]}]},
        to_json(LIBRARY) | {"findings": 7},
        to_json(LIBRARY) | {"elf": {}},
    ],
)
def test_documents_of_another_shape_are_refused(document):
    with pytest.raises(VerifyError, match="The document holds no facts of format 1") as caught:
        from_json(document)
    assert caught.value.word == "facts-invalid"
