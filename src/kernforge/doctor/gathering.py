"""The facts of each distribution of an environment, gathered from its files. Nothing is judged.

Room `doctor`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kernforge.arch import Device
from kernforge.binary.facts import Finding, Library, State
from kernforge.doctor.advice import vendor
from kernforge.doctor.builtfor import BuiltFor, built_for
from kernforge.doctor.checkout import GitFacts, read_checkout
from kernforge.doctor.code import Answer, answer, library_files, read_libraries
from kernforge.doctor.editable import Editable, editable_of
from kernforge.doctor.files import Found, is_folder
from kernforge.doctor.installed import Installed
from kernforge.doctor.interpreter import Interpreter
from kernforge.doctor.ownership import replaced, stale
from kernforge.doctor.targets import Fit, Known, fit
from kernforge.doctor.versions import Declared, Spoken, declared, spoken
from kernforge.source.git import Git

Told = Callable[[str], None]
_MODULES = 8
_SHOWN = 3
_UNSEEN = "{!r} could not be looked at whole: what its libraries serve is not verified"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """One distribution before it is judged; fields as in :class:`kernforge.doctor.model.Case`.

    ``root`` is what paths of libraries are relative to, ``findings`` what is odd about its files.
    """

    installed: Installed
    place: Editable | None
    root: Path
    git: GitFacts | None
    declared: Declared | None
    spoken: tuple[Spoken, ...]
    files: tuple[Found, ...]
    libraries: tuple[Library, ...]
    answers: tuple[Answer, ...]
    built: BuiltFor
    fit: Fit | None
    findings: tuple[Finding, ...]

    @property
    def coded(self) -> bool:
        """Whether it holds device code, or a library that could not be read."""
        return any(x.state is not State.HOST_ONLY for x in self.libraries)

    @property
    def modules(self) -> tuple[str, ...]:
        """Import names that are tried."""
        names = [name for name, _ in self.place.modules] if self.place else self.installed.modules
        return tuple(name for name in names if not name.startswith("_"))[:_MODULES]

    @property
    def owns(self) -> tuple[Path, ...]:
        """Folders and files that are its own."""
        one = self.installed
        copied = {one.site / name.split("/", 1)[0] for name in one.own_files}
        edited = [path for _, path in self.place.modules] if self.place else []
        return (*edited, *sorted(copied))

    @property
    def package(self) -> Path | None:
        """Folder of its first package."""
        return next((path for path in self.owns if not path.suffix), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """With what facts are gathered.

    Attributes:
        interpreter: whose environment it is.
        devices: the devices asked about; none: kernels stay unread.
        recipes: recipes that may fit.
        recorded: every path that a RECORD lists.
        git: asks checkouts.
        told: hears what takes long.
    """

    interpreter: Interpreter
    devices: tuple[Device, ...]
    recipes: tuple[Known, ...]
    recorded: frozenset[Path]
    git: Git
    told: Told


def gather(one: Installed, means: Means) -> Gathered:
    """All facts of one distribution."""
    place = editable_of(one, means.interpreter)
    project = place.root if place else (one.direct.folder if one.direct else None)
    project = project if project is not None and is_folder(project) else None
    root = _root(one, place)
    files, unseen = library_files(one, place)
    size = sum(found.size for found in files)
    if size > 1 << 28:
        means.told(f"reading {len(files)} libraries of {one.name}, {size >> 20} MiB")
    libraries = read_libraries(files, root, kernels=bool(means.devices))
    recipe = fit(one, means.recipes)
    return Gathered(
        installed=one,
        place=place,
        root=root,
        git=read_checkout(project, means.git) if project else None,
        declared=declared(project) if project else None,
        spoken=_spoken(one, place),
        files=files,
        libraries=libraries,
        answers=_answers(one, libraries, recipe, () if unseen else means.devices),
        built=built_for(one, libraries),
        fit=recipe,
        findings=(
            *_oddities(one, place, files, libraries, means),
            *(Finding(word="folder-unseen", text=_UNSEEN.format(str(x))) for x in unseen),
            *_gone(place),
        ),
    )


def _gone(place: Editable | None) -> tuple[Finding, ...]:
    if place is None or is_folder(place.root):
        return ()
    text = f"{str(place.root)!r}, where its code is meant to lie, is gone"
    return (Finding(word="editable-gone", text=text),)


def _root(one: Installed, place: Editable | None) -> Path:
    if place is None or not place.modules:
        return one.site
    return place.modules[0][1].parent


def _spoken(one: Installed, place: Editable | None) -> tuple[Spoken, ...]:
    """Versions in the files of its packages; of a copied one only where it is looked at closely."""
    if place is not None:
        return tuple(said for _, path in place.modules for said in spoken(path))
    tops = [one.site / name for name in one.modules if is_folder(one.site / name)]
    return tuple(said for path in tops[:_MODULES] for said in spoken(path))


def _answers(
    one: Installed, libraries: tuple[Library, ...], recipe: Fit | None, devices: tuple[Device, ...]
) -> tuple[Answer, ...]:
    if all(library.state is State.HOST_ONLY for library in libraries):
        return ()
    known = recipe.known if recipe and recipe.exact else None
    close = not vendor(one.key)
    return tuple(answer(libraries, device, known, evidence=close) for device in devices)


def _oddities(
    one: Installed,
    place: Editable | None,
    files: tuple[Found, ...],
    libraries: tuple[Library, ...],
    means: Means,
) -> tuple[Finding, ...]:
    coded = any(library.state is not State.HOST_ONLY for library in libraries)
    if vendor(one.key) or (not coded and place is None):
        return ()
    found = stale(files, means.interpreter.suffixes, frozenset() if place else means.recorded)
    names = [str(x.path.relative_to(one.site)) for x in files if x.path.is_relative_to(one.site)]
    if others := replaced(one, names):
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        text = f"{', '.join(others[:_SHOWN])}{more}: not as installed, by the digests of RECORD"
        found.append(Finding(word="library-replaced", text=text))
    return tuple(found)
