#!/usr/bin/env python3
"""What the compile cache saves: store emptied, one more arch, one file patched; in pairs.

    python benchmarks/compile_cache.py demo --arch 12.0a --more 9.0 --pairs 3
    python benchmarks/compile_cache.py causal-conv1d --arch 12.0 --more 9.0 --pairs 1
    python benchmarks/compile_cache.py tiles --arch 12.0a --more 9.0 --pairs 1
    python benchmarks/compile_cache.py cub --arch 12.0a --more 9.0 --pairs 1
    python benchmarks/compile_cache.py cub-wrapped --arch 12.0a --more 9.0 --pairs 1

Each pair begins with an empty cache in a temporary folder; environments, downloads and the answer
of sccache's trial are those of this checkout: build the recipe once before. `tiles` and `cub` are
projects of six units made here: matrix products by tiles in registers, without CUB and with little
else but device code, as kernels are; and CUB's algorithms. `cub-wrapped` is `cub` with CUB and
Thrust in a namespace that does not name the archs (docs/compile-layer.md).

The bound of a patched file is what a cold build takes besides its units, plus that unit. Ratios are
of wall and of processor seconds; the latter is the one to read on a machine that does other work.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from overhead import ROOT, Account, Cost, share

TRIED = ROOT / "cache/store/trial"  # whether sccache works with this nvcc: tried once a toolchain
SOURCES = ("recipes", "patches", "smoke", "baselines", "examples")
PATCH = "\n__global__ void kernforge_benchmark_patch() {}\n"
PATCHED = {
    "demo": ("csrc/rmsnorm_fp16_16.cu", '#include "rmsnorm_kernel.cuh"\n'),
    "causal-conv1d": ("csrc/causal_conv1d_update.cu", '#include "causal_conv1d.h"\n'),
    "tiles": ("wide.cu", "// a product by tiles\n"),
    "cub": ("scan.cu", "#include <cub/cub.cuh>\n"),
    "cub-wrapped": ("scan.cu", "#include <cub/cub.cuh>\n"),
}
GOALS = {"warm / cold": 0.15, "one more arch / both": 0.65, "patched / bound": 1.10}

CUB_CALLS = {
    "reduce": "cub::DeviceReduce::Sum(temp, bytes, in, out, n, stream)",
    "scan": "cub::DeviceScan::InclusiveSum(temp, bytes, in, out, n, stream)",
    "sort": "cub::DeviceRadixSort::SortKeys(temp, bytes, in, out, n, 0, 32, stream)",
    "select": "cub::DeviceSelect::Unique(temp, bytes, in, out, out + n, n, stream)",
    "least": "cub::DeviceReduce::Min(temp, bytes, in, out, n, stream)",
    "runs": "cub::DeviceRunLengthEncode::NonTrivialRuns(temp, bytes, in, out, out, out, n, stream)",
}
TILES = {
    "small": "2, 2",
    "wide": "4, 8",
    "tall": "8, 4",
    "square": "4, 4",
    "large": "8, 8",
    "even": "6, 6",
}
TILE_UNIT = """\
// a product by tiles
template <int kRows, int kColumns, int kDepth>
__global__ void product(const float *a, const float *b, float *c, int n) {{
  __shared__ float left[kDepth][16 * kRows], right[kDepth][16 * kColumns];
  const int row = blockIdx.y * kRows * 16 + threadIdx.y;
  const int column = blockIdx.x * kColumns * 16 + threadIdx.x;
  float sum[kRows][kColumns] = {{}};
  for (int at = 0; at < n; at += kDepth) {{
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {{
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        left[k][r * 16 + threadIdx.y] = a[(row + r * 16) * n + at + k];
#pragma unroll
      for (int s = 0; s < kColumns; ++s)
        right[k][s * 16 + threadIdx.x] = b[(at + k) * n + column + s * 16];
    }}
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; ++k)
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int s = 0; s < kColumns; ++s)
          sum[r][s] += left[k][r * 16 + threadIdx.y] * right[k][s * 16 + threadIdx.x];
    __syncthreads();
  }}
  for (int r = 0; r < kRows; ++r)
    for (int s = 0; s < kColumns; ++s) c[(row + r * 16) * n + column + s * 16] = sum[r][s];
}}
extern "C" void tiles_{name}(const float *a, const float *b, float *c, int n, int depth) {{
  const dim3 block(16, 16), grid(n / 64, n / 64);
  if (depth == 8) product<{tile}, 8><<<grid, block>>>(a, b, c, n);
  if (depth == 16) product<{tile}, 16><<<grid, block>>>(a, b, c, n);
  if (depth == 32) product<{tile}, 32><<<grid, block>>>(a, b, c, n);
}}
"""
CUB_UNIT = """\
#include <cub/cub.cuh>
extern "C" int cub_{name}(void *temp, size_t &bytes, int *in, int *out, int n,
                          cudaStream_t stream) {{
  return {call};
}}
"""
CUB_CMAKE = """\
cmake_minimum_required(VERSION 3.26)
project(cubs LANGUAGES CXX CUDA)
add_library(cubs MODULE {units})
install(TARGETS cubs LIBRARY DESTINATION cubs)
"""
CUB_PYPROJECT = """\
[build-system]
requires = ["scikit-build-core>=1.1"]
build-backend = "scikit_build_core.build"
[project]
name = "cubs"
version = "1.0"
[tool.scikit-build]
wheel.py-api = "py3"
wheel.packages = ["cubs"]
"""
WRAPPED = """\
namespace kernforge_cubs { namespace cub {} namespace thrust {} }
namespace cub = kernforge_cubs::cub;
namespace thrust = kernforge_cubs::thrust;
"""
WRAP_FLAGS = "-DTHRUST_CUB_WRAPPED_NAMESPACE=kernforge_cubs -include /kf/src/cub/wrapped.h"
CUB_RECIPE: dict[str, Any] = {
    "format": "1",
    "name": "cub",
    "distribution": "cubs",
    "version": "1.0",
    "sources": {"cub": {"path": "cub"}},
    "build": {"memory": "1 GiB"},
    "matrix": {"archs": ["12.0a"], "cuda": ["13.0"], "python": ["3.11"]},
    "verify": {"require": "code"},
}


@dataclass(frozen=True)
class Made:
    """One build: what it cost, its wheel's SHA-256, seconds of each unit, of all together."""

    cost: Cost
    sha256: str
    units: dict[str, float]
    span: float
    cached: str


class Trial:
    """A project whose builds are measured, each pair in a cache of its own."""

    def __init__(self, root: Path, recipe: str, name: str, words: list[str]) -> None:
        self.project, self.recipe, self.words = root / "project", recipe, words
        self.patch = PATCHED.get(name)
        self.cache = root

    @contextmanager
    def fresh_cache(self) -> Iterator[None]:
        """An empty cache for what is built within."""
        with tempfile.TemporaryDirectory(dir=ROOT / "cache") as folder:
            self.cache = Path(folder)
            share(self.cache)
            if TRIED.is_dir():
                shutil.copytree(TRIED, self.cache / "store/trial")
            yield

    def build(self, archs: str, *words: str) -> Made:
        """Build with an emptied store; environments and the compile cache stay."""
        empty_store(self.cache)
        answer = self.cache / "answer.json"
        call = [sys.executable, "-m", "kernforge", "--project", str(self.project)]
        call += ["--cache", str(self.cache), "build", self.recipe, "--arch", archs]
        call += ["--progress", "plain", "--json", *self.words, *words]
        cost = Account().run(["sh", "-c", 'exec "$@" >"$0"', str(answer), *call])
        (document,) = json.loads(answer.read_text())
        ledger = Path(document["wheel"]).parent / "ledger.jsonl"
        records = [json.loads(line) for line in ledger.read_text().splitlines()]
        return made(cost, document["sha256"], records)

    def edit(self, file: str, after: str) -> None:
        """Add a kernel to one file of the source, by the recipe."""
        path = self.project / "recipes" / f"{self.recipe}.yaml"
        recipe = yaml.load(path.read_text(), yaml.BaseLoader)  # noqa: S506 - text stays text
        source = recipe["sources"][recipe["build"].get("source", next(iter(recipe["sources"])))]
        source["edits"] = [{"file": file, "find": after, "replace": after + PATCH}]
        path.write_text(yaml.safe_dump(recipe, sort_keys=False))


def empty_store(cache: Path) -> None:
    """Remove what was built; what was learned of a toolchain stays."""
    for kind in ("artifact", "compiled", "levels"):
        shutil.rmtree(cache / "store" / kind, ignore_errors=True)


def made(cost: Cost, sha256: str, records: list[dict[str, Any]]) -> Made:
    """What the ledger says of a build's units: compiles of the project's own files."""
    # CMake tries its compilers on files of its own, before any unit.
    units = [
        record
        for record in records
        if record["kind"] == "compile" and not record["nested"] and record["outputs"]
        if not record["sources"][0].startswith(("CMakeFiles/", "/"))
    ]
    began = min(unit["start"] for unit in units)
    ended = max(unit["start"] + unit["waited"] + unit["seconds"] for unit in units)
    results = [str(r.get("cache")) for r in units]
    counts = ", ".join(f"{results.count(word)} {word}" for word in dict.fromkeys(results))
    seconds = {r["sources"][0]: float(r["seconds"]) for r in units}
    return Made(cost=cost, sha256=sha256, units=seconds, span=ended - began, cached=counts)


def units_of(recipe: str) -> dict[str, str]:
    """Text of each unit of a project that is made here."""
    if recipe == "tiles":
        return {name: TILE_UNIT.format(name=name, tile=tile) for name, tile in TILES.items()}
    return {name: CUB_UNIT.format(name=name, call=call) for name, call in CUB_CALLS.items()}


def write_project(root: Path, recipe: str) -> str:
    """Copy what recipes need, and make a project of units; answers the recipe's name."""
    for name in SOURCES:
        shutil.copytree(ROOT / name, root / name)
    folder, units = root / "cub", units_of(recipe)
    folder.mkdir()
    (folder / "cubs").mkdir()
    (folder / "cubs/__init__.py").write_text('"""Units."""\n')
    (folder / "pyproject.toml").write_text(CUB_PYPROJECT)
    names = " ".join(f"{name}.cu" for name in units)
    (folder / "CMakeLists.txt").write_text(CUB_CMAKE.format(units=names))
    (folder / "wrapped.h").write_text(WRAPPED)
    for name, text in units.items():
        (folder / f"{name}.cu").write_text(text)
    shutil.copytree(root / "recipes/locks/demo", root / "recipes/locks/cub")
    cub = dict(CUB_RECIPE)
    if recipe == "cub-wrapped":
        cub["build"] = {**cub["build"], "cmake": {"CMAKE_CUDA_FLAGS": WRAP_FLAGS}}
    (root / "recipes/cub.yaml").write_text(yaml.safe_dump(cub, sort_keys=False))
    return "cub" if recipe in {"tiles", "cub-wrapped"} else recipe


def say(name: str, build: Made) -> None:
    cost, units = build.cost, len(build.units)
    text = f"  {name:<14} {cost.wall:7.1f} s  {cost.cpu:7.1f} s of processors"
    print(f"{text}  {units} units in {build.span:.1f} s: {build.cached}", flush=True)


Ratios = dict[str, list[tuple[float, float | None]]]


def one_pair(trial: Trial, arch: str, more: str, ratios: Ratios) -> None:
    """All builds of a pair; adds wall and processor ratios of each measure."""
    both = f"{more};{arch}"
    recipe_file = trial.project / "recipes" / f"{trial.recipe}.yaml"
    original = recipe_file.read_bytes()
    with trial.fresh_cache():
        say("cold", cold := trial.build(arch))
        say("warm", warm := trial.build(arch))
        if trial.patch:
            trial.edit(*trial.patch)
            say("patched", patched := trial.build(arch))
            recipe_file.write_bytes(original)
            file = trial.patch[0]
            (unit,) = [took for name, took in cold.units.items() if name.endswith(f"/{file}")]
            bound = cold.cost.wall - cold.span + unit
            ratios["patched / bound"].append((patched.cost.wall / bound, None))
        say("one more arch", grown := trial.build(both))
    with trial.fresh_cache():
        say("both, cold", whole := trial.build(both))
    if (warm.sha256, grown.sha256) != (cold.sha256, whole.sha256):
        sys.exit("a wheel made with the compile cache differs from the one made without")
    for name, one, other in (
        ("warm / cold", warm, cold),
        ("one more arch / both", grown, whole),
    ):
        wall, cpu = one.cost.wall / other.cost.wall, one.cost.cpu / other.cost.cpu
        ratios[name].append((wall, cpu))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("recipe")
    parser.add_argument("--arch", default="12.0a")
    parser.add_argument("--more", default="9.0", help="the arch that comes on top")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--jobs", type=int)
    options = parser.parse_args()
    words = ["--jobs", str(options.jobs)] if options.jobs else []
    ratios: Ratios = {name: [] for name in GOALS}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        recipe = write_project(root / "project", options.recipe)
        trial = Trial(root, recipe, options.recipe, words)
        for number in range(options.pairs):
            print(f"pair {number + 1}", flush=True)
            one_pair(trial, options.arch, options.more, ratios)
    print(f"{'median of ' + str(options.pairs):<24} {'wall':>7} {'cpu':>7}   goal (wall)")
    for name, found in ratios.items():
        if found:
            wall = statistics.median(one for one, _ in found)
            cpus = [cpu for _, cpu in found if cpu is not None]
            cpu = f"{statistics.median(cpus):7.3f}" if cpus else "      -"
            print(f"{name:<24} {wall:7.3f} {cpu}   <= {GOALS[name]:.2f}")


if __name__ == "__main__":
    main()
