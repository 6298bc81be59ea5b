"""One recommendation a distribution, with the commands that carry it out. Pure.

Room `doctor`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernforge.doctor.checkout import GitFacts
from kernforge.doctor.editable import Editable
from kernforge.doctor.installed import Installed, unknown_version
from kernforge.doctor.model import Action, Advice, Remark
from kernforge.doctor.targets import SUCCESSOR, Fit, World, build_command, new_command

_BASE = frozenset({"torch", "triton"})
"""What nobody rebuilds for a kernel's sake: another release of it is installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standpoint:
    """What a recommendation is made from.

    Attributes:
        installed: its records.
        place: where its code lies if it is editable.
        git: its checkout.
        fit: the recipe that builds it.
        remarks: all that was noticed.
        rivals: other distributions that claim its import names.
    """

    installed: Installed
    place: Editable | None
    git: GitFacts | None
    fit: Fit | None
    remarks: tuple[Remark, ...]
    rivals: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """With what it is carried out: the Python, and whether that has pip."""

    python: Path
    pip: bool

    def call(self, *words: str) -> str:
        """A call of pip, or of uv where there is no pip."""
        if self.pip:
            return shlex.join([str(self.python), "-m", "pip", *words])
        verb, *rest = words
        rest = [word for word in rest if word != "-y"]
        rest = ["--reinstall" if word == "--force-reinstall" else word for word in rest]
        return shlex.join(["uv", "pip", verb, "--python", str(self.python), *rest])


def binary_only(key: str) -> bool:
    """Whether a distribution is one of NVIDIA's libraries.

    What they hold is told and not judged: some bring code that is linked or chosen at run time
    (cuFFT 12 has machine code of 7.5 alone and works on later GPUs).
    """
    return key.startswith("nvidia-")


def vendor(key: str) -> bool:
    """Whether nobody rebuilds a distribution for his kernels' sake."""
    return binary_only(key) or key in _BASE


def action_of(key: str, remarks: Iterable[Remark]) -> Action:
    """The strongest thing that remarks call for.

    Where several distributions claim an import name, that is settled first: what was found of the
    files may be found of another's.
    """
    told = tuple(remarks)
    if any(remark.word == "import-claimed" for remark in told):
        return Action.REINSTALL
    calls = {remark.calls for remark in told}
    if Action.REBUILD in calls:
        return Action.REINSTALL if vendor(key) else Action.REBUILD
    return Action.REINSTALL if Action.REINSTALL in calls else Action.KEEP


def advise(seen: Standpoint, world: World, hands: Hands) -> Advice:
    """What to do about a distribution."""
    action = action_of(seen.installed.key, seen.remarks)
    commands: tuple[str, ...] = ()
    if action is Action.REBUILD:
        commands = _rebuild(seen, world, hands)
    elif action is Action.REINSTALL:
        commands = _reinstall(seen, world, hands)
    return Advice(
        action=action,
        recipe=seen.fit.recipe.name if seen.fit else None,
        exact=seen.fit is not None and seen.fit.exact,
        commands=commands,
    )


def _rebuild(seen: Standpoint, world: World, hands: Hands) -> tuple[str, ...]:
    if seen.fit is not None:
        lines = [build_command(seen.fit.recipe, world)]
        if not seen.fit.exact:
            said = seen.fit.recipe.version
            builds = said if isinstance(said, str) else said.expect
            lines.insert(0, f"# recipe {seen.fit.recipe.name} builds version {builds}")
        install = hands.call("install", "--force-reinstall", "--no-deps", "WHEEL")
        return (*lines, f"# then, with the wheel that it prints: {install}")
    root = seen.place.root if seen.place else None
    command = new_command(seen.installed, (seen.git, root), world)
    if command is None:
        return ("# no recipe fits and its metadata name no repository: kernforge new URL",)
    return (command,)


def _reinstall(seen: Standpoint, world: World, hands: Hands) -> tuple[str, ...]:
    one, place = seen.installed, seen.place
    if vendor(one.key) and any(r.calls is Action.REBUILD for r in seen.remarks):
        wanted = ", ".join(map(str, world.devices))
        return (f"# choose a release of {one.name} that serves {wanted or 'your GPUs'}",)
    if seen.rivals:
        return _one_of_them(seen, hands)
    if any(remark.word == "editable-gone" for remark in seen.remarks):
        return (hands.call("uninstall", "-y", one.name), "# its checkout is gone: install another")
    if place is not None:
        again = hands.call("install", "--no-deps", "-e", str(place.root))
        pinned = new_command(one, (seen.git, place.root), world)
        more = (f"# or write a recipe that pins it: {pinned}",) if pinned else ()
        return (*_tags(seen), again, *more)
    if unknown_version(one.version) and one.direct is None:
        command = new_command(one, (None, None), world)
        more = (f"# or write a recipe for it: {command}",) if command else ()
        return ("# its records name no version: install it again from where it came", *more)
    return (hands.call("install", "--force-reinstall", "--no-deps", wanted_text(one)),)


def _one_of_them(seen: Standpoint, hands: Hands) -> tuple[str, ...]:
    """Several distributions share an import name: all go, one comes back."""
    one, names = seen.installed, (seen.installed.name, *seen.rivals)
    away = hands.call("uninstall", "-y", *dict.fromkeys(names))
    if seen.place is not None:
        return (away, hands.call("install", "--no-deps", "-e", str(seen.place.root)))
    new = SUCCESSOR.get(one.key)
    if new in seen.rivals:
        return (away, f"# {one.name} is called {new} now: install that one again")
    return (away, hands.call("install", "--no-deps", wanted_text(one)))


def _tags(seen: Standpoint) -> tuple[str, ...]:
    """What gives an editable distribution its version back."""
    if not unknown_version(seen.installed.version):
        return ()
    git = seen.git
    if git is None or git.trouble:
        name = seen.installed.key.upper().replace("-", "_")
        return (f"export SETUPTOOLS_SCM_PRETEND_VERSION_FOR_{name}=VERSION",)
    if git.tag is not None or not git.remote:
        return ()
    deep = ["--unshallow"] if git.shallow else []
    return (shlex.join(["git", "-C", str(git.folder), "fetch", *deep, "--tags"]),)


def wanted_text(one: Installed) -> str:
    """What an installer is given to get this very distribution again."""
    direct = one.direct
    if direct is not None and direct.commit:
        return f"{one.name} @ git+{direct.url}@{direct.commit}"
    if direct is not None:
        return str(direct.folder) if direct.folder else f"{one.name} @ {direct.url}"
    return one.name if unknown_version(one.version) else f"{one.name}=={one.version}"
