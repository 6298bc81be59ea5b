"""Commands that hand wheels on: publish, reproduce, install, matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kernforge.cli.choice import Choice, FindPlace, choose_jobs, target_options
from kernforge.cli.output import json_option, say
from kernforge.cli.place import make_settings
from kernforge.errors import RecipeError
from kernforge.process import SystemRunner
from kernforge.publish.candidate import Candidate
from kernforge.publish.publication import Order, Published
from kernforge.publish.selection import job_candidate, wheel_candidate
from kernforge.report.errors import dump
from kernforge.report.publishing import published_document, published_text
from kernforge.report.terminal import make_progress


def _candidates(
    place: FindPlace, names: tuple[str, ...], options: dict[str, Any]
) -> tuple[Candidate, ...]:
    """Every wheel that a call names, each of them checked before any is published."""
    where = place()
    settings = make_settings(where)
    runner, listen = SystemRunner(), make_progress(say)
    wheels = [Path(name) for name in names if name.endswith(".whl")]
    recipes = [name for name in names if not name.endswith(".whl")]
    found = [wheel_candidate(w, settings, runner=runner, listen=listen) for w in wheels]
    jobs = choose_jobs(where, recipes, Choice(**options)) if recipes else []
    found += [job_candidate(job, settings, runner=runner, listen=listen) for job in jobs]
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
    url, reason = options.pop("url"), options.pop("reason")
    yank, unyank = options.pop("yank"), options.pop("unyank")
    if folder is None:
        raise RecipeError("usage", "publish needs --to DIR")
    order = Order(
        candidates=_candidates(place, names, options) if names else (),
        yank=tuple((file, reason) for file in yank),
        unyank=unyank,
        base_url=url,
    )
    published = _to_folder(folder, order)
    if as_json:
        click.echo(dump([published_document(published)]))
    else:
        click.echo(published_text(published))


@click.command()
@click.argument("what", metavar="ARTIFACT|WHEEL")
@click.option("--anyway", is_flag=True, help="Build though inputs differ, and compare.")
@click.option("--yes-run-it", is_flag=True, help="Agree to what a wheel from elsewhere runs.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Compiles at once.")
@click.option("--out", metavar="DIR", help="Keep the new wheel here.")
@click.option("--html", metavar="FILE", help="Differences by diffoscope, where it is installed.")
@json_option
@click.pass_obj
def reproduce(
    place: FindPlace, /, what: str, *, out: str | None, as_json: bool, **options: Any
) -> None:
    """Build a wheel again from nothing and say how far the two are equal."""
    from kernforge.report.publishing import reproduction_document, reproduction_text
    from kernforge.reproduce import rebuild

    settings = make_settings(place(), jobs=options["jobs"])
    runner, listen = SystemRunner(), make_progress(say)
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
