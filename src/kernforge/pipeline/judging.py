"""The whole verdict on a wheel: its bytes, its target, its GPU reports. One way for every command.

`build`, `publish` and `verify --recipe` ask here, so that one wheel gets one answer.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from kernforge.arch import Device
from kernforge.errors import VerifyError
from kernforge.pipeline.levels import Trial
from kernforge.pipeline.machine import Machine
from kernforge.pipeline.reports import gpu_rungs
from kernforge.pipeline.settings import Settings
from kernforge.recipe.matrix import Job
from kernforge.store.local import Store
from kernforge.verify.device import Subject
from kernforge.verify.gaps import Accepted, parse_baseline
from kernforge.verify.ladder import Rung, climb, rung
from kernforge.verify.loaders import loader_faults, simulate
from kernforge.verify.policy import LEVELS, Rules, Verdict, judge


def job_devices(job: Job) -> tuple[Device, ...]:
    """The devices that a job's archs are first of all meant for."""
    return tuple(sorted({arch.device for arch in job.target.archs}))


def job_rules(job: Job, accepted: tuple[Accepted, ...] = ()) -> Rules:
    """What a recipe demands of its wheel; ``accepted`` is its baseline, see :func:`baseline`."""
    verify = job.recipe.verify
    return Rules(
        require=verify.require,
        extensions=tuple((g, None if a == "target" else a) for g, a in verify.extensions),
        archs=job.target.archs,
        exact=job.recipe.build.gencode == (("default", "replace"),),
        allow_jit=verify.allow_jit,
        device_code=verify.device_code,
        required=verify.kernels.required if verify.kernels else (),
        accepted=accepted,
    )


def baseline(job: Job, settings: Settings) -> tuple[Accepted, ...]:
    """The gaps that a recipe accepts.

    Raises:
        VerifyError: ``baseline-missing`` or ``baseline-invalid``.
    """
    kernels = job.recipe.verify.kernels
    if kernels is None or kernels.accepted_gaps is None:
        return ()
    return parse_baseline(_project_file(kernels.accepted_gaps, settings), kernels.accepted_gaps)


def _project_file(name: str, settings: Settings) -> str:
    try:
        return (settings.project / name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise VerifyError(
            "baseline-missing",
            f"verify.kernels.accepted_gaps: {name!r} cannot be read: {why}",
            hint="its path is relative to the project, the folder that holds recipes",
        ) from error


def smoke_digest(job: Job, settings: Settings) -> str | None:
    """SHA-256 of a recipe's smoke program; None where it has none or the file is not there."""
    if job.recipe.verify.smoke is None:
        return None
    path = settings.project / job.recipe.verify.smoke
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def asks_levels(trial: Trial, require: str, machine: Machine) -> bool:
    """Whether links and imports are judged: required, or imports named and a sandbox at hand."""
    possible = bool(trial.imports) and machine.sandbox.bwrap is not None
    return require != LEVELS[0] or possible


def whole_verdict(
    trial: Trial,
    rules: Rules,
    levels: tuple[Rung, ...],
    job: Job | None,
    settings: Settings | None,
) -> Verdict:
    """Judge `code`, then climb to what was found of the levels above.

    What speaks against a level above the required one is told and no fault, but for what a GPU
    itself has shown.

    Args:
        trial: the wheel and its devices.
        rules: what is demanded.
        levels: what was found of `links` and `imports`.
        job: whose loaders and smoke program count, or None.
        settings: say where project and store are, or None.
    """
    libraries = trial.facts.libraries
    chosen = simulate(job.recipe.verify.loaders if job else (), libraries, trial.devices)
    faults = loader_faults(chosen, allow_jit=rules.allow_jit)
    code = rung(LEVELS[0], trial.devices, faults)
    store = Store(settings.cache) if settings else None
    subject = Subject(
        sha256=trial.sha256,
        libraries=libraries,
        smoke=smoke_digest(job, settings) if job and settings else None,
        allow_jit=rules.allow_jit,
    )
    seen = gpu_rungs(subject, trial.devices, store, wanted=rules.require in LEVELS[3:])
    verdict = judge(libraries, trial.devices, rules, trial.facts.findings)
    return climb(verdict, (code, *(_lowered(step, rules.require) for step in (*levels, *seen))))


def _lowered(step: Rung, require: str) -> Rung:
    if step.level in LEVELS[3:] or LEVELS.index(step.level) <= LEVELS.index(require):
        return step
    told = tuple(f"{step.level}: {fault.text}" for fault in step.faults)
    return replace(step, faults=(), notes=(*step.notes, *told))
