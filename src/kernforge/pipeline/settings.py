"""What a run is told from outside: folders, programs, the user's choices. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kernforge.build.compilecache import CompileCache
from kernforge.recipe.matrix import Job, lock_name
from kernforge.source.settings import FetchSettings
from kernforge.toolchain.lock import Uv


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One run's settings. None of them enters a key.

    Attributes:
        project: the folder that holds ``recipes/``; sources of kind ``path`` are relative to it.
        cache: the cache's root.
        path: PATH, for finding compilers.
        python: the interpreter that runs us, and its version as ``3.11``.
        uv: the uv program with its cache.
        bwrap: bubblewrap's path, or None.
        sandbox: whether bubblewrap may be used.
        uid: the user's number.
        jobs: how many compiles at once.
        threads: how many compiles one nvcc call may do at once.
        memory: bytes that all compiles may take together; None: what is free.
        compile_cache: the compile cache, or None.
        no_cache: why there is none though it is wanted; told when something is compiled.
        fresh: whether a compile that stopped is begun anew.
        fetching: how sources are fetched.
        cuda: what CUDA_HOME and CUDA_PATH say, for `toolkit: host`.
    """

    project: Path
    cache: Path
    path: str
    python: tuple[Path, str]
    uv: Uv
    bwrap: str | None
    sandbox: bool
    uid: int
    jobs: int
    fetching: FetchSettings
    cuda: tuple[str, ...] = ()
    threads: int = 1
    memory: int | None = None
    compile_cache: CompileCache | None = None
    no_cache: str = ""
    fresh: bool = False

    @property
    def recipes(self) -> Path:
        """The folder of recipes."""
        return self.project / "recipes"

    def lock_path(self, job: Job) -> Path:
        """The lock file of a job."""
        return self.recipes / "locks" / job.recipe.name / lock_name(job.target)

    def lock_command(self, job: Job) -> str:
        """The command that makes a job's lock."""
        target, matrix = job.target, job.recipe.matrix
        words = ["kernforge lock", job.recipe.name]
        if target.python not in matrix.python:
            words += ["--python", target.python]
        if target.cuda not in matrix.cuda:
            words += ["--cuda", target.cuda]
        if target.torch is not None and target.torch not in matrix.torch:
            words += ["--torch", target.torch]
        return " ".join(words)
