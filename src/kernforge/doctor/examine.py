"""The examination: facts gathered, held against each other, one recommendation a distribution.

Room `doctor`. It changes nothing: what is made (the driver library) goes into a scratch folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernforge.arch import Device
from kernforge.doctor.advice import binary_only, vendor
from kernforge.doctor.files import odd_files, regular
from kernforge.doctor.gathering import Gathered, Means, Told, gather
from kernforge.doctor.importing import Room, Subject, not_tried, try_imports
from kernforge.doctor.installed import Installed, find_installed, leftovers
from kernforge.doctor.interpreter import Interpreter, ask
from kernforge.doctor.judging import Scene, case_of, worth_telling
from kernforge.doctor.model import Case, Diagnosis, Imports, Trouble
from kernforge.doctor.ownership import claims, ghosts, owned_names
from kernforge.doctor.runtime import (
    Compiling,
    Program,
    Where,
    compiling,
    find_programs,
    out_of_step,
)
from kernforge.doctor.targets import World, load_recipes
from kernforge.process import Runner
from kernforge.source.git import Git
from kernforge.toolchain.host import Host
from kernforge.toolchain.sandbox import Sandbox
from kernforge.toolchain.torchfacts import torch_cuda
from kernforge.verify.policy import Answer
from kernforge.verify.surroundings import Surroundings, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is asked.

    Attributes:
        python: the interpreter of the environment.
        devices: the devices asked about.
        devices_note: where they come from, or why there are none.
        recipes: folders of recipes.
        where: what of the user's environment names compilers.
        env: what the interpreter may know of the user: PATH and HOME.
        notes: what a reader of the answer should know besides.
    """

    python: Path
    devices: tuple[Device, ...]
    devices_note: str
    recipes: tuple[Path, ...]
    where: Where
    env: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """With what it is done.

    Attributes:
        runner: runs the interpreter and the sandbox.
        git: asks checkouts.
        sandbox: what holds here.
        programs: compilers of the host, for the driver library; None where there are none.
        scratch: an empty folder.
        told: hears what takes long.
    """

    runner: Runner
    git: Git
    sandbox: Sandbox
    programs: tuple[tuple[str, str], ...] | None
    scratch: Path
    told: Told


def examine(order: Order, tools: Tools) -> Diagnosis:
    """Look at the environment of an interpreter.

    Raises:
        ToolchainError: ``interpreter-broken``.
    """
    interpreter = ask(order.python, env=order.env, runner=tools.runner)
    recipes, unread = load_recipes(order.recipes)
    found = find_installed(interpreter.path)
    means = Means(
        interpreter=interpreter,
        devices=order.devices,
        recipes=recipes,
        recorded=frozenset(one.site / name for one in found for name in one.files),
        git=tools.git,
        told=tools.told,
    )
    active = _first_of_each(found)
    gathered = tuple(gather(one, means) for one in active)
    scene = _scene(interpreter, found, gathered, order)
    programs = find_programs(interpreter, order.where)
    folders = {g.installed.key: g.package for g in gathered if g.package}
    busy = compiling(folders, programs, order.devices)
    worth = tuple(g for g in gathered if worth_telling(g, scene, busy))
    imports = _imports(worth, scene, tools)
    cases = (case_of(g, scene, imports[g.installed.key]) for g in worth)
    return Diagnosis(
        interpreter=interpreter,
        torch=scene.world.torch,
        cuda=scene.world.cuda,
        devices=order.devices,
        devices_note=order.devices_note,
        sandbox=None if tools.sandbox.bwrap else tools.sandbox.reason,
        cases=tuple(sorted(cases, key=_order)),
        others=len(active) - len(worth),
        compiling=busy,
        programs=_asked_for(programs, busy),
        troubles=_troubles(scene),
        notes=(*order.notes, *unread),
    )


def _order(case: Case) -> tuple[bool, bool, str]:
    """One's own first, then torch and triton, then NVIDIA's libraries."""
    key = case.installed.key
    return binary_only(key), vendor(key), key


def _first_of_each(found: Iterable[Installed]) -> tuple[Installed, ...]:
    """The records that Python's own look-up finds: the first of each name."""
    first: dict[str, Installed] = {}
    for one in found:
        first.setdefault(one.key, one)
    return tuple(first.values())


def _asked_for(programs: tuple[Program, ...], busy: tuple[Compiling, ...]) -> tuple[Program, ...]:
    wanted = {name for one in busy for name in one.programs}
    return tuple(program for program in programs if program.name in wanted)


def _scene(
    interpreter: Interpreter,
    found: tuple[Installed, ...],
    gathered: tuple[Gathered, ...],
    order: Order,
) -> Scene:
    active = [g.installed for g in gathered]
    torch = next((one for one in active if one.key == "torch"), None)
    cuda = _cuda_of(torch)
    site = torch.site if torch else next(iter(interpreter.sites), interpreter.prefix)
    target = Target(site=site, python=interpreter.real, torch=torch is not None, cuda=cuda)
    edited = [(g.installed, g.place) for g in gathered if g.place]
    copied = [g.installed for g in gathered if not g.place]
    return Scene(
        interpreter=interpreter,
        installed=found,
        hidden=tuple(one for one in found if one not in active),
        world=World(
            devices=order.devices,
            python=interpreter.python,
            torch=torch.version if torch else None,
            cuda=cuda,
        ),
        around=None if odd_files(site) else Surroundings(target),
        claims=tuple(claims(copied, edited)),
        steps=tuple(out_of_step(tuple(active))),
    )


def _cuda_of(torch: Installed | None) -> str | None:
    if torch is None or regular(torch.site / "torch/version.py") is None:
        return None
    try:
        return torch_cuda(torch.site / "torch")
    except (OSError, UnicodeDecodeError):
        return None


def _imports(worth: tuple[Gathered, ...], scene: Scene, tools: Tools) -> dict[str, Imports]:
    subjects = []
    found = {}
    for g in worth:
        close = not vendor(g.installed.key)
        if g.modules and not g.installed.key.startswith("nvidia-"):
            subjects.append(
                Subject(
                    key=g.installed.key,
                    root=g.root,
                    libraries=g.libraries if close and g.coded else (),
                    modules=g.modules,
                    owns=g.owns,
                )
            )
        else:
            found[g.installed.key] = Imports(answer=Answer.NOT_VERIFIED)
    if tools.programs is None or scene.around is None:
        why = "there is no C compiler to make a stand-in for the driver library"
        why = why if scene.around else "a library of the environment is no regular file"
        return found | {one.key: not_tried(why) for one in subjects}
    if tools.sandbox.bwrap is not None and subjects:
        tools.told(f"importing {len(subjects)} distributions in the sandbox")
    room = Room(
        sandbox=tools.sandbox,
        host=Host(programs=tools.programs, python=scene.interpreter.real, identity=()),
        runner=tools.runner,
        scratch=tools.scratch,
        folders=tuple(path for g in worth if g.place for path in (g.place.root, *g.owns)),
        torch=scene.world.torch is not None,
    )
    return found | try_imports(tuple(subjects), scene.interpreter, room, scene.around)


def _troubles(scene: Scene) -> tuple[Trouble, ...]:
    found = [
        Trouble(
            word="folder-unreadable",
            text=f"{str(folder)!r} cannot be listed: what is installed there is not known",
            hint="look at its permissions, and how many files it holds",
        )
        for folder in scene.interpreter.unread
    ]
    for path in (path for site in scene.interpreter.sites for path in odd_files(site)):
        text = f"{str(path)!r} is no regular file: no library of the environment was looked up"
        found.append(Trouble(word="library-irregular", text=text, hint="remove it"))
    for site in scene.interpreter.sites:
        here = [one for one in scene.installed if one.site == site]
        for path in leftovers(site):
            text = f"{str(path)!r} was left by an installer that was interrupted"
            found.append(Trouble(word="installer-leftover", text=text, hint="remove it"))
        if all(one.record is not None for one in here):
            found += [
                Trouble(word=ghost.word, text=ghost.text, hint="remove it")
                for ghost in ghosts(site, owned_names(scene.installed, site))
            ]
    return tuple(found)
