"""What a recipe pins of crates, held against the Cargo.lock files of its sources.

Reads trees on disk; nothing is fetched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from kernforge.authoring.lint import Remark
from kernforge.errors import SourceError
from kernforge.recipe.model import CargoSource, Recipe
from kernforge.source.cargo import check_lock
from kernforge.source.cratelock import counted, read_lock


def lint_crates(recipe: Recipe, trees: Mapping[str, Path]) -> tuple[Remark, ...]:
    """Locks that no source pins, and pins that no longer fit.

    Args:
        recipe: what is linted.
        trees: the folder of each source by its name, patched and edited as for a build.

    Words: ``crates-unpinned``, ``crates-unfit``.
    """
    pinned = {s.cargo: name for name, s in recipe.sources if isinstance(s, CargoSource)}
    unpinned = _unpinned(recipe.main_source, trees[recipe.main_source], set(pinned))
    return (*unpinned, *_unfit(recipe, trees))


def _unpinned(name: str, tree: Path, pinned: set[str]) -> Iterator[Remark]:
    for path in sorted(tree.rglob("Cargo.lock")):
        place = f"{name}/{path.relative_to(tree).as_posix()}"
        if place in pinned or not path.is_file():
            continue
        data = path.read_bytes()
        digest = sha256(data).hexdigest()
        try:
            count = read_lock(data, place).count
            hint = f"if the build calls cargo, add crates: {{cargo: {place}, sha256: {digest}}}"
            text = f"names {counted(count)}, and no source of kind cargo pins it"
        except SourceError as error:
            text, hint = f"cannot be pinned: {error.message}", error.hint or ""
            count = 1
        if count:
            yield Remark(word="crates-unpinned", place=place, text=text, hint=hint)


def _unfit(recipe: Recipe, trees: Mapping[str, Path]) -> Iterator[Remark]:
    for name, source in recipe.sources:
        if not isinstance(source, CargoSource):
            continue
        owner, _, path = source.cargo.partition("/")
        try:
            read_lock(check_lock(source, trees[owner] / path), source.cargo)
        except SourceError as error:
            yield Remark(
                word="crates-unfit", place=f"sources.{name}", text=error.message, hint=error.hint
            )


def move_crates(text: str, recipe: Recipe, old: Path, new: Path) -> tuple[str, tuple[Remark, ...]]:
    """Move the pin of the main source's Cargo.lock to that of another commit.

    Args:
        text: the recipe file.
        recipe: as written for the old commit.
        old: the main source as it comes, at the old commit.
        new: the same at the new commit.

    Returns:
        The text, and what could not be moved: word ``crates-unfit``.
    """
    remarks: list[Remark] = []
    crates = [(name, s) for name, s in recipe.sources if isinstance(s, CargoSource)]
    for name, source in crates:
        owner, _, path = source.cargo.partition("/")
        if owner != recipe.main_source:
            continue
        digest = _digest(new / path)
        line = re.compile(rf"\bsha256: {source.sha256}\b")
        if digest is None:
            said = f"{source.cargo} is not there at the new commit"
        elif _digest(old / path) != source.sha256 or len(line.findall(text)) != 1:
            said = f"{source.cargo} has SHA-256 {digest} at the new commit, patches and edits apart"
        else:
            text = line.sub(f"sha256: {digest}", text)
            continue
        remarks.append(Remark(word="crates-unfit", place=f"sources.{name}", text=said))
    return text, tuple(remarks)


def _digest(path: Path) -> str | None:
    return sha256(path.read_bytes()).hexdigest() if path.is_file() else None
