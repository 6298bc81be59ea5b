"""What the build front end is called with, and what the environment of a build says."""

import pytest

from kernforge.arch import format_archs, parse_archs
from kernforge.build.backend import (
    PARALLEL_KEYS,
    backend_call,
    environment_needs,
    fixed_environment,
    torch_archs,
)
from kernforge.build.effort import Effort, parallel_environment
from kernforge.build.memory import Budget
from kernforge.errors import RecipeError
from kernforge.recipe.load import read_recipe
from kernforge.recipe.matrix import expand
from kernforge.toolchain.sandbox import KF, real_layout

PLAIN = {
    "format": 1,
    "name": "demo",
    "version": "1.2.3",
    "sources": {"demo": {"path": "examples/demo"}},
}


def job(archs="12.0a", torch=None, cuda="13.0", **build):
    matrix = {"archs": [archs], "cuda": [cuda], "python": ["3.11"]}
    matrix |= {"torch": [torch]} if torch else {}
    recipe = read_recipe({**PLAIN, "build": build, "matrix": matrix}, where="demo.yaml")
    return expand(recipe)[0]


def environment(of, layout=KF):
    return dict(fixed_environment(of, layout=layout, cuda="cuda", epoch=1))


def argv(of):
    env = fixed_environment(of, layout=KF, cuda="cuda", epoch=1)
    return backend_call(of, layout=KF, env=env).argv


def test_needs_of_a_setuptools_build_with_torch():
    assert environment_needs(job(backend="setuptools", torch="2.14.1")) == (
        "build>=1.5", "pyproject-hooks>=1.2", "setuptools>=77", "wheel>=0.45", "ninja>=1.11",
        "torch==2.14.1", "cuda-toolkit[nvcc,crt,nvvm,cccl,cudart]==13.0.*",
    )  # fmt: skip


def test_a_toolkit_of_the_host_is_not_locked():
    needs = environment_needs(job(toolkit="host", backend="setuptools"))
    assert not [need for need in needs if need.startswith("cuda")]


def test_what_a_recipe_requires_is_asked_once():
    needs = environment_needs(job(backend="setuptools", requires=["ninja>=1.11", "pybind11>=2"]))
    assert needs.count("ninja>=1.11") == 1
    assert "pybind11>=2" in needs


def test_no_isolation_so_that_the_locked_torch_is_the_one():
    """Field case 41: an isolated build would bring the newest torch."""
    call = argv(job(backend="setuptools", torch="2.14.1"))
    assert "--no-isolation" in call
    assert call[0] == "/kf/env/bin/python"


def test_one_toolkit_root_for_compiler_headers_and_libraries():
    """Field case 39: setting the compiler alone pins neither headers nor libraries."""
    env = environment(job())
    assert {env[name] for name in ("CUDA_HOME", "CUDA_PATH", "CUDAToolkit_ROOT")} == {"/kf/cuda"}
    assert env["CUDACXX"] == "/kf/cuda/bin/nvcc"
    assert env["LIBRARY_PATH"] == "/kf/cuda/lib/stubs"
    assert env["PATH"] == "/kf/shim:/kf/env/bin:/kf/host"


def test_locale_is_fixed():
    """Field case 76: compilers print in the locale's encoding."""
    env = environment(job())
    assert env["LC_ALL"] == env["LANG"] == "C.UTF-8"


@pytest.mark.parametrize(
    ("archs", "said"),
    [
        ("12.0a", "12.0a"),
        ("9.0;12.0a", "9.0;12.0a"),
        ("12.0f", "12.0"),
        ("12.0;12.0f", "12.0"),
        ("12.0f+PTX", "12.0+PTX"),
        ("8.6+PTX;12.0a", "8.6+PTX;12.0a"),
    ],
)
def test_what_torch_is_told(archs, said):
    """Field case 6: torch gets what it accepts; no list is ever left for it to find out."""
    assert format_archs(torch_archs(parse_archs(archs))) == said
    env = environment(job(archs=archs, torch="2.14.1"))
    assert env["TORCH_CUDA_ARCH_LIST"] == said
    assert env["TORCH_NO_COMPILER_WRAPPER"] == "1"


def test_without_torch_nothing_is_told_to_it():
    assert not [name for name in environment(job()) if name.startswith("TORCH")]


@pytest.mark.parametrize(
    ("archs", "said"),
    [
        ("12.0a", "120a-real"),
        ("12.0a+PTX", "120a"),
        ("8.6 12.0", "86-real;120-real"),
        ("12.0f;9.0+PTX", "90;120f-real"),
    ],
)
def test_what_cmake_is_told(archs, said):
    """Field case 4: the list is one word of an argument list and never passes a shell."""
    call = argv(job(archs=archs))
    assert f"cmake.define.CMAKE_CUDA_ARCHITECTURES={said}" in call


def test_setuptools_is_told_nothing_of_cmake():
    assert "-C" not in argv(job(backend="setuptools"))


def test_a_recipe_may_set_cmakes_list_itself():
    call = argv(job(cmake={"CMAKE_CUDA_ARCHITECTURES": "OFF"}))
    named = [w for w in call if w.startswith("cmake.define.CMAKE_CUDA_ARCHITECTURES=")]
    assert named == ["cmake.define.CMAKE_CUDA_ARCHITECTURES=OFF"]


@pytest.mark.parametrize(
    "name", ["TORCH_CUDA_ARCH_LIST", "CUDA_HOME", "PATH", "CC", "MAX_JOBS", "NVCC_THREADS"]
)
def test_a_recipe_may_not_set_ours(name):
    of = job(torch="2.14.1", env={name: "x"})
    with pytest.raises(RecipeError, match=f"build.env sets '{name}'") as caught:
        environment(of)
    assert caught.value.word == "env-reserved"


def test_placeholders_are_filled():
    of = job(archs="9.0;12.0a", torch="2.14.1", env={"A": "{cuda}/{torch_minor}/{cmake_archs}"})
    assert environment(of)["A"] == "13.0/2.14/90-real;120a-real"


def test_the_toolkits_root_is_a_placeholder():
    """Field case 45: the way to the moved headers, wherever the layout puts the root."""
    of = job(env={"CPLUS_INCLUDE_PATH": "{cuda_root}/include/cccl"}, cmake={"A": "{cuda_root}"})
    assert environment(of)["CPLUS_INCLUDE_PATH"] == "/kf/cuda/include/cccl"
    assert environment(of, layout=real_layout(7))["CPLUS_INCLUDE_PATH"].startswith("/var/tmp/")
    assert "cmake.define.A=/kf/cuda" in argv(of)


def test_parallelism_is_apart_from_what_is_keyed():
    budget = Budget(size=1, named=True, hard=1)
    effort = Effort(jobs=3, threads=2, budget=budget, processors=2, default=1)
    keys = {name for name, _ in parallel_environment(effort)}
    assert keys <= PARALLEL_KEYS
    assert not keys & environment(job()).keys()


def test_a_layout_moves_everything():
    layout = real_layout(7)
    env = environment(job(), layout=layout)
    named = "PATH HOME TMPDIR CC CXX CUDACXX CUDA_HOME LIBRARY_PATH KERNFORGE_SHIMS".split()
    assert all(env[name].startswith(layout.root) for name in named)
    assert not [value for value in env.values() if "/kf" in value]
