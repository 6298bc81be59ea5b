import io

import pytest
from rich.console import Console, Group

from kernforge.events import Compiling, Running
from kernforge.report.frame import View, about, frame, middle, rows

LONG = "csrc/moe/cutlass_moe/w4a8/w4a8_grouped_mm_c3x_of_a_very_long_name.cu"
CALL = Running(what="csrc/a.cu", archs=1, seconds=72, memory=1 << 30)
BUSY = Compiling(
    job="demo",
    done=12,
    total=143,
    running=(CALL, Running(what=LONG, archs=2, seconds=3, memory=5 << 20)),
    waiting=3,
    admitted=3 << 30,
    budget=12 << 30,
    hits=4,
    misses=8,
    left=250,
)


def shown(compiling=None, width=80, height=24, encoding="utf-8", **view):
    """The lines of a frame on a console of that size."""
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="backslashreplace")
    console = Console(file=file, width=width, height=height, force_terminal=True, no_color=True)
    plain = {"job": "demo", "stage": "build", "detail": "2 at once", "seconds": 83}
    parts = frame(View(**plain | view, compiling=compiling), console)
    with console.capture() as capture:
        console.print(Group(*parts))
    return strip(capture.get()).splitlines()


def strip(text):
    out = ""
    while "\x1b[" in text:
        before, _, text = text.partition("\x1b[")
        out += before
        text = text[text.index("m") + 1 :]
    return out + text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "about 5 s"), (41, "about 40 s"), (59, "about 60 s"), (89, "about 1 min"),
        (250, "about 4 min"), (3600, "about 1 h"), (4300, "about 1 h 10 min"),
        (7190, "about 2 h"), (36000, "about 10 h"),
    ],
)  # fmt: skip
def test_a_guess_is_no_more_exact_than_it_is(seconds, text):
    assert about(seconds) == text


def test_paths_lose_their_middle():
    assert middle("csrc/a.cu", 9) == "csrc/a.cu"
    assert middle("csrc/attention/a.cu", 12) == "csr\u2026ion/a.cu"
    for width in range(5, 40):
        assert len(middle(LONG, width, "...")) <= width


def test_a_compile_at_80_columns():
    assert shown(BUSY)[1:] == [
        "  ━━━                                       12/143  about 4 min left",
        "  memory 3.0 of 12.0 GiB, cache 4 of 12 hit, 3 waiting",
        "  csrc/a.cu                                      1 arch     1:12     1.0 GiB",
        "  csrc/moe/cutla…m_c3x_of_a_very_long_name.cu   2 archs     0:03     5.0 MiB",
    ]


def test_the_head_says_job_stage_and_time():
    assert shown()[0][2:] == "demo  build  1:23  2 at once"


@pytest.mark.parametrize("width", [40, 60, 79, 80, 81, 120, 200])
@pytest.mark.parametrize("line", ["", "x" * 500])
def test_no_line_reaches_the_edge(width, line):
    """What a terminal echoes there, ^C pressed twice, would begin another line."""
    alone = Running(what=LONG, archs=12, seconds=40_000, memory=1 << 40, alone=True)
    lines = shown(BUSY, width=width, line=line)
    lines += shown(Compiling(job="demo", done=3, running=(alone,)), width=width)
    lines += shown(Compiling(job="demo", done=10_000, total=20_000, left=36_600), width=width)
    lines += shown(width=width, line=line, job="a-very-long-name-of-a-job-" * 9)
    assert max(map(len, lines)) <= width - 4


@pytest.mark.parametrize(("height", "most"), [(24, 12), (50, 12), (8, 7)])
def test_the_display_stays_small(height, most):
    many = Compiling(job="demo", done=1, total=9, budget=1 << 40, running=(CALL,) * 64)
    lines = shown(many, height=height)
    assert len(lines) == most
    assert lines[-1].strip() == f"and {64 - (most - 4)} more"


def test_rows_are_all_shown_where_they_fit():
    assert len(rows((CALL,) * 9, 80, 9, "...")) == 9


def test_what_is_unknown_is_left_out():
    assert shown(Compiling(job="demo", done=0), line="-- Detecting CUDA")[1:] == [
        "  -- Detecting CUDA"
    ]
    assert shown(Compiling(job="demo", done=3))[1:] == ["  3 done"]


def test_output_gives_way_to_what_runs():
    assert not any("noise" in line for line in shown(BUSY, line="noise"))


def test_a_call_that_is_tried_again_alone_says_so():
    alone = Running(what="a.cu", archs=1, seconds=1, memory=1 << 30, alone=True)
    assert shown(Compiling(job="demo", done=0, running=(alone,)))[-1].endswith("retried")


def test_names_of_strangers_do_not_steer_the_terminal():
    evil = Running(what="a\x1b[2J\nb.cu", archs=0, seconds=1, memory=1)
    (_, line) = shown(Compiling(job="demo", done=0, running=(evil,)))
    assert line.startswith(r"  a\x1b[2J\nb.cu ")


def test_a_console_of_ascii_gets_ascii():
    lines = shown(BUSY, encoding="ascii", line="x" * 500)
    assert all(line.isascii() for line in lines)
