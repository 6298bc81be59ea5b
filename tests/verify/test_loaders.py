import pytest
from images import TORN, device, image, library

from kernforge.binary.facts import Library
from kernforge.verify.coverage import Service
from kernforge.verify.loaders import loader_faults, simulate

HOPPER = library(image("9.0a", "k"), path="pkg/sm90/ops.abi3.so")
REST = library(image("8.9", "k"), image("12.0a", "k"), path="pkg/sm100/ops.abi3.so")
CHOICE = (("9.0", "pkg/sm90/ops*.so"), ("default", "pkg/sm100/ops*.so"))


def faults(*devices, choice=CHOICE, libraries=(HOPPER, REST), jit=False):
    chosen = simulate((choice,), libraries, tuple(device(d) for d in devices))
    return [(fault.word, str(fault.device)) for fault in loader_faults(chosen, allow_jit=jit)]


def test_each_device_gets_its_own_file_or_the_default():
    chosen = simulate((CHOICE,), (HOPPER, REST), (device("9.0"), device("12.0")))
    assert [one.paths for one in chosen] == [(HOPPER.path,), (REST.path,)]
    assert [one.served.service for one in chosen] == [Service.SERVES, Service.SERVES]


def test_a_wheel_with_code_in_the_other_file_does_not_serve():
    """The wheel as a whole holds 12.0a; the loader sends 12.0 to the file without it."""
    choice = (("12.0", "pkg/sm90/*"), ("default", "pkg/sm100/*"))
    assert faults("12.0", choice=choice) == [("loader-unserved", "12.0")]


def test_the_message_names_choice_file_and_archs():
    chosen = simulate((CHOICE,), (HOPPER, REST), (device("10.0"),))
    (fault,) = loader_faults(chosen)
    assert fault.text == (
        "verify.loaders[0]: device 10.0 gets pkg/sm100/ops.abi3.so, which has code of 0 of its 1 "
        "kernels for it (it holds 8.9, 12.0a)"
    )


@pytest.mark.parametrize(
    ("choice", "word"),
    [
        ((("9.0", "pkg/*"),), "loader-none"),
        ((("default", "elsewhere/*"),), "loader-missing"),
        ((("default", "pkg/*"),), "loader-ambiguous"),
    ],
)
def test_choices_that_lead_nowhere(choice, word):
    assert faults("12.0", choice=choice) == [(word, "12.0")]
    (chosen,) = simulate((choice,), (HOPPER, REST), (device("12.0"),))
    assert chosen.served is None


def test_a_file_without_device_code_serves_nothing():
    host = Library(path="pkg/host.so", size=1, modules=0, images=(), elf=None, findings=())
    choice = (("default", "pkg/host.so"),)
    assert faults("12.0", choice=choice, libraries=(host,)) == [("loader-unserved", "12.0")]


def test_a_torn_file_serves_nothing():
    torn = library(image("12.0a", "k"), path="pkg/sm100/ops.so", findings=(TORN,))
    assert faults("12.0", libraries=(torn,)) == [("loader-unserved", "12.0")]


@pytest.mark.parametrize(("allowed", "found"), [(True, []), (False, [("loader-unserved", "12.0")])])
def test_ptx_counts_only_where_it_may(allowed, found):
    only_ptx = library(image("9.0+PTX", "k"), path="pkg/sm100/ops.so")
    assert faults("12.0", libraries=(only_ptx,), jit=allowed) == found


def test_choices_are_judged_apart():
    chosen = simulate((CHOICE, (("default", "none/*"),)), (HOPPER, REST), (device("9.0"),))
    assert [(one.choice, len(one.paths)) for one in chosen] == [(0, 1), (1, 0)]
