"""One job from key to verdict: a hit where the store holds it, else made; judged either way."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kernforge.arch import Device
from kernforge.binary.codec import from_json
from kernforge.binary.facts import WheelFacts
from kernforge.build.plan import Plan
from kernforge.errors import VerifyError
from kernforge.events import Listener, Note, StageEnded, StageStarted, Waiting
from kernforge.pipeline.gather import job_lock, plan_job
from kernforge.pipeline.levels import Trial, judge_levels, kept_levels
from kernforge.pipeline.machine import Machine, artifact_key, probe_machine
from kernforge.pipeline.needs import required_jobs
from kernforge.pipeline.settings import Settings
from kernforge.process import Runner
from kernforge.recipe.matrix import Job
from kernforge.store.local import Entry, Store
from kernforge.verify.ladder import Rung, climb, rung
from kernforge.verify.loaders import loader_faults, simulate
from kernforge.verify.policy import LEVELS, Rules, Verdict, judge

if TYPE_CHECKING:
    from kernforge.pipeline.make import Maker


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
        notes: what a reader of the verdict should know: what was not verified, and why.
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
    notes: tuple[str, ...] = ()


def job_rules(job: Job) -> Rules:
    """What a recipe demands of its wheel."""
    verify = job.recipe.verify
    return Rules(
        require=verify.require,
        extensions=tuple((g, None if a == "target" else a) for g, a in verify.extensions),
        archs=job.target.archs,
        exact=job.recipe.build.gencode == (("default", "replace"),),
        allow_jit=verify.allow_jit,
        required=verify.kernels.required if verify.kernels else (),
        unjudged=_unjudged(job),
    )


def _unjudged(job: Job) -> tuple[str, ...]:
    verify = job.recipe.verify
    demands = {
        "verify.smoke": verify.smoke,
        "verify.kernels.accepted_gaps": verify.kernels and verify.kernels.accepted_gaps,
    }
    return tuple(name for name, demanded in demands.items() if demanded)


def _asks_levels(job: Job, machine: Machine) -> bool:
    """Whether links and imports are judged: required, or imports named and a sandbox at hand."""
    verify = job.recipe.verify
    possible = bool(verify.imports) and machine.sandbox.bwrap is not None
    return verify.require != LEVELS[0] or possible


def job_devices(job: Job) -> tuple[Device, ...]:
    """The devices that a job's archs are first of all meant for."""
    return tuple(sorted({arch.device for arch in job.target.archs}))


def build_job(job: Job, settings: Settings, *, runner: Runner, listen: Listener) -> Outcome:
    """Build a job, or find it in the store, and judge it.

    Raises:
        KernforgeError: whatever a stage reports. A wheel that falls short is no error here: see
            :func:`demand`.
    """
    began = time.monotonic()
    plan = plan_job(job, settings)
    machine = probe_machine(job, settings, runner=runner)
    if machine.sandbox.layout.name != "kf":
        plan = plan_job(job, settings, layout=machine.sandbox.layout)
        listen(Note(job=job.id, text=f"No sandbox ({machine.sandbox.reason}); network is not cut"))
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

    levels = _levels(job, machine, entry, store, make)
    outcome = _outcome(plan, machine, entry, levels, cached=cached)
    return replace(outcome, seconds=time.monotonic() - began)


def _made(
    plan: Plan, machine: Machine, settings: Settings, *, runner: Runner, listen: Listener
) -> tuple[Entry, bool]:
    from kernforge.pipeline.make import Maker, make_artifact  # noqa: PLC0415 - a hit needs none of it

    store, key = Store(settings.cache), artifact_key(plan, machine)

    def waiting(owner: str, seconds: float) -> None:
        listen(Waiting(what=f"the build of {plan.job.id}", owner=owner, seconds=seconds))

    with store.lock(key, waiting=waiting):
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


def _outcome(
    plan: Plan, machine: Machine, entry: Entry, levels: tuple[Rung, ...], *, cached: bool
) -> Outcome:
    meta, job = entry.facts(), plan.job
    wheel = next(file for file in entry.files if file.name == meta["wheel"])
    facts = _facts(entry)
    devices, rules = job_devices(job), job_rules(job)
    chosen = simulate(job.recipe.verify.loaders, facts.libraries, devices)
    code = rung(LEVELS[0], devices, loader_faults(chosen, allow_jit=rules.allow_jit))
    verdict = judge(facts.libraries, devices, rules, facts.findings)
    higher = [step for step in levels if _above(rules.require, step)]
    notes = [note for step in levels for note in step.notes]
    notes += [f"{step.level}: {fault.text}" for step in higher for fault in step.faults]
    steps = [replace(step, faults=()) if step in higher else step for step in levels]
    return Outcome(
        job=job.id,
        key=entry.key,
        recipe_key=plan.recipe_key,
        wheel=entry.path / wheel.name,
        sha256=wheel.sha256,
        size=wheel.size,
        cached=cached,
        build_id=meta["build_id"],
        seconds=0.0,
        verdict=climb(verdict, (code, *steps)),
        sandbox=(machine.sandbox.layout.name, machine.sandbox.reason),
        notes=tuple(notes),
    )


def _facts(entry: Entry) -> WheelFacts:
    facts = from_json(json.loads((entry.path / "facts.json").read_bytes()))
    if not isinstance(facts, WheelFacts):
        raise VerifyError("facts-invalid", f"The store's facts of {entry.key[:12]} are of no wheel")
    return facts


def _levels_maker(plan: Plan, settings: Settings, *, runner: Runner, listen: Listener) -> Maker:
    from kernforge.pipeline.make import job_maker  # noqa: PLC0415 - a hit needs none of it

    wheels = required_wheels(plan.job, settings, runner=runner, listen=listen)
    return job_maker(plan, settings, runner=runner, listen=listen, wheels=wheels)


def _levels(
    job: Job, machine: Machine, entry: Entry, store: Store, make: Callable[[], Maker]
) -> tuple[Rung, ...]:
    """The levels above `code`, where they are asked for: kept ones, else judged now."""
    if not _asks_levels(job, machine):
        return ()
    name = entry.facts()["wheel"]
    trial = Trial(
        job=job,
        wheel=entry.path / name,
        wheel_sha256=next(file.sha256 for file in entry.files if file.name == name),
        facts=_facts(entry),
        devices=job_devices(job),
    )
    known = kept_levels(trial, machine, store)
    if known is not None:
        return known
    from kernforge.pipeline.make import ready_environment  # noqa: PLC0415 - a hit needs none of it

    maker = make()
    environment = ready_environment(maker)
    with maker.stage("verify") as said:
        rungs = judge_levels(trial, environment.path, machine, store, runner=maker.runner)
        said.append(", ".join(step.level for step in rungs))
    return rungs


def _above(required: str, step: Rung) -> bool:
    return LEVELS.index(step.level) > LEVELS.index(required)


def demand(outcome: Outcome) -> None:
    """Stop where a wheel does not reach what its recipe requires. The wheel stays in the store.

    Raises:
        VerifyError: ``verdict-failed``, or ``level-not-verified`` where no fault was found but the
            required level is one that this version cannot verify.
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
        hint=f"the wheel is kept: {outcome.wheel}; a lower verify.require lets the build end well",
        detail=outcome.notes,
    )
