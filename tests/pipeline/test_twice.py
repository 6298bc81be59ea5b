"""Equal keys give equal bytes: builds that differ in all that must not matter, held by SHA-256.

The first way is plain: one compile at a time, everything cold. Each other way differs from it in much
at once: folder of checkout and cache, umask, locale, time zone, home, user, job count and with it the
order of the compiles, the compile cache off or full, the store cold or warm.
"""

import os
import shutil
import tempfile
from dataclasses import replace

import pytest
from pipeline.trials import FILES, LOCKS, PYPROJECT, SETUP
from pipeline.ways import (
    CACHED,
    ELSEWHERE,
    PLAIN,
    TEMPLATES,
    WARM,
    Bench,
    check_equal,
    compiled,
    templates_project,
)
from projects import ROOT
from standin.maker import make_standin

pytestmark = [pytest.mark.build, pytest.mark.xdist_group("twice")]


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


def test_units_of_templates_alone(tmp_path, compiler_cache, toolkit):
    """Where a unit defines no function by itself, nvcc names what is internal by its process id."""
    project = templates_project(tmp_path / "project")
    bench = Bench(root=tmp_path, project=project, shared=compiler_cache, recipe="tiny",
                  local="cu{cuda}.sm{archs}")  # fmt: skip
    check_equal(bench, ELSEWHERE)


def write_files(project, files, locks):
    """A project of these files, whose one recipe is `plain`."""
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    shutil.copytree(locks, project / "recipes/locks/plain")


def test_folders_that_a_disk_lists_in_another_order(tmp_path, compiler_cache, toolkit):
    """A setup.py links its units as the folder lists them; tmpfs lists them last one first."""
    project = tmp_path / "project"
    units = {f"project/csrc/{n}.cu": TEMPLATES.format(name=n) for n in ("b", "d", "a", "e", "c")}
    listed = 'sources = [f"csrc/{name}" for name in os.listdir("csrc")]'
    setup = [listed if line.startswith("sources =") else line for line in SETUP.splitlines()]
    recipe = FILES["recipes/plain.yaml"] + 'publish: {local_version: "cu{cuda}"}\n'
    files = FILES | units | {"project/setup.py": "\n".join(setup), "recipes/plain.yaml": recipe}
    del files["project/csrc/scale.cu"]
    write_files(project, files, LOCKS / "plain")
    bench = Bench(root=tmp_path, project=project, shared=compiler_cache, recipe="plain",
                  local="cu{cuda}")  # fmt: skip
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        answers = [bench.build(way) for way in (PLAIN, replace(PLAIN, folder=folder))]
        listings = [os.listdir(tmp_path / at / "checkout/project/csrc") for at in ("a", folder)]
        links = [compiled(answer) for answer in answers]
    assert any(listing != sorted(listing) for listing in listings)
    assert links == [[f"plain/csrc/{n}.cu" for n in "abcde"]] * 2
    assert answers[0]["key"] == answers[1]["key"]
    assert answers[0]["sha256"] == answers[1]["sha256"]


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
    write_files(project, TORCH_FILES, ROOT / "recipes/locks/causal-conv1d")
    bench = Bench(root=tmp_path, project=project, shared=compiler_cache, recipe="plain",
                  local="cu{cuda}.sm{archs}")  # fmt: skip
    check_equal(bench, ELSEWHERE)
