"""Runs a build outside bubblewrap so that nothing outlives it. Standard library only.

Usage: python -I -S guard.py PROGRAM [ARGUMENT...]

bubblewrap ends all children when kernforge dies. Without it this program does: it adopts every
orphan below it, and when its parent dies or it is told to stop, it kills all that descends from it.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def descendants(root: int) -> set[int]:
    """Process ids of all that descend from ``root``, by /proc."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue
    found: set[int] = set()
    front = {root}
    while front:
        front = {pid for pid, parent in parents.items() if parent in front} - found
        found |= front
    return found


def kill_all() -> None:
    """Kill until nothing is left; a child may start another while we look."""
    while left := descendants(os.getpid()):
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            continue


def stop(number: int, _frame: object) -> None:
    """End everything, and leave with the signal's status."""
    kill_all()
    os._exit(128 + number)


def main(argv: list[str]) -> int:
    """Run a program to its end; answer its exit status."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    parent = os.getppid()
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        return 128 + signal.SIGTERM
    child = os.fork()
    if child == 0:
        try:
            os.execvp(argv[0], argv)
        except OSError as error:
            sys.stderr.write(f"guard: {argv[0]}: {error.strerror}\n")
            os._exit(127)
    while True:
        pid, status = os.wait()
        if pid == child:
            kill_all()
            return os.waitstatus_to_exitcode(status) % 256


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
