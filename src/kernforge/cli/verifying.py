"""The command `verify`: what a wheel reaches on which device. Parses, asks the pipeline, prints."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kernforge.arch import Device, parse_cuda, parse_device
from kernforge.cli.choice import FindPlace, blaming, find_recipe
from kernforge.cli.output import json_option, open_display, progress_option, say, say_fault
from kernforge.cli.place import Place, make_settings, whole_environment
from kernforge.errors import Interrupted, KernforgeError, RecipeError, SelectionError, VerifyError
from kernforge.events import Listener
from kernforge.pipeline.settings import Settings
from kernforge.pipeline.wheels import Question, judge_wheel, wheel_sha256
from kernforge.process import SystemRunner
from kernforge.recipe.matrix import Job, expand
from kernforge.recipe.model import LEVELS
from kernforge.report.documents import verdict_document
from kernforge.report.errors import dump, error_documents
from kernforge.report.verdict import verdict_text

if TYPE_CHECKING:
    from kernforge.verify.device import GpuReport
    from kernforge.verify.policy import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What the options say of every wheel of the call."""

    devices: tuple[Device, ...]
    recipe: str | None
    job: str | None
    require: str | None
    allow_jit: bool
    driver: str | None
    python: str | None
    gpu: bool
    report: str | None
    add: tuple[str, ...]

    def check(self, wheels: tuple[str, ...]) -> None:
        """Refuse options that do not go together.

        Raises:
            RecipeError: ``usage``.
        """
        if self.gpu != (self.report is not None):
            raise RecipeError("usage", "--gpu and --report R.json go together")
        if self.gpu and (len(wheels) > 1 or self.add):
            raise RecipeError("usage", "--gpu takes one wheel, and no --add")
        if self.job is not None and self.recipe is None:
            raise RecipeError("usage", "--job names a job of --recipe NAME")
        if not (self.devices or self.recipe or self.gpu or self.add):
            raise RecipeError(
                "usage", "No device is named", hint="name a GPU, as --device 12.0, or --recipe NAME"
            )


def _job_of(wheel: Path, place: Place, asked: _Asked) -> tuple[Job | None, bool]:
    """The job whose recipe counts, and whether it built the wheel."""
    from kernforge.pack.built import job_of, read_built, read_texts

    if asked.recipe is None:
        return None, False
    recipe = find_recipe(place, asked.recipe)
    try:
        built = read_built(wheel, read_texts(wheel))
    except VerifyError:
        built = None
    if built is not None and built.recipe == recipe.name and asked.job in {None, built.job}:
        return job_of(built, place.project / "recipes"), True
    jobs = [job for job in expand(recipe) if asked.job in {None, job.id}]
    if not jobs:
        raise SelectionError("job-missing", f"No job of {recipe.name} is {asked.job!r}")
    # Where another built the wheel, a job stands for its environment; its archs do not count.
    if len({replace(job.target, archs=()) for job in jobs}) > 1:
        ids = ", ".join(job.id for job in jobs)
        what = f"{wheel.name} was not built by {recipe.name}, which has several targets"
        raise SelectionError("job-ambiguous", what, hint=f"choose one with --job: {ids}")
    return jobs[0], False


def _question(name: str, place: Place, asked: _Asked) -> Question:
    wheel = Path(name)
    wheel_sha256(wheel)  # a missing file is told before a recipe is looked for
    job, own = _job_of(wheel, place, asked)
    return Question(
        wheel=wheel,
        job=job,
        own=own,
        devices=asked.devices,
        require=asked.require,
        allow_jit=asked.allow_jit,
        driver=asked.driver,
        python=Path(asked.python) if asked.python else None,
        make=not asked.gpu,
    )


def _settings(place: Place, asked: _Asked) -> Settings | None:
    """Settings where something needs them; a wheel alone is judged without home and project."""
    needed = asked.recipe or asked.python or asked.gpu or asked.add
    kept = place.found_cache is not None and (place.found_cache / "store").is_dir()
    return make_settings(place) if needed or kept else None


def _seen(report: GpuReport) -> tuple[Device, ...]:
    return tuple(dict.fromkeys(result.device for result in report.results))


def _added(wheels: tuple[str, ...], asked: _Asked, settings: Settings) -> tuple[Device, ...]:
    """Keep the reports; the devices of their GPUs."""
    from kernforge.pipeline.reports import keep_report
    from kernforge.store.local import Store

    hashes = [wheel_sha256(Path(name)) for name in wheels]
    devices: list[Device] = []
    for path in asked.add:
        report = keep_report(Path(path), hashes, Store(settings.cache))
        devices += _seen(report)
        cards = ", ".join(f"{result.name} ({result.device})" for result in report.results)
        say(f"Kept for this wheel: {path}, of {cards}")
    return tuple(dict.fromkeys(devices))


def _probed(question: Question, asked: _Asked, settings: Settings) -> tuple[Device, ...]:
    """Ask this machine's GPUs, write the report and keep it; their devices."""
    from kernforge.pipeline.reports import GpuOrder, keep_report, make_report
    from kernforge.store.local import Store

    store = Store(settings.cache)
    smoke = question.job.recipe.verify.smoke if question.job is not None else None
    path = Path(str(asked.report))
    order = GpuOrder(
        wheel=question.wheel,
        report=path,
        smoke=settings.project / smoke if smoke is not None else None,
        python=question.python,
        env=whole_environment(),
    )
    report, told = make_report(order, store, runner=SystemRunner())
    keep_report(path, [wheel_sha256(question.wheel)], store)
    say(told.rstrip())
    say(f"Report: {path}; where the wheel was built: kernforge verify WHEEL --add {path.name}")
    return _seen(report)


def _answered(
    name: str, place: Place, asked: _Asked, settings: Settings | None, listen: Listener
) -> Verdict:
    question = _question(name, place, asked)
    if asked.gpu and settings is not None:
        seen = _probed(question, asked, settings)
        lowest = LEVELS[0] if question.python is None else question.require
        question = replace(
            question, devices=question.devices or seen, require=question.require or lowest
        )
    return judge_wheel(question, settings, runner=SystemRunner(), listen=listen)


@click.command()
@click.argument("wheels", nargs=-1, required=True, metavar="WHEEL...")
@click.option("--device", "devices", multiple=True, metavar="X.Y",
              help="A GPU by its compute capability, as 12.0; may be given again. "
              "Without it: those of the recipe's job, or of the report.")  # fmt: skip
@click.option("--recipe", metavar="NAME", help="Judge by this recipe's verify block.")
@click.option("--job", metavar="ID", help="The recipe's job, where it has several.")
@click.option("--require", type=click.Choice(LEVELS), metavar="LEVEL",
              help="The level to reach: code, links, imports, loads or runs. Without it the "
              "recipe's, else code.")  # fmt: skip
@click.option("--allow-jit", is_flag=True, help="Let PTX count as code.")
@click.option("--driver", metavar="X.Y",
              help="The CUDA release of the driver that would compile PTX: newer PTX does not "
              "count.")  # fmt: skip
@click.option("--python", metavar="PYTHON",
              help="An interpreter of the target: links and imports are judged in its "
              "environment. With --gpu and --recipe it runs the recipe's smoke program, which "
              "executes the wheel.")  # fmt: skip
@click.option("--gpu", is_flag=True, help="Load every kernel on this machine's GPUs.")
@click.option("--report", metavar="R.json", help="Where --gpu writes its report.")
@click.option("--add", multiple=True, metavar="R.json",
              help="Count a report that --gpu made; it is kept for the wheel.")  # fmt: skip
@progress_option
@json_option
@click.pass_obj
def verify(
    find: FindPlace, /, wheels: tuple[str, ...], *, devices: tuple[str, ...], **options: Any
) -> None:
    """Say what a wheel reaches on a device, kernel by kernel, and why.

    Without --recipe or --python nothing but its bytes is read, for the level code. Nothing of
    the wheel is executed outside a sandbox, but the smoke program with --gpu.
    """
    as_json = options.pop("as_json")
    with blaming("--device"):
        wanted = tuple(dict.fromkeys(parse_device(device) for device in devices))
    if options["driver"] is not None:
        with blaming("--driver"):
            parse_cuda(options["driver"])
    asked = _Asked(devices=wanted, **options)
    asked.check(wheels)
    place = find()
    settings = _settings(place, asked)
    if asked.add and settings is not None:
        seen = _added(wheels, asked, settings)
        asked = replace(asked, devices=asked.devices or (() if asked.recipe else seen))
    sys.exit(_say_all(wheels, place, asked, settings, as_json=as_json))


def _say_all(
    wheels: tuple[str, ...],
    place: Place,
    asked: _Asked,
    settings: Settings | None,
    *,
    as_json: bool,
) -> int:
    """Judge and print wheel by wheel; the exit status."""
    answers: list[dict[str, Any]] = []
    status = 0
    display = open_display()
    for name in wheels:
        try:
            verdict = _answered(name, place, asked, settings, display)
            status = status or (0 if verdict.passed else VerifyError.exit_code)
            answers.append({"wheel": name, **verdict_document(verdict)})
            if not as_json:
                click.echo(verdict_text(Path(name).name, verdict))
        except Interrupted:
            raise
        except KernforgeError as error:
            display.close()
            status = status or error.exit_code
            answers += error_documents(error, wheel=name)
            say_fault(error)
    if as_json:
        click.echo(dump(answers))
    return status
