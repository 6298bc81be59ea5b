"""`kernforge new`: looks at a repository or a checkout, writes the first recipe and its patch."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from kernforge.authoring.new import (
    Checkout,
    Draft,
    Project,
    adapted_text,
    choose_project,
    find_projects,
    nearest,
    public_address,
    recipe_name,
    recipe_text,
)
from kernforge.errors import SelectionError, SourceError
from kernforge.pipeline.settings import Settings
from kernforge.process import Runner
from kernforge.recipe.load import find_recipes, load_recipe
from kernforge.recipe.model import GitSource
from kernforge.source.fetch import fetch, place
from kernforge.source.git import Git
from kernforge.source.mirror import remote_refs
from kernforge.source.settings import Told


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the user names: all but ``archs`` may be None, and is then found out.

    Attributes:
        name: of the recipe.
        subdir: of the Python project in the tree.
        archs: the targets, canonical text.
        shipped: folder of the recipes to start from.
    """

    name: str | None
    subdir: str | None
    archs: str
    shipped: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A commit (40 digits) of a repository, and the tag that stands there, or empty."""

    url: str
    commit: str
    tag: str


def resolve(url: str, ref: str | None, settings: Settings, *, runner: Runner, told: Told) -> Pin:
    """The pin of a tag, or of the default branch's head.

    Raises:
        SourceError: ``tag-unknown``, or the repository cannot be reached.
    """
    git = Git(runner=runner, settings=settings.fetching, told=told)
    patterns = (f"refs/tags/{ref}", f"refs/tags/{ref}^{{}}") if ref else ("HEAD",)
    found = dict(remote_refs(git, url, *patterns))
    if ref is None and "HEAD" in found:
        return Pin(url=url, commit=found["HEAD"], tag="")
    commit = found.get(f"refs/tags/{ref}^{{}}") or found.get(f"refs/tags/{ref}")
    if commit is None:
        raise SourceError(
            "tag-unknown",
            f"{public_address(url)} has no {f'tag {ref!r}' if ref else 'HEAD'}",
            hint="list them with `git ls-remote --tags`",
        )
    return Pin(url=url, commit=commit, tag=ref or "")


def from_repository(
    pin: Pin, wish: Wish, settings: Settings, *, runner: Runner, told: Told
) -> tuple[str, str]:
    """Name and text of a first recipe for a commit of a repository.

    Raises:
        SourceError: it cannot be had.
        SelectionError: no project, or several, in it.
    """
    source = GitSource.model_validate({"git": pin.url, "commit": pin.commit, "submodules": "false"})
    fetch(source, settings.fetching, runner=runner, told=told)
    scratch = settings.cache / "edit" / f".new-{pin.commit[:12]}"
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        place(source, settings.fetching, scratch, runner=runner)
        project = choose_project(find_projects(scratch), wish.subdir)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return _write(project, pin, (), wish)


def from_checkout(checkout: Checkout, wish: Wish, *, patch: str | None) -> tuple[str, str]:
    """Name and text of a first recipe for a checkout on disk; ``patch`` is its patch's name.

    Raises:
        SourceError: ``remote-missing``.
        SelectionError: no project, or several, in it.
    """
    if not checkout.remote:
        raise SourceError(
            "remote-missing",
            f"{str(checkout.folder)!r} has no remote: nobody else could fetch it",
            hint="name one: git remote add origin URL",
        )
    project = choose_project(find_projects(checkout.folder), wish.subdir)
    patches = (patch,) if patch else ()
    pin = Pin(url=checkout.remote, commit=checkout.commit, tag=checkout.tag)
    return _write(project, pin, patches, wish)


def patch_name(checkout: Checkout, wish: Wish) -> str:
    """Where the changes of a dirty checkout go, relative to ``patches``."""
    project = choose_project(find_projects(checkout.folder), wish.subdir)
    return f"{wish.name or recipe_name(project.distribution)}/0001-local-changes.patch"


def _write(project: Project, pin: Pin, patches: tuple[str, ...], wish: Wish) -> tuple[str, str]:
    paths = {path.stem: path for path in find_recipes(wish.shipped)}
    near = nearest(project.distribution, tuple(paths))
    draft = Draft(
        name=wish.name or recipe_name(project.distribution),
        project=project,
        git=public_address(pin.url),
        commit=pin.commit,
        tag=pin.tag,
        patches=patches,
        archs=wish.archs,
        near=near,
    )
    if near is not None and draft.name == near:
        recipe = load_recipe(paths[near])
        if isinstance(dict(recipe.sources)[recipe.main_source], GitSource):
            return draft.name, adapted_text(paths[near].read_text(), recipe.main_source, draft)
    return draft.name, recipe_text(draft)


def keep(
    name: str, text: str, patch: tuple[str, bytes] | None, settings: Settings
) -> tuple[Path, ...]:
    """Write recipe and patch into the project, neither over a file that is there.

    Raises:
        SelectionError: ``recipe-exists`` or ``patch-exists``.
    """
    recipe = settings.recipes / f"{name}.yaml"
    files = [(recipe, text.encode(), "recipe-exists")]
    if patch is not None:
        files.append((settings.project / "patches" / patch[0], patch[1], "patch-exists"))
    for path, _, word in files:
        if path.exists():
            raise SelectionError(
                word, f"{str(path)!r} is there already", hint="choose another name with --name"
            )
    for path, data, _ in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return tuple(path for path, _, _ in files)
