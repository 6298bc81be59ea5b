"""The next patch of a source: open its tree, let the user edit, write the difference, test it.

An editing session is a folder of the cache with two trees: `before`, the pristine source with the
patches that the recipe lists already, and `after`, which the user edits. Nothing of the project is
written until the whole series, the new patch last, turns the pristine source into what was edited.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from kernforge.errors import SelectionError, SourceError
from kernforge.pipeline.gather import read_patches
from kernforge.pipeline.settings import Settings
from kernforge.pipeline.sources import place_pristine
from kernforge.process import Runner
from kernforge.recipe.model import Recipe
from kernforge.source.difference import diff_trees
from kernforge.source.patches import apply_series
from kernforge.source.settings import Told
from kernforge.source.tree import tree_hash

_NAME = re.compile(r"(\d+)-.*\.patch")
_WHAT = re.compile(r"[a-z0-9][a-z0-9-]{0,60}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """An editing session: the recipe, the source, and its folder."""

    recipe: Recipe
    source: str
    folder: Path

    @property
    def before(self) -> Path:
        """The tree as the patches that are listed already leave it."""
        return self.folder / "before"

    @property
    def after(self) -> Path:
        """The tree that the user edits."""
        return self.folder / "after"


def session_of(recipe: Recipe, source: str | None, settings: Settings) -> Session:
    """The session of a source, begun or not.

    Raises:
        SelectionError: ``source-unknown``, or ``source-ambiguous`` where none is named.
    """
    names = [name for name, _ in recipe.sources]
    if source is not None and source not in names:
        raise SelectionError(
            "source-unknown",
            f"{recipe.name} has no source {source!r}",
            hint=f"there are: {', '.join(names)}",
        )
    name = source or recipe.main_source
    return Session(
        recipe=recipe, source=name, folder=settings.cache / "edit" / f"{recipe.name}-{name}"
    )


def start(session: Session, settings: Settings, *, runner: Runner, told: Told) -> Path:
    """Make both trees; answers the one to edit.

    Raises:
        SelectionError: ``edit-open`` where a session is open already.
        SourceError: the source cannot be had, or a listed patch does not fit.
    """
    if session.folder.exists():
        raise SelectionError(
            "edit-open",
            f"{session.recipe.name}: source {session.source!r} is being edited in "
            f"{str(session.after)!r}",
            hint="finish it with --continue, or drop it with --abort",
        )
    draft = session.folder.with_name(f".{session.folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    source = dict(session.recipe.sources)[session.source]
    place_pristine(source, draft / "before", settings, runner=runner, told=told)
    if patches := read_patches(source, settings):
        apply_series(draft / "before", patches)
    shutil.copytree(draft / "before", draft / "after", symlinks=True)
    session.folder.parent.mkdir(parents=True, exist_ok=True)
    draft.rename(session.folder)
    return session.after


def abort(session: Session) -> None:
    """Drop a session and what was edited in it.

    Raises:
        SelectionError: ``edit-none``.
    """
    _check_open(session)
    shutil.rmtree(session.folder)


def _check_open(session: Session) -> None:
    if not session.folder.exists():
        raise SelectionError(
            "edit-none",
            f"{session.recipe.name}: source {session.source!r} is not being edited",
            hint=f"begin with `kernforge patch {session.recipe.name}`",
        )


def next_name(names: tuple[str, ...], recipe: str, what: str) -> str:
    """The name of the next patch, relative to ``patches``: ``NAME/0003-what.patch``."""
    numbers = [int(m[1]) for n in names if (m := _NAME.fullmatch(n.rsplit("/", 1)[-1]))]
    return f"{recipe}/{max(numbers, default=0) + 1:04}-{what}.patch"


def finish(session: Session, what: str, settings: Settings, *, runner: Runner, told: Told) -> str:
    """Write the next patch; answers its name relative to ``patches``. The session ends.

    Raises:
        SelectionError: ``edit-none``; ``edit-name`` where ``what`` is no word for a file name.
        SourceError: ``patch-empty`` where nothing was changed; ``patch-untrue`` where the series
            does not make exactly what was edited; a source or patch that does not fit.
    """
    _check_open(session)
    if not _WHAT.fullmatch(what):
        raise SelectionError(
            "edit-name",
            f"{what!r} does not name a patch: small letters, digits and dashes",
            hint="as --what drop-sm90",
        )
    data = diff_trees(session.before, session.after)
    if not data:
        raise SourceError(
            "patch-empty",
            f"Nothing was changed in {str(session.after)!r}",
            hint="edit it, or drop the session with --abort",
        )
    source = dict(session.recipe.sources)[session.source]
    listed = read_patches(source, settings)
    name = next_name(_taken(session, settings), session.recipe.name, what)
    _try_series(session, (*listed, (name, data)), settings, runner=runner, told=told)
    target = settings.project / "patches" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:
        file.write(data)
    shutil.rmtree(session.folder)
    return name


def _taken(session: Session, settings: Settings) -> tuple[str, ...]:
    folder = settings.project / "patches" / session.recipe.name
    return tuple(path.name for path in folder.glob("*.patch"))


def _try_series(
    session: Session,
    series: tuple[tuple[str, bytes], ...],
    settings: Settings,
    *,
    runner: Runner,
    told: Told,
) -> None:
    trial = session.folder / "trial"
    shutil.rmtree(trial, ignore_errors=True)
    source = dict(session.recipe.sources)[session.source]
    place_pristine(source, trial, settings, runner=runner, told=told)
    apply_series(trial, series)
    equal = tree_hash(trial) == tree_hash(session.after)
    shutil.rmtree(trial)
    if not equal:
        raise SourceError(
            "patch-untrue",
            f"{session.recipe.name}: the series does not make what was edited",
            hint="the recipe's patches changed since the session began: --abort and begin again",
        )
