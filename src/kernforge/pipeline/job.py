"""One job from key to verdict: a hit where the store holds it, else made; judged either way."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from kernforge.arch import Device
from kernforge.binary.codec import from_json
from kernforge.binary.facts import WheelFacts
from kernforge.build.plan import Plan
from kernforge.errors import VerifyError
from kernforge.events import Listener, Note, StageEnded, StageStarted, Waiting
from kernforge.pipeline.gather import job_lock, plan_job
from kernforge.pipeline.machine import Machine, artifact_key, probe_machine
from kernforge.pipeline.needs import required_jobs
from kernforge.pipeline.settings import Settings
from kernforge.process import Runner
from kernforge.recipe.matrix import Job
from kernforge.store.local import Entry, Store
from kernforge.verify.policy import Rules, Verdict, judge


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
        "verify.import": verify.imports,
        "verify.smoke": verify.smoke,
        "verify.loaders": verify.loaders,
        "verify.kernels.accepted_gaps": verify.kernels and verify.kernels.accepted_gaps,
    }
    return tuple(name for name, demanded in demands.items() if demanded)


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
    return _outcome(plan, machine, entry, cached=cached, seconds=time.monotonic() - began)


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
    plan: Plan, machine: Machine, entry: Entry, *, cached: bool, seconds: float
) -> Outcome:
    meta = entry.facts()
    wheel = next(file for file in entry.files if file.name == meta["wheel"])
    facts = from_json(json.loads((entry.path / "facts.json").read_bytes()))
    if not isinstance(facts, WheelFacts):
        raise VerifyError("facts-invalid", f"{plan.job.id}: the store's facts are of no wheel")
    return Outcome(
        job=plan.job.id,
        key=entry.key,
        recipe_key=plan.recipe_key,
        wheel=entry.path / wheel.name,
        sha256=wheel.sha256,
        size=wheel.size,
        cached=cached,
        build_id=meta["build_id"],
        seconds=seconds,
        verdict=judge(facts.libraries, job_devices(plan.job), job_rules(plan.job), facts.findings),
        sandbox=(machine.sandbox.layout.name, machine.sandbox.reason),
    )


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
        f"{outcome.job}: the recipe requires {verdict.require!r}; only 'code' is verified so far",
        hint="set verify.require: code to build without the levels above it",
    )
