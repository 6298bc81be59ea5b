"""What this machine adds to a key: the host toolchain and the sandbox that holds here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kernforge.build.key import build_key, stage_key
from kernforge.build.plan import Plan
from kernforge.build.workspace import inside_digest
from kernforge.pipeline.settings import Settings
from kernforge.process import Runner
from kernforge.recipe.matrix import Job
from kernforge.toolchain.env import find_python
from kernforge.toolchain.host import Host, Memory, probe_host
from kernforge.toolchain.hostcuda import HostToolkit, candidates, choose_toolkit
from kernforge.toolchain.sandbox import Sandbox, probe_sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The host and its sandbox, for one target; ``toolkit`` where a recipe wants the host's."""

    host: Host
    sandbox: Sandbox
    inside: str
    toolkit: HostToolkit | None

    @property
    def parts(self) -> dict[str, object]:
        """What of it enters keys."""
        layout = self.sandbox.layout
        host = dict(self.host.identity)
        if self.toolkit is not None:
            host["toolkit"] = self.toolkit.digest
        return {"host": host, "layout": [layout.name, layout.root], "inside": self.inside}


def probe_machine(job: Job, settings: Settings, *, runner: Runner) -> Machine:
    """Find compiler, interpreter, sandbox and, where the recipe wants it, the host's toolkit.

    Raises:
        ToolchainError: as :func:`kernforge.toolchain.host.probe_host`, ``python-missing``, or as
            :func:`kernforge.toolchain.hostcuda.choose_toolkit`.
    """
    python = job.target.python
    interpreter = find_python(python, current=settings.python, uv=settings.uv, runner=runner)
    memory = Memory(settings.cache / "host")
    host = probe_host(python=interpreter, path=settings.path, memory=memory, runner=runner)
    sandbox = probe_sandbox(
        bwrap=settings.bwrap, uid=settings.uid, wanted=settings.sandbox, runner=runner
    )
    toolkit = None
    if job.recipe.build.toolkit == "host":
        roots = candidates(settings.cuda, settings.path, Path("/usr/local"))
        toolkit = choose_toolkit(
            roots, job.target.cuda, path=settings.path, memory=memory, runner=runner
        )
    return Machine(host=host, sandbox=sandbox, inside=inside_digest(), toolkit=toolkit)


def artifact_key(plan: Plan, machine: Machine) -> str:
    """The BuildKey of a plan on a machine."""
    return build_key(plan.recipe_key, machine.parts)


def compiled_key(plan: Plan, machine: Machine) -> str:
    """The key of what the compile alone leaves: another local version compiles nothing again."""
    return stage_key("compiled", plan.stage("build").key, machine.parts)
