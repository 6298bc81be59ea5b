import pytest

from kernforge.events import (
    Compiling,
    Note,
    Output,
    Running,
    StageEnded,
    StageStarted,
    UnitEnded,
    Waiting,
)
from kernforge.report.progress import Folded, Plain, Quiet, clock, unit_line

UNIT = {
    "job": "demo", "done": 12, "total": 143, "what": "csrc/a.cu", "archs": ("sm_120a",),
    "seconds": 12.34, "peak": 1 << 30, "cache": "hit", "failed": False,
}  # fmt: skip
RUNNING = Running(what="csrc/a.cu", archs=1, seconds=1, memory=1)
EVENTS = (
    StageStarted(job="demo", stage="env"),
    Output(job="demo", line="noise"),
    StageEnded(job="demo", stage="env", seconds=1.04, reused=True),
    StageStarted(job="demo", stage="build"),
    Compiling(job="demo", done=1, running=(RUNNING,)),
    UnitEnded(**UNIT),
    Note(job="demo", text="no sandbox"),
    UnitEnded(**UNIT | {"done": 13}),
    StageEnded(job="demo", stage="build", seconds=16.05, detail="19 calls"),
    Waiting(what="the build", owner="process 7", seconds=10.4),
)


def said_by(kind, events=EVENTS):
    said = []
    show = kind(said.append)
    for event in events:
        show(event)
    show.close()
    return said


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "[12/143] csrc/a.cu  sm_120a  12.3 s  1.0 GiB  hit"),
        ({"total": None}, "csrc/a.cu  sm_120a  12.3 s  1.0 GiB  hit"),
        ({"cache": "whole", "peak": 0}, "[12/143] csrc/a.cu  sm_120a  12.3 s  hit"),
        ({"archs": (), "cache": "off"}, "[12/143] csrc/a.cu  12.3 s  1.0 GiB"),
        (
            {"archs": ("sm_90a", "sm_120a"), "peak": None, "cache": None},
            "[12/143] csrc/a.cu  sm_90a sm_120a  12.3 s",
        ),
        ({"failed": True}, "[12/143] csrc/a.cu  sm_120a  12.3 s  1.0 GiB  failed"),
        (
            {"what": "a\n::error::b\x1b[2J\t.cu", "peak": None, "cache": None},
            r"[12/143] a\n::error::b\x1b[2J .cu  sm_120a  12.3 s",
        ),
    ],
)
def test_a_unit(changes, line):
    assert unit_line(UnitEnded(**UNIT | changes)) == line


def test_one_line_a_finished_stage_and_unit():
    assert said_by(Plain) == [
        "demo: env      reused",
        "[12/143] csrc/a.cu  sm_120a  12.3 s  1.0 GiB  hit",
        "demo: note: no sandbox",
        "[13/143] csrc/a.cu  sm_120a  12.3 s  1.0 GiB  hit",
        "demo: build    16.1 s  19 calls",
        "Waiting for the build: process 7 has it, 10 s",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (59.9, "0:59"), (83, "1:23"), (3600, "1:00:00"), (90061, "25:01:01")],
)
def test_clock(seconds, text):
    assert clock(seconds) == text


def test_a_long_silence_is_broken():
    """CI services take a job that says nothing for one that hangs."""
    now, said = [0.0], []
    show = Plain(said.append, clock=lambda: now[0])
    slow = Compiling(job="demo", done=1, running=(RUNNING,) * 5)
    show(StageStarted(job="demo", stage="build"))
    for moment in (100.0, 200.0, 250.0, 300.0, 400.0, 500.0):
        now[0] = moment
        show(Output(job="demo", line="noise"))
        show(slow)
    three = "csrc/a.cu 0:01, csrc/a.cu 0:01, csrc/a.cu 0:01"
    assert said == [f"demo: still compiling: {three}, 2 more"] * 2
    now[0] = 1000.0
    show(Compiling(job="demo", done=1))
    assert len(said) == 2, "nothing runs"
    show(UnitEnded(**UNIT))
    show(slow)
    assert len(said) == 3, "somebody has just spoken"


def test_units_fold_away_on_github():
    assert said_by(Folded) == [
        "demo: env      reused",
        "::group::demo: compiler calls",
        "[12/143] csrc/a.cu  sm_120a  12.3 s  1.0 GiB  hit",
        "demo: note: no sandbox",
        "[13/143] csrc/a.cu  sm_120a  12.3 s  1.0 GiB  hit",
        "::endgroup::",
        "demo: build    16.1 s  19 calls",
        "Waiting for the build: process 7 has it, 10 s",
    ]


def test_a_fold_ends_before_a_fault_is_told():
    """The stage never ends; closing does what is needed, once."""
    said = []
    show = Folded(said.append)
    show(UnitEnded(**UNIT))
    show.close()
    show.close()
    assert said[-1] == "::endgroup::"
    assert said.count("::endgroup::") == 1


def test_quiet_says_notes_alone():
    assert said_by(Quiet) == ["demo: note: no sandbox"]
