"""From a wheel back to its job, and the same job built again from nothing.

Room `reproduce`. What came out equal is remembered: it lets a wheel be published that a compile
cache served.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernforge.build.plan import Plan
from kernforge.errors import PublishError, SelectionError
from kernforge.events import Listener, Note
from kernforge.pack.built import Built, job_of, read_built, read_texts
from kernforge.pipeline.afresh import fresh, remember_equal
from kernforge.pipeline.gather import plan_job
from kernforge.pipeline.job import build_job
from kernforge.pipeline.machine import Machine, probe_machine
from kernforge.pipeline.settings import Settings
from kernforge.process import Command, Runner
from kernforge.recipe.matrix import Job
from kernforge.reproduce.comparison import Comparison, compare_wheels
from kernforge.reproduce.inputs import LAYOUT, InputDifference, input_differences
from kernforge.store.local import Entry, Store

_MIN_DIGITS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """The wheel that is to be made again. ``own`` is whether our store holds these very bytes."""

    wheel: Path
    sha256: str
    built: Built
    own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect:
    """What a rebuild would do, known before anything compiles.

    Attributes:
        original: the wheel.
        job: its job in this project.
        plan: the plan of that job now.
        machine: where it would be built.
        inputs: what differs from the build of the original; host toolchain first.
    """

    original: Original
    job: Job
    plan: Plan
    machine: Machine
    inputs: tuple[InputDifference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is kept of a rebuild: a folder for the new wheel, a file for diffoscope's page."""

    keep: Path | None = None
    html: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """What came of a rebuild: the new wheel's name and SHA-256, and how far it is equal."""

    prospect: Prospect
    wheel: str
    sha256: str
    seconds: float
    comparison: Comparison


def find_original(what: str, settings: Settings) -> Original:
    """The wheel of a path, or of an artifact's key (8 digits or more).

    Raises:
        SelectionError: ``artifact-missing`` or ``artifact-ambiguous``.
        VerifyError: ``wheel-foreign``, ``wheel-unreadable`` or ``wheel-member``.
    """
    store = Store(settings.cache)
    path = Path(what)
    if path.suffix != ".whl":
        path = _stored(what, store)
    if not path.is_file():
        raise SelectionError("artifact-missing", f"{what!r} is no file")
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    built = read_built(path, read_texts(path))
    entry = store.get("artifact", built.build_key, told=lambda _text: None)
    own = entry is not None and any(file.sha256 == sha256 for file in entry.files)
    return Original(wheel=path, sha256=sha256, built=built, own=own)


def _stored(what: str, store: Store) -> Path:
    keys = [key for kind, key in store.listing() if kind == "artifact" and key.startswith(what)]
    if len(what) < _MIN_DIGITS or not keys:
        raise SelectionError(
            "artifact-missing",
            f"{what!r} is no wheel, and no artifact of the store begins so",
            hint="give a .whl file, or 8 digits or more of a key that `kernforge cache ls` shows",
        )
    if len(keys) > 1:
        raise SelectionError("artifact-ambiguous", f"{len(keys)} artifacts begin with {what!r}")
    entry = store.get("artifact", keys[0], told=lambda _text: None)
    if entry is None:
        raise SelectionError("artifact-missing", f"The artifact {what!r} was damaged")
    return _wheel_of(entry)


def _wheel_of(entry: Entry) -> Path:
    name: str = entry.facts()["wheel"]
    return entry.path / name


def foresee(original: Original, settings: Settings, *, runner: Runner) -> Prospect:
    """Plan the job of a wheel, and say which inputs are not those that it was built from.

    Raises:
        SelectionError: ``recipe-missing``.
        KernforgeError: the recipe, lock, sources or toolchain cannot be had.
    """
    job = job_of(original.built, settings.recipes)
    machine = probe_machine(job, settings, runner=runner)
    plan = plan_job(job, settings, layout=machine.sandbox.layout)
    now = {
        "machine": machine.parts,
        "stages": {stage.name: json.loads(stage.parts) for stage in plan.stages},
    }
    before: dict[str, Any] = original.built.document
    inputs = input_differences(before, now)
    return Prospect(original=original, job=job, plan=plan, machine=machine, inputs=inputs)


def check_may_run(prospect: Prospect, *, anyway: bool, consent: bool) -> None:
    """Stop before a compile that would tell nothing, or that the user has not agreed to.

    Raises:
        PublishError: ``inputs-differ``, ``consent-missing`` or ``sandbox-required``.
    """
    job = prospect.job.id
    if prospect.inputs and not anyway:
        raise PublishError(
            "inputs-differ",
            f"{job}: built from other inputs, first: {prospect.inputs[0]}",
            hint=_way_on(prospect),
            detail=tuple(str(difference) for difference in prospect.inputs),
        )
    if prospect.original.own:
        return
    if prospect.machine.sandbox.bwrap is None:
        raise PublishError(
            "sandbox-required",
            f"{job}: a wheel from elsewhere is rebuilt in a sandbox only: "
            f"{prospect.machine.sandbox.reason}",
            hint="install bubblewrap, or allow it to make user namespaces",
        )
    if not consent:
        raise PublishError(
            "consent-missing",
            f"{job}: this wheel is from elsewhere; rebuilding it runs what is shown above",
            hint="--yes-run-it runs it",
        )


def _way_on(prospect: Prospect) -> str:
    """What to do about other inputs: a build outside a sandbox can be repeated outside one."""
    names = [difference.name for difference in prospect.inputs]
    anyway = "--anyway builds nevertheless and tells what comes of it"
    if LAYOUT in names and prospect.machine.sandbox.bwrap is not None and prospect.original.own:
        return f"--no-sandbox builds in the real folder, as this wheel was built; {anyway}"
    return anyway


def commands_of(prospect: Prospect) -> tuple[str, ...]:
    """What a rebuild would fetch and run, for a person to agree to."""
    sources = json.loads(prospect.plan.stage("fetch").parts)["sources"]
    lines = [
        f"source {name}: {' '.join(f'{k}={v}' for k, v in sorted(pins.items()))}"
        for name, _, pins in sources
    ]
    return (*lines, f"in {prospect.plan.call.cwd}", f"$ {' '.join(prospect.plan.call.argv)}")


def rebuild(
    prospect: Prospect, order: Order, settings: Settings, *, runner: Runner, listen: Listener
) -> Reproduction:
    """Build the job again from nothing and compare. The caller has asked :func:`check_may_run`.

    Args:
        prospect: what is built.
        order: what is kept of it.
        settings: as for the first build.
        runner: runs programs.
        listen: hears what happens.

    Raises:
        KernforgeError: as :func:`kernforge.pipeline.job.build_job`.
    """
    with fresh(settings) as alone:
        outcome = build_job(prospect.job, alone, runner=runner, listen=listen)
        comparison = compare_wheels(prospect.original.wheel, outcome.wheel)
        if comparison.equal == "bytes":
            remember_equal(Store(settings.cache), outcome.key, outcome.sha256)
        if order.keep is not None:
            order.keep.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(outcome.wheel, order.keep / outcome.wheel.name)
        if order.html is not None:
            wheels = (prospect.original.wheel, outcome.wheel)
            told = _diffoscope(wheels, order.html, settings, runner)
            listen(Note(job=prospect.job.id, text=told))
        return Reproduction(
            prospect=prospect,
            wheel=outcome.wheel.name,
            sha256=outcome.sha256,
            seconds=outcome.seconds,
            comparison=comparison,
        )


def _diffoscope(wheels: tuple[Path, Path], html: Path, settings: Settings, runner: Runner) -> str:
    """Have diffoscope write its page; answers what came of it."""
    program = shutil.which("diffoscope", path=settings.path)
    if program is None:
        return "diffoscope is not installed: no page is written"
    words = ("--html", str(html.absolute()), *(str(wheel.absolute()) for wheel in wheels))
    env = (("PATH", settings.path), ("LC_ALL", "C.UTF-8"))
    done = runner.run(Command(argv=(program, *words), env=env))
    if done.returncode == 0:
        return "diffoscope found no difference: no page is written"
    wrote = done.returncode == 1 and html.is_file()
    return f"diffoscope wrote {html}" if wrote else f"diffoscope failed: {done.complaint}"


def check_equal(reproduction: Reproduction) -> None:
    """Stop where the bytes are not equal.

    Raises:
        PublishError: ``not-reproduced``.
    """
    comparison = reproduction.comparison
    if comparison.equal == "bytes":
        return
    level = comparison.equal or "nothing"
    raise PublishError(
        "not-reproduced",
        f"{reproduction.prospect.job.id}: other bytes; equal: {level}; first difference: "
        f"{comparison.differences[0]}",
        hint="--out DIR keeps the new wheel to look at",
    )
