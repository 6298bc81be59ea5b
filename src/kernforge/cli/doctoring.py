"""The command `doctor`: what an existing environment holds, and what to do about it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import click

from kernforge.arch import Device, parse_device
from kernforge.cli.choice import FindPlace, blaming
from kernforge.cli.output import json_option, say
from kernforge.cli.place import (
    active_python,
    environment_names,
    git_environment,
    search_path,
    shipped_recipes,
    toolkits_named,
)
from kernforge.doctor.examine import Order, Tools, examine
from kernforge.doctor.runtime import Where
from kernforge.errors import KernforgeError, VerifyError
from kernforge.process import SystemRunner
from kernforge.report.diagnosis import diagnosis_document
from kernforge.report.doctor import print_diagnosis
from kernforge.report.errors import dump
from kernforge.source.git import Git
from kernforge.source.settings import FetchSettings, Limits
from kernforge.toolchain.gpus import ask_gpus
from kernforge.toolchain.host import find_programs
from kernforge.toolchain.sandbox import probe_sandbox

_GIT_SECONDS = 120.0


def _devices(named: tuple[str, ...], runner: SystemRunner) -> tuple[tuple[Device, ...], str]:
    """The devices to judge, and where they come from or why there are none."""
    with blaming("--device"):
        devices = tuple(dict.fromkeys(parse_device(device) for device in named))
        if devices:
            return devices, "named with --device"
        found = ask_gpus(path=search_path(), runner=runner)
        devices = tuple(dict.fromkeys(parse_device(device) for device in found.devices))
    if devices:
        driver = f", driver for CUDA {found.driver}" if found.driver else ""
        return devices, f"the GPUs of this machine{driver}"
    return (), f"not judged: {found.trouble}; name one with --device 12.0"


def _interpreter(named: str | None) -> Path:
    """The interpreter that is meant: a program, its name, or the folder of an environment."""
    if named is None:
        return active_python()
    if Path(named).is_dir():
        return Path(named).absolute() / "bin/python"
    found = shutil.which(named, path=search_path()) if "/" not in named else None
    return Path(found or named).absolute()


def _notes() -> tuple[str, ...]:
    if "PYTHONPATH" not in environment_names():
        return ()
    return ("PYTHONPATH is set: what it names comes before all of this, and was not looked at",)


def _compilers() -> tuple[tuple[str, str], ...] | None:
    try:
        return find_programs(search_path())
    except KernforgeError:
        return None


def _git(scratch: Path, runner: SystemRunner) -> Git:
    settings = FetchSettings(
        cache=scratch, project=scratch, env=git_environment(), limits=Limits(git=_GIT_SECONDS)
    )
    return Git(runner=runner, settings=settings, told=say)


@click.command()
@click.option("--python", metavar="PATH", help="Whose environment; the active one's by default, "
              "else the first python3 on PATH.")  # fmt: skip
@click.option("--device", "devices", multiple=True, metavar="X.Y",
              help="A GPU, instead of those found here; may be given again.")  # fmt: skip
@click.option("--sandbox/--no-sandbox", default=True, show_default=True,
              help="Whether packages are imported, in a sandbox.")  # fmt: skip
@json_option
@click.pass_obj
def doctor(
    place: FindPlace,
    /,
    python: str | None,
    devices: tuple[str, ...],
    *,
    sandbox: bool,
    as_json: bool,
) -> None:
    """Say what an environment holds, which GPUs it serves, and what to keep, rebuild, reinstall."""
    runner, where = SystemRunner(), place()
    wanted, note = _devices(devices, runner)
    env = tuple(pair for pair in git_environment() if pair[0] in {"HOME", "PATH"})
    order = Order(
        python=_interpreter(python),
        devices=wanted,
        devices_note=note,
        recipes=(where.project / "recipes", shipped_recipes()),
        where=Where(path=search_path(), cuda=toolkits_named()),
        env=env,
        notes=_notes(),
    )
    with tempfile.TemporaryDirectory(prefix="kernforge-") as scratch:
        tools = Tools(
            runner=runner,
            git=_git(Path(scratch), runner),
            sandbox=probe_sandbox(
                bwrap=shutil.which("bwrap", path=search_path()),
                uid=os.getuid(),
                wanted=sandbox,
                runner=runner,
            ),
            programs=_compilers(),
            scratch=Path(scratch),
            told=say,
        )
        found = examine(order, tools)
    if as_json:
        click.echo(dump([diagnosis_document(found)]))
    else:
        print_diagnosis(found)
    sys.exit(0 if found.healthy else VerifyError.exit_code)
