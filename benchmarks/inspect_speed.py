"""Measure reading against NVIDIA's cuobjdump and unzip, in turns, each in a process of its own.

    python benchmarks/inspect_speed.py WHEEL --cuobjdump PROGRAM [--rounds 5]

WHEEL is sglang-kernel 0.4.10 from the index; its largest library is unpacked to a scratch folder.
What is compared gives the same: the entry functions of every image. Our side counts trap
instructions, reads the host tables and, for the wheel, checks CRC and SHA-256 of every member.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

LIBRARY = """
import sys, time
from pathlib import Path
start = time.perf_counter()
from kernforge.binary.library import read_library_file
begin = time.perf_counter()
facts = read_library_file(Path(sys.argv[1]), "x", kernels=sys.argv[2] == "kernels")
assert facts.images
print(time.perf_counter() - begin)
"""
WHEEL = """
import sys, time
from pathlib import Path
from kernforge.binary.wheel import read_wheel
begin = time.perf_counter()
facts = read_wheel(Path(sys.argv[1]))
assert facts.libraries
print(time.perf_counter() - begin)
"""
Run = Callable[[], float]
Seconds = dict[str, list[float]]


def _inner(code: str, *words: str) -> float:
    """Seconds that our reading takes, told by a fresh interpreter."""
    command = (sys.executable, "-c", code, *words)
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _wall(*command: str) -> float:
    """Seconds that a program takes; its output is thrown away."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def _whole(code: str, *words: str) -> float:
    """Seconds of our whole process, start of the interpreter included."""
    return _wall(sys.executable, "-c", code, *words)


def _unzip_and_dump(wheel: Path, program: str) -> float:
    unzip = shutil.which("unzip") or "unzip"
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run((unzip, "-q", str(wheel), "-d", scratch), check=True)
        for library in sorted(Path(scratch).rglob("*.so")):
            _wall(program, "--dump-elf-symbols", str(library))
    return time.perf_counter() - begin


def _processor() -> float:
    """Processor seconds that ended children have taken so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _measure(runs: dict[str, Run], rounds: int) -> tuple[Seconds, Seconds]:
    """Every run once unmeasured (so that the files are in memory), then in turns.

    Answers wall seconds, and processor seconds of whole processes, which a busy machine disturbs
    less.
    """
    wall: Seconds = {name: [] for name in runs}
    processor: Seconds = {name: [] for name in runs}
    for turn in range(rounds + 1):
        for name, run in runs.items():
            before = _processor()
            taken = run()
            if turn:
                wall[name].append(round(taken, 3))
                processor[name].append(round(_processor() - before, 3))
    return wall, processor


def main() -> None:
    """Measure and print one JSON object: medians, and the seconds of each round."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--cuobjdump", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, zipfile.ZipFile(chosen.wheel) as archive:
        libraries = [info for info in archive.infolist() if info.filename.endswith(".so")]
        largest = max(libraries, key=lambda info: info.file_size)
        path = archive.extract(largest, scratch)
        runs: dict[str, Run] = {
            "archs": lambda: _inner(LIBRARY, path, "archs"),
            "kernels": lambda: _inner(LIBRARY, path, "kernels"),
            "kernels, whole process": lambda: _whole(LIBRARY, path, "kernels"),
            "cuobjdump": lambda: _wall(chosen.cuobjdump, "--dump-elf-symbols", path),
            "wheel": lambda: _inner(WHEEL, str(chosen.wheel)),
            "wheel, whole process": lambda: _whole(WHEEL, str(chosen.wheel)),
            "unzip and cuobjdump": lambda: _unzip_and_dump(chosen.wheel, chosen.cuobjdump),
        }
        wall, processor = _measure(runs, chosen.rounds)
    report = {
        "library": largest.filename,
        "bytes": largest.file_size,
        "median wall": {name: statistics.median(each) for name, each in wall.items()},
        "median processor": {name: statistics.median(each) for name, each in processor.items()},
        "rounds": wall,
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
