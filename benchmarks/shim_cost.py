#!/usr/bin/env python3
"""What the shim costs a compiler call, with and without the steward, over the bare tool; in turns.

    python benchmarks/shim_cost.py [--rounds 200] [--compiler g++]

The bare call, the shim alone, and the shim that asks a steward take turns within each round. The
tool does next to nothing unless --compiler names one, which then compiles an empty file. Shims run
as in a build: by the launcher's shell line, from byte code. Prints medians in milliseconds, and the
median of the paired differences, which is the cost.
"""

from __future__ import annotations

import argparse
import json
import os
import py_compile
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernforge.inside import shim, steward

GOAL = 25.0
TOOL = '#!/bin/sh\nfor word in "$@"; do case "$last" in -o) : > "$word";; esac; last=$word; done\n'
LAUNCHER = '#!/bin/sh\nexec {python} -I -S {program} g++ "$@"\n'
GIB = 1 << 30


def write_program(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def byte_code(module: str | None, folder: Path) -> Path:
    """A program of ours, compiled as a build compiles it."""
    made = folder / f"{Path(str(module)).stem}.pyc"
    py_compile.compile(str(module), str(made), doraise=True)
    return made


def write_config(folder: Path, tool: str, *, asks: bool) -> Path:
    """The shim's configuration."""
    config = {
        "version": 1,
        "tools": {"g++": tool},
        "path": os.environ["PATH"],
        "ledger": str(folder),
        "roots": [str(folder)],
        "gencode": {"default": "replace", "by_path": [], "archs": [{"code": "120a", "ptx": False}]},
    }
    path = folder / f"config-{asks}.json"
    path.write_text(json.dumps(config | ({"steward": str(folder / "steward")} if asks else {})))
    return path


@contextmanager
def running_steward(folder: Path) -> Iterator[None]:
    """A steward with room for everything, and no compile cache."""
    order = {
        "socket": str(folder / "steward"),
        "live": str(folder / "live.json"),
        "free": str(folder / "free"),
        "budget": 8 * GIB,
        "watch": False,
        "slots": 8,
        "threads": 1,
        "processors": 8,
        "default": GIB,
        "known": {},
        "cache": None,
        "stats": str(folder / "stats"),
        "cut": False,
        "calls": None,
    }
    (folder / "order.json").write_text(json.dumps(order))
    words = [str(byte_code(steward.__file__, folder)), str(folder / "order.json"), "sleep", "3600"]
    child = subprocess.Popen([sys.executable, "-I", "-S", *words], start_new_session=True)
    while not (folder / "steward").exists():
        if child.poll() is not None:
            raise SystemExit("the steward has ended")
        time.sleep(0.01)
    try:
        yield
    finally:
        os.killpg(child.pid, 15)
        child.wait()


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def milliseconds(command: list[str], env: dict[str, str], folder: Path) -> tuple[float, float]:
    """By the clock, and of processors; the steward's own are not in the latter."""
    used, began = processor_seconds(), time.perf_counter()
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, check=False)
    taken = time.perf_counter() - began
    if done.returncode != 0:
        sys.exit(f"{command}: {done.returncode}\n{done.stderr.decode(errors='replace')}")
    return taken * 1000, (processor_seconds() - used) * 1000


def over(found: list[tuple[float, float]], bare: list[tuple[float, float]], which: int) -> float:
    """The median of the paired differences."""
    pairs = zip(found, bare, strict=True)
    return statistics.median(one[which] - other[which] for one, other in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--compiler", help="a real one, as g++")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, running_steward(folder := Path(name)):
        tool = write_program(folder / "tool", TOOL)
        if options.compiler:
            tool = shutil.which(options.compiler) or sys.exit(f"no {options.compiler} on PATH")
        program = byte_code(shim.__file__, folder)
        text = LAUNCHER.format(python=sys.executable, program=program)
        front = write_program(folder / "g++", text)
        (folder / "empty.cpp").write_text("")
        words = ["-c", "empty.cpp", "-o", "empty.o"]
        plain = {"PATH": os.environ["PATH"], "TMPDIR": name}
        configs = {asks: str(write_config(folder, tool, asks=asks)) for asks in (False, True)}
        calls = {
            "bare tool": ([tool, *words], plain),
            "shim": ([front, *words], plain | {"KERNFORGE_SHIM_CONFIG": configs[False]}),
            "shim, steward": ([front, *words], plain | {"KERNFORGE_SHIM_CONFIG": configs[True]}),
        }
        taken: dict[str, list[tuple[float, float]]] = {call: [] for call in calls}
        for turn in range(options.rounds + 1):
            for call, (command, env) in calls.items():
                found = milliseconds(command, env, folder)
                if turn:  # the first round warms the files up
                    taken[call].append(found)
        records = (folder / "calls.jsonl").read_text().splitlines()
    if len(records) != 2 * (options.rounds + 1):
        sys.exit(f"{len(records)} records in the ledger for {2 * (options.rounds + 1)} calls")
    print(f"{options.rounds} rounds, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, ms")
    print(f"{'call':<15} {'median':>7} {'cost':>7} {'of processors':>14}   goal (cost)")
    for call, found in taken.items():
        cost, used = (over(found, taken["bare tool"], which) for which in (0, 1))
        goal = "" if call == "bare tool" else f"<= {GOAL:.0f}"
        median = statistics.median(one for one, _ in found)
        print(f"{call:<15} {median:7.1f} {cost:7.1f} {used:14.1f}   {goal}")


if __name__ == "__main__":
    main()
