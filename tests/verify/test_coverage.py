import pytest
from images import TORN, archs, device, image, library

from kernforge.binary.facts import State
from kernforge.verify.coverage import (
    Service,
    holds,
    holds_ptx,
    serve,
    served_names,
    unrequested,
)


@pytest.mark.parametrize(
    ("arch", "asked", "service"),
    [
        ("12.0", "12.0", Service.SERVES),
        ("12.0a", "12.0", Service.SERVES),
        ("12.0f", "12.0", Service.SERVES),
        ("8.0", "8.6", Service.EXPECTED),
        ("8.0", "8.9", Service.EXPECTED),
        ("12.0", "12.1", Service.EXPECTED),
        ("8.6", "8.0", Service.NONE),
        ("8.9", "9.0", Service.NONE),
        ("9.0", "12.0", Service.NONE),
        ("12.0a", "12.1", Service.NONE),
        ("9.0a", "12.0", Service.NONE),
        ("10.0a", "12.0", Service.NONE),
        ("12.0f", "12.1", Service.EXPECTED),
        ("12.1f", "12.0", Service.NONE),
        ("10.0f", "10.3", Service.EXPECTED),
        ("10.0f", "12.0", Service.NONE),
        ("8.7", "8.7", Service.SERVES),
        ("8.0", "8.7", Service.NONE),
        ("8.7", "8.9", Service.NONE),
        ("11.0", "11.0", Service.SERVES),
        ("9.0+PTX", "12.0", Service.JIT),
        ("12.0a+PTX", "12.0", Service.JIT),
        ("9.0a+PTX", "12.0", Service.NONE),
        ("12.0+PTX", "9.0", Service.NONE),
        ("12.0f+PTX", "12.1", Service.JIT),
        ("10.0f+PTX", "12.0", Service.NONE),
    ],
)
def test_one_image_and_one_device(arch, asked, service):
    assert serve(library(image(arch, "k")), device(asked)).service is service


def test_relocatable_code_covers_nothing():
    row = serve(library(image("12.0", "k", linked=False)), device("12.0"))
    assert (row.service, row.kernels, row.total) == (Service.NONE, 0, 1)
    assert row.images == ("12.0",)


def test_relocatable_code_beside_linked_code_changes_nothing():
    held = library(image("12.0", "k"), image("9.0", "k", "gone", linked=False))
    assert serve(held, device("12.0")).service is Service.SERVES


def test_images_without_kernels_are_no_code():
    empty = library(image("12.0a"), image("9.0"), image("10.0a"))
    row = serve(empty, device("12.0"))
    assert row.service is Service.EMPTY
    assert (row.total, row.image_count, row.archs) == (0, 3, ())
    assert row.images == ("9.0", "10.0a", "12.0a")


def test_an_empty_image_for_the_device_covers_no_kernel_of_others():
    row = serve(library(image("12.0a"), image("9.0", "k")), device("12.0"))
    assert (row.service, row.archs) == (Service.NONE, ())


def test_a_gap_is_named():
    row = serve(library(image("9.0", "a", "b", "c"), image("12.0a", "b")), device("12.0"))
    assert row.service is Service.PARTIAL
    assert (row.kernels, row.total, row.missing) == (1, 3, ("a", "c"))


def test_kernels_of_several_images_count_together():
    held = library(image("12.0a", "a"), image("12.0", "b"), image("9.0", "a", "b"))
    row = serve(held, device("12.0"))
    assert (row.service, row.archs) == (Service.SERVES, ("12.0", "12.0a"))


def test_one_kernel_that_is_only_expected_makes_all_expected():
    held = library(image("8.6", "a"), image("8.0", "a", "b"))
    assert serve(held, device("8.6")).service is Service.EXPECTED


def test_a_kernel_that_only_ptx_has_is_missing():
    row = serve(library(image("12.0", "a"), image("9.0+PTX", "b")), device("12.0"))
    assert (row.service, row.missing, row.absent) == (Service.PARTIAL, ("b",), ())


def test_what_neither_code_nor_ptx_has_is_absent():
    held = library(image("9.0", "a", "b"), image("9.0+PTX", "a"))
    row = serve(held, device("12.0"))
    assert (row.service, row.missing, row.absent) == (Service.JIT, (), ("b",))
    held = library(image("12.0", "a"), image("9.0", "a", "b", "c"), image("9.0+PTX", "b"))
    row = serve(held, device("12.0"))
    assert (row.service, row.missing, row.absent) == (Service.PARTIAL, ("b", "c"), ("c",))


def test_names_with_an_arch_list_inside_are_compared_without_it():
    one = "_ZN21CUB_300001_SM_800_9006kernelEv"
    other = "_ZN17CUB_300001_SM_1206kernelEv"
    row = serve(library(image("9.0", one), image("12.0", other)), device("12.0"))
    assert (row.service, row.total) == (Service.SERVES, 1)


@pytest.mark.parametrize(
    "held",
    [
        library(image("12.0", "k"), findings=(TORN,)),
        library(image("12.0", "k"), image("12.0", read=False)),
        library(findings=(TORN,)),
    ],
)
def test_what_was_not_read_whole_is_not_judged(held):
    assert serve(held, device("12.0")).service is Service.UNREAD


def test_a_library_of_which_nothing_was_read_is_not_host_only():
    assert library(findings=(TORN,)).state is State.UNREADABLE


def test_served_names():
    held = library(image("12.0", "a"), image("9.0", "b"), image("9.0+PTX", "b"))
    assert served_names(held, device("12.0")) == {"a"}
    assert served_names(held, device("12.0"), jit=True) == {"a", "b"}


def test_holds_wants_exactly_the_target():
    held = library(image("12.0", "k"), image("9.0a", "k", linked=False), image("10.0a"))
    answers = [holds(held, arch) for arch in archs("12.0", "12.0+PTX", "12.0a", "9.0a", "10.0a")]
    assert answers == [True, True, False, False, False]


def test_holds_ptx():
    held = library(image("9.0+PTX", "k"), image("12.0", "k"))
    assert [holds_ptx(held, arch) for arch in archs("9.0+PTX", "12.0+PTX")] == [True, False]


@pytest.mark.parametrize(
    ("wanted", "extra"),
    [
        (("9.0", "12.0a"), ("9.0+PTX",)),
        (("9.0+PTX", "12.0a"), ()),
        (("9.0+PTX",), ("12.0a",)),
        (("12.0a",), ("9.0", "9.0+PTX")),
        (("12.0a+PTX", "9.0"), ("9.0+PTX",)),
        ((), ("9.0", "9.0+PTX", "12.0a")),
    ],
)
def test_unrequested(wanted, extra):
    held = library(image("12.0a", "k"), image("9.0", "k"), image("9.0+PTX", "k"))
    assert unrequested(held, archs(*wanted)) == extra


def test_an_empty_image_that_nobody_asked_for_is_told_too():
    assert unrequested(library(image("12.0a", "k"), image("9.0")), archs("12.0a")) == ("9.0",)
