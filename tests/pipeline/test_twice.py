"""Equal keys give equal bytes: builds that differ in all that must not matter, held by SHA-256.

The first way is plain: one compile at a time, everything cold. Each other way differs from it in much
at once: folder of checkout and cache, umask, locale, time zone, home, user, job count and with it the
order of the compiles, the compile cache off or full, the store cold or warm.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pipeline.trials import PYPROJECT
from projects import CMAKE, ROOT, share_toolchain, write_project
from standin.maker import make_standin

pytestmark = [pytest.mark.build, pytest.mark.xdist_group("twice")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a build is started; nothing of it may be seen in its bytes.

    Attributes:
        name: for messages.
        folder: where checkout and cache lie, below the test's own.
        umask: of the build.
        jobs: compiles at once.
        env: variables of the shell.
        words: more options of `build`.
        user: the number that the build is told to be its user's.
        before: what is there already: ``compile`` of the same in the store, for another local
            version, so that only the packing is new; ``cache``: every object in the compile cache.
    """

    name: str
    folder: str
    umask: int
    jobs: int
    env: tuple[tuple[str, str], ...]
    words: tuple[str, ...] = ()
    user: int | None = None
    before: str = ""


PLAIN = Way(
    name="plain", folder="a", umask=0o022, jobs=1, env=(("LC_ALL", "C.UTF-8"), ("TZ", "UTC"))
)
ELSEWHERE = Way(
    name="elsewhere",
    folder="one deeper/checkout of 'mine' ü",
    umask=0o077,
    jobs=3,
    env=(("LC_ALL", "POSIX"), ("LANG", "tr_TR.UTF-8"), ("TZ", "Pacific/Kiritimati"),
         ("HOME", "/nonexistent"), ("USER", "nobody"), ("HOSTNAME", "elsewhere"),
         ("SOURCE_DATE_EPOCH", "1"), ("PYTHONHASHSEED", "77"), ("CFLAGS", "-O0")),
    words=("--no-compile-cache",),
    user=54321,
)  # fmt: skip
WARM = Way(
    name="warm",
    folder="w",
    umask=0o002,
    jobs=2,
    env=(("LC_ALL", "C"), ("TZ", "America/St_Johns")),
    user=1,
    before="compile",
)
CACHED = Way(
    name="cached", folder="c/c", umask=0o027, jobs=2, env=(("TZ", "Asia/Kolkata"),), before="cache"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A project that is built in several ways.

    ``project`` is copied for each way; ``local`` is the local version of its recipe.
    """

    root: Path
    project: Path
    shared: Path
    recipe: str
    local: str

    def build(self, way: Way) -> dict[str, Any]:
        """Build in a checkout and a store of the way's own; the answer of `build --json`."""
        home = self.root / way.folder
        checkout = home / "checkout"
        shutil.copytree(self.project, checkout)
        cache = share_toolchain(home / "cache", self.shared)
        if way.before == "compile":
            recipe = checkout / f"recipes/{self.recipe}.yaml"
            text = recipe.read_text()
            assert text.count(self.local) == 1
            recipe.write_text(text.replace(self.local, f"{self.local}.first"))
            self._run(way, checkout, cache)
            recipe.write_text(text)
        elif way.before == "cache":
            self._run(way, checkout, cache)
            shutil.rmtree(cache / "store")
        return self._run(way, checkout, cache)

    def _run(self, way: Way, checkout: Path, cache: Path) -> dict[str, Any]:
        place = ("--project", str(checkout), "--cache", str(cache))
        words = ("build", self.recipe, "--arch", "12.0a", "--jobs", str(way.jobs), "--json")
        done = subprocess.run(
            [*as_user(way.user), sys.executable, "-m", "kernforge", *place, *words, *way.words],
            cwd=checkout,
            env={**os.environ, **dict(way.env)},
            umask=way.umask,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        (answer,) = json.loads(done.stdout)
        assert answer["cached"] is False
        return answer


def as_user(number: int | None) -> tuple[str, ...]:
    """What makes a program believe that it belongs to another user, who has no name here."""
    if number is None:
        return ()
    return ("unshare", "--user", f"--map-user={number}", f"--map-group={number}")


def spans(answer: dict[str, Any]) -> list[tuple[float, float]]:
    """When each compile began and ended, in the order of their beginnings."""
    lines = (Path(answer["wheel"]).parent / "ledger.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    compiles = [r for r in records if r["kind"] == "compile" and not r["nested"]]
    return sorted((r["start"], r["start"] + r["seconds"]) for r in compiles)


def at_once(answer: dict[str, Any]) -> bool:
    """Whether any compile began before the one before it had ended."""
    times = spans(answer)
    assert len(times) > 1
    return any(later[0] < earlier[1] for earlier, later in pairwise(times))


def hits(answer: dict[str, Any]) -> int:
    """How many compiles a cache served, as the provenance says."""
    text = (Path(answer["wheel"]).parent / "provenance.json").read_text()
    inner = json.loads(text)["predicate"]["buildDefinition"]["internalParameters"]
    return int(inner["compileCache"]["hits"])


def check_equal(bench: Bench, *ways: Way) -> None:
    first = bench.build(PLAIN)
    assert not at_once(first)
    for way in ways:
        other = bench.build(way)
        assert way.jobs < 3 or at_once(other), way.name
        assert way.before != "cache" or hits(other) > hits(first)
        assert not way.words or hits(other) == 0
        assert (other["key"], other["sha256"]) == (first["key"], first["sha256"]), way.name
        assert Path(other["wheel"]).read_bytes() == Path(first["wheel"]).read_bytes()


def test_the_demo(tmp_path, compiler_cache, toolkit):
    project = tmp_path / "project"
    shutil.copytree(ROOT / "recipes/locks/demo", project / "recipes/locks/demo")
    shutil.copyfile(ROOT / "recipes/demo.yaml", project / "recipes/demo.yaml")
    shutil.copytree(
        ROOT / "examples/rmsnorm",
        project / "examples/rmsnorm",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    bench = Bench(root=tmp_path, project=project, shared=compiler_cache, recipe="demo",
                  local="cu{cuda}.sm{archs}")  # fmt: skip
    check_equal(bench, ELSEWHERE)


def test_the_standin(tmp_path, compiler_cache, toolkit):
    """Git, a submodule, archives, a patch, FetchContent that edits its sources in place."""
    standin = make_standin(tmp_path / "made")
    bench = Bench(root=tmp_path, project=standin.project, shared=compiler_cache, recipe="standin",
                  local="cu{cuda}.sm{archs}")  # fmt: skip
    check_equal(bench, ELSEWHERE, WARM, CACHED)


TEMPLATES = """\
namespace {{ __device__ int counter; }}
template <class T> __global__ void {name}(T *x) {{ x[threadIdx.x] += counter++; }}
template <class T> void run_{name}(T *x) {{ {name}<T><<<1, 32>>>(x); }}
template void run_{name}<float>(float *);
"""


def test_units_of_templates_alone(tmp_path, compiler_cache, toolkit):
    """Where a unit defines no function by itself, nvcc names what is internal by its process id."""
    units = ("first", "second", "third")
    cmake = CMAKE.replace(" tiny.cu", "".join(f" {unit}.cu" for unit in units))
    files = {f"project/{unit}.cu": TEMPLATES.format(name=unit) for unit in units}
    project = write_project(tmp_path / "project", {**files, "project/CMakeLists.txt": cmake})
    bench = Bench(root=tmp_path, project=project, shared=compiler_cache, recipe="tiny",
                  local="cu{cuda}.sm{archs}")  # fmt: skip
    check_equal(bench, ELSEWHERE)


TORCH_SETUP = """\
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

names = ["bind.cpp", "scale.cu", "shift.cu"]
setup(
    packages=["plain"],
    ext_modules=[CUDAExtension("plain.code", [f"csrc/{name}" for name in names])],
    cmdclass={"build_ext": BuildExtension},
)
"""
TORCH_BIND = """\
#include <torch/extension.h>
void scale(float *x, float by);
void shift(float *x, float by);
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("scale", [](at::Tensor x, float by) { scale(x.data_ptr<float>(), by); });
  m.def("shift", [](at::Tensor x, float by) { shift(x.data_ptr<float>(), by); });
}
"""
TORCH_KERNEL = """\
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
namespace {{ __global__ void apply(float *x, float by) {{ x[threadIdx.x] {sign}= by; }} }}
void {name}(float *x, float by) {{
  apply<<<1, 32, 0, c10::cuda::getCurrentCUDAStream()>>>(x, by);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}}
"""
TORCH_RECIPE = """\
format: 1
name: plain
distribution: plain
version: "1.2.3"
sources: {plain: {path: project}}
build:
  backend: setuptools
matrix: {archs: ["12.0a"], cuda: ["13.0"], torch: ["2.14.1"], python: ["3.11"]}
verify: {require: imports, import: [plain, plain.code]}
publish: {local_version: "cu{cuda}.sm{archs}"}
"""
TORCH_FILES = {
    "recipes/plain.yaml": TORCH_RECIPE,
    "project/pyproject.toml": PYPROJECT,
    "project/setup.py": TORCH_SETUP,
    "project/csrc/bind.cpp": TORCH_BIND,
    "project/csrc/scale.cu": TORCH_KERNEL.format(name="scale", sign="*"),
    "project/csrc/shift.cu": TORCH_KERNEL.format(name="shift", sign="+"),
    "project/plain/__init__.py": '"""A plain package beside torch."""\nimport torch\n',
}


@pytest.mark.network
def test_an_extension_of_torch(tmp_path, compiler_cache):
    """Some five gigabytes of torch are downloaded once, as `causal-conv1d` locks them."""
    project = tmp_path / "project"
    for name, text in TORCH_FILES.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    shutil.copytree(ROOT / "recipes/locks/causal-conv1d", project / "recipes/locks/plain")
    bench = Bench(root=tmp_path, project=project, shared=compiler_cache, recipe="plain",
                  local="cu{cuda}.sm{archs}")  # fmt: skip
    check_equal(bench, ELSEWHERE)
