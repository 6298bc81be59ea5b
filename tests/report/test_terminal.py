import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest
from answers import KEY, outcome, plan, verdict
from images import TORN, image, library

from kernforge.binary.facts import Finding
from kernforge.events import Note, Output, StageEnded, StageStarted, Waiting
from kernforge.report.terminal import (
    Progress,
    amount,
    entry_line,
    outcome_text,
    plan_text,
    verdict_lines,
    verdict_text,
)
from kernforge.store.local import Store


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 << 20, "5.0 MiB"), (3 << 29, "1.5 GiB")],
)
def test_amount(size, text):
    assert amount(size) == text


def test_progress_says_one_line_a_finished_stage():
    said = []
    show = Progress(said.append)
    for event in (
        StageStarted(job="demo", stage="env"),
        Output(job="demo", line="noise"),
        StageEnded(job="demo", stage="env", seconds=1.04, reused=True),
        StageEnded(job="demo", stage="build", seconds=16.05, detail="19 calls"),
        Note(job="demo", text="no sandbox"),
        Waiting(what="the build", owner="process 7", seconds=10.4),
    ):
        show(event)
    assert said == [
        "demo: env      reused",
        "demo: build    16.1 s  19 calls",
        "demo: note: no sandbox",
        "Waiting for the build: process 7 has it, 10 s",
    ]


def row(*images, **options):
    (line,) = [
        line for line in verdict_lines(verdict(library(*images, **options))) if "pkg/ops.so" in line
    ]
    return " ".join(line.split())


@pytest.mark.parametrize(
    ("images", "said"),
    [
        ((image("12.0a", "k"),), "serves 1 of 1 kernels (12.0a)"),
        ((image("9.0", "k"),), "none 0 of 1 kernels (holds 9.0)"),
        ((image("9.0+PTX", "k"),), "jit only 0 of 1 kernels (holds 9.0+PTX)"),
        ((image("9.0+PTX", "k"), image("9.0", "k", "x")), "(holds 9.0, 9.0+PTX), no PTX of x"),
        ((image("9.0"), image("12.0a")), "no kernel 2 images, all empty (9.0, 12.0a)"),
        ((image("9.0", "a", "b"), image("12.0", "a")), "partial 1 of 2 kernels (12.0), without b"),
    ],
)
def test_a_row_a_library(images, said):
    assert row(*images).startswith("pkg/ops.so 12.0 ")
    assert said in row(*images)


def test_columns_stand_below_each_other():
    lines = verdict_lines(
        verdict(library(image("12.0", "k")), library(image("12.0", "k"), path="pkg/longer/ops.so"))
    )
    assert len({line.index("12.0  serves") for line in lines[1:]}) == 1


def test_what_could_not_be_read_is_told_with_the_reason():
    lines = verdict_lines(verdict(library(image("12.0", "k"), findings=(TORN,))))
    assert any("not read   1 images found" in line for line in lines)
    assert "fault[code-unread]: pkg/ops.so: cannot be judged: an entry ends early" in lines


def test_what_no_row_tells_is_told():
    torn = Finding(word="member-garbled", text="bytes are missing")
    text = "\n".join(verdict_lines(verdict(findings=(torn,), unjudged=("verify.smoke",))))
    assert "fault[wheel-damaged]: The wheel is damaged: bytes are missing" in text
    assert "not judged by this version: verify.smoke" in text
    text = verdict_text("x.whl", verdict(library(path="pkg/host.so")))
    assert "x.whl: falls short of code" in text
    assert "fault[code-missing]: No library of the wheel holds device code" in text
    assert "without device code: pkg/host.so" in text


def test_what_a_row_tells_is_not_told_twice():
    lines = verdict_lines(verdict(library(image("9.0", "k"))))
    assert not [line for line in lines if line.startswith("fault")]


def test_levels_are_told_apart():
    made = verdict(library(image("12.0", "k")), devices=("9.0", "12.0"))
    assert verdict_lines(made)[:2] == [
        "device 9.0: code failed; links, imports, loads, runs not verified",
        "device 12.0: code reached; links, imports, loads, runs not verified",
    ]


def test_names_in_a_strangers_wheel_cannot_steer_the_terminal():
    text = verdict_text("\x1b]0;x", verdict(library(image("12.0", "k"), path="a\x1b[2J\n.so")))
    assert "\x1b" not in text
    assert "a\\x1b[2J" in text


def test_an_outcome():
    lines = outcome_text(outcome()).splitlines()
    assert lines[0] == "demo-cu130-cp311-sm120a: built in 1.23 s"
    assert lines[1:4] == [
        "  wheel   /cache/store/demo.whl",
        f"  sha256  {'ef' * 32}  (2.0 KiB)",
        f"  key     {KEY}",
    ]
    assert outcome_text(outcome(cached=True)).startswith(
        "demo-cu130-cp311-sm120a: found in the store"
    )


def test_a_plan():
    lines = plan_text(plan(), {"build_key": KEY, "in_store": False}).splitlines()
    assert lines[0] == "demo-cu130-cp311-sm90.120a"
    assert f"  build key   {KEY}" in lines
    assert f"  build       {KEY}" in lines
    assert lines[-3:] == ["  in /kf/src/demo", "  $ python -m build", "    CC=gcc"]


def test_an_entry(tmp_path):
    (tmp_path / "x.whl").write_text("wheel")
    entry = Store(tmp_path / "cache").put(
        "artifact", KEY, {"x.whl": tmp_path / "x.whl"}, {"wheel": "x.whl"}
    )
    assert entry_line(entry).split() == ["artifact", KEY[:16], "5", "B", "x.whl"]


LIVE = """\
import sys
from kernforge.events import Note, Output, StageEnded, StageStarted
from kernforge.report.terminal import LiveProgress, make_progress
show = make_progress(print)
assert isinstance(show, LiveProgress)
show(StageStarted(job="demo", stage="build", detail="2 at once"))
show(Output(job="demo", line="[bold]compiling[/bold] " + "x" * 500))
show(StageEnded(job="demo", stage="build", seconds=2, detail="[2 calls]"))
show(Note(job="demo", text="[red]not markup[/red]"))
show.close()
"""


def test_a_terminal_gets_whole_lines_and_no_markup():
    """On a real terminal, made here."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", LIVE],
        stdin=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    seen = b""
    while select.select([ours], [], [], 30)[0]:
        try:
            seen += os.read(ours, 65536)
        except OSError:
            break
    os.close(ours)
    assert child.wait() == 0
    assert b"demo: build     2.0 s  [2 calls]" in seen
    assert b"[red]not markup[/red]" in seen


def test_plain_lines_cost_no_rich():
    ask = "import sys; from kernforge.report import terminal; print('rich' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", ask],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
    )
    assert done.stdout == "False\n"
