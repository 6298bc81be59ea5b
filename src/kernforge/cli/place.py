"""Where a call works and with what: the only reader of the environment."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernforge.cli.userconfig import read_user_config
from kernforge.errors import SelectionError

if TYPE_CHECKING:
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


def make_settings(
    place: Place, *, jobs: int | None = None, sandbox: bool = True, offline: bool = False
) -> Settings:
    """What a run is told from outside.

    Raises:
        RecipeError: ``config-invalid``.
    """
    from kernforge.pipeline.settings import Settings
    from kernforge.source.settings import FetchSettings
    from kernforge.toolchain.lock import Uv

    config = read_user_config(os.environ)
    fetching = FetchSettings(
        cache=place.cache / "sources",
        project=place.project,
        env=tuple(sorted(os.environ.items())),
        offline=offline,
        mirrors=config.mirrors,
        indexes=config.indexes,
    )

    kept = {key: value for key, value in os.environ.items() if key in _UV_READS}
    kept |= {key: value for key, value in os.environ.items() if key.startswith("UV_")}
    kept.pop("UV_CACHE_DIR", None)
    kept |= {"UV_OFFLINE": "1"} if offline else {}
    beside = shutil.which("uv", path=str(Path(sys.executable).parent))
    path = os.environ.get("PATH", os.defpath)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    interpreter = Path(sys.base_prefix) / "bin" / f"python{version}"
    return Settings(
        project=place.project,
        cache=place.cache,
        path=path,
        python=(interpreter if interpreter.exists() else Path(sys.executable), version),
        uv=Uv(program=beside or "uv", cache=place.cache / "uv", env=tuple(sorted(kept.items()))),
        bwrap=shutil.which("bwrap", path=path),
        sandbox=sandbox,
        uid=os.getuid(),
        jobs=jobs or len(os.sched_getaffinity(0)),
        fetching=fetching,
        cuda=tuple(os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")),
    )


def traceback_wanted() -> bool:
    """Whether a fault of our own is to be shown whole (KERNFORGE_TRACEBACK)."""
    return bool(os.environ.get("KERNFORGE_TRACEBACK"))


def environment_names() -> tuple[str, ...]:
    """Names of the variables that are set and not empty."""
    return tuple(name for name, value in os.environ.items() if value)


def git_environment() -> tuple[tuple[str, str], ...]:
    """What git may know of the user when it is asked about a checkout."""
    return tuple((n, os.environ[n]) for n in ("HOME", "PATH", "XDG_CONFIG_HOME") if n in os.environ)


def shipped_recipes() -> Path:
    """The folder of the recipes that come with kernforge."""
    return _shipped() / "recipes"
