from kernforge.arch import Arch
from kernforge.binary.facts import Compression, Image, ImageKind, Kernel, Library
from kernforge.binary.summary import (
    arch_summaries,
    kernel_names,
    kernel_table,
    relocatable_summaries,
)


def kernel(name, code=100, traps=0):
    return Kernel(name=name, code_bytes=code, traps=traps)


def image(number, *kernels, suffix="", kind=ImageKind.CUBIN, linked=True, module=0):
    return Image(
        kind=kind,
        arch=Arch(major=number // 10, minor=number % 10, suffix=suffix),
        linked=linked,
        module=module,
        size=10,
        unpacked=10,
        compression=Compression.NONE,
        kernels=kernels,
    )


def library(*images):
    return Library(path="x", size=1, modules=1, images=images, elf=None, findings=())


CUB = "_ZN3cub18CUB_300001_SM_12001kEv"
MIXED = library(
    image(120, kernel("a"), kernel("b", traps=2), suffix="a"),
    image(90, kernel("a")),
    image(120, kernel("b"), kernel(CUB), suffix="a", module=1),
    image(90, kernel("a", code=0), kind=ImageKind.PTX, linked=False),
    image(80, kernel("r"), linked=False),
    image(100, kind=ImageKind.LTO, linked=False),
)


def test_archs_are_counted_in_order_with_ptx_apart():
    rows = arch_summaries(MIXED)
    assert [
        (r.label, r.images, r.kernels, r.code_bytes, r.stored_bytes, r.trapping) for r in rows
    ] == [
        ("9.0", 1, 1, 100, 10, 0),
        ("9.0+PTX", 1, 1, 0, 10, 0),
        ("12.0a", 2, 3, 400, 20, 1),
    ]


def test_what_is_not_linked_is_counted_apart():
    assert [(r.label, r.kernels) for r in relocatable_summaries(MIXED)] == [("8.0", 1), ("10.0", 0)]


def test_kernels_that_were_not_read_are_not_zero():
    unread = Image(
        kind=ImageKind.CUBIN,
        arch=Arch(major=9, minor=0),
        linked=True,
        module=0,
        size=1,
        unpacked=1,
        compression=Compression.NONE,
    )
    assert arch_summaries(library(unread))[0].kernels is None


def test_names_lose_the_arch_list_of_cub():
    assert kernel_names(MIXED) == {"a", "b", "r", "_ZN3cub3CUB1kEv"}


def test_kernels_by_arch_tell_the_most_traps_of_any_copy():
    assert kernel_table(MIXED) == {
        "_ZN3cub3CUB1kEv": {"12.0a": 0},
        "a": {"12.0a": 0, "9.0": 0, "9.0+PTX": 0},
        "b": {"12.0a": 2},
    }
