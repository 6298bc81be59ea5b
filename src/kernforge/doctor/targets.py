"""Commands that would make a distribution anew: by a recipe, from a checkout, from a repository.

Room `doctor`. Pure but for loading recipe files.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from packaging.utils import canonicalize_name

from kernforge.arch import Arch, Device, canonical, format_archs, parse_arch
from kernforge.doctor.checkout import GitFacts
from kernforge.doctor.installed import Installed, unknown_version
from kernforge.errors import KernforgeError, RecipeError
from kernforge.recipe.load import find_recipes, load_recipe
from kernforge.recipe.model import Recipe
from kernforge.verify.gaps import Accepted, parse_baseline

_HOSTS = re.compile(r"https://(?:github|gitlab)\.com/[\w.-]+/[\w.-]+?(?:\.git)?(?=$|[/#?])")
_SUFFIXED_SINCE = (9, 0)
SUCCESSOR = {"sgl-kernel": "sglang-kernel", "flashinfer": "flashinfer-python"}
"""Distributions that were renamed: old name -> new name, with one import name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A recipe, and the gaps that it accepts."""

    recipe: Recipe
    accepted: tuple[Accepted, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A recipe for a distribution; ``exact`` where it builds the very version that is there."""

    known: Known
    exact: bool

    @property
    def recipe(self) -> Recipe:
        """The recipe itself."""
        return self.known.recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a rebuilt wheel has to suit: devices, Python as ``3.11``, torch and its CUDA release."""

    devices: tuple[Device, ...]
    python: str
    torch: str | None
    cuda: str | None


def native_arch(device: Device) -> Arch:
    """The target that gives a device all it can do: ``12.0a``, or plain before 9.0."""
    suffix = "a" if device.number >= _SUFFIXED_SINCE else ""
    try:
        return parse_arch(f"{device}{suffix}")
    except RecipeError:
        return parse_arch(str(device))


def load_recipes(folders: Iterable[Path]) -> tuple[tuple[Known, ...], tuple[str, ...]]:
    """The recipes of folders, the first of each name, and what could not be read."""
    found: dict[str, Known] = {}
    troubles = []
    for path in (path for folder in folders for path in find_recipes(folder)):
        if path.stem in found:
            continue
        accepted: tuple[Accepted, ...] = ()
        try:
            recipe = load_recipe(path)
        except (KernforgeError, OSError) as error:
            troubles.append(f"recipe {path.stem!r} is not read: {str(error).splitlines()[0]}")
            continue
        try:
            accepted = _accepted(recipe, path.parent.parent)
        except (KernforgeError, OSError, UnicodeDecodeError) as error:
            troubles.append(f"the accepted gaps of recipe {path.stem!r} are not read: {error}")
        found[path.stem] = Known(recipe=recipe, accepted=accepted)
    return tuple(found.values()), tuple(troubles)


def _accepted(recipe: Recipe, project: Path) -> tuple[Accepted, ...]:
    """The lines of a recipe's baseline; none where it names none.

    Raises:
        VerifyError: ``baseline-invalid``.
        OSError: it cannot be read.
    """
    kernels = recipe.verify.kernels
    if kernels is None or kernels.accepted_gaps is None:
        return ()
    path = project / kernels.accepted_gaps
    return parse_baseline(path.read_text(encoding="utf-8"), str(kernels.accepted_gaps))


def fit(one: Installed, recipes: Iterable[Known]) -> Fit | None:
    """The recipe that builds a distribution: one for its version first, else one of its name."""
    same = [r for r in recipes if canonicalize_name(r.recipe.distribution) == one.key]
    if one.built is not None:
        own = [r for r in same if r.recipe.name == one.built.recipe]
        if own:
            return Fit(known=own[0], exact=True)
    exact = [r for r in same if _expects(r.recipe, one.version)]
    if exact:
        return Fit(known=exact[0], exact=True)
    return Fit(known=same[0], exact=False) if same else None


def _expects(recipe: Recipe, version: str | None) -> bool:
    public = (version or "").partition("+")[0]
    wanted = recipe.version if isinstance(recipe.version, str) else recipe.version.expect
    if wanted is None:
        return True
    return not unknown_version(version) and fnmatchcase(public, str(wanted))


def _archs(world: World) -> str:
    return format_archs(canonical(native_arch(device) for device in world.devices))


def build_command(recipe: Recipe, world: World) -> str:
    """The call that builds a distribution for these devices and this environment."""
    words = ["kernforge", "build", recipe.name]
    if world.devices:
        words += ["--arch", _archs(world)]
    matrix = recipe.matrix
    if matrix.python and world.python not in matrix.python:
        words += ["--python", world.python]
    if world.torch and matrix.torch and _public(world.torch) not in matrix.torch:
        words += ["--torch", _public(world.torch)]
    if world.cuda and matrix.cuda and world.cuda not in matrix.cuda:
        words += ["--cuda", world.cuda]
    return shlex.join(words)


def _public(version: str) -> str:
    return version.partition("+")[0]


def new_command(
    one: Installed, checkout: tuple[GitFacts | None, Path | None], world: World
) -> str | None:
    """The call that writes a first recipe: from the checkout, else from the repository it names.

    Args:
        one: the distribution.
        checkout: what git says of it, and the project's folder in it.
        world: what it has to suit.
    """
    arch = []
    if world.devices:
        arch = ["--arch", _archs(world)]
    git, root = checkout
    if git is not None and git.remote and not git.trouble:
        words = ["kernforge", "new", "--from", str(git.folder)]
        if root is not None and root != git.folder and root.is_relative_to(git.folder):
            words += ["--subdir", str(root.relative_to(git.folder))]
        return shlex.join([*words, *arch, *(["--changes"] if git.changed else [])])
    url = repository(one)
    return shlex.join(["kernforge", "new", url, *arch]) if url else None


def repository(one: Installed) -> str | None:
    """The repository that a distribution names: where it was installed from, else its METADATA."""
    texts = [one.direct.url] if one.direct and one.direct.folder is None else []
    texts += [value for key, value in one.metadata if key.lower() in {"project-url", "home-page"}]
    for text in texts:
        if match := _HOSTS.search(text):
            return match[0]
    return None
