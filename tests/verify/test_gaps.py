"""Gaps held against what a recipe accepts and requires."""

import dataclasses

import pytest
from images import device, image, library

from kernforge.binary.facts import Kernel
from kernforge.errors import VerifyError
from kernforge.verify.evidence import Service, weigh
from kernforge.verify.gaps import (
    Accepted,
    kernel_table,
    open_gaps,
    parse_baseline,
    refusing_fault,
    required_faults,
    sift,
)

BLACKWELL, HOPPER = device("12.0"), device("9.0")
GEMMS = ("_Z4gemmILi1EEvv", "_Z4gemmILi2EEvv")
GAPS = library(image("9.0a", *GEMMS))


def refusing(arch, *names):
    """An image of kernels that do nothing but refuse, by trap and by text."""
    made = image(arch, *names)
    kernels = tuple(dataclasses.replace(k, code_bytes=640, traps=1) for k in made.kernels)
    text = "Attempting to use wgmma.fence without CUTE_ARCH_MMA_SM90A_ENABLED"
    return dataclasses.replace(made, kernels=kernels, refusals=(text,))


def answers(held, *devices):
    return weigh(held, devices or (BLACKWELL,))


def lines(*texts):
    return parse_baseline("\n".join(texts))


def left_open(found, *texts, allow_jit=False):
    return open_gaps(found, sift(found, lines(*texts)), allow_jit=allow_jit)


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        ("gemm", 0),
        ("ge*", 0),
        ("*Li1E*", 1),
        ("_Z3addv", 2),
        ("12.0 gemm", 0),
        ("9.0 gemm", 2),
        ("12.0   *Li2E*", 1),
    ],
)
def test_a_baseline_accepts_families_and_names_everywhere_or_on_a_device(pattern, left):
    assert len(left_open(answers(GAPS), pattern)) == left


def test_doubtful_kernels_are_no_gap():
    tiny = dataclasses.replace(
        image("12.0a"),
        kernels=(Kernel(name="k", code_bytes=4096, traps=9),),
        refusals=("not implemented",),
    )
    (answer,) = answers(library(tiny))
    assert answer.service is Service.DOUBTFUL
    assert left_open((answer,)) == ()


def test_ptx_will_do_where_it_may():
    held = library(image("9.0+PTX", "k"))
    assert len(left_open(answers(held))) == 1
    assert left_open(answers(held), allow_jit=True) == ()


def test_a_baseline_is_one_pattern_a_line():
    assert parse_baseline("# old cards\n\n  gemm \r\n12.0 a b\n") == (
        Accepted(pattern="gemm"),
        Accepted(pattern="a b", device=BLACKWELL),
    )


@pytest.mark.parametrize(
    ("line", "said"), [("12.0", "x.txt:2: '12.0' has no pattern"), ("12.0a gemm", "x.txt:2: ")]
)
def test_a_line_that_is_no_pattern_is_told_with_its_place(line, said):
    with pytest.raises(VerifyError, match=said) as caught:
        parse_baseline(f"# one\n{line}\n", "x.txt")
    assert caught.value.word == "baseline-invalid"


def test_lines_that_accept_nothing_are_found():
    given = lines("gemm", "9.0 gemm", "*Li2E*", "closed*")
    used = sift(answers(GAPS), given).used
    assert [str(line) for line in given if line not in used] == ["9.0 gemm", "closed*"]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("good", []),
        ("*", ["kernel-absent", "kernel-refuses"]),
        ("b?d", ["kernel-refuses"]),
        ("nosuch*", ["kernel-missing"]),
    ],
)
def test_every_match_of_a_required_pattern_must_serve(pattern, words):
    held = library(image("12.0a", "good"), refusing("12.0a", "bad"), image("9.0a", "elsewhere"))
    found = [(held.path, answer) for answer in answers(held)]
    assert [fault.word for fault in required_faults(found, (pattern,))] == words


def test_a_required_kernel_may_be_ptx_where_that_is_allowed():
    found = [("x.so", answer) for answer in answers(library(image("9.0+PTX", "k")))]
    assert [f.word for f in required_faults(found, ("k",))] == ["kernel-jit"]
    assert required_faults(found, ("k",), allow_jit=True) == ()


def test_a_table_counts_every_answer_and_the_code():
    held = library(image("12.0a", "good"), refusing("12.0a", *GEMMS), image("9.0a", "elsewhere"))
    found = answers(held, BLACKWELL)
    table = kernel_table(held, BLACKWELL, found, sift(found, lines("*Li1E*")))
    assert {s: n for s, n in table.counts if n} == {
        Service.SERVES: 1,
        Service.REFUSES: 2,
        Service.NONE: 1,
    }
    assert table.count(Service.REFUSES, Service.NONE) == 3
    assert table.accepted == 1
    assert table.code == (("9.0a", 128), ("12.0a", 128 + 2 * 640))
    assert [(g.family, len(g.names)) for g in table.groups] == [("gemm", 2), ("elsewhere", 1)]


def test_one_fault_tells_all_that_refuse_by_family_and_the_evidence():
    names = [f"_Z{n + 1}{'f' * n}{c}v" for n in range(1, 6) for c in "k"]
    held = library(refusing("12.0a", *GEMMS, *names), image("12.0a", "good"))
    found = answers(held)
    table = kernel_table(held, BLACKWELL, found, sift(found, ()))
    fault = refusing_fault(table, left_open(found), 8)
    assert (fault.word, fault.device) == ("kernel-refuses", BLACKWELL)
    assert "7 of 8 kernels refuse to work: 2 of 'gemm', 1 of " in fault.text
    assert "3 more families (640 bytes of code for 12.0a, 1 trap" in fault.text


def test_nothing_refuses_where_all_is_accepted():
    held = library(refusing("12.0a", *GEMMS))
    found = answers(held)
    table = kernel_table(held, BLACKWELL, found, sift(found, lines("gemm")))
    assert refusing_fault(table, left_open(found, "gemm"), 2) is None
