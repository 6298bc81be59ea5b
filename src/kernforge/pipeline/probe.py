"""Asks the machine what a plan would meet: compiler, archs, sandbox; gives the BuildKey."""

from __future__ import annotations

from kernforge.build.plan import Plan
from kernforge.events import Listener
from kernforge.pipeline.gather import job_lock
from kernforge.pipeline.job import required_wheels
from kernforge.pipeline.machine import artifact_key, probe_machine
from kernforge.pipeline.make import Maker, ready_environment
from kernforge.pipeline.settings import Settings
from kernforge.process import Runner
from kernforge.store.local import Store


def probe_plan(
    plan: Plan, settings: Settings, *, runner: Runner, listen: Listener
) -> dict[str, object]:
    """Make the environment, confirm every arch by ``--dryrun``, and compute the BuildKey.

    Raises:
        ToolchainError: whatever of it fails.
    """
    machine = probe_machine(plan.job, settings, runner=runner)
    maker = Maker(
        plan=plan,
        lock=job_lock(plan.job, settings),
        machine=machine,
        settings=settings,
        store=Store(settings.cache),
        runner=runner,
        listen=listen,
        build_id="",
        wheels=required_wheels(plan.job, settings, runner=runner, listen=listen),
    )
    ready_environment(maker)
    held = maker.store.place("artifact", artifact_key(plan, machine)).exists()
    return {
        "build_key": artifact_key(plan, machine),
        "sandbox": machine.sandbox.reason,
        "network_cut": machine.sandbox.network_cut,
        "compiler": dict(machine.host.identity)["compiler version"],
        "archs_confirmed": [str(arch) for arch in plan.job.target.archs],
        "in_store": held,
    }
