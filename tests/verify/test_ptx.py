"""Field case 25: PTX of a newer toolkit than the driver."""

from dataclasses import replace

import pytest
from images import device, image, library

from kernforge.verify.evidence import weigh
from kernforge.verify.policy import Rules, judge
from kernforge.verify.ptx import driver_fault, isa_release

D120 = device("12.0")


def ptx(isa, *names, arch="8.6"):
    return replace(image(f"{arch}+PTX", *names), isa=isa)


@pytest.mark.parametrize(
    ("isa", "release"),
    [
        ("6.4", (11, 0)),
        ("7.8", (11, 8)),
        ("8.5", (12, 5)),
        ("8.6", (12, 7)),
        ("8.8", (12, 9)),
        ("9.0", (13, 0)),
        ("9.5", (13, 5)),
        (None, None),
        ("", None),
        ("nine", None),
    ],
)
def test_the_release_that_an_isa_came_with(isa, release):
    assert isa_release(isa) == release


def fault(driver, *images):
    held = library(*images)
    return driver_fault(held, weigh(held, [D120]), driver)


def test_both_versions_are_told():
    found = fault("13.0", ptx("9.2", "a", "b"))
    assert (found.word, found.device) == ("ptx-newer", D120)
    assert (
        "2 kernels have PTX of ISA 9.2 (CUDA 13.2) only, the driver is for CUDA 13.0" in found.text
    )


@pytest.mark.parametrize(
    "images",
    [
        (ptx("9.0", "a"),),
        (ptx("9.2", "a"), ptx("8.8", "a", arch="8.0")),
        (ptx("9.2", "a"), image("12.0", "a")),
        (ptx("9.2", "a", arch="12.1"),),
    ],
)
def test_where_the_driver_will_do_or_need_not(images):
    assert fault("13.0", *images) is None


def test_an_isa_that_nobody_knows_is_no_pass():
    assert "ISA unknown (of no known release)" in fault("13.0", ptx(None, "a")).text


def test_where_the_driver_is_not_known_nothing_is_said():
    assert fault(None, ptx("9.2", "a")) is None


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({}, ["code-missing"]),
        ({"driver": "13.0"}, ["code-missing"]),
        ({"allow_jit": True}, []),
        ({"allow_jit": True, "driver": "13.2"}, []),
        ({"allow_jit": True, "driver": "13.0"}, ["ptx-newer"]),
    ],
)
def test_the_verdict_on_ptx_alone(rules, words):
    verdict = judge((library(ptx("9.2", "a")),), (D120,), Rules(require="code", **rules))
    assert [one.word for one in verdict.faults] == words
