from dataclasses import replace

import pytest
from answers import verdict
from images import TORN, image, library

from kernforge.binary.facts import Finding
from kernforge.report.verdict import verdict_lines, verdict_text
from kernforge.verify.gaps import parse_baseline


def row(*images, **options):
    (line,) = [
        line for line in verdict_lines(verdict(library(*images, **options))) if "pkg/ops.so" in line
    ]
    return " ".join(line.split())


@pytest.mark.parametrize(
    ("images", "said"),
    [
        ((image("12.0a", "k"),), "serves 1 of 1 kernels (12.0a: 0.0 MiB)"),
        ((image("9.0", "k"),), "none 0 of 1 kernels (holds 9.0)"),
        ((image("9.0+PTX", "k"),), "jit only 0 of 1 kernels (holds 9.0+PTX)"),
        ((image("9.0+PTX", "k"), image("9.0", "k", "x")), "(holds 9.0, 9.0+PTX), no PTX of x"),
        ((image("9.0"), image("12.0a")), "no kernel 2 images, all empty (9.0, 12.0a)"),
        (
            (image("9.0", "a", "b"), image("12.0", "a")),
            "partial 1 of 2 kernels (12.0: 0.0 MiB), without b",
        ),
    ],
)
def test_a_row_a_library(images, said):
    assert row(*images).startswith("pkg/ops.so ")
    assert said in row(*images)


def test_columns_stand_below_each_other():
    lines = verdict_lines(
        verdict(library(image("12.0", "k")), library(image("12.0", "k"), path="pkg/longer/ops.so"))
    )
    assert len({line.index("serves") for line in lines[1:]}) == 1


def test_what_could_not_be_read_is_told_with_the_reason():
    lines = verdict_lines(verdict(library(image("12.0", "k"), findings=(TORN,))))
    assert any("not read   1 images found" in line for line in lines)
    assert "fault[code-unread]: pkg/ops.so: cannot be judged: an entry ends early" in lines


def test_what_no_row_tells_is_told():
    torn = Finding(word="member-garbled", text="bytes are missing")
    text = "\n".join(verdict_lines(replace(verdict(findings=(torn,)), notes=("so and so",))))
    assert "fault[wheel-damaged]: The wheel is damaged: bytes are missing" in text
    assert "note: so and so" in text
    text = verdict_text("x.whl", verdict(library(path="pkg/host.so")))
    assert "x.whl: falls short of code" in text
    assert "fault[code-missing]: No library of the wheel holds device code" in text
    assert "without device code: pkg/host.so" in text


def test_what_a_row_tells_is_not_told_twice():
    lines = verdict_lines(verdict(library(image("9.0", "k"))))
    assert not [line for line in lines if line.startswith("fault")]


def test_levels_are_told_apart():
    made = verdict(library(image("12.0", "k")), devices=("9.0", "12.0"))
    assert [line for line in verdict_lines(made) if not line.startswith(" ")] == [
        "device 9.0: code failed; links, imports, loads, runs not verified",
        "device 12.0: code reached; links, imports, loads, runs not verified",
    ]


def test_names_in_a_strangers_wheel_cannot_steer_the_terminal():
    text = verdict_text("\x1b]0;x", verdict(library(image("12.0", "k"), path="a\x1b[2J\n.so")))
    assert "\x1b" not in text
    assert "a\\x1b[2J" in text


def refusing(*names):
    made = image("12.0a", *names)
    kernels = tuple(replace(kernel, code_bytes=640, traps=1) for kernel in made.kernels)
    return replace(made, kernels=kernels, refusals=("not implemented",))


def test_what_refuses_is_told_by_family_with_the_evidence():
    held = library(image("12.0a", "good"), refusing("_Z4gemmILi1EEvv", "_Z4gemmILi2EEvv"))
    lines = [" ".join(line.split()) for line in verdict_lines(verdict(held))]
    assert lines[1] == "pkg/ops.so refuses 1 of 3 kernels (12.0a: 0.0 MiB), 2 refuse to work"
    assert lines[2:] == [
        "refuses 2 gemm",
        "640 bytes of code for 12.0a, 1 trap, the image says 'not implemented'",
        "hint: kernels that are never called there: a recipe names them in kernels.accepted_gaps",
    ]


def test_of_many_families_the_largest_are_told():
    names = [f"_Z{1 + n // 9}{'abcdefghi'[n % 9] * (1 + n // 9)}v" for n in range(8)]
    held = library(image("12.0a", "good"), refusing(*names))
    lines = verdict_lines(verdict(held))
    assert len([line for line in lines if line.strip().startswith("refuses ")]) == 6
    assert "      and 2 more families; --json names every kernel" in lines


def test_a_long_family_keeps_both_ends():
    name = f"_Z{200}begin{'x' * 190}endedv"
    text = "\n".join(verdict_lines(verdict(library(image("12.0a", "good"), refusing(name)))))
    assert "beginxxx" in text
    assert "xxxended" in text
    assert "x" * 80 not in text


def test_accepted_gaps_and_code_that_is_not_needed_are_told():
    held = library(image("12.0a", "good"), refusing("bad"))
    accepted = parse_baseline("bad")
    text = "\n".join(verdict_lines(verdict(held, accepted=accepted)))
    assert "1 refuses to work, 1 of the gaps accepted" in text
    assert "hint: " not in text
    bare = verdict(library(path="pkg/host.so"), device_code=False)
    assert verdict_text("x.whl", bare).splitlines()[:2] == [
        "x.whl: reaches code",
        "  device 12.0: code not needed; links, imports, loads, runs not verified",
    ]


def test_the_same_of_several_libraries_is_told_once():
    held = (library(image("12.0", "k"), path=f"pkg/{name}.so") for name in ("a", "ab", "c"))
    notes = ("links: pkg/a.so: needs x", "links: pkg/ab.so: needs x", "links: pkg/c.so: needs y")
    lines = verdict_lines(replace(verdict(*held), notes=notes))
    assert lines[-2:] == [
        "note: links: pkg/a.so: needs x (and 1 more library)",
        "note: links: pkg/c.so: needs y",
    ]
