"""Variables that steer builds elsewhere and that no build of ours hears."""

import pytest

from kernforge.build.hostenv import unheard


@pytest.mark.parametrize(
    ("name", "carried_by"),
    [
        ("CC", "the compiler on PATH"),
        ("CUDAHOSTCXX", "the compiler on PATH"),
        ("CFLAGS", "build.env"),
        ("NVCC_APPEND_FLAGS", "build.env"),
        ("CPATH", "build.env"),
        ("CMAKE_ARGS", "build.cmake"),
        ("SKBUILD_CMAKE_ARGS", "build.cmake"),
        ("MAX_JOBS", "--jobs"),
        ("CMAKE_BUILD_PARALLEL_LEVEL", "--jobs"),
        ("TORCH_CUDA_ARCH_LIST", "matrix.archs or --arch"),
        ("CMAKE_CUDA_ARCHITECTURES", "matrix.archs or --arch"),
        ("CUDA_HOME", "build.toolkit: host"),
        ("SETUPTOOLS_SCM_PRETEND_VERSION", "version"),
        ("SETUPTOOLS_SCM_PRETEND_VERSION_FOR_SGL_KERNEL", "version"),
    ],
)
def test_what_carries_a_wish(name, carried_by):
    assert unheard(["HOME", name, "PATH"], []) == ((name, carried_by),)


def test_what_a_recipe_sets_is_heard():
    assert unheard(["CFLAGS", "CXXFLAGS"], ["CFLAGS"]) == (("CXXFLAGS", "build.env"),)


def test_each_is_named_once_and_in_order():
    names = ["MAX_JOBS", "CFLAGS", "MAX_JOBS", "CC"]
    assert [name for name, _ in unheard(names, [])] == ["CC", "CFLAGS", "MAX_JOBS"]


@pytest.mark.parametrize("name", ["HOME", "PATH", "LANG", "KERNFORGE_CACHE", "cflags"])
def test_others_steer_nothing(name):
    assert unheard([name], []) == ()
