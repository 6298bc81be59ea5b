"""One job from key to verdict: a hit where the store holds it, else made; judged either way."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kernforge.binary.codec import from_json
from kernforge.binary.facts import WheelFacts
from kernforge.build.plan import Plan
from kernforge.errors import VerifyError
from kernforge.events import Listener, Note, StageEnded, StageStarted, Waiting
from kernforge.pipeline.gather import job_lock, plan_job
from kernforge.pipeline.judging import (
    asks_levels,
    baseline,
    job_devices,
    job_rules,
    whole_verdict,
)
from kernforge.pipeline.levels import Trial
from kernforge.pipeline.machine import Machine, artifact_key, probe_machine
from kernforge.pipeline.needs import required_jobs
from kernforge.pipeline.settings import Settings
from kernforge.pipeline.targets import target_rungs
from kernforge.process import Runner
from kernforge.recipe.matrix import Job
from kernforge.store.local import Entry, Store
from kernforge.toolchain.sandbox import KF
from kernforge.verify.policy import LEVELS, Verdict

if TYPE_CHECKING:
    from kernforge.pipeline.maker import Maker


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a build gave.

    Attributes:
        job: job id.
        key: BuildKey, 64 hex digits.
        recipe_key: 64 hex digits.
        wheel: the wheel's path in the store.
        sha256: of the wheel.
        size: bytes of the wheel.
        cached: whether the store held it.
        build_id: of the run that made it.
        seconds: that this run took.
        verdict: the judgement, made anew each time.
        sandbox: layout name and, where bubblewrap was not used, why.
    """

    job: str
    key: str
    recipe_key: str
    wheel: Path
    sha256: str
    size: int
    cached: bool
    build_id: str
    seconds: float
    verdict: Verdict
    sandbox: tuple[str, str]


def build_job(job: Job, settings: Settings, *, runner: Runner, listen: Listener) -> Outcome:
    """Build a job, or find it in the store, and judge it.

    Raises:
        KernforgeError: whatever a stage reports. A wheel that falls short is no error here: see
            :func:`demand`.
    """
    began = time.monotonic()
    rules = job_rules(job, baseline(job, settings))  # its faults are told before anything is built
    plan = plan_job(job, settings)
    machine = probe_machine(job, settings, runner=runner)
    if machine.sandbox.bwrap is None:
        plan = plan_job(job, settings, layout=machine.sandbox.layout)
        listen(Note(job=job.id, text=_without_sandbox(machine)))
    key = artifact_key(plan, machine)
    store = Store(settings.cache)

    def told(text: str) -> None:
        listen(Note(job=job.id, text=text))

    entry = store.get("artifact", key, told=told)
    cached = entry is not None
    if entry is None:
        entry, cached = _made(plan, machine, settings, runner=runner, listen=listen)
    store.touch(entry)

    def make() -> Maker:
        return _levels_maker(plan, settings, runner=runner, listen=listen)

    trial = job_trial(job, entry, plan.recipe_key)
    asked = asks_levels(trial, job.recipe.verify.require, machine)
    levels = target_rungs(trial, machine, store, make) if asked else ()
    verdict = whole_verdict(trial, rules, levels, job, settings)
    outcome = _outcome(trial, job, machine, entry, verdict)
    return replace(outcome, cached=cached, seconds=time.monotonic() - began)


def _made(
    plan: Plan, machine: Machine, settings: Settings, *, runner: Runner, listen: Listener
) -> tuple[Entry, bool]:
    from kernforge.pipeline.compiling import follow  # noqa: PLC0415 - a hit needs none of it
    from kernforge.pipeline.make import make_artifact  # noqa: PLC0415 - likewise
    from kernforge.pipeline.maker import Maker  # noqa: PLC0415 - likewise

    store, key = Store(settings.cache), artifact_key(plan, machine)

    def waiting(owner: str, seconds: float) -> None:
        listen(Waiting(what=f"the build of {plan.job.id}", owner=owner, seconds=seconds))

    meanwhile = follow(store, plan, machine, listen)
    with store.lock(key, waiting=waiting, meanwhile=meanwhile):
        known = store.get("artifact", key, told=lambda _text: None)
        if known is not None:
            return known, True
        store.sweep()
        plan = _fetched_plan(plan, machine, settings, runner=runner, listen=listen)
        wheels = required_wheels(plan.job, settings, runner=runner, listen=listen)
        maker = Maker(
            plan=plan,
            lock=job_lock(plan.job, settings),
            machine=machine,
            settings=settings,
            store=store,
            runner=runner,
            listen=listen,
            build_id=uuid.uuid4().hex,
            wheels=wheels,
        )
        return make_artifact(maker), False


def _fetched_plan(
    plan: Plan, machine: Machine, settings: Settings, *, runner: Runner, listen: Listener
) -> Plan:
    """The plan again once all its sources are in the cache: their date is known then."""
    from kernforge.pipeline.sources import fetch_sources, source_epoch  # noqa: PLC0415 - as make

    job, began = plan.job, time.monotonic()
    listen(StageStarted(job=job.id, stage="fetch"))

    def told(text: str) -> None:
        listen(Note(job=job.id, text=text))

    count = fetch_sources(job, settings, runner=runner, told=told)
    seconds = time.monotonic() - began
    listen(StageEnded(job=job.id, stage="fetch", seconds=seconds, detail=f"{count} pinned sources"))
    epoch = source_epoch(job, settings)
    return plan_job(job, settings, layout=machine.sandbox.layout, epoch=epoch)


def required_wheels(
    job: Job, settings: Settings, *, runner: Runner, listen: Listener
) -> tuple[tuple[Path, str], ...]:
    """Build what a job requires; answers path and SHA-256 of each wheel.

    Raises:
        KernforgeError: as :func:`build_job` and :func:`demand`.
    """
    wheels = []
    for needed in required_jobs(job, settings):
        outcome = build_job(needed, settings, runner=runner, listen=listen)
        demand(outcome)
        wheels.append((outcome.wheel, outcome.sha256))
    return tuple(wheels)


def job_trial(job: Job, entry: Entry, recipe_key: str) -> Trial:
    """The trial of an artifact of the store, for its own job.

    Raises:
        VerifyError: ``facts-invalid``.
    """
    name = entry.facts()["wheel"]
    return Trial(
        wheel=entry.path / name,
        sha256=next(file.sha256 for file in entry.files if file.name == name),
        facts=_facts(entry),
        devices=job_devices(job),
        imports=job.recipe.verify.imports,
        python=job.target.python,
        torch=job.target.torch is not None,
        target=recipe_key,
    )


def _without_sandbox(machine: Machine) -> str:
    text = f"No sandbox ({machine.sandbox.reason}); network is not cut"
    if machine.sandbox.layout == KF:
        return text
    return f"{text}; with a folder {KF.root} of your own, paths are those of a sandbox"


def _outcome(trial: Trial, job: Job, machine: Machine, entry: Entry, verdict: Verdict) -> Outcome:
    return Outcome(
        job=job.id,
        key=entry.key,
        recipe_key=trial.target,
        wheel=trial.wheel,
        sha256=trial.sha256,
        size=next(file.size for file in entry.files if file.name == trial.wheel.name),
        cached=False,
        build_id=entry.facts()["build_id"],
        seconds=0.0,
        verdict=verdict,
        sandbox=(machine.sandbox.layout.name, machine.sandbox.reason),
    )


def _facts(entry: Entry) -> WheelFacts:
    facts = from_json(json.loads((entry.path / "facts.json").read_bytes()))
    if not isinstance(facts, WheelFacts):
        raise VerifyError("facts-invalid", f"The store's facts of {entry.key[:12]} are of no wheel")
    return facts


def _levels_maker(plan: Plan, settings: Settings, *, runner: Runner, listen: Listener) -> Maker:
    from kernforge.pipeline.maker import job_maker  # noqa: PLC0415 - a hit needs none of it

    wheels = required_wheels(plan.job, settings, runner=runner, listen=listen)
    return job_maker(plan, settings, runner=runner, listen=listen, wheels=wheels)


def demand(outcome: Outcome) -> None:
    """Stop where a wheel does not reach what its recipe requires. The wheel stays in the store.

    Raises:
        VerifyError: ``verdict-failed``, or ``level-not-verified`` where no fault was found but the
            required level was not verified: a GPU, a sandbox or a target is missing.
    """
    verdict = outcome.verdict
    if verdict.passed:
        return
    if verdict.faults:
        raise VerifyError(
            "verdict-failed",
            f"{outcome.job}: the wheel falls short: {verdict.faults[0].text}",
            hint=f"the wheel is kept: {outcome.wheel}",
            detail=tuple(fault.text for fault in verdict.faults),
        )
    raise VerifyError(
        "level-not-verified",
        f"{outcome.job}: the recipe requires {verdict.require!r}, which was not verified",
        hint=_way_out(outcome),
        detail=verdict.notes,
    )


def _way_out(outcome: Outcome) -> str:
    kept = f"the wheel is kept: {outcome.wheel}"
    if outcome.verdict.require in LEVELS[3:]:
        return (
            f"{kept}, where the GPU is kernforge verify WHEEL --recipe NAME --gpu --report R.json,"
            " then here: the same with --add R.json"
        )
    return f"{kept}; a lower verify.require lets the build end well"
