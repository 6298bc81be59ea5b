"""Small real projects, made from text in a test's own folder."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]

PYPROJECT = """\
[build-system]
requires = ["scikit-build-core>=1.1"]
build-backend = "scikit_build_core.build"
[project]
name = "tiny"
version = "1.2.3"
[tool.scikit-build]
wheel.py-api = "py3"
wheel.packages = ["tiny"]
"""
CMAKE = """\
cmake_minimum_required(VERSION 3.26)
project(tiny LANGUAGES CXX CUDA)
add_library(tiny SHARED tiny.cu)
install(TARGETS tiny LIBRARY DESTINATION tiny)
"""
KERNEL = """\
namespace { __global__ void scale(float *x, float by) { x[threadIdx.x] *= by; } }
extern "C" void tiny_scale(float *x, float by) { scale<<<1, 32>>>(x, by); }
"""
RECIPE = """\
format: 1
name: tiny
distribution: tiny
version: "1.2.3"
sources:
  tiny: {path: project}
matrix: {archs: ["12.0a"], cuda: ["13.0"], python: ["3.11"]}
verify: {require: code}
publish: {local_version: "cu{cuda}.sm{archs}"}
"""
FILES = {
    "recipes/tiny.yaml": RECIPE,
    "project/pyproject.toml": PYPROJECT,
    "project/CMakeLists.txt": CMAKE,
    "project/tiny.cu": KERNEL,
    "project/tiny/__init__.py": '"""A tiny package."""\n',
}


def write_project(root: Path, changes: dict[str, str] | None = None) -> Path:
    """A project with one recipe `tiny`; files of `changes` come on top. Its lock is the demo's."""
    for name, text in {**FILES, **(changes or {})}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "recipes/locks/demo", root / "recipes/locks/tiny", dirs_exist_ok=True)
    return root


def share_toolchain(cache: Path, shared: Path) -> Path:
    """A cache of its own that takes environments, downloads and trials from a shared one."""
    (cache / "store").mkdir(parents=True, exist_ok=True)
    for name in ("envs", "uv", "host", "store/trial"):
        (shared / name).mkdir(parents=True, exist_ok=True)
        (cache / name).symlink_to(shared / name)
    return cache


def fatbin_archs(cuobjdump: Path, library: Path) -> set[str]:
    """What NVIDIA's own program finds in a library: names such as `sm_120a`."""
    done = subprocess.run(
        [str(cuobjdump), str(library)], capture_output=True, text=True, check=True
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("arch = ")]
    return {line.split("=")[1].strip() for line in lines}
