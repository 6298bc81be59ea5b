"""The levels `links` and `imports` of a wheel in its target: a recipe's environment, or a Python.

Where the target cannot be had, both are not verified, and why is told; nothing is built for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kernforge.errors import Interrupted, KernforgeError, SelectionError, VerifyError
from kernforge.events import Listener
from kernforge.pipeline.gather import plan_job
from kernforge.pipeline.judging import asks_levels
from kernforge.pipeline.levels import Trial, judge_levels, keep_levels, kept_levels
from kernforge.pipeline.machine import Machine, artifact_key, probe_machine
from kernforge.pipeline.needs import required_jobs
from kernforge.pipeline.settings import Settings
from kernforge.process import Command, Runner
from kernforge.recipe.matrix import Job
from kernforge.store.local import Store
from kernforge.toolchain.host import Memory, probe_host
from kernforge.toolchain.sandbox import probe_sandbox, shown_by_system
from kernforge.toolchain.torchfacts import torch_folder
from kernforge.verify.ladder import Rung, rung
from kernforge.verify.policy import LEVELS

if TYPE_CHECKING:
    from kernforge.pipeline.maker import Maker

_HOPS = 20
_ASK = "import sys; print('%d.%d' % sys.version_info[:2])"


def target_rungs(
    trial: Trial, machine: Machine, store: Store, make: Callable[[], Maker]
) -> tuple[Rung, ...]:
    """Both levels in a job's environment: kept ones, else judged now and kept.

    Args:
        trial: the wheel and its target.
        machine: where the environment is.
        store: keeps answers.
        make: gives the maker of the environment; called only where it is needed.

    Raises:
        KernforgeError: the environment cannot be made.
    """
    known = kept_levels(trial, machine, store)
    if known is not None:
        return known
    from kernforge.pipeline.maker import ready_environment  # noqa: PLC0415 - a hit needs none of it

    maker = make()
    environment = ready_environment(maker)
    with maker.stage("verify") as said:
        rungs = judge_levels(trial, environment.path, machine, store, runner=maker.runner)
        said.append(", ".join(step.level for step in rungs))
    keep_levels(trial, rungs, machine, store)
    return rungs


def unknown_rungs(trial: Trial, why: str) -> tuple[Rung, ...]:
    """Both levels not verified, for a reason."""
    return tuple(
        rung(level, trial.devices, (), unknown=f"{level}: not verified: {why}")
        for level in LEVELS[1:3]
    )


def recipe_rungs(
    trial: Trial, job: Job, require: str, settings: Settings, tools: tuple[Runner, Listener]
) -> tuple[Rung, ...]:
    """Both levels of a wheel from anywhere in the environment of a recipe's job.

    Args:
        trial: the wheel; its target is filled in here.
        job: whose environment counts.
        require: the level demanded: below `links` they are judged only where that costs little.
        settings: as for a build.
        tools: what runs programs, and who hears what happens.
    """
    runner, listen = tools
    try:
        machine = probe_machine(job, settings, runner=runner)
        plan = plan_job(job, settings, layout=machine.sandbox.layout)
        trial = replace(trial, target=plan.recipe_key)
        if not asks_levels(trial, require, machine):
            return ()

        def make() -> Maker:
            from kernforge.pipeline.maker import job_maker  # noqa: PLC0415 - a hit needs none of it

            wheels = stored_wheels(job, settings, runner=runner)
            return job_maker(plan, settings, runner=runner, listen=listen, wheels=wheels)

        return target_rungs(trial, machine, Store(settings.cache), make)
    except Interrupted:
        raise
    except KernforgeError as error:
        return unknown_rungs(trial, f"the recipe's environment is not to be had: {error.message}")


def stored_wheels(job: Job, settings: Settings, *, runner: Runner) -> tuple[tuple[Path, str], ...]:
    """Path and SHA-256 of the wheels that a job requires, from the store; nothing is built.

    Raises:
        SelectionError: ``requires-unbuilt``.
        KernforgeError: they cannot be planned.
    """
    store, found = Store(settings.cache), []
    for needed in required_jobs(job, settings):
        machine = probe_machine(needed, settings, runner=runner)
        plan = plan_job(needed, settings, layout=machine.sandbox.layout)
        entry = store.get("artifact", artifact_key(plan, machine), told=lambda _text: None)
        if entry is None:
            raise SelectionError(
                "requires-unbuilt",
                f"{job.recipe.name} requires {needed.recipe.name}, which the store does not hold",
                hint=f"build it first: kernforge build {needed.recipe.name}",
            )
        name = entry.facts()["wheel"]
        sha256 = next(file.sha256 for file in entry.files if file.name == name)
        found.append((entry.path / name, sha256))
    return tuple(found)


def python_version(python: Path, *, runner: Runner) -> str:
    """The version of an interpreter as ``3.11``; it is started without site and user folders.

    Raises:
        VerifyError: ``python-broken``.
    """
    hint = "name the target's interpreter, as /path/of/environment/bin/python"
    try:
        result = runner.run(Command(argv=(str(python), "-I", "-S", "-c", _ASK)), timeout=60)
        version = result.text.strip() if result.returncode == 0 else ""
    except KernforgeError:
        version = ""
    if not version:
        raise VerifyError("python-broken", f"{str(python)!r} is no Python that starts", hint=hint)
    return version


def _prefixes(python: Path) -> tuple[Path, ...]:
    """Prefixes of the programs to which an environment's interpreter is a chain of links."""
    found = []
    place = python
    for _ in range(_HOPS):
        if not place.is_symlink():
            break
        place = place.parent / place.readlink()
        found.append(place.parent.parent)
    hidden = (Path(os.path.abspath(one)) for one in found)  # noqa: PTH100 - links stay links
    return tuple(dict.fromkeys(one for one in hidden if not shown_by_system(one / "bin")))


def _python_machine(python: Path, settings: Settings, *, runner: Runner) -> Machine:
    memory = Memory(settings.cache / "host")
    host = probe_host(python=python.resolve(), path=settings.path, memory=memory, runner=runner)
    host = replace(host, shown=(*host.shown, *_prefixes(python)))
    sandbox = probe_sandbox(
        bwrap=settings.bwrap, uid=settings.uid, wanted=settings.sandbox, runner=runner
    )
    return Machine(host=host, sandbox=sandbox, inside="", toolkit=None)


def python_rungs(
    trial: Trial, python: Path, settings: Settings, *, runner: Runner
) -> tuple[Rung, ...]:
    """Both levels of a wheel in the environment of an interpreter; nothing is kept of them."""
    environment = python.absolute().parent.parent
    try:
        machine = _python_machine(python.absolute(), settings, runner=runner)
        trial = replace(trial, torch=torch_folder(environment) is not None)
        return judge_levels(trial, environment, machine, Store(settings.cache), runner=runner)
    except Interrupted:
        raise
    except (KernforgeError, OSError) as error:
        why = error.message if isinstance(error, KernforgeError) else str(error)
        return unknown_rungs(trial, f"{str(environment)!r} is no target: {why}")
