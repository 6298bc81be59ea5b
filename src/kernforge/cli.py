"""The command line: parse, call, print. The only reader of the environment, the only exit."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from kernforge import __version__
from kernforge.errors import Interrupted, KernforgeError, RecipeError, SelectionError

if TYPE_CHECKING:
    from kernforge.pipeline.settings import Settings
    from kernforge.recipe.matrix import Job
    from kernforge.recipe.model import Recipe
    from kernforge.store.local import Store

_UV_READS: tuple[str, ...] = (
    "HOME",
    "PATH",
    "NETRC",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "ALL_PROXY",
    "NO_PROXY",
)
_UV_READS += ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy")
_UV_READS += ("XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "TMPDIR", "LANG", "LC_ALL")
"""What uv may read of the user's environment; it never reaches a build."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where this call works: the project's folder and the cache's."""

    project: Path
    cache: Path


def _upward(start: Path) -> Path | None:
    for folder in (start, *start.parents):
        if (folder / "recipes").is_dir() and not (folder / "recipes/__init__.py").exists():
            return folder
    return None


def _shipped() -> Path:
    installed = Path(__file__).parent / "shipped"
    return installed if installed.is_dir() else Path(__file__).parents[2]


def _find_place(project: str | None, cache: str | None) -> Place:
    own = Path(project).absolute() if project else _upward(Path.cwd())
    if project and own and not (own / "recipes").is_dir():
        raise SelectionError(
            "project-missing",
            f"{project!r} holds no folder 'recipes'",
            hint="--project names the folder that holds it",
        )
    if cache:
        return Place(project=own or _shipped(), cache=Path(cache).absolute())
    if own:
        return Place(project=own, cache=own / "cache")
    home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("HOME", "") + "/.cache"
    if not Path(home).is_absolute() or home == "/.cache":
        raise SelectionError(
            "home-missing",
            "Neither HOME nor XDG_CACHE_HOME is set, so the cache has no place",
            hint="name one with --cache or KERNFORGE_CACHE",
        )
    return Place(project=_shipped(), cache=Path(home) / "kernforge")


def _settings(place: Place, *, jobs: int | None = None, sandbox: bool = True) -> Settings:
    from kernforge.pipeline.settings import Settings
    from kernforge.toolchain.lock import Uv

    kept = {key: value for key, value in os.environ.items() if key in _UV_READS}
    kept |= {key: value for key, value in os.environ.items() if key.startswith("UV_")}
    kept.pop("UV_CACHE_DIR", None)
    beside = shutil.which("uv", path=str(Path(sys.executable).parent))
    path = os.environ.get("PATH", os.defpath)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    interpreter = Path(sys.base_prefix) / "bin" / f"python{version}"
    return Settings(
        project=place.project,
        cache=place.cache,
        path=path,
        python=(interpreter if interpreter.exists() else Path(sys.executable), version),
        uv=Uv(program=beside or "uv", cache=place.cache / "uv", env=tuple(sorted(kept.items()))),
        bwrap=shutil.which("bwrap", path=path),
        sandbox=sandbox,
        uid=os.getuid(),
        jobs=jobs or len(os.sched_getaffinity(0)),
    )


def _recipe(place: Place, name: str) -> Recipe:
    from kernforge.recipe.load import find_recipes, load_recipe

    folder = place.project / "recipes"
    path = folder / f"{name}.yaml"
    if path.parent == folder and path.is_file():
        shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        return load_recipe(shown)
    import difflib

    names = [found.stem for found in find_recipes(folder)]
    near = difflib.get_close_matches(name, names, n=1)
    raise SelectionError(
        "recipe-missing",
        f"There is no recipe {name!r} in {str(folder)!r}",
        hint=f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names) or 'none'}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which targets a call names."""

    arch: str | None
    python: str | None
    torch: str | None
    cuda: str | None
    job: str | None


def _jobs(place: Place, names: Iterable[str], choice: Choice) -> list[Job]:
    from kernforge.arch import parse_archs
    from kernforge.recipe.matrix import expand, retarget

    archs = parse_archs(choice.arch) if choice.arch is not None else None
    found: list[Job] = []
    for name in dict.fromkeys(names):
        jobs = expand(_recipe(place, name))
        found += retarget(
            jobs, archs=archs, python=choice.python, torch=choice.torch, cuda=choice.cuda
        )
    chosen = [job for job in found if choice.job in {None, job.id}]
    if not chosen:
        ids = ", ".join(job.id for job in found)
        raise SelectionError("job-missing", f"No job is {choice.job!r}", hint=f"there are: {ids}")
    return chosen


def _targets(function: Callable[..., None]) -> Callable[..., None]:
    options = (
        click.option("--arch", metavar="LIST", help="GPU archs, as 12.0a or '9.0;12.0a'."),
        click.option("--python", metavar="X.Y", help="Python version."),
        click.option("--torch", metavar="X.Y.Z", help="Version of torch."),
        click.option("--cuda", metavar="X.Y", help="CUDA release."),
        click.option("--job", metavar="ID", help="One job, by its id."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def _json(function: Callable[..., None]) -> Callable[..., None]:
    return click.option("--json", "as_json", is_flag=True, help="One JSON array.")(function)


def _say(text: str) -> None:
    click.echo(text, err=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="kernforge")
@click.option("--project", envvar="KERNFORGE_PROJECT", metavar="DIR", help="Folder of recipes/.")
@click.option("--cache", envvar="KERNFORGE_CACHE", metavar="DIR", help="Folder of the cache.")
@click.pass_context
def command(context: click.Context, project: str | None, cache: str | None) -> None:
    """Build GPU-kernel wheels from pinned source, and know which GPUs each kernel serves."""
    context.obj = lambda: _find_place(project, cache)


@command.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@_targets
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Compiles at once.")
@click.option("--no-sandbox", is_flag=True, help="Build in the constant real folder instead.")
@_json
@click.pass_obj
def build(
    place: Callable[[], Place], /, names: tuple[str, ...], *, as_json: bool, **options: Any
) -> None:
    """Build every job of the named recipes, or find it in the store."""
    from kernforge.pipeline.job import build_job, demand
    from kernforge.process import SystemRunner
    from kernforge.report.documents import dump, error_documents, outcome_document
    from kernforge.report.terminal import LiveProgress, error_text, make_progress, outcome_text

    where = place()
    sandbox, jobs = not options.pop("no_sandbox"), options.pop("jobs")
    settings = _settings(where, jobs=jobs, sandbox=sandbox)
    progress = make_progress(_say)
    answers: list[dict[str, Any]] = []
    status = 0
    for job in _jobs(where, names, Choice(**options)):
        try:
            outcome = build_job(job, settings, runner=SystemRunner(), listen=progress)
            answers.append(outcome_document(outcome))
            if not as_json:
                click.echo(outcome_text(outcome))
            demand(outcome)
        except Interrupted:
            raise
        except KernforgeError as error:
            status = status or error.exit_code
            answers += error_documents(error, job=job.id) if as_json else []
            _say(error_text(error))
        finally:
            if isinstance(progress, LiveProgress):
                progress.close()
    if as_json:
        click.echo(dump(answers))
    sys.exit(status)


@command.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@_targets
@click.option("--probe", is_flag=True, help="Ask compiler and sandbox too; gives the BuildKey.")
@_json
@click.pass_obj
def plan(
    place: Callable[[], Place],
    /,
    names: tuple[str, ...],
    *,
    probe: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Show what a build would do, and its key: from files alone, offline."""
    from kernforge.pipeline.gather import plan_job
    from kernforge.pipeline.probe import probe_plan
    from kernforge.process import SystemRunner
    from kernforge.report.documents import dump, plan_document
    from kernforge.report.terminal import make_progress, plan_text

    where = place()
    settings = _settings(where)
    answers = []
    for job in _jobs(where, names, Choice(**options)):
        planned = plan_job(job, settings)
        listen = make_progress(_say)
        probed = (
            probe_plan(planned, settings, runner=SystemRunner(), listen=listen) if probe else None
        )
        answers.append(plan_document(planned, probed))
        if not as_json:
            click.echo(plan_text(planned, probed))
    if as_json:
        click.echo(dump(answers))


@command.command("list")
@_json
@click.pass_obj
def list_(place: Callable[[], Place], *, as_json: bool) -> None:
    """Name the recipes and their jobs."""
    from kernforge.recipe.load import find_recipes
    from kernforge.recipe.matrix import expand
    from kernforge.report.documents import dump

    where = place()
    answers = []
    for path in find_recipes(where.project / "recipes"):
        recipe = _recipe(where, path.stem)
        jobs = [job.id for job in expand(recipe)]
        answers.append({"name": recipe.name, "summary": recipe.summary, "jobs": jobs})
        if not as_json:
            click.echo(f"{recipe.name:<20} {recipe.summary or ''}".rstrip())
            for job in jobs:
                click.echo(f"  {job}")
    if as_json:
        click.echo(dump(answers))


@command.command()
@click.argument("name")
@_json
@click.pass_obj
def show(place: Callable[[], Place], name: str, *, as_json: bool) -> None:
    """Show a recipe as it was understood, every default written out."""
    import yaml

    from kernforge.report.documents import dump

    data = _recipe(place(), name).to_dict()
    text = dump([data]) if as_json else yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    click.echo(text.rstrip())


@command.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@_targets
@_json
@click.pass_obj
def lock(
    place: Callable[[], Place], /, names: tuple[str, ...], *, as_json: bool, **options: Any
) -> None:
    """Resolve and write the locks of the named recipes: versions and hashes of every package."""
    from kernforge.pipeline.locking import make_lock
    from kernforge.process import SystemRunner
    from kernforge.report.documents import dump

    where = place()
    settings = _settings(where)
    answers = []
    done = set()
    for job in _jobs(where, names, Choice(**options)):
        path = settings.lock_path(job)
        if path in done:
            continue
        done.add(path)
        made = make_lock(job, settings, runner=SystemRunner())
        answers.append({"lock": str(path), "packages": len(made.pins)})
        if not as_json:
            click.echo(f"{path}  {len(made.pins)} packages")
    if as_json:
        click.echo(dump(answers))


@command.command()
@click.argument("wheels", nargs=-1, required=True, metavar="WHEEL...")
@click.option("--device", "devices", multiple=True, required=True, metavar="X.Y",
              help="A GPU by its compute capability, as 12.0; may be given again.")  # fmt: skip
@click.option("--allow-jit", is_flag=True, help="Let PTX count as code.")
@_json
@click.pass_obj
def verify(
    _place: Callable[[], Place],
    wheels: tuple[str, ...],
    devices: tuple[str, ...],
    *,
    allow_jit: bool,
    as_json: bool,
) -> None:
    """Say, library by library, whether a wheel holds code for a device. Nothing is executed."""
    from kernforge.arch import parse_device
    from kernforge.binary.wheel import read_wheel
    from kernforge.errors import VerifyError
    from kernforge.report.documents import dump, verdict_document
    from kernforge.report.terminal import verdict_text
    from kernforge.verify.policy import Rules, judge

    wanted = tuple(dict.fromkeys(parse_device(device) for device in devices))
    answers, failed = [], False
    for name in wheels:
        if not Path(name).is_file():
            raise VerifyError("wheel-missing", f"{name!r} is no file", hint="name a .whl file")
        facts = read_wheel(Path(name))
        verdict = judge(facts.libraries, wanted, Rules(require="code", allow_jit=allow_jit))
        failed = failed or not verdict.passed
        answers.append({"wheel": name, **verdict_document(verdict)})
        if not as_json:
            click.echo(verdict_text(Path(name).name, verdict))
    if as_json:
        click.echo(dump(answers))
    sys.exit(VerifyError.exit_code if failed else 0)


@command.command()
def schema() -> None:
    """Print the JSON Schema of recipes, for editors."""
    from kernforge.recipe.schema import schema_text

    click.echo(schema_text().rstrip())


@command.group()
def cache() -> None:
    """Look after the store: what it holds, what it costs, whether it is whole."""


def _store(place: Callable[[], Place]) -> Store:
    from kernforge.store.local import Store

    return Store(place().cache)


@cache.command("ls")
@_json
@click.pass_obj
def cache_ls(place: Callable[[], Place], *, as_json: bool) -> None:
    """List what the store holds."""
    from kernforge.report.documents import dump, entry_document
    from kernforge.report.terminal import entry_line

    entries = _store(place).entries()
    if as_json:
        click.echo(dump([entry_document(entry) for entry in entries]))
    for entry in () if as_json else entries:
        click.echo(entry_line(entry))


@cache.command("check")
@_json
@click.pass_obj
def cache_check(place: Callable[[], Place], *, as_json: bool) -> None:
    """Check the SHA-256 of every file of the store; changes nothing."""
    from kernforge.errors import CacheError
    from kernforge.report.documents import dump

    store = _store(place)
    faults = [(kind, key, store.fault_of(kind, key)) for kind, key in store.keys()]
    bad = [(kind, key, fault) for kind, key, fault in faults if fault]
    if as_json:
        click.echo(dump([{"kind": k, "key": key, "fault": fault} for k, key, fault in bad]))
    else:
        for kind, key, fault in bad:
            click.echo(f"{kind} {key}: {fault}")
        click.echo(f"{len(faults)} entries, {len(bad)} damaged")
    sys.exit(CacheError.exit_code if bad else 0)


@cache.command("rm")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@click.pass_obj
def cache_rm(place: Callable[[], Place], keys: tuple[str, ...]) -> None:
    """Remove entries by key; the first 8 digits or more are enough where only one begins so."""
    from kernforge.store.upkeep import remove_entries

    for kind, key in remove_entries(_store(place), keys):
        click.echo(f"removed {kind} {key}")


@cache.command("gc")
@click.option("--keep", metavar="SIZE", default="20 GiB", show_default=True,
              help="Remove what was used longest ago until the cache is this small.")  # fmt: skip
@_json
@click.pass_obj
def cache_gc(place: Callable[[], Place], keep: str, *, as_json: bool) -> None:
    """Remove leftovers, quarantine, unused environments and the oldest entries."""
    from kernforge.report.documents import dump
    from kernforge.report.terminal import amount
    from kernforge.store.upkeep import collect, parse_size

    removed = collect(_store(place), keep=parse_size(keep))
    if as_json:
        click.echo(dump([{"removed": name, "bytes": size} for name, size in removed]))
        return
    for name, size in removed:
        click.echo(f"removed {name}  {amount(size)}")
    click.echo(f"{amount(sum(size for _, size in removed))} freed")


def run(arguments: Sequence[str]) -> int:
    """Run the command line; answer the exit status. Never raises."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        command.main(list(arguments), prog_name="kernforge", standalone_mode=False)
    except click.exceptions.Abort:
        _say("error[interrupted]: stopped by the user")
        return Interrupted.exit_code
    except (KeyboardInterrupt, Interrupted):
        _say("error[interrupted]: stopped by the user")
        return Interrupted.exit_code
    except click.ClickException as error:
        _say(f"error[usage]: {error.format_message()}")
        return RecipeError.exit_code
    except KernforgeError as error:
        return _report(error, arguments)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except OSError as error:
        return _report(_os_fault(error), arguments)
    except SystemExit as leave:
        return leave.code if isinstance(leave.code, int) else 0
    except Exception as error:  # noqa: BLE001 - the last resort: one line, never a traceback
        if os.environ.get("KERNFORGE_TRACEBACK"):
            raise
        return _report(_bug(error), arguments)
    return 0


def _bug(error: Exception) -> KernforgeError:
    return KernforgeError(
        "internal",
        f"kernforge met a fault of its own: {type(error).__name__}: {error}",
        hint="please report it, with what KERNFORGE_TRACEBACK=1 shows",
    )


def _stop(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _os_fault(error: OSError) -> KernforgeError:
    from kernforge.store.local import cache_fault

    if error.errno in {28, 122}:
        return cache_fault(error, Path(error.filename or "the disk"))
    where = f" {str(error.filename)!r}" if error.filename else ""
    return KernforgeError("system", f"The system refused{where}: {error.strerror or error}")


def _report(error: KernforgeError, arguments: Sequence[str]) -> int:
    from kernforge.report.documents import dump, error_documents
    from kernforge.report.terminal import error_text

    if "--json" in arguments:
        click.echo(dump(error_documents(error)))
    _say(error_text(error))
    return error.exit_code
