import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernforge.errors import ToolchainError
from kernforge.process import KILLED_FOR_TIME, Command, Result, Sink, SystemRunner, kill_group

PATH = (("PATH", "/usr/bin:/bin"),)


def sh(script: str, **options) -> Command:
    return Command(argv=("/bin/sh", "-c", script), env=PATH, **options)


def run(script: str, **options) -> Result:
    return SystemRunner().run(sh(script, **options))


def stream(script: str, log: Path) -> tuple[int, list[str]]:
    said: list[str] = []
    status = SystemRunner().stream(sh(script), Sink(log=log, on_line=said.append))
    return status, said


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def gone(pid: int) -> bool:
    """Whether a process ends; it is given time, for signals take some."""
    deadline = time.monotonic() + 20
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


def test_output_and_status():
    result = run("echo out; echo err >&2; exit 3")
    assert (result.returncode, result.stdout, result.stderr) == (3, b"out\n", b"err\n")


def test_a_signal_is_a_negative_status():
    assert run("kill -9 $$").returncode == -signal.SIGKILL


def test_text_and_last_lines():
    assert run(r"printf 'a\377b'").text == "a\ufffdb"
    assert run("echo out; echo why >&2").last_lines == ("why",)
    assert run("echo out").complaint == "out"
    assert run("seq 100 >&2").last_lines == tuple(str(n) for n in range(86, 101))
    assert run("true").last_lines == ()


def test_children_get_exactly_their_environment(monkeypatch):
    monkeypatch.setenv("SECRET", "x")
    found = run("env").text.splitlines()
    assert {line.split("=")[0] for line in found} <= {"PATH", "PWD", "SHLVL", "_", "OLDPWD"}


def test_no_input_is_waited_for():
    assert run("cat; echo done").text == "done\n"


def test_where_it_runs(tmp_path):
    folder = tmp_path / "odd 'ü'"
    folder.mkdir()
    assert run("pwd", cwd=folder).text.strip() == str(folder)


@pytest.mark.parametrize(
    ("argv", "cwd", "word", "said"),
    [
        (("/no/such",), None, "program-missing", "Program '/no/such' is not there"),
        (("/",), None, "program-refused", "Program '/' does not start: Permission denied"),
        (("/bin/true",), Path("/no/such"), "program-refused", "cannot start in '/no/such'"),
    ],
)
def test_programs_that_do_not_start(tmp_path, argv, cwd, word, said):
    command = Command(argv=argv, cwd=cwd)
    with pytest.raises(ToolchainError, match=said) as caught:
        SystemRunner().run(command)
    assert caught.value.word == word
    with pytest.raises(ToolchainError, match=said):
        SystemRunner().stream(command, Sink(log=tmp_path / "log", on_line=print))


def test_time_that_runs_out_ends_all_of_it(tmp_path):
    note = tmp_path / "pids"
    script = f"sleep 1000 & echo $! $$ > {note}; echo early; wait"
    result = SystemRunner().run(sh(script), timeout=5)
    assert result.returncode == KILLED_FOR_TIME
    assert result.stdout == b"early\n"
    assert all(gone(int(pid)) for pid in note.read_text().split())


def test_lines_come_whole_and_the_log_is_exact(tmp_path):
    log = tmp_path / "log"
    script = r"printf 'one\r\ntwo\n'; echo three >&2; printf 'a\377\nlast'"
    status, said = stream(script, log)
    assert status == 0
    assert said == ["one", "two", "three", "a\ufffd", "last"]
    assert log.read_bytes() == b"one\r\ntwo\nthree\na\xff\nlast"


def test_the_log_is_appended_to(tmp_path):
    for word in ("one", "two"):
        stream(f"echo {word}", tmp_path / "log")
    assert (tmp_path / "log").read_text() == "one\ntwo\n"


def test_lines_come_while_it_runs(tmp_path):
    """The child ends only after its first line was handed over."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    said = []

    def answer(line):
        said.append(line)
        if line == "ready":
            fifo.write_text("go\n")

    script = f"echo ready; read word < {fifo}; echo $word"
    assert SystemRunner().stream(sh(script), Sink(log=tmp_path / "log", on_line=answer)) == 0
    assert said == ["ready", "go"]


def test_a_line_without_end_is_handed_over_in_pieces(tmp_path):
    _, said = stream("head -c 300000 /dev/zero | tr '\\0' x; echo; echo end", tmp_path / "log")
    assert said[-1] == "end"
    assert "".join(said[:-1]) == "x" * 300000
    assert max(map(len, said)) <= 2 << 17


def test_a_silent_child_is_ticked_for(tmp_path):
    """The child waits until it was ticked for; a last tick comes when it has ended."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    said, ticks = [], []

    def tick():
        ticks.append(len(said))
        if len(ticks) == 3:
            fifo.write_text("go\n")

    sink = Sink(log=tmp_path / "log", on_line=said.append, on_tick=tick, timeout=60)
    assert SystemRunner().stream(sh(f"read word < {fifo}; echo $word"), sink) == 0
    assert said == ["go"]
    assert ticks[:3] == [0, 0, 0]
    assert ticks[-1] == 1


def test_a_child_that_talks_is_ticked_for_too(tmp_path):
    ticks = []

    def enough():
        ticks.append(1)
        if len(ticks) == 3:
            (tmp_path / "stop").touch()

    script = f"while [ ! -e {tmp_path}/stop ]; do echo word; done"
    sink = Sink(log=tmp_path / "log", on_line=lambda _line: None, on_tick=enough, timeout=60)
    assert SystemRunner().stream(sh(script), sink) == 0


def test_a_child_that_never_stops_talking_runs_out_of_time(tmp_path):
    """Its pipe is full whenever we look; it would end by itself after about twenty seconds."""
    note = tmp_path / "pid"
    line = "$(head -c 60000 /dev/zero | tr '\\0' x)"
    sink = Sink(log=tmp_path / "log", on_line=lambda _line: time.sleep(0.005), timeout=3)
    status = SystemRunner().stream(sh(f'echo $$ > {note}; yes "{line}" | head -n 4000'), sink)
    assert status == KILLED_FOR_TIME
    assert gone(int(note.read_text()))


class StopError(Exception):
    """What a listener raises."""


def test_a_listener_that_fails_ends_the_child(tmp_path):
    note = tmp_path / "pid"

    def fail(line):
        raise StopError("stop here")

    script = f"echo $$ > {note}; echo line; exec sleep 1000"
    with pytest.raises(StopError, match="stop here"):
        SystemRunner().stream(sh(script), Sink(log=tmp_path / "log", on_line=fail))
    assert gone(int(note.read_text()))


def test_what_ignores_a_request_is_killed():
    script = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    child = subprocess.Popen(
        ["/bin/sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True
    )
    assert child.stdout.readline() == b"ready\n"
    kill_group(child.pid)
    assert child.wait() == -signal.SIGKILL
    child.stdout.close()


def test_what_listens_may_clean_up(tmp_path):
    script = f"trap 'echo bye > {tmp_path}/bye; exit' TERM; echo ready; while :; do sleep 0.1; done"
    child = subprocess.Popen(
        ["/bin/sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True
    )
    child.stdout.readline()
    kill_group(child.pid)
    child.stdout.close()
    child.wait()
    assert (tmp_path / "bye").read_text() == "bye\n"


def test_killing_what_is_gone_is_no_fault():
    child = subprocess.Popen(["/bin/true"], start_new_session=True)
    child.wait()
    kill_group(child.pid)
    assert child.returncode == 0


def test_ctrl_c_reaches_us_and_not_the_child(tmp_path):
    """Children are in a session of their own; our end takes them along."""
    code = (
        "import sys; from pathlib import Path\n"
        "from kernforge.process import Command, SystemRunner\n"
        f"script = 'echo $$ > {tmp_path}/pid; echo > {tmp_path}/ready; exec sleep 1000'\n"
        "try:\n"
        "    SystemRunner().run(Command(argv=('/bin/sh', '-c', script)))\n"
        "except KeyboardInterrupt:\n"
        "    print('stopped')\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    while not (tmp_path / "ready").exists():
        assert child.poll() is None
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    assert child.communicate()[0] == "stopped\n"
    assert gone(int((tmp_path / "pid").read_text()))
