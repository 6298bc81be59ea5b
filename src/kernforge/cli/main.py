"""The command line: the group, its lazy commands, and how a call ends. The only exit."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import click

from kernforge import __version__
from kernforge.cli.output import say, say_fault
from kernforge.cli.place import find_place, traceback_wanted
from kernforge.errors import Interrupted, KernforgeError, RecipeError

_COMMANDS = {
    "build": ("making", "build"),
    "plan": ("planning", "plan"),
    "list": ("looking", "list_"),
    "show": ("looking", "show"),
    "lock": ("planning", "lock"),
    "fetch": ("planning", "fetch"),
    "verify": ("verifying", "verify"),
    "inspect": ("inspecting", "inspect"),
    "doctor": ("doctoring", "doctor"),
    "schema": ("looking", "schema"),
    "explain": ("explaining", "explain"),
    "new": ("authoring", "new"),
    "patch": ("authoring", "patch"),
    "lint": ("authoring", "lint_command"),
    "bump": ("authoring", "bump_command"),
    "reproduce": ("publishing", "reproduce"),
    "publish": ("publishing", "publish"),
    "install": ("publishing", "install"),
    "matrix": ("publishing", "matrix"),
    "cache": ("caching", "cache"),
}


_BROKEN_PIPE = 141
_BARE_CALL: type | tuple[()] = getattr(click.exceptions, "NoArgsIsHelpError", ())


class LazyGroup(click.Group):
    """Imports a command's module when the command is called: start-up is lean."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of a build's life."""
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now."""
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module, name = _COMMANDS[cmd_name]
        found: click.Command = getattr(import_module(f"kernforge.cli.{module}"), name)
        return found


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="kernforge")
@click.option("--project", envvar="KERNFORGE_PROJECT", metavar="DIR", help="Folder of recipes/.")
@click.option("--cache", envvar="KERNFORGE_CACHE", metavar="DIR", help="Folder of the cache.")
@click.pass_context
def command(context: click.Context, project: str | None, cache: str | None) -> None:
    """Build GPU-kernel wheels from pinned source, and know which GPUs each kernel serves."""
    context.obj = lambda: find_place(project, cache)


def run(arguments: Sequence[str]) -> int:
    """Run the command line; answer the exit status. Never raises."""
    signal.signal(signal.SIGTERM, _stop)
    if isinstance(sys.stdout, io.TextIOWrapper):  # names of files need not be UTF-8
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return _call(arguments)
    except (KeyboardInterrupt, Interrupted, click.exceptions.Abort):
        return _report(Interrupted("interrupted", "Stopped by the user or a signal"), arguments)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return _BROKEN_PIPE
    except KernforgeError as error:
        return _report(error, arguments)
    except OSError as error:
        return _report(_system_fault(error), arguments)
    except Exception as error:
        if traceback_wanted():
            raise
        return _report(_own_fault(error), arguments)


def _call(arguments: Sequence[str]) -> int:
    stdout = sys.stdout
    try:
        command.main(list(arguments), prog_name="kernforge", standalone_mode=False)
    except click.ClickException as error:
        if isinstance(error, _BARE_CALL):
            say(error.format_message())
            return RecipeError.exit_code
        return _report(_usage_fault(error), arguments)
    except SystemExit as leave:
        if sys.stdout is not stdout:  # click has put a mute stream there: the reader has left
            return _BROKEN_PIPE
        return leave.code if isinstance(leave.code, int) else 0
    return 0


def _usage_fault(error: click.ClickException) -> RecipeError:
    context = getattr(error, "ctx", None)
    hint = f"`{context.command_path} --help` shows what there is" if context else None
    return RecipeError("usage", error.format_message().rstrip("."), hint=hint)


def _stop(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _system_fault(error: OSError) -> KernforgeError:
    from kernforge.store.local import NO_SPACE, cache_fault

    if error.errno in NO_SPACE:
        return cache_fault(error, Path(error.filename or "the disk"))
    where = f" {str(error.filename)!r}" if error.filename else ""
    return KernforgeError("system", f"The system refused{where}: {error.strerror or error}")


def _own_fault(error: Exception) -> KernforgeError:
    return KernforgeError(
        "internal",
        f"kernforge met a fault of its own: {type(error).__name__}: {error}",
        hint="please report it, with what KERNFORGE_TRACEBACK=1 shows",
    )


def _report(error: KernforgeError, arguments: Sequence[str]) -> int:
    from kernforge.report.errors import dump, error_documents

    if "--json" in arguments:
        click.echo(dump(error_documents(error)))
    say_fault(error)
    return error.exit_code
