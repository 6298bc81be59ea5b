"""Variables of the user's shell that build tools read and that no build of ours hears. Pure.

A build sees an allow-list (`backend.fixed_environment`). Whoever is used to steering builds by the
environment is told once, with the recipe key or option that carries the wish, and the key.
"""

from __future__ import annotations

from collections.abc import Iterable

_JOBS = "--jobs"
_ARCHS = "matrix.archs or --arch"
_TOOLKIT = "build.toolkit: host"
_CMAKE = "build.cmake"
_ENV = "build.env"
_CARRIED_BY = {
    "MAX_JOBS": _JOBS,
    "CMAKE_BUILD_PARALLEL_LEVEL": _JOBS,
    "NVCC_THREADS": "--nvcc-threads",
    "MAKEFLAGS": _JOBS,
    "TORCH_CUDA_ARCH_LIST": _ARCHS,
    "CMAKE_CUDA_ARCHITECTURES": _ARCHS,
    "CUDAARCHS": _ARCHS,
    "FLASHINFER_CUDA_ARCH_LIST": _ARCHS,
    "CUDA_HOME": _TOOLKIT,
    "CUDA_PATH": _TOOLKIT,
    "CUDA_ROOT": _TOOLKIT,
    "CUDAToolkit_ROOT": _TOOLKIT,
    "CUDACXX": _TOOLKIT,
    "CMAKE_ARGS": _CMAKE,
    "SKBUILD_CMAKE_ARGS": _CMAKE,
    "SKBUILD_CMAKE_DEFINE": _CMAKE,
    "CMAKE_PREFIX_PATH": _CMAKE,
    "CMAKE_GENERATOR": _CMAKE,
    "CMAKE_BUILD_TYPE": _CMAKE,
    "CMAKE_POLICY_VERSION_MINIMUM": _CMAKE,
    "CFLAGS": _ENV,
    "CXXFLAGS": _ENV,
    "CPPFLAGS": _ENV,
    "LDFLAGS": _ENV,
    "CUDAFLAGS": _ENV,
    "NVCC_FLAGS": _ENV,
    "NVCC_PREPEND_FLAGS": _ENV,
    "NVCC_APPEND_FLAGS": _ENV,
    "CPATH": _ENV,
    "C_INCLUDE_PATH": _ENV,
    "CPLUS_INCLUDE_PATH": _ENV,
    "LIBRARY_PATH": _ENV,
    "USE_NINJA": _ENV,
    "DISTUTILS_DEBUG": _ENV,
    "SETUPTOOLS_SCM_PRETEND_VERSION": "version",
    "CC": "the compiler on PATH",
    "CXX": "the compiler on PATH",
    "CUDAHOSTCXX": "the compiler on PATH",
    "NVCC_CCBIN": "the compiler on PATH",
}


def unheard(names: Iterable[str], heard: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Variables that are set, steer builds and are not let through, each with what carries it.

    Args:
        names: the variables of the user's shell.
        heard: what the recipe's ``build.env`` sets, or the recipe takes from the host itself.
    """
    known = set(names) - set(heard)
    prefixed = {name: "version" for name in known if name.startswith("SETUPTOOLS_SCM_PRETEND")}
    return tuple(sorted((n, how) for n, how in {**_CARRIED_BY, **prefixed}.items() if n in known))
