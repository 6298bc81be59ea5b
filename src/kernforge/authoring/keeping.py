"""Runs lint and bump on real sources: places trees in scratch, asks repositories for tags."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kernforge.authoring.bump import Bumped, bump, read_upstream, upstream_changes
from kernforge.authoring.crates import lint_crates, move_crates
from kernforge.authoring.lint import Remark, lint_changes, lint_recipe, lint_sources
from kernforge.pipeline.gather import read_patches
from kernforge.pipeline.settings import Settings
from kernforge.pipeline.sources import place_pristine
from kernforge.process import Runner
from kernforge.recipe.load import load_recipe
from kernforge.recipe.model import CargoSource, GitSource, Recipe
from kernforge.source.git import Git
from kernforge.source.mirror import remote_refs
from kernforge.source.settings import Told


@dataclass(frozen=True, slots=True, kw_only=True)
class Hand:
    """What fetching and placing need: settings, the runner, and who hears of progress."""

    settings: Settings
    runner: Runner
    told: Told


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTags:
    """Asks repositories where their tags stand."""

    hand: Hand

    def commit(self, url: str, tag: str) -> str | None:
        """The commit that a tag points at, peeled; None where there is no such tag."""
        hand = self.hand
        git = Git(runner=hand.runner, settings=hand.settings.fetching, told=hand.told)
        names = (f"refs/tags/{tag}", f"refs/tags/{tag}^{{}}")
        found = dict(remote_refs(git, url, *names))
        return found.get(names[1]) or found.get(names[0])


@contextmanager
def _scratch(settings: Settings) -> Iterator[Path]:
    folder = settings.cache / "edit" / f".scratch-{uuid.uuid4().hex[:12]}"
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def lint(recipe: Recipe, hand: Hand, *, sources: bool) -> tuple[Remark, ...]:
    """Remarks on a recipe; with ``sources`` on what its fetched sources hold too.

    Raises:
        SourceError: a source cannot be had.
    """
    remarks = lint_recipe(recipe)
    if not sources:
        return remarks
    with _scratch(hand.settings) as scratch:
        trees: dict[str, Path] = {}
        changed: dict[str, Path] = {}
        for name, source in recipe.sources:
            if isinstance(source, CargoSource):
                continue
            trees[name] = changed[name] = scratch / "trees" / name
            place_pristine(source, trees[name], hand.settings, runner=hand.runner, told=hand.told)
            patches = read_patches(source, hand.settings)
            if patches or source.edits:
                changed[name] = scratch / "trial" / name
                shutil.copytree(trees[name], changed[name], symlinks=True)
                remarks += lint_changes(recipe, name, changed[name], patches)
        return (*remarks, *lint_sources(recipe, trees), *lint_crates(recipe, changed))


def bump_recipe(path: Path, tag: str, hand: Hand) -> Bumped:
    """Move a recipe's main source to another tag; what upstream changed is among the remarks.

    Raises:
        RecipeError: as :func:`kernforge.authoring.bump.bump`.
        SourceError: ``tag-missing``, or a commit cannot be had.
    """
    recipe = load_recipe(path)
    moved = bump(path.read_text(encoding="utf-8"), recipe, tag, RemoteTags(hand=hand))
    source = dict(recipe.sources)[recipe.main_source]
    if not isinstance(source, GitSource):
        return moved
    patches = read_patches(source, hand.settings)
    texts = {name: data.decode("utf-8", "replace") for name, data in patches}
    with _scratch(hand.settings) as scratch:
        found = []
        trees = [scratch / "old", scratch / "new"]
        for tree, commit in zip(trees, (moved.old[1], moved.new[1]), strict=True):
            pinned = source.model_copy(update={"commit": commit, "tag": None})
            place_pristine(pinned, tree, hand.settings, runner=hand.runner, told=hand.told)
            found.append(read_upstream(recipe, tree, texts))
        changes = upstream_changes(recipe, found[0], found[1], texts)
        text, left = move_crates(moved.text, recipe, *trees)
    return replace(moved, text=text, remarks=(*moved.remarks, *changes, *left))
