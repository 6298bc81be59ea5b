"""From a recipe's name or a wheel's path to a wheel with its verdict.

Room `publish`. A name goes by the pipeline: a hit of the store, else a build. A wheel's path is
held against the store where that knows its key, and judged as a build judges: under the recipe's
rules, in the recipe's environment, which is made where it can be.
"""

from __future__ import annotations

from pathlib import Path

from kernforge.errors import PublishError, VerifyError
from kernforge.events import Listener
from kernforge.pack.built import job_of, read_built, read_texts
from kernforge.pipeline.job import build_job
from kernforge.pipeline.settings import Settings
from kernforge.pipeline.wheels import Question, judge_wheel
from kernforge.process import Runner
from kernforge.publish.candidate import Candidate, file_sha256, make_candidate
from kernforge.publish.further import with_further
from kernforge.recipe.matrix import Job
from kernforge.store.local import Entry, Store

PROVENANCE = "provenance.json"


def job_candidate(job: Job, settings: Settings, *, runner: Runner, listen: Listener) -> Candidate:
    """The wheel of a job, found in the store or built, as a candidate.

    Raises:
        KernforgeError: as :func:`kernforge.pipeline.job.build_job` and
            :func:`kernforge.publish.candidate.make_candidate`.
    """
    outcome = build_job(job, settings, runner=runner, listen=listen)
    statement = _statement(outcome.wheel.parent / PROVENANCE)
    candidate = make_candidate(outcome.wheel, outcome.verdict, provenance=statement)
    return with_further(candidate, job, settings, runner=runner, listen=listen)


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
    question = Question(wheel=wheel, job=job, own=True)
    verdict = judge_wheel(question, settings, runner=runner, listen=listen)
    beside = wheel.with_name(f"{wheel.name}.{PROVENANCE}")
    statement = _statement(beside if entry is None else entry.path / PROVENANCE)
    candidate = make_candidate(wheel, verdict, provenance=statement)
    return with_further(candidate, job, settings, runner=runner, listen=listen)


def _check_same(wheel: Path, entry: Entry) -> None:
    known = entry.facts()["wheel"]
    stored = next(file for file in entry.files if file.name == known)
    if (stored.name, stored.sha256) != (wheel.name, file_sha256(wheel)):
        raise PublishError(
            "wheel-differs",
            f"{wheel.name} is not the wheel that the store holds under its key",
            hint="it was changed, or built with another result: `kernforge reproduce` tells",
        )


def _statement(path: Path) -> bytes | None:
    """An in-toto statement; what else may stand under the name is not published."""
    if not path.is_file():
        return None
    text = path.read_bytes()
    return text if b"in-toto.io/Statement" in text else None
