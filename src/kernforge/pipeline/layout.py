"""Whether placed sources lie as the recipe says: asked before gigabytes are installed."""

from __future__ import annotations

import difflib
from pathlib import Path, PurePosixPath

from kernforge.build.backend import source_place
from kernforge.errors import SourceError
from kernforge.recipe.matrix import Job

_MARKS = ("pyproject.toml", "setup.py")
_SHOWN = 3


def check_layout(job: Job, tree: Path) -> None:
    """Hold the folder of the project against what is there.

    Args:
        job: whose ``build.subdir`` is meant.
        tree: the folder of all its sources, patched.

    Raises:
        SourceError: ``subdir-missing``, with the nearest folders that hold a project.
    """
    main, subdir = job.recipe.main_source, job.recipe.build.subdir
    root = tree / source_place(job, main)
    folder = root / subdir
    if any((folder / mark).is_file() for mark in _MARKS):
        return
    what = f"holds no {' and no '.join(_MARKS)}" if folder.is_dir() else "is not there"
    near = nearest_projects(root, subdir)
    raise SourceError(
        "subdir-missing",
        f"{job.id}: build.subdir {subdir!r} of source {main!r} {what}",
        hint=f"projects lie in: {', '.join(near)}"
        if near
        else "no project is in this source: is the folder in sparse?",
    )


def nearest_projects(root: Path, subdir: str) -> tuple[str, ...]:
    """Folders with a ``pyproject.toml`` below a source, those most like ``subdir`` first."""
    found = [path.parent.relative_to(root).as_posix() for path in root.rglob("pyproject.toml")]

    def unlike(folder: str) -> tuple[float, int, str]:
        same_end = PurePosixPath(folder).name == PurePosixPath(subdir).name
        ratio = difflib.SequenceMatcher(None, subdir, folder).ratio() + same_end
        return -ratio, folder.count("/"), folder

    return tuple(sorted(found, key=unlike)[:_SHOWN])
