#!/usr/bin/env python3
"""Admission by memory against plain `ninja -j N`, for units that need four times the budget.

    python benchmarks/admission.py stand-in
    python benchmarks/admission.py nvcc
    python benchmarks/admission.py nvcc --heavy 6

`stand-in`: C++ units whose compiler is preceded by a program that really takes so much memory for
so long. `nvcc`: CUDA units with CUB, and six without. With `--heavy 6` the budget is that of two of
them to within one part in a hundred, which no sum of estimates can use. Both sides compile the same
CMake project by Ninja. A watchdog outside looks at the resident memory of all compilers' processes
together, and kills the largest once they pass the budget; a run in which it fires counts as failed.
Seconds are those from the first unit's start to the last one's end. Kernforge builds knowing
nothing of the units, and knowing what they took, each beside one more run of the best `ninja -j N`;
it ends with 7 on stand-ins, because a wheel without device code passes no verification.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from compile_cache import CUB_CALLS, CUB_PYPROJECT, CUB_UNIT, empty_store
from overhead import ROOT, share

MIB = 1 << 20
TIMES = 4  # what all units together need, in budgets
LOOK = 0.03  # seconds between two looks
TOLD = 6  # looks between two readings of the steward's state, which it renews every 0.25 s
NO_COMPILERS = ("python", "ninja", "cmake", "bwrap", "kernforge", "sccache")
PAGE = os.sysconf("SC_PAGE_SIZE")

# MiB and seconds of each unit: a few large ones among many small ones, as in attention libraries.
STAND_INS = (
    (400, 4.0), (320, 3.0), (256, 3.0), (256, 2.0), (192, 2.5), (192, 1.5), (160, 2.0), (128, 2.0),
    (128, 1.5), (128, 1.0), (96, 1.5), (96, 1.0), (64, 1.0), (64, 1.0), (48, 0.5), (32, 0.5),
)  # fmt: skip
MORE_CALLS = {
    "exclusive": "cub::DeviceScan::ExclusiveSum(temp, bytes, in, out, n, stream)",
    "most": "cub::DeviceReduce::Max(temp, bytes, in, out, n, stream)",
}
STAND_IN = """\
// Stands for a heavy compiler: a unit that says "stand-in: MIB SECONDS" takes that first.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void take(const char *path) {
  long mib = 0;
  double seconds = 0;
  FILE *file = fopen(path, "r");
  if (!file) return;
  int found = fscanf(file, "// stand-in: %ld %lf", &mib, &seconds);
  fclose(file);
  if (found != 2) return;
  char *memory = malloc(mib << 20);
  if (!memory) exit(1);
  const int steps = 20;  // the first half of its time it grows, as compilers do
  for (int i = 0; i < steps; ++i) {
    memset(memory + (mib << 20) / steps * i, i + 1, (mib << 20) / steps);
    usleep((useconds_t)(seconds * 500000 / steps));
  }
  usleep((useconds_t)(seconds * 500000));
  free(memory);
}

int main(int argc, char **argv) {
  const char *name = strrchr(argv[0], '/');
  char real[4096];
  for (int i = 1; i < argc; ++i) {
    size_t length = strlen(argv[i]);
    if (length > 4 && !strcmp(argv[i] + length - 4, ".cpp")) take(argv[i]);
  }
  snprintf(real, sizeof real, "/usr/bin/%s", name ? name + 1 : argv[0]);
  argv[0] = real;  // it finds its parts by this
  execv(real, argv);
  return 127;
}
"""
CMAKE = """\
cmake_minimum_required(VERSION 3.26)
project(cubs LANGUAGES {languages})
add_library(cubs MODULE {units})
install(TARGETS cubs LIBRARY DESTINATION cubs)
"""
SMALL_UNIT = """\
template <int N> __global__ void small(float *x) {{ x[threadIdx.x] *= N; }}
template __global__ void small<{number}>(float *);
"""
RECIPE = """\
format: 1
name: cubs
distribution: cubs
version: "1.0"
sources: {{cubs: {{path: project}}}}
build: {{memory: {default} MiB}}
matrix: {{archs: ["12.0a"], cuda: ["13.0"], python: ["3.11"]}}
verify: {{require: code, extensions: {{"cubs/*.so": {device}}}}}
"""


def processes() -> dict[int, tuple[int, int, str]]:
    """Parent, resident bytes and name of every process."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            head, _, rest = (folder / "stat").read_text().rpartition(")")
        except (OSError, UnicodeDecodeError):
            continue
        fields = rest.split()
        name = head.partition("(")[2]
        found[int(folder.name)] = (int(fields[1]), int(fields[21]) * PAGE, name)
    return found


@dataclass
class Watchdog:
    """Kills the largest compiler below a process once all together pass the budget.

    Attributes:
        budget: bytes.
        fired: how often it has killed.
        most: the most that all compilers took together, in bytes.
        admitted: the most that kernforge's steward held admitted, in bytes.
        looks: how often it has looked.
    """

    budget: int
    live: Path | None = None
    fired: int = 0
    most: int = 0
    admitted: int = 0
    looks: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def look(self, root: int) -> None:
        """One look at all that descends from a process."""
        found = processes()
        children: dict[int, list[int]] = {}
        for pid, (parent, _, _) in found.items():
            children.setdefault(parent, []).append(pid)
        below, front = [], [root]
        while front:
            front += (new := children.get(front.pop(), []))
            below += new
        sizes = {pid: found[pid][1] for pid in below if not found[pid][2].startswith(NO_COMPILERS)}
        total = sum(sizes.values())
        self.most = max(self.most, total)
        if total > self.budget:
            self.fired += 1
            try:
                os.kill(max(sizes, key=lambda pid: sizes[pid]), signal.SIGKILL)
            except ProcessLookupError:
                self.fired -= 1
        self.looks += 1
        if self.live is None or self.looks % TOLD:
            return
        for state in self.live.glob("*/ledger/live.json"):
            try:
                self.admitted = max(self.admitted, json.loads(state.read_text())["admitted"])
            except (OSError, ValueError):
                continue

    def run(self, command: list[str], env: dict[str, str], log: Path) -> int:
        """Run a command under the watchdog; its exit status."""
        with log.open("wb") as out:
            child = subprocess.Popen(command, env=env, stdout=out, stderr=out)
            watch = threading.Thread(target=self.watch, args=(child.pid,))
            watch.start()
            status = child.wait()
        self.ended.set()
        watch.join()
        return status

    def watch(self, root: int) -> None:
        """Look until the run has ended."""
        while not self.ended.wait(LOOK):
            self.look(root)


@dataclass(frozen=True)
class Project:
    """A CMake project on disk, and how each side compiles it."""

    root: Path
    env: dict[str, str]
    defines: tuple[str, ...]
    units: int
    budget: int
    default: int
    device: str  # what the library must hold code for, as a recipe says it


def write_stand_in(root: Path) -> Project:
    """Units of C++ and the program that stands before their compiler."""
    folder, tools = root / "project", root / "stand-in/bin"
    tools.mkdir(parents=True)
    (root / "stand-in.c").write_text(STAND_IN)
    subprocess.run(
        ["gcc", "-O1", str(root / "stand-in.c"), "-o", str(tools / "g++")],  # noqa: S607
        check=True,
    )
    shutil.copy(tools / "g++", tools / "c++")
    write_shared(root, "CXX", [f"unit{n:02}.cpp" for n in range(len(STAND_INS))])
    for number, (mib, seconds) in enumerate(STAND_INS):
        text = f"// stand-in: {mib} {seconds}\nint unit{number}() {{ return {number}; }}\n"
        (folder / f"unit{number:02}.cpp").write_text(text)
    total = sum(mib for mib, _ in STAND_INS) * MIB
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    define = f"-DCMAKE_CXX_COMPILER={tools / 'g++'}"
    default = sum(mib for mib, _ in STAND_INS) // len(STAND_INS)
    return Project(root, env, (define,), len(STAND_INS), total // TIMES, default, "[]")


def write_nvcc(root: Path, heavy: int) -> Project:
    """CUDA units with CUB, of 600 MiB each, and six without."""
    small = [f"small{n}" for n in range(6)]
    calls = dict(list((CUB_CALLS | MORE_CALLS).items())[:heavy])
    write_shared(root, "CXX CUDA", [f"{name}.cu" for name in (*calls, *small)])
    for name, call in calls.items():
        (root / f"project/{name}.cu").write_text(CUB_UNIT.format(name=name, call=call))
    for number, name in enumerate(small):
        (root / f"project/{name}.cu").write_text(SMALL_UNIT.format(number=number + 1))
    toolkit = plain_toolkit(root / "cuda")
    defines = (f"-DCMAKE_CUDA_COMPILER={toolkit}/bin/nvcc", "-DCMAKE_CUDA_ARCHITECTURES=120a-real")
    total = (600 * heavy + 200 * len(small)) * MIB  # measured with nvcc 13.0.88
    units = heavy + len(small)
    return Project(root, dict(os.environ), defines, units, total // TIMES, 400, "target")


def write_shared(root: Path, languages: str, units: list[str]) -> None:
    folder = root / "project"
    (folder / "cubs").mkdir(parents=True)
    (folder / "cubs/__init__.py").write_text('"""Units."""\n')
    (folder / "pyproject.toml").write_text(CUB_PYPROJECT)
    text = CMAKE.format(languages=languages, units=" ".join(units))
    (folder / "CMakeLists.txt").write_text(text)


def write_recipe(project: Project) -> None:
    """The recipe and its lock."""
    shutil.copytree(ROOT / "recipes/locks/demo", project.root / "recipes/locks/cubs")
    recipe = RECIPE.format(default=project.default, device=project.device)
    (project.root / "recipes/cubs.yaml").write_text(recipe)


def environment() -> Path:
    """The demo's environment, whose CMake and Ninja both sides use."""
    command = [sys.executable, "-m", "kernforge", "fetch", "demo", "--arch", "12.0a", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return Path(json.loads(done.stdout)[0]["environment"])


def plain_toolkit(folder: Path) -> Path:
    """A CUDA root whose nvcc is NVIDIA's own, made of links into the environment."""
    (root,) = environment().glob("lib/python*/site-packages/nvidia/cu13")
    (folder / "bin").mkdir(parents=True)
    for item in root.iterdir():
        if item.name != "bin":
            (folder / item.name).symlink_to(item)
    for item in (root / "bin").iterdir():
        if item.name != "nvcc":
            (folder / "bin" / item.name).symlink_to(item)
    shutil.copy(root / "bin/nvcc.real", folder / "bin/nvcc")
    return folder


@dataclass(frozen=True)
class Run:
    """One run: seconds of its units, exit status, what the watchdog saw."""

    seconds: float
    status: int
    watchdog: Watchdog

    def say(self, name: str) -> None:
        """Print one line."""
        dog = self.watchdog
        held = f", admitted at most {dog.admitted / MIB:.0f} MiB" if dog.admitted else ""
        print(
            f"  {name:<22} {self.seconds:7.2f} s  at most {dog.most / MIB:6.0f} MiB{held}, "
            f"watchdog fired {dog.fired} times, exit {self.status}",
            flush=True,
        )


def plain(project: Project, jobs: int) -> Run:
    """`ninja -j N`, everything compiled anew."""
    build, tools = project.root / "plain", environment() / "bin"
    if not build.exists():
        words = ["-G", "Ninja", "-S", str(project.root / "project"), "-B", str(build)]
        words += ["-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}"]
        call = [str(tools / "cmake"), *words, *project.defines]
        subprocess.run(call, env=project.env, check=True, capture_output=True)
    ninja = [str(tools / "ninja"), "-C", str(build)]
    subprocess.run([*ninja, "-t", "clean"], check=True, capture_output=True)
    (build / ".ninja_log").unlink(missing_ok=True)
    dog = Watchdog(project.budget)
    command = [*ninja, "-k", "0", "-j", str(jobs)]
    status = dog.run(command, project.env, project.root / "plain.log")
    lines = [line.split("\t") for line in (build / ".ninja_log").read_text().splitlines()[1:]]
    times = [(int(one[0]), int(one[1])) for one in lines if one[3].endswith(".o")]
    span = max(end for _, end in times) - min(start for start, _ in times) if times else 0
    return Run(span / 1000, status, dog)


def ours(project: Project, cache: Path, jobs: int) -> Run:
    """`kernforge build` with the budget, the store emptied before."""
    empty_store(cache)
    dog = Watchdog(project.budget, live=cache / "work")
    command = [sys.executable, "-m", "kernforge", "--project", str(project.root)]
    command += ["--cache", str(cache), "build", "cubs", "--jobs", str(jobs), "--no-compile-cache"]
    command += ["--memory", f"{project.budget // MIB}MiB", "--progress", "plain"]
    log = project.root / "ours.log"
    status = dog.run(command, project.env, log)
    found = sorted((cache / "store").glob("artifact/*/*/ledger.jsonl"))
    if not found:
        sys.exit(log.read_text(errors="replace")[-3000:])
    records = [json.loads(line) for line in found[0].read_text().splitlines()]
    units = [
        record
        for record in records
        if record["kind"] == "compile" and not record["sources"][0].startswith(("CMakeFiles/", "/"))
    ]
    if len(units) != project.units:
        sys.exit(f"{len(units)} units in the ledger, not {project.units}")
    began = min(unit["start"] for unit in units)
    ended = max(unit["start"] + unit["waited"] + unit["seconds"] for unit in units)
    return Run(ended - began, status, dog)


def best_of(runs: dict[int, Run]) -> int:
    """The quickest N at which the watchdog did not fire."""
    sound = {jobs: run for jobs, run in runs.items() if not run.watchdog.fired and not run.status}
    if not sound:
        sys.exit("the watchdog fired at every N")
    return min(sound, key=lambda jobs: sound[jobs].seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("units", choices=("stand-in", "nvcc"))
    parser.add_argument("--jobs", type=int, help="kernforge's --jobs and the largest N")
    parser.add_argument("--heavy", type=int, default=8, help="nvcc: units with CUB, 8 at most")
    parser.add_argument("--builds", type=int, default=3, help="builds by kernforge")
    parser.add_argument(
        "--default", type=int, metavar="MIB", help="the recipe's build.memory; else the units' mean"
    )
    options = parser.parse_args()
    write: Callable[[Path], Project] = {
        "stand-in": write_stand_in,
        "nvcc": lambda root: write_nvcc(root, options.heavy),
    }[options.units]
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory(dir=ROOT / "cache") as cache,
    ):
        project = write(Path(folder))
        write_recipe(replace(project, default=options.default or project.default))
        share(Path(cache))
        most = options.jobs or project.units
        print(f"{project.units} units, budget {project.budget / MIB:.0f} MiB", flush=True)
        runs = {}
        for jobs in range(1, most + 1):
            runs[jobs] = plain(project, jobs)
            runs[jobs].say(f"ninja -j {jobs}")
        best = best_of(runs)
        ratios = []
        for number in range(options.builds):
            built, beside = ours(project, Path(cache), most), plain(project, best)
            built.say("kernforge, later" if number else "kernforge, first")
            beside.say(f"ninja -j {best}, after it")
            ratios.append(built.seconds / beside.seconds)
    for name, ratio in (("nothing", ratios[0]), ("them", median(ratios[1:] or ratios))):
        print(f"kernforge knowing {name} / ninja -j {best}: {ratio:.3f}   goal <= 1.10")


if __name__ == "__main__":
    main()
