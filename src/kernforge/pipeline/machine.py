"""What this machine adds to a key: the host toolchain and the sandbox that holds here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from kernforge.build.key import build_key, stage_key
from kernforge.build.plan import Plan
from kernforge.build.workspace import inside_digest
from kernforge.pipeline.settings import Settings
from kernforge.process import Runner
from kernforge.recipe.matrix import Job
from kernforge.recipe.model import CargoSource
from kernforge.toolchain.env import find_python
from kernforge.toolchain.host import Host, Memory, probe_host
from kernforge.toolchain.hostcuda import HostToolkit, candidates, choose_toolkit
from kernforge.toolchain.programs import RUST, Wanted, with_programs
from kernforge.toolchain.sandbox import Sandbox, interpreter_parts, probe_sandbox, unmasked

_LEFT_VERSION = 4
"""Of what is done to a backend's wheel before it is kept: stripped, build IDs made anew, modes."""


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
        layout = [self.sandbox.layout.name, self.sandbox.layout.root]
        if self.sandbox.unmasked:
            layout.append(self.sandbox.unmasked)
        host = dict((*self.host.identity, *self.host.asked))
        if self.toolkit is not None:
            host["toolkit"] = self.toolkit.digest
        return {"host": host, "layout": layout, "inside": self.inside}


def job_programs(job: Job) -> tuple[str, ...]:
    """The programs of the host that a job's build calls beside compiler and shell tools."""
    crates = any(isinstance(source, CargoSource) for _, source in job.recipe.sources)
    return tuple(dict.fromkeys((*job.recipe.build.programs, *(RUST if crates else ()))))


def probe_machine(job: Job, settings: Settings, *, runner: Runner) -> Machine:
    """Find compiler, interpreter, sandbox and what else of the host the recipe wants.

    Raises:
        ToolchainError: as :func:`kernforge.toolchain.host.probe_host`, ``python-missing``, as
            :func:`kernforge.toolchain.programs.with_programs`, or as
            :func:`kernforge.toolchain.hostcuda.choose_toolkit`.
    """
    python = job.target.python
    interpreter = find_python(python, current=settings.python, uv=settings.uv, runner=runner)
    memory = Memory(settings.cache / "host")
    host = probe_host(python=interpreter, path=settings.path, memory=memory, runner=runner)
    wanted = Wanted(programs=job_programs(job), who=job.id, env=settings.fetching.env)
    host = with_programs(host, wanted, path=settings.path, memory=memory, runner=runner)
    sandbox = probe_sandbox(
        bwrap=settings.bwrap, uid=settings.uid, wanted=settings.sandbox, runner=runner
    )
    if sandbox.bwrap is None:
        sandbox = replace(sandbox, unmasked=unmasked(interpreter_parts(host.python)))
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
    parts = machine.parts | {"left": _LEFT_VERSION}
    return stage_key("compiled", plan.stage("build").key, parts)
