"""A wheel on disk, from anywhere, judged: by its bytes alone, or under a recipe and in its target.

Nothing of the wheel is executed but in a sandbox, where it is imported.
"""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import canonicalize_name

from kernforge.arch import Device
from kernforge.binary.facts import WheelFacts
from kernforge.binary.wheel import read_wheel
from kernforge.errors import RecipeError, VerifyError
from kernforge.events import Listener
from kernforge.pipeline.judging import baseline, job_devices, job_rules, whole_verdict
from kernforge.pipeline.levels import Trial
from kernforge.pipeline.settings import Settings
from kernforge.pipeline.targets import python_rungs, python_version, recipe_rungs, unknown_rungs
from kernforge.process import Runner
from kernforge.recipe.matrix import Job
from kernforge.verify.ladder import Rung
from kernforge.verify.policy import LEVELS, Rules, Verdict

_NO_TARGET = "no target was given (--recipe or --python)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of a wheel.

    Attributes:
        wheel: the file.
        job: the job whose recipe counts, or None for the bytes alone.
        own: whether that job built the wheel: then it must hold the job's archs and no others.
        devices: the devices asked about; none means those of the job.
        require: the level demanded, or None for the recipe's, else `code`.
        allow_jit: whether PTX counts as code, whatever the recipe says.
        driver: the CUDA release of the driver that would compile it, as ``13.0``, or None.
        python: an interpreter of the target; None for the recipe's own environment.
        make: whether the recipe's environment may be made.
    """

    wheel: Path
    job: Job | None = None
    own: bool = False
    devices: tuple[Device, ...] = ()
    require: str | None = None
    allow_jit: bool = False
    driver: str | None = None
    python: Path | None = None
    make: bool = True


def wheel_sha256(wheel: Path) -> str:
    """SHA-256 of a wheel, 64 hex digits.

    Raises:
        VerifyError: ``wheel-missing``.
    """
    if not wheel.is_file():
        raise VerifyError("wheel-missing", f"{str(wheel)!r} is no file", hint="name a .whl file")
    with wheel.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def wheel_facts(wheel: Path) -> WheelFacts:
    """What a wheel holds.

    Raises:
        VerifyError: ``wheel-unreadable``.
    """
    facts = read_wheel(wheel)
    for finding in facts.findings:
        if finding.word == "archive-garbled":
            raise VerifyError("wheel-unreadable", f"{str(wheel)!r} is no wheel: {finding.text}")
    return facts


def top_modules(wheel: Path) -> tuple[str, ...]:
    """The packages that a wheel installs, by their ``__init__.py``; for wheels without a recipe."""
    with zipfile.ZipFile(wheel) as archive:
        parts = [name.split("/") for name in archive.namelist()]
    found = {p[0] for p in parts if len(p) == 2 and p[1] == "__init__.py" and p[0].isidentifier()}
    return tuple(sorted(found))


def question_rules(question: Question, settings: Settings | None) -> Rules:
    """What a question demands.

    Raises:
        VerifyError: as :func:`kernforge.pipeline.judging.baseline`.
    """
    job = question.job
    rules = Rules(require=LEVELS[0])
    if job is not None and settings is not None:
        rules = job_rules(job, baseline(job, settings))
    if not question.own:
        rules = replace(rules, archs=(), exact=False)
    return replace(
        rules,
        require=question.require or rules.require,
        allow_jit=question.allow_jit or rules.allow_jit,
        driver=question.driver,
    )


def _trial(question: Question, sha256: str, *, runner: Runner) -> Trial:
    job, python = question.job, question.python
    devices = question.devices or (job_devices(job) if job is not None else ())
    if not devices:
        raise RecipeError("usage", "No device is named", hint="name a GPU, as --device 12.0")
    version = ""
    if python is not None:
        version = python_version(python, runner=runner)
    elif job is not None:
        version = job.target.python
    facts = wheel_facts(question.wheel)
    return Trial(
        wheel=question.wheel,
        sha256=sha256,
        facts=facts,
        devices=devices,
        imports=job.recipe.verify.imports if job is not None else top_modules(question.wheel),
        python=version,
        torch=job is not None and job.target.torch is not None,
    )


def _levels(
    question: Question,
    trial: Trial,
    require: str,
    settings: Settings | None,
    tools: tuple[Runner, Listener],
) -> tuple[Rung, ...]:
    if settings is not None and question.python is not None:
        return python_rungs(trial, question.python, settings, runner=tools[0])
    if settings is not None and question.job is not None and question.make:
        return recipe_rungs(trial, question.job, require, settings, tools)
    return unknown_rungs(trial, _NO_TARGET) if require != LEVELS[0] else ()


def judge_wheel(
    question: Question, settings: Settings | None, *, runner: Runner, listen: Listener
) -> Verdict:
    """The verdict on a wheel.

    Args:
        question: what is asked.
        settings: say where project and store are; None where neither is needed nor there: then
            a wheel is judged by its bytes.
        runner: runs programs.
        listen: hears what happens.

    Raises:
        RecipeError: ``usage`` where no device is known.
        VerifyError: ``wheel-missing``, ``wheel-unreadable``, ``python-broken``, or as
            :func:`kernforge.pipeline.judging.baseline`.
    """
    sha256 = wheel_sha256(question.wheel)
    rules = question_rules(question, settings)
    trial = _trial(question, sha256, runner=runner)
    others = _other_distribution(question, trial)
    levels = _levels(question, trial, rules.require, settings, (runner, listen))
    verdict = whole_verdict(trial, rules, levels, question.job, settings)
    return replace(verdict, notes=(*others, *verdict.notes))


def _other_distribution(question: Question, trial: Trial) -> tuple[str, ...]:
    """A note where the recipe builds a distribution of another name."""
    job, name = question.job, trial.facts.name
    if job is None or name in {"", canonicalize_name(job.recipe.distribution)}:
        return ()
    return (f"the wheel is of {name}, recipe {job.recipe.name} builds {job.recipe.distribution}",)
