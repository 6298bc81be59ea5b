"""The moving display, on a real terminal that is made here."""

import os
import pty
import select
import signal
import subprocess
import sys

import pytest

HEAD = """\
import sys, time
from kernforge.events import *
from kernforge.report.display import make_display
show = make_display("live", print)
show(StageStarted(job="demo", stage="build", detail="2 at once"))
"""
SHOWN, HIDDEN, ERASED = b"\x1b[?25h", b"\x1b[?25l", b"\x1b[2K"


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, code, **env):
        self.ours, theirs = pty.openpty()
        self.child = subprocess.Popen(
            [sys.executable, "-c", HEAD + code],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24", **env},
        )
        os.close(theirs)
        self.seen = b""

    def read(self, until=None):
        """Read to the end, or until something is seen."""
        while until is None or until not in self.seen:
            assert select.select([self.ours], [], [], 30)[0], self.seen
            try:
                self.seen += os.read(self.ours, 65536)
            except OSError:
                break
        return self.seen

    def end(self):
        seen = self.read()
        os.close(self.ours)
        out = self.child.stdout.read()
        self.child.stdout.close()
        self.child.wait()
        return seen, out


def played(code, **env):
    return Terminal(code, **env).end()


COMPILE = """\
call = Running(what="csrc/a.cu", archs=1, seconds=7, memory=1 << 30)
show(Compiling(job="demo", done=3, total=9, running=(call,), admitted=1, budget=2 << 30))
time.sleep(0.6)
"""
FAILED = """\
show(UnitEnded(job="demo", done=4, total=9, what="csrc/b.cu", archs=("sm_120a",), seconds=1.0,
               peak=None, cache=None, failed=True))
"""
END = 'show(StageEnded(job="demo", stage="build", seconds=2, detail="[2 calls]"))\n'


def test_it_shows_what_runs_and_then_is_gone():
    seen, out = played(COMPILE + END + 'print("answer")\n')
    assert b"3/9" in seen
    assert b"csrc/a.cu" in seen
    assert b"demo: build     2.0 s  [2 calls]" in seen
    assert seen.rindex(HIDDEN) < seen.rindex(b"csrc/a.cu") < seen.rindex(SHOWN)
    assert seen[seen.rindex(b"csrc/a.cu") : seen.rindex(b"demo: build")].count(ERASED) >= 4
    assert out == b"answer\n"


def test_answers_do_not_go_the_way_of_progress():
    """Standard output is elsewhere, also while the display moves."""
    seen, out = played('print("answer")\n' + COMPILE + END)
    assert out == b"answer\n"
    assert b"answer" not in seen


def test_a_failed_unit_stands_above():
    seen, _ = played(COMPILE + FAILED + COMPILE + END)
    assert b"[4/9] csrc/b.cu  sm_120a  1.0 s  failed" in seen


def test_text_is_no_markup():
    seen, _ = played(
        'show(Output(job="demo", line="[bold]compiling[/bold] " + "x" * 500))\n'
        'time.sleep(0.6)\nshow(Note(job="demo", text="[red]not markup[/red]"))\n' + END
    )
    assert b"[bold]compiling[/bold] xxx" in seen
    assert b"demo: note: [red]not markup[/red]" in seen


@pytest.mark.parametrize(("env", "coloured"), [({"NO_COLOR": "1"}, False), ({}, True)])
def test_no_color_is_heard(env, coloured):
    seen, _ = played(COMPILE + FAILED + END, **{"NO_COLOR": "", **env})
    assert b"csrc/a.cu" in seen
    assert (b"\x1b[31m" in seen) is coloured


def test_a_stage_after_another_shows_nothing_of_the_first():
    again = 'show(StageStarted(job="demo", stage="pack"))\ntime.sleep(0.6)\nshow.close()\n'
    seen, _ = played(COMPILE + END + again)
    assert b"csrc/a.cu" not in seen[seen.rindex(b"[2 calls]") :]
    assert b"pack" in seen


def test_ctrl_c_leaves_the_cursor():
    code = (
        "try:\n    show(Note(job='demo', text='ready'))\n    time.sleep(60)\n"
        "except KeyboardInterrupt:\n    show.close()\n    print('stopped')\n"
    )
    terminal = Terminal(code)
    terminal.read(until=b"ready")
    terminal.child.send_signal(signal.SIGINT)
    seen, out = terminal.end()
    assert out == b"stopped\n"
    assert seen.rindex(SHOWN) > seen.rindex(HIDDEN)


def test_the_build_of_another_process_moves_too():
    """Nothing has started here: this process waits for the lock of the other."""
    first = 'show(StageEnded(job="demo", stage="env", seconds=2, detail=""))\n'
    wait = 'show(Waiting(what="the build of demo", owner="somebody", seconds=10))\n'
    seen, _ = played(first + wait + COMPILE + "show.close()\n")
    assert b"Waiting for the build of demo" in seen
    assert b"by another process" in seen
    assert b"csrc/a.cu" in seen
    assert seen.rindex(SHOWN) > seen.index(HIDDEN)
