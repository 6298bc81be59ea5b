"""The only door to child processes. Bottom layer: knows nothing of recipes or builds.

Children get exactly the environment they are given, run in a session of their own (so that
Ctrl-C reaches us first), and are killed with all that they started when we stop waiting.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from kernforge.errors import ToolchainError

_CHUNK = 1 << 16
_GRACE_SECONDS = 3.0
_TICK_SECONDS = 0.5
KILLED_FOR_TIME = -1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One program call: argument list, whole environment, working directory."""

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    cwd: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a finished child left: exit status (negative: signal) and its output as bytes."""

    returncode: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """Standard output for reading; bytes that are not UTF-8 are replaced."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        """The last lines of standard error (else output), for messages."""
        return "\n".join(self.last_lines)

    @property
    def last_lines(self) -> tuple[str, ...]:
        """The same, line by line: what a fault shows as its detail."""
        raw = self.stderr.strip() or self.stdout.strip()
        return tuple(raw.decode("utf-8", "replace").splitlines()[-15:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Where a long-running child's output goes: appended to a file, and line by line to a call.

    Attributes:
        log: the file.
        on_line: called with each line.
        timeout: in seconds from the start; None waits for ever.
        on_tick: called about every half second, of a silent child too, and once after its end.
    """

    log: Path
    on_line: Callable[[str], None]
    timeout: float | None = None
    on_tick: Callable[[], None] | None = None


class Runner(Protocol):
    """Runs commands. Functions that start programs take one; tests may pass a scripted one."""

    def run(self, command: Command, *, timeout: float | None = None) -> Result:
        """Run to the end and return all output."""
        ...

    def stream(self, command: Command, sink: Sink) -> int:
        """Run to the end and answer the exit status; all output goes to the sink.

        The status is :data:`KILLED_FOR_TIME` where the sink's timeout ended it.
        """
        ...


class SystemRunner:
    """Runs commands on this machine."""

    def run(self, command: Command, *, timeout: float | None = None) -> Result:
        """Run to the end and return all output.

        Raises:
            ToolchainError: ``program-missing`` or ``program-refused`` where it cannot be started.
        """
        with _started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            try:
                out, err = child.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                kill_group(child.pid)
                out, err = child.communicate()
                return Result(returncode=KILLED_FOR_TIME, stdout=out, stderr=err)
            return Result(returncode=child.returncode, stdout=out, stderr=err)

    def stream(self, command: Command, sink: Sink) -> int:
        """Run to the end and answer the exit status; all output goes to the sink.

        The log gets bytes as they come; lines are decoded for reading. A line longer than 64 KiB
        is handed over in pieces.

        Raises:
            ToolchainError: as :meth:`run`.
        """
        with (
            sink.log.open("ab") as log,
            _started(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child,
        ):
            if child.stdout is None:  # pragma: no cover - PIPE was asked for
                return child.wait()
            try:
                for line in _lines(child.stdout, log, _Pace(sink)):
                    sink.on_line(line.decode("utf-8", "replace"))
                status = child.wait()
            except TimeoutError:
                kill_group(child.pid)
                status = KILLED_FOR_TIME
            if sink.on_tick is not None:
                sink.on_tick()
            return status


class _Pace:
    """Ticks while somebody waits for a child, and says when the child's time is over."""

    def __init__(self, sink: Sink) -> None:
        now = time.monotonic()
        self._end = math.inf if sink.timeout is None else now + sink.timeout
        self._next = math.inf if sink.on_tick is None else now
        self._tick = sink.on_tick

    def wait(self, pipe: IO[bytes]) -> None:
        """Wait until the pipe can be read; raises TimeoutError where it cannot in time."""
        while True:
            now = time.monotonic()
            if self._tick is not None and now >= self._next:
                self._next = now + _TICK_SECONDS
                self._tick()
            left = min(self._next, self._end) - time.monotonic()
            if select.select([pipe], [], [], None if left == math.inf else max(0.0, left))[0]:
                return
            self.check()

    def check(self) -> None:
        """Raise TimeoutError where the time is over: a child that never stops talking too."""
        if time.monotonic() >= self._end:
            raise TimeoutError


def _lines(pipe: IO[bytes], log: IO[bytes], pace: _Pace) -> Iterator[bytes]:
    rest = b""
    while True:
        pace.wait(pipe)
        chunk = os.read(pipe.fileno(), _CHUNK)
        if not chunk:
            break
        log.write(chunk)
        log.flush()
        pace.check()
        *whole, rest = (rest + chunk).replace(b"\r\n", b"\n").split(b"\n")
        yield from whole
        if len(rest) > _CHUNK:
            yield rest
            rest = b""
    if rest:
        yield rest


class _HeldSignals:
    """Holds Ctrl-C and SIGTERM back while a child starts: it would be started and not known."""

    def __init__(self) -> None:
        self._came: list[int] = []
        self._old: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._old[number] = signal.signal(number, self._note)

    def _note(self, number: int, _frame: object) -> None:
        self._came.append(number)

    def keep(self) -> None:
        """Put the handlers back."""
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def deliver(self) -> None:
        """Let come what came meanwhile."""
        for number in self._came:
            signal.raise_signal(number)


@contextlib.contextmanager
def _started(command: Command, *, stdout: int, stderr: int) -> Iterator[subprocess.Popen[bytes]]:
    name, held = command.argv[0], _HeldSignals()
    try:
        child = subprocess.Popen(
            command.argv,
            env=dict(command.env),
            cwd=command.cwd,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        if command.cwd is not None and not command.cwd.is_dir():
            raise ToolchainError(
                "program-refused",
                f"Program {name!r} cannot start in {str(command.cwd)!r}: no folder",
            ) from error
        raise ToolchainError(
            "program-missing", f"Program {name!r} is not there", hint="install it, or mend PATH"
        ) from error
    except OSError as error:
        raise ToolchainError(
            "program-refused", f"Program {name!r} does not start: {error.strerror}"
        ) from error
    finally:
        held.keep()
    try:
        held.deliver()
        yield child
    except BaseException:
        kill_group(child.pid)
        raise
    finally:
        if child.stdout is not None:
            child.stdout.close()
        if child.stderr is not None:
            child.stderr.close()
        child.wait()


def kill_group(pid: int) -> None:
    """End a child's whole process group: politely, then after 3 s for good."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGTERM)
        deadline = time.monotonic() + _GRACE_SECONDS
        while time.monotonic() < deadline:
            done, _ = os.waitpid(pid, os.WNOHANG) if _is_child(pid) else (pid, 0)
            if done:
                break
            time.sleep(0.02)
        os.killpg(pid, signal.SIGKILL)


def _is_child(pid: int) -> bool:
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
