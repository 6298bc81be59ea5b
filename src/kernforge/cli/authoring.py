"""Commands for those who write recipes: patch."""

from __future__ import annotations

import click

from kernforge.authoring.patchedit import abort, finish, session_of, start
from kernforge.cli.choice import FindPlace, find_recipe
from kernforge.cli.output import say
from kernforge.cli.place import make_settings
from kernforge.process import SystemRunner


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
