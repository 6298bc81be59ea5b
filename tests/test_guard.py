"""The program that stands above a build where bubblewrap does not: nothing outlives it."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

GUARD = Path(__file__).parents[1] / "src/kernforge/inside/guard.py"
CALL = [sys.executable, "-I", "-S", str(GUARD)]


def guarded(*words: str, **options):
    return subprocess.run([*CALL, *words], check=False, capture_output=True, timeout=60, **options)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 20
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


def read_when_there(path: Path) -> str:
    deadline = time.monotonic() + 20
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < deadline, f"{path.name} never came"
        time.sleep(0.02)
    return path.read_text()


def test_words_output_and_status_come_through():
    done = guarded("/bin/sh", "-c", 'echo "<$1>"; exit 7', "sh", "a 'b'")
    assert (done.returncode, done.stdout) == (7, b"<a 'b'>\n")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_program_that_a_signal_ends_has_failed(number):
    done = guarded("/bin/sh", "-c", f"kill -{number.value} $$")
    assert done.returncode != 0


def test_a_program_that_is_not_there_has_failed():
    assert guarded("/no/such/program").returncode != 0


def test_what_the_program_left_behind_is_ended(tmp_path):
    """An orphan in a session of its own, which no signal to the group would reach."""
    script = f"setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 1000' > /dev/null 2>&1 & wait"
    script = f"({script}) & while ! test -s {tmp_path}/pid; do sleep 0.02; done"
    assert guarded("/bin/sh", "-c", script).returncode == 0
    assert gone(int(read_when_there(tmp_path / "pid")))


def nest(tmp_path: Path) -> list[str]:
    """A shell whose child, in a session of its own, has a child."""
    inner = f"sleep 1000 & echo $! $$ > {tmp_path}/pids; wait"
    return [*CALL, "/bin/sh", "-c", f"setsid sh -c '{inner}' & wait"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_being_told_to_stop_ends_everything(tmp_path, number):
    child = subprocess.Popen(nest(tmp_path), stderr=subprocess.DEVNULL)
    pids = [int(word) for word in read_when_there(tmp_path / "pids").split()]
    child.send_signal(number)
    assert child.wait(20) == 128 + number
    assert all(gone(pid) for pid in pids)


def test_it_ends_with_whoever_started_it(tmp_path):
    """The starter is killed for good, so that it can tell nobody."""
    code = f"import subprocess; subprocess.run({nest(tmp_path)!r})"
    starter = subprocess.Popen([sys.executable, "-c", code])
    pids = [int(word) for word in read_when_there(tmp_path / "pids").split()]
    starter.kill()
    starter.wait()
    assert all(gone(pid) for pid in pids)


def test_a_child_that_ends_on_its_own_ends_nothing_else():
    done = guarded("/bin/sh", "-c", "sleep 0.01 & sleep 0.2; echo still here")
    assert done.stdout == b"still here\n"
