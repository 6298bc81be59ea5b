"""How long a warm start takes: `kernforge build demo` and `nox -s build-demo`, beside bare costs.

Run it on an idle machine, after one `kernforge build demo`: `python benchmarks/warm.py [ROUNDS]`.
The calls take turns within each round, so that a busy moment meets all of them. Prints the median
and the range of each in seconds, and the difference to nox alone.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
CALLS = {
    "python -c pass": (sys.executable, "-c", "pass"),
    "nox --list": (str(BIN / "nox"), "--list"),
    "kernforge plan demo": (str(BIN / "kernforge"), "plan", "demo", "--arch", "12.0a"),
    "kernforge build demo": (str(BIN / "kernforge"), "build", "demo", "--arch", "12.0a"),
    "nox -s build-demo": (str(BIN / "nox"), "-s", "build-demo", "--", "--arch", "12.0a"),
}
GOALS = {"kernforge build demo": 0.30, "nox -s build-demo": 0.60}


def seconds(command: tuple[str, ...]) -> float:
    began = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    taken = time.perf_counter() - began
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}\n{done.stderr}")
    return taken


def check_warm() -> None:
    """The first call may compile; one that still does not find its wheel measures nothing."""
    command = CALLS["kernforge build demo"]
    for _ in range(2):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if "found in the store" not in done.stdout:
        sys.exit(f"the demo is not in the store after a build\n{done.stdout}{done.stderr}")


def main(rounds: int) -> None:
    check_warm()
    taken: dict[str, list[float]] = {name: [] for name in CALLS}
    for _ in range(rounds):
        for name, command in CALLS.items():
            taken[name].append(seconds(command))
    load = os.getloadavg()[0]
    print(f"{rounds} rounds, load {load:.1f} on {os.cpu_count()} cores")
    print(f"{'call':<22} {'median':>7} {'least':>7} {'most':>7}   goal")
    for name, found in taken.items():
        median, least, most = statistics.median(found), min(found), max(found)
        goal = f"{GOALS[name]:.2f}" if name in GOALS else ""
        print(f"{name:<22} {median:7.3f} {least:7.3f} {most:7.3f}   {goal}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
