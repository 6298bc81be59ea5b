"""Commands for those who write and keep recipes: new, patch, lint, bump."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from kernforge.arch import format_archs, parse_archs
from kernforge.authoring.keeping import Hand, bump_recipe, lint
from kernforge.authoring.lint import Remark
from kernforge.authoring.new import Checkout, read_checkout
from kernforge.authoring.patchedit import abort, finish, session_of, start
from kernforge.authoring.start import (
    Wish,
    from_checkout,
    from_repository,
    keep,
    patch_name,
    resolve,
)
from kernforge.cli.choice import FindPlace, blaming, find_recipe
from kernforge.cli.output import json_option, say
from kernforge.cli.place import git_environment, make_settings, shipped_recipes
from kernforge.errors import SelectionError
from kernforge.process import SystemRunner
from kernforge.report.errors import dump


@click.command()
@click.argument("name")
@click.option("--source", metavar="SOURCE", help="Which source; the project's own by default.")
@click.option("--continue", "go_on", is_flag=True, help="Write what was edited as a patch.")
@click.option("--what", metavar="WORDS", default="change", show_default=True,
              help="What it does, for the file's name: drop-sm90.")  # fmt: skip
@click.option("--abort", "drop", is_flag=True, help="Drop what was edited.")
@click.pass_obj
def patch(place: FindPlace, /, name: str, *, source: str | None, what: str, **flags: bool) -> None:
    """Open a source for editing, then write the next patch."""
    where = place()
    settings = make_settings(where)
    session = session_of(find_recipe(where, name), source, settings)
    runner = SystemRunner()
    if flags["drop"]:
        abort(session)
        click.echo(f"dropped: {session.folder}")
        return
    if flags["go_on"]:
        written = finish(session, what, settings, runner=runner, told=say)
        click.echo(f"patches/{written}")
        say(f"Now list it in {name}.yaml: sources.{session.source}.patches: [..., {written}]")
        return
    tree = start(session, settings, runner=runner, told=say)
    click.echo(str(tree))
    say(f"Edit it, then: kernforge patch {name} --continue --what WORDS")


@click.command()
@click.argument("url", required=False)
@click.option("--from", "checkout", metavar="CHECKOUT", help="A checkout on disk, of any origin.")
@click.option("--tag", metavar="TAG", help="The tag to pin; the default branch's head otherwise.")
@click.option("--subdir", metavar="DIR", help="Where the Python project lies in the tree.")
@click.option("--arch", metavar="LIST", default="12.0a", show_default=True, help="GPU archs.")
@click.option("--name", metavar="NAME", help="Name of the recipe.")
@click.option("--changes/--no-changes", "changes", default=None,
              help="Take uncommitted changes as a patch, or leave them out.")  # fmt: skip
@click.pass_obj
def new(
    place: FindPlace, /, url: str | None, *, checkout: str | None, tag: str | None, **options: Any
) -> None:
    """Write a first recipe for a repository, or for a checkout of unknown origin."""
    where = place()
    settings = make_settings(where)
    with blaming("--arch"):
        archs = format_archs(parse_archs(options["arch"]))
    wish = Wish(
        name=options["name"], subdir=options["subdir"], archs=archs, shipped=shipped_recipes()
    )
    runner = SystemRunner()
    patch: tuple[str, bytes] | None = None
    if (url is None) == (checkout is None):
        raise SelectionError("usage", "Name either a URL or --from CHECKOUT")
    if checkout is not None:
        found = read_checkout(Path(checkout), env=git_environment(), runner=runner)
        patch = _changes(found, wish, take=options["changes"])
        name, text = from_checkout(found, wish, patch=patch[0] if patch else None)
    else:
        pin = resolve(str(url), tag, settings, runner=runner, told=say)
        name, text = from_repository(pin, wish, settings, runner=runner, told=say)
    for path in keep(name, text, patch, settings):
        click.echo(str(path))
    say(f"Read it, then: kernforge lock {name}, kernforge plan {name}")


def _changes(found: Checkout, wish: Wish, *, take: bool | None) -> tuple[str, bytes] | None:
    if found.untracked:
        say(f"note: {len(found.untracked)} untracked files are left out: {found.untracked[0]} ...")
    if not found.dirty or take is False:
        return None
    if take is None:
        question = "The checkout has uncommitted changes. Take them as a patch?"
        if not sys.stdin.isatty():
            raise SelectionError(
                "changes-undecided",
                f"{str(found.folder)!r} has uncommitted changes",
                hint="say --changes to take them as a patch, or --no-changes",
            )
        if not click.confirm(question, default=True, err=True):
            return None
    return patch_name(found, wish), found.dirty


def _remark_lines(remarks: tuple[Remark, ...]) -> list[str]:
    lines = []
    for remark in remarks:
        lines.append(f"{remark.place}: {remark.word}: {remark.text}")
        lines += [f"  hint: {remark.hint}"] if remark.hint else []
    return lines


def _remark_documents(remarks: tuple[Remark, ...]) -> list[dict[str, Any]]:
    return [{"word": r.word, "place": r.place, "text": r.text, "hint": r.hint} for r in remarks]


@click.command("lint")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--sources", is_flag=True, help="Look into the fetched sources too.")
@json_option
@click.pass_obj
def lint_command(
    place: FindPlace, /, names: tuple[str, ...], *, sources: bool, as_json: bool
) -> None:
    """Say what of a recipe is valid and still unwise."""
    where = place()
    hand = Hand(settings=make_settings(where), runner=SystemRunner(), told=say)
    answers = []
    for name in names:
        remarks = lint(find_recipe(where, name), hand, sources=sources)
        answers.append({"recipe": name, "remarks": _remark_documents(remarks)})
        if not as_json:
            head = f"{name}: {len(remarks)} remark{'' if len(remarks) == 1 else 's'}"
            click.echo("\n".join([head, *_remark_lines(remarks)]))
    if as_json:
        click.echo(dump(answers))


@click.command("bump")
@click.argument("name")
@click.option("--to", "tag", metavar="TAG", required=True, help="The tag to move to.")
@click.option("--dry-run", is_flag=True, help="Write nothing.")
@json_option
@click.pass_obj
def bump_command(place: FindPlace, /, name: str, *, tag: str, dry_run: bool, as_json: bool) -> None:
    """Move a recipe to another tag, and say what upstream changed that it names."""
    where = place()
    find_recipe(where, name)
    path = where.project / "recipes" / f"{name}.yaml"
    hand = Hand(settings=make_settings(where), runner=SystemRunner(), told=say)
    moved = bump_recipe(path, tag, hand)
    if not dry_run:
        path.write_text(moved.text, encoding="utf-8")
    if as_json:
        about = {"recipe": name, "old": list(moved.old), "new": list(moved.new)}
        click.echo(dump([{**about, "remarks": _remark_documents(moved.remarks)}]))
        return
    click.echo(f"{name}: {moved.old[0]} ({moved.old[1][:12]}) -> {tag} ({moved.new[1][:12]})")
    for line in _remark_lines(moved.remarks):
        click.echo(line)
