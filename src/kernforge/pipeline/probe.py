"""Asks the machine what a plan would meet: compiler, archs, sandbox; gives the BuildKey."""

from __future__ import annotations

from pathlib import Path

from kernforge.build.plan import Plan
from kernforge.events import Listener
from kernforge.pipeline.gather import job_lock
from kernforge.pipeline.job import required_wheels
from kernforge.pipeline.machine import artifact_key, probe_machine
from kernforge.pipeline.make import Maker, ready_environment
from kernforge.pipeline.settings import Settings
from kernforge.process import Runner
from kernforge.store.local import Store


def job_maker(
    plan: Plan,
    settings: Settings,
    *,
    runner: Runner,
    listen: Listener,
    wheels: tuple[tuple[Path, str], ...] = (),
) -> Maker:
    """A maker for the stages that need no build: environment and compiler.

    Raises:
        ToolchainError: as :func:`kernforge.pipeline.machine.probe_machine`.
    """
    return Maker(
        plan=plan,
        lock=job_lock(plan.job, settings),
        machine=probe_machine(plan.job, settings, runner=runner),
        settings=settings,
        store=Store(settings.cache),
        runner=runner,
        listen=listen,
        build_id="",
        wheels=wheels,
    )


def probe_plan(
    plan: Plan, settings: Settings, *, runner: Runner, listen: Listener
) -> dict[str, object]:
    """Make the environment, confirm every arch by ``--dryrun``, and compute the BuildKey.

    Raises:
        ToolchainError: whatever of it fails.
    """
    wheels = required_wheels(plan.job, settings, runner=runner, listen=listen)
    maker = job_maker(plan, settings, runner=runner, listen=listen, wheels=wheels)
    ready_environment(maker)
    machine, key = maker.machine, artifact_key(plan, maker.machine)
    return {
        "build_key": key,
        "sandbox": machine.sandbox.reason,
        "network_cut": machine.sandbox.network_cut,
        "compiler": dict(machine.host.identity)["compiler version"],
        "archs_confirmed": [str(arch) for arch in plan.job.target.archs],
        "in_store": maker.store.place("artifact", key).exists(),
    }
