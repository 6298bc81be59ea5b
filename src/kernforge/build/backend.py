"""How each PEP 517 backend is called, and what its environment must hold. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kernforge.arch import Arch, canonical, format_archs
from kernforge.errors import RecipeError
from kernforge.recipe.matrix import Job, expand_text
from kernforge.toolchain.sandbox import Layout

_FRONT_END = ("build>=1.5", "pyproject-hooks>=1.2")
_BACKENDS = {
    "scikit-build-core": ("scikit-build-core>=1.1", "cmake>=3.31", "ninja>=1.11"),
    "setuptools": ("setuptools>=77", "wheel>=0.45", "ninja>=1.11"),
}
TOOLKIT_PARTS = ("nvcc", "crt", "nvvm", "cccl", "cudart")
SHIMMED = ("nvcc", "cc", "gcc", "c++", "g++")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendCall:
    """One call of the build front end, as the build sees it."""

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    cwd: str


def environment_needs(job: Job) -> tuple[str, ...]:
    """What the job's environment is asked to hold, as requirement texts in a fixed order."""
    build, target = job.recipe.build, job.target
    needs = [*_FRONT_END, *_BACKENDS[build.backend], *build.requires]
    if target.torch is not None:
        needs.append(f"torch=={target.torch}")
    if build.toolkit == "wheels":
        needs.append(f"cuda-toolkit[{','.join(TOOLKIT_PARTS)}]=={target.cuda}.*")
    return tuple(dict.fromkeys(needs))


def fixed_environment(
    job: Job, *, layout: Layout, cuda: str, epoch: int | None
) -> tuple[tuple[str, str], ...]:
    """All variables that a build sees, but for those that only set parallelism.

    Args:
        job: what is built.
        layout: where the build sees things.
        cuda: CUDA root relative to the layout's root.
        epoch: SOURCE_DATE_EPOCH in seconds; None while the sources that decide it are not there.

    Raises:
        RecipeError: ``env-reserved`` where the recipe sets a variable that is ours.
    """
    root = layout.at(cuda)
    ours = {
        "PATH": ":".join((layout.at("shim"), layout.at("env/bin"), layout.at("host"))),
        "HOME": layout.at("home"),
        "TMPDIR": layout.at("tmp"),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "SOURCE_DATE_EPOCH": "(the sources' date)" if epoch is None else str(epoch),
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "VIRTUAL_ENV": layout.at("env"),
        "CC": layout.at("shim/gcc"),
        "CXX": layout.at("shim/g++"),
        "CUDACXX": f"{root}/bin/nvcc",
        "CUDA_HOME": root,
        "CUDA_PATH": root,
        "CUDAToolkit_ROOT": root,
        "LIBRARY_PATH": f"{root}/lib/stubs",
        "KERNFORGE_SHIMS": layout.at("shim"),
        "KERNFORGE_SHIM_CONFIG": layout.at("shim/config.json"),
    }
    if job.target.torch is not None:
        ours["TORCH_CUDA_ARCH_LIST"] = format_archs(torch_archs(job.target.archs))
        ours["TORCH_NO_COMPILER_WRAPPER"] = "1"
        # a resumed build has the same sources: nothing would ever read its lists of dependencies
        ours["TORCH_EXTENSION_SKIP_NVCC_GEN_DEPENDENCIES"] = "1"
    if isinstance(job.recipe.version, str):
        ours |= dict.fromkeys(_VERSION_KEYS, job.recipe.version)
    theirs = {
        key: expand_text(value, job.target, cuda_root=root) for key, value in job.recipe.build.env
    }
    if clash := sorted(theirs.keys() & (ours.keys() | PARALLEL_KEYS)):
        raise RecipeError(
            "env-reserved",
            f"{job.recipe.name}: build.env sets {clash[0]!r}, which kernforge sets itself",
            hint="leave it out: archs come from matrix, job counts from --jobs",
        )
    return tuple(sorted((ours | theirs).items()))


def torch_archs(archs: tuple[Arch, ...]) -> tuple[Arch, ...]:
    """What TORCH_CUDA_ARCH_LIST says: torch refuses f suffixes (2.14.1)."""
    return canonical(replace(a, suffix=a.suffix.rstrip("f")) for a in archs)


_VERSION_KEYS = ("SETUPTOOLS_SCM_PRETEND_VERSION", "PBR_VERSION", "PDM_BUILD_SCM_VERSION")
"""What tells setuptools-scm and its kin (hatch-vcs, scikit-build-core's provider) the version."""
PARALLEL_KEYS = frozenset(
    {"CMAKE_BUILD_PARALLEL_LEVEL", "MAX_JOBS", "NVCC_THREADS", "CARGO_BUILD_JOBS"}
)


def fetch_content(job: Job) -> tuple[tuple[str, str], ...]:
    """CMake FetchContent name and source name of each source that answers one."""
    found = [(source.fetchcontent, name) for name, source in job.recipe.sources]
    return tuple(sorted((content, name) for content, name in found if content))


def source_place(job: Job, name: str) -> str:
    """Where a source is put, relative to the folder of sources."""
    return dict(job.recipe.sources)[name].into or name


def _fetch_content_defines(job: Job, layout: Layout) -> dict[str, str]:
    """Private copies at constant paths for FetchContent, which then downloads nothing at all."""
    known = {
        f"FETCHCONTENT_SOURCE_DIR_{content.upper()}": layout.at("src", source_place(job, name))
        for content, name in fetch_content(job)
    }
    if not known:
        return {}
    # without the policy, CMake takes a dependency that nobody answers for one that is there
    strict = {"FETCHCONTENT_FULLY_DISCONNECTED": "ON", "CMAKE_POLICY_DEFAULT_CMP0170": "NEW"}
    return known | strict


def _settings(job: Job, layout: Layout, root: str) -> tuple[str, ...]:
    build, target = job.recipe.build, job.target

    def expand(text: str) -> str:
        return expand_text(text, target, cuda_root=root)

    settings: list[str] = []
    if build.backend == "scikit-build-core":
        defines = {"CMAKE_CUDA_ARCHITECTURES": ";".join(arch.cmake for arch in target.archs)}
        defines |= _fetch_content_defines(job, layout)
        defines |= {key: expand(value) for key, value in build.cmake}
        settings += [f"build-dir={layout.at('build')}"]
        settings += [f"cmake.define.{key}={value}" for key, value in sorted(defines.items())]
    settings += [f"{key}={expand(value)}" for key, value in build.config_settings]
    return tuple(word for setting in settings for word in ("-C", setting))


def backend_call(job: Job, *, layout: Layout, env: tuple[tuple[str, str], ...]) -> BackendCall:
    """The call that makes the wheel in ``out``, from the source in ``src``."""
    build = job.recipe.build
    below = () if build.subdir == "." else (build.subdir,)
    tree = layout.at("src", source_place(job, job.recipe.main_source), *below)
    front = (layout.at("env/bin/python"), "-m", "build", "--wheel", "--no-isolation")
    argv = (
        *front,
        "--outdir",
        layout.at("out"),
        *_settings(job, layout, dict(env)["CUDA_HOME"]),
        tree,
    )
    return BackendCall(argv=argv, env=env, cwd=tree)
