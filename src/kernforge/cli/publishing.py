"""Commands that hand wheels on: publish, reproduce, install, matrix."""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from kernforge.cli.choice import Choice, FindPlace, choose_jobs, target_options
from kernforge.cli.output import json_option, open_display, progress_option, say
from kernforge.cli.place import Wishes, make_settings
from kernforge.errors import RecipeError
from kernforge.process import SystemRunner
from kernforge.publish.candidate import Candidate
from kernforge.publish.proof import prove
from kernforge.publish.publication import Order, Published
from kernforge.publish.selection import job_candidate, wheel_candidate
from kernforge.recipe.load import find_recipes
from kernforge.report.errors import dump
from kernforge.report.publishing import published_document, published_text
from kernforge.report.terminal import amount
from kernforge.source.redact import bare_url
from kernforge.store.upkeep import parse_size

_TWINE_READS = frozenset(
    "HOME PATH LANG LC_ALL XDG_CONFIG_HOME XDG_DATA_HOME XDG_RUNTIME_DIR DBUS_SESSION_BUS_ADDRESS "
    "NETRC SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE "
    "http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY".split()
)


def _twine_environment() -> tuple[tuple[str, str], ...]:
    """What twine may read of the user's environment: its own variables, keyring and proxies."""
    names = (n for n in os.environ if n in _TWINE_READS or n.startswith(("TWINE_", "PYTHON_KEYR")))
    return tuple((name, os.environ[name]) for name in sorted(names))


def _active_python() -> str:
    """The Python of the active environment, else the first on PATH."""
    active = os.environ.get("VIRTUAL_ENV")
    if active:
        return str(Path(active) / "bin/python")
    return shutil.which("python3") or "python3"


def _candidates(
    place: FindPlace, names: tuple[str, ...], options: dict[str, Any]
) -> tuple[Candidate, ...]:
    """Every wheel that a call names, each of them checked before any is published."""
    where = place()
    settings = make_settings(where)
    runner, listen = SystemRunner(), open_display()
    wheels = [Path(name) for name in names if name.endswith(".whl")]
    recipes = [name for name in names if not name.endswith(".whl")]
    found = [wheel_candidate(w, settings, runner=runner, listen=listen) for w in wheels]
    jobs = choose_jobs(where, recipes, Choice(**options)) if recipes else []
    found += [job_candidate(job, settings, runner=runner, listen=listen) for job in jobs]
    for candidate in found:
        prove(candidate, settings, runner=runner, listen=listen)
    return tuple(found)


def _to_folder(folder: str, order: Order) -> Published:
    from kernforge.publish.publication import publish as publish_order

    told: list[float] = []

    def waiting(seconds: float) -> None:
        if not told:
            say(f"Another publisher holds {folder}; waiting")
        told.append(seconds)

    return publish_order(Path(folder), order, waiting=waiting)


@click.command()
@click.argument("names", nargs=-1, metavar="NAME|WHEEL...")
@target_options
@click.option("--to", "folder", metavar="DIR", help="Folder of the index; made where it is not.")
@click.option("--url", metavar="URL", help="Where it is served, for the start page's commands.")
@click.option("--yank", multiple=True, metavar="FILE", help="Take a published wheel back.")
@click.option("--reason", default="", metavar="TEXT", help="Why, for --yank.")
@click.option("--unyank", multiple=True, metavar="FILE", help="Offer a wheel again.")
@click.option("--upload", "server", metavar="URL", help="Upload by twine to an index server.")
@click.option("--max-size", metavar="SIZE", default="100 MB", show_default=True,
              help="The largest file that the server takes.")  # fmt: skip
@progress_option
@json_option
@click.pass_obj
def publish(
    place: FindPlace,
    /,
    names: tuple[str, ...],
    *,
    folder: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Publish wheels that reach what their recipe demands: all of a call, or nothing of it."""
    url, reason, server = (options.pop(name) for name in ("url", "reason", "server"))
    yank, unyank = options.pop("yank"), options.pop("unyank")
    limit = parse_size(options.pop("max_size"))
    if (folder is None) == (server is None) or (server and not names):
        raise RecipeError("usage", "publish needs --to DIR, or wheels and --upload URL")
    candidates = _candidates(place, names, options) if names else ()
    if server is not None:
        _to_server(candidates, server, limit, as_json=as_json)
        return
    order = Order(
        candidates=candidates,
        yank=tuple((file, reason) for file in yank),
        unyank=unyank,
        base_url=url,
    )
    published = _to_folder(str(folder), order)
    if as_json:
        click.echo(dump([published_document(published)]))
    else:
        click.echo(published_text(published))


def _to_server(
    candidates: tuple[Candidate, ...], server: str, limit: int, *, as_json: bool
) -> None:
    from kernforge.publish.upload import UploadOrder, check_upload, upload

    order = UploadOrder(url=server, limit=limit, env=_twine_environment())
    check_upload(candidates, order)
    for candidate in candidates:
        say(f"{candidate.listed.file}  {amount(candidate.listed.size)}")
    upload(candidates, order, runner=SystemRunner())
    if as_json:
        click.echo(dump([asdict(candidate.listed) for candidate in candidates]))
        return
    click.echo(f"{len(candidates)} uploaded")


@click.command()
@click.argument("what", metavar="ARTIFACT|WHEEL")
@click.option("--anyway", is_flag=True, help="Build though inputs differ, and compare.")
@click.option("--yes-run-it", is_flag=True, help="Agree to what a wheel from elsewhere runs.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Compiles at once.")
@click.option("--no-sandbox", is_flag=True, help="Build in the constant real folder instead.")
@click.option("--out", metavar="DIR", help="Keep the new wheel here.")
@click.option("--html", metavar="FILE", help="Differences by diffoscope, where it is installed.")
@progress_option
@json_option
@click.pass_obj
def reproduce(
    place: FindPlace, /, what: str, *, out: str | None, as_json: bool, **options: Any
) -> None:
    """Build a wheel again from nothing and say how far the two are equal."""
    from kernforge.report.publishing import reproduction_document, reproduction_text
    from kernforge.reproduce import rebuild

    settings = make_settings(
        place(), Wishes(jobs=options["jobs"], sandbox=not options["no_sandbox"])
    )
    runner, listen = SystemRunner(), open_display()
    prospect = rebuild.foresee(rebuild.find_original(what, settings), settings, runner=runner)
    if not prospect.original.own:
        for line in rebuild.commands_of(prospect):
            say(line)
    rebuild.check_may_run(prospect, anyway=options["anyway"], consent=options["yes_run_it"])
    keep = Path(out) if out else None
    html = Path(options["html"]) if options["html"] else None
    order = rebuild.Order(keep=keep, html=html)
    done = rebuild.rebuild(prospect, order, settings, runner=runner, listen=listen)
    click.echo(dump([reproduction_document(done)]) if as_json else reproduction_text(done))
    rebuild.check_equal(done)


@click.command()
@click.argument("name")
@click.option("--index", required=True, metavar="URL", help="Root of a published index.")
@click.option("--python", metavar="PATH", help="Install into this Python; the one of the active "
              "environment, else the first on PATH.")  # fmt: skip
@click.option("--device", "devices", multiple=True, metavar="X.Y",
              help="The GPU, instead of those found here; may be given again.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Choose, and install nothing.")
@json_option
@click.pass_obj
def install(place: FindPlace, /, name: str, *, index: str, as_json: bool, **options: Any) -> None:
    """Install the wheel of an index that fits this machine's GPU, CUDA, torch and Python."""
    from kernforge.publish.choice import choose, expected_on
    from kernforge.publish.install import install as install_wheel
    from kernforge.publish.install import read_index, wheel_url
    from kernforge.publish.machine import Asked, look

    settings, runner = make_settings(place()), SystemRunner()
    python = options["python"] or _active_python()
    asked = Asked(python=python, devices=options["devices"], path=settings.path)
    here = look(asked, runner=runner)
    wheel = choose(name, read_index(index, settings.fetching), here)
    if told := expected_on(wheel, here):
        say(f"note: {told}")
    if not options["dry_run"]:
        install_wheel(wheel, index, python, settings, runner=runner)
    if as_json:
        url = bare_url(wheel_url(index, wheel))
        about = {"python": python, "installed": not options["dry_run"], "url": url,
                 "expected_only": told is not None}  # fmt: skip
        click.echo(dump([{**about, "wheel": asdict(wheel)}]))
    else:
        did = "would install" if options["dry_run"] else "installed"
        click.echo(f"{did} {wheel.file} into {python}")


@click.command()
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--format", "kind", type=click.Choice(["github", "slurm"]), required=True,
              help="For which engine.")  # fmt: skip
@target_options
@click.pass_obj
def matrix(place: FindPlace, /, names: tuple[str, ...], *, kind: str, **options: Any) -> None:
    """Write what builds the jobs of the named recipes, else of all, on another's engine."""
    from kernforge.publish.matrix import github_workflow, slurm_script

    where = place()
    chosen = names or tuple(path.stem for path in find_recipes(where.project / "recipes"))
    jobs = choose_jobs(where, chosen, Choice(**options))
    click.echo(github_workflow(jobs) if kind == "github" else slurm_script(jobs), nl=False)
