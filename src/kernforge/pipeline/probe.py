"""Asks the machine what a plan would meet: compiler, archs, sandbox; gives the BuildKey."""

from __future__ import annotations

from kernforge.build.plan import Plan
from kernforge.events import Listener
from kernforge.pipeline.job import required_wheels
from kernforge.pipeline.machine import artifact_key
from kernforge.pipeline.maker import job_maker, ready_environment
from kernforge.pipeline.settings import Settings
from kernforge.process import Runner


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
