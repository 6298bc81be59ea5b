"""From a recipe's name or a wheel's path to a wheel with its verdict.

Room `publish`. A name goes by the pipeline: a hit of the store, else a build. A wheel's path is
held against the store where that knows its key; one that was built elsewhere is judged by its bytes
under the recipe's rules.
"""

from __future__ import annotations

from pathlib import Path

from kernforge.binary.wheel import read_wheel
from kernforge.errors import KernforgeError, PublishError, VerifyError
from kernforge.events import Listener, Note
from kernforge.pack.built import job_of, read_built, read_texts
from kernforge.pipeline.job import build_job, job_devices, job_rules
from kernforge.pipeline.settings import Settings
from kernforge.process import Runner
from kernforge.publish.candidate import Candidate, file_sha256, make_candidate
from kernforge.recipe.matrix import Job
from kernforge.store.local import Entry, Store
from kernforge.verify.policy import Verdict, judge

PROVENANCE = "provenance.json"


def job_candidate(job: Job, settings: Settings, *, runner: Runner, listen: Listener) -> Candidate:
    """The wheel of a job, found in the store or built, as a candidate.

    Raises:
        KernforgeError: as :func:`kernforge.pipeline.job.build_job` and
            :func:`kernforge.publish.candidate.make_candidate`.
    """
    outcome = build_job(job, settings, runner=runner, listen=listen)
    statement = _statement(outcome.wheel.parent / PROVENANCE)
    return make_candidate(outcome.wheel, outcome.verdict, provenance=statement)


def wheel_candidate(
    wheel: Path, settings: Settings, *, runner: Runner, listen: Listener
) -> Candidate:
    """A wheel on disk as a candidate.

    Raises:
        VerifyError: ``wheel-missing`` or ``wheel-foreign``.
        SelectionError: ``recipe-missing``.
        PublishError: ``wheel-differs`` where the store holds other bytes under its key, or as
            :func:`kernforge.publish.candidate.make_candidate`.
    """
    if not wheel.is_file():
        raise VerifyError("wheel-missing", f"{str(wheel)!r} is no file", hint="name a .whl file")
    built = read_built(wheel, read_texts(wheel))
    job = job_of(built, settings.recipes)
    entry = Store(settings.cache).get("artifact", built.build_key, told=lambda _text: None)
    if entry is not None:
        _check_same(wheel, entry)
    verdict = None
    if entry is not None:
        verdict = _hit_verdict(entry, job, settings, runner=runner, listen=listen)
    beside = wheel.with_name(f"{wheel.name}.{PROVENANCE}")
    statement = _statement(beside if entry is None else entry.path / PROVENANCE)
    return make_candidate(wheel, verdict or _judged(wheel, job), provenance=statement)


def _check_same(wheel: Path, entry: Entry) -> None:
    known = entry.facts()["wheel"]
    stored = next(file for file in entry.files if file.name == known)
    if (stored.name, stored.sha256) != (wheel.name, file_sha256(wheel)):
        raise PublishError(
            "wheel-differs",
            f"{wheel.name} is not the wheel that the store holds under its key",
            hint="it was changed, or built with another result: `kernforge reproduce` tells",
        )


def _judged(wheel: Path, job: Job) -> Verdict:
    facts = read_wheel(wheel)
    return judge(facts.libraries, job_devices(job), job_rules(job), facts.findings)


def _hit_verdict(
    entry: Entry, job: Job, settings: Settings, *, runner: Runner, listen: Listener
) -> Verdict | None:
    """The pipeline's verdict where a build of the job, now, would hit this entry; else None."""
    from kernforge.pipeline.gather import plan_job  # noqa: PLC0415 - a stranger's wheel needs none
    from kernforge.pipeline.machine import artifact_key, probe_machine  # noqa: PLC0415 - as above

    try:
        machine = probe_machine(job, settings, runner=runner)
        plan = plan_job(job, settings, layout=machine.sandbox.layout)
    except KernforgeError as error:
        listen(Note(job=job.id, text=f"Judged by its bytes alone: {error.message}"))
        return None
    if artifact_key(plan, machine) != entry.key:
        return None
    return build_job(job, settings, runner=runner, listen=listen).verdict


def _statement(path: Path) -> bytes | None:
    """An in-toto statement; what else may stand under the name is not published."""
    if not path.is_file():
        return None
    text = path.read_bytes()
    return text if b"in-toto.io/Statement" in text else None
