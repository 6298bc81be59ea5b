"""The device code of a distribution: which files, for which devices, and who loads them.

Room `doctor`. Files are read as `kernforge inspect` reads them; the answers are those of `verify`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from kernforge.arch import Coverage, Device, covers
from kernforge.binary.facts import Finding, Library, State
from kernforge.binary.library import LIBRARY_NAME, read_library_file, unreadable
from kernforge.doctor.editable import Editable
from kernforge.doctor.files import Found, Walk, is_folder, regular
from kernforge.doctor.installed import Installed
from kernforge.doctor.ownership import SKIPPED
from kernforge.doctor.targets import Known
from kernforge.recipe.model import Recipe
from kernforge.verify.coverage import Served, Service, serve
from kernforge.verify.evidence import KernelAnswer, weigh
from kernforge.verify.evidence import Service as Kernel
from kernforge.verify.loaders import simulate

_BARE = frozenset({".cubin", ".fatbin"})


class Standing(StrEnum):
    """What a distribution as a whole does for a device."""

    SERVES = "serves"
    """Every library with device code that the device would use has code of all its kernels."""
    PARTLY = "partly"
    """Some kernels or libraries have no code for it; only a run tells whether they are needed."""
    JIT = "jit only"
    """No code, but PTX that the driver could compile."""
    NONE = "none"
    """Nothing for this device."""
    UNREAD = "not read"
    """It could not be read well enough to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A distribution's device code held against one device.

    Attributes:
        device: the device.
        standing: the answer for the whole.
        served: one row a library with device code.
        refusing: kernels that have code for it and refuse there, by the evidence of `verify`.
        accepted: more of them that the recipe knows of: the package does not call them there.
        doubtful: kernels of which only a run can tell.
        loaded: the files that the package's loader takes there, by the recipe; empty where no
            recipe says.
        spared: libraries without code for it that no build of the recipe would give it.
    """

    device: Device
    standing: Standing
    served: tuple[Served, ...]
    refusing: int
    doubtful: int
    accepted: int = 0
    loaded: tuple[str, ...] = ()
    spared: tuple[str, ...] = ()


def library_files(
    one: Installed, place: Editable | None
) -> tuple[tuple[Found, ...], tuple[Path, ...]]:
    """Files with native code that belong to a distribution, and folders not seen whole.

    Those that RECORD lists, and all that lie in its packages' folders: of an editable one, in the
    folders of its modules. Sorted by path.
    """
    unseen: list[Path] = []
    folders = [path for _, path in place.modules] if place else _package_folders(one)
    found: dict[Path, Found] = {}
    for name in one.files:
        path = one.site / name
        if _native(path.name) and (status := regular(path)) is not None:
            found[path] = Found(
                path=path, folder=False, link=False, size=status.st_size,
                changed=status.st_mtime_ns,
            )  # fmt: skip
    for folder in folders:
        if not is_folder(folder):
            continue
        walk = Walk(folder, SKIPPED)
        for inside in walk:
            if _native(inside.path.name):
                found.setdefault(inside.path, inside)
        unseen += [] if walk.whole else [folder]
    return tuple(found[path] for path in sorted(found)), tuple(unseen)


def _native(name: str) -> bool:
    return LIBRARY_NAME.search(name) is not None or Path(name).suffix in _BARE


def _package_folders(one: Installed) -> list[Path]:
    """Folders of its import names in which no other distribution has files of its own."""
    if one.record is None:
        return []
    tops = {name.split("/")[0] for name in one.own_files if "/" in name}
    inits = {name.split("/")[0] for name in one.files if name.count("/") == 1
             and name.endswith("/__init__.py")}  # fmt: skip
    return [one.site / top for top in sorted(tops & inits)]


def read_libraries(files: Iterable[Found], root: Path, *, kernels: bool) -> tuple[Library, ...]:
    """Read files once each, links to the same file left out; paths are relative to ``root``."""
    chosen: dict[tuple[int, int], Found] = {}
    for one in files:
        if (status := regular(one.path)) is not None:
            chosen.setdefault((status.st_dev, status.st_ino), one)

    def read(one: Found) -> Library:
        name = shown(one.path, root)
        try:
            return read_library_file(one.path, name, kernels=kernels)
        except (OSError, ValueError) as error:
            text = f"{str(one.path)!r} cannot be read: {error}"
            return unreadable(name, Finding(word="library-unreadable", text=text))

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return tuple(pool.map(read, chosen.values()))


def shown(path: Path, root: Path) -> str:
    """A path relative to a folder, or whole where it lies elsewhere."""
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def answer(
    libraries: tuple[Library, ...], device: Device, known: Known | None, *, evidence: bool
) -> Answer:
    """Hold the libraries of a distribution against a device. Pure.

    Args:
        libraries: all of it.
        device: the device.
        known: the recipe that builds this distribution, or None.
        evidence: whether kernels are weighed one by one; slow for the largest libraries.
    """
    recipe = known.recipe if known else None
    coded = tuple(x for x in libraries if x.state is not State.HOST_ONLY)
    rows = {x.path: serve(x, device) for x in coded}
    loaded, idle = _loading(recipe, coded, device)
    wanted = [x for x in coded if x.path not in idle]
    bare = [x.path for x in wanted if rows[x.path].service in {Service.NONE, Service.JIT}]
    spared = [path for path in bare if recipe and not _builds(recipe, path, device)]
    wanted = [x for x in wanted if x.path not in spared]
    weighed = [one for x in wanted for one in weigh(x, [device])] if evidence else []
    refusing = [one for one in weighed if one.service is Kernel.REFUSES]
    accepted = known.accepted if known else ()
    told = [one for one in refusing if any(line.covers(one) for line in accepted)]
    return Answer(
        device=device,
        standing=_sober(
            _standing([rows[x.path].service for x in wanted], spared=bool(spared)),
            weighed,
            len(refusing) - len(told),
        ),
        served=tuple(rows.values()),
        refusing=len(refusing) - len(told),
        accepted=len(told),
        doubtful=sum(one.service is Kernel.DOUBTFUL for one in weighed),
        loaded=loaded,
        spared=tuple(spared),
    )


def _sober(standing: Standing, weighed: list[KernelAnswer], refusing: int) -> Standing:
    """Code that refuses to work serves partly, and where every kernel refuses, nobody.

    Args:
        standing: what the code alone would come to.
        weighed: its kernels.
        refusing: how many refuse that nobody knew of.
    """
    if standing not in {Standing.SERVES, Standing.PARTLY} or not weighed:
        return standing
    if not any(one.service in {Kernel.SERVES, Kernel.DOUBTFUL} for one in weighed):
        return Standing.NONE
    return Standing.PARTLY if refusing else standing


def _standing(services: list[Service], *, spared: bool) -> Standing:
    kinds = set(services) - {Service.EMPTY}
    good = kinds & {Service.SERVES, Service.EXPECTED}
    some = kinds & {Service.PARTIAL, Service.REFUSES}
    if Service.UNREAD in kinds:
        return Standing.UNREAD
    if kinds and kinds == good:
        return Standing.SERVES
    if good or some:
        return Standing.PARTLY
    if Service.JIT in kinds:
        return Standing.JIT
    return Standing.UNREAD if not kinds and not spared and not services else Standing.NONE


def _loading(
    recipe: Recipe | None, libraries: tuple[Library, ...], device: Device
) -> tuple[tuple[str, ...], frozenset[str]]:
    """Files that the package's loader takes on a device, and those that it passes over there."""
    if recipe is None:
        return (), frozenset()
    chosen = simulate(recipe.verify.loaders, libraries, (device,))
    loaded = tuple(path for one in chosen for path in one.paths)
    patterns = [glob for table in recipe.verify.loaders for _, glob in table]
    choices = {x.path for x in libraries if any(fnmatchcase(x.path, glob) for glob in patterns)}
    return loaded, frozenset(choices - set(loaded))


def _builds(recipe: Recipe, path: str, device: Device) -> bool:
    """Whether the recipe, asked for a device, builds this library so that it serves it."""
    if not recipe.verify.extensions:
        return True
    fitting = [(glob, archs) for glob, archs in recipe.verify.extensions if fnmatchcase(path, glob)]
    longest = max(fitting, key=lambda pair: len(pair[0]), default=None)
    if longest is None or longest[1] == "target":
        return longest is not None
    return any(covers(arch, device) is not Coverage.NONE for arch in longest[1])
