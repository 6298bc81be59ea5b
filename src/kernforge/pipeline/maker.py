"""What the stages of one job share: its plan, machine, store and voice; and its environment."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kernforge.build.backend import torch_archs
from kernforge.build.plan import Plan
from kernforge.errors import ToolchainError
from kernforge.events import Listener, Note, StageEnded, StageStarted, Waiting
from kernforge.pipeline.gather import job_lock
from kernforge.pipeline.machine import Machine, probe_machine
from kernforge.pipeline.settings import Settings
from kernforge.process import Runner
from kernforge.store.local import Store
from kernforge.toolchain.cuda import REAL_NVCC, confirm_archs
from kernforge.toolchain.env import Environment, EnvOrder, existing, make_environment
from kernforge.toolchain.lock import Lock
from kernforge.toolchain.torchfacts import check_torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """All that the stages of one job need."""

    plan: Plan
    lock: Lock
    machine: Machine
    settings: Settings
    store: Store
    runner: Runner
    listen: Listener
    build_id: str
    wheels: tuple[tuple[Path, str], ...] = ()

    @property
    def job_id(self) -> str:
        """The job, for events and messages."""
        return self.plan.job.id

    @contextlib.contextmanager
    def stage(self, name: str, detail: str = "") -> Iterator[list[str]]:
        """Announce a stage; what is put into the list is told when it ends."""
        self.listen(StageStarted(job=self.job_id, stage=name, detail=detail))
        began, said = time.monotonic(), list[str]()
        yield said
        seconds = time.monotonic() - began
        reused = "reused" in said
        detail = ", ".join(word for word in said if word != "reused")
        self.listen(
            StageEnded(job=self.job_id, stage=name, seconds=seconds, detail=detail, reused=reused)
        )

    def note(self, text: str) -> None:
        """Tell the user something."""
        self.listen(Note(job=self.job_id, text=text))

    def waiting(self, what: str) -> Callable[[str, float], None]:
        """What a lock calls while another process holds it."""
        return lambda owner, seconds: self.listen(Waiting(what=what, owner=owner, seconds=seconds))


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


def ready_environment(maker: Maker) -> Environment:
    """The job's environment, made if it is not there, its compiler asked for every arch.

    Raises:
        ToolchainError: as :func:`make_environment` and :func:`confirm_archs`.
    """
    order = EnvOrder(
        lock=maker.lock,
        host=maker.machine.host,
        python=maker.plan.job.target.python,
        toolkit=maker.plan.job.recipe.build.toolkit == "wheels",
        wheels=maker.wheels,
    )
    folder = maker.store.folder("envs")
    with maker.stage("env", f"{len(maker.lock.pins)} locked packages") as said:
        shared = Store(folder.resolve().parent)  # caches may share environments by a link
        with shared.lock(f"env-{order.name}", waiting=maker.waiting("the environment")):
            known = existing(order, folder)
            said.extend(["reused"] if known else [])
            environment = known or make_environment(
                order, folder=folder, uv=maker.settings.uv, runner=maker.runner
            )
        _confirm(maker, environment)
        target = maker.plan.job.target
        if target.torch is not None:
            listed = torch_archs(target.archs)
            note = check_torch(environment.path, cuda=target.cuda, listed=listed)
            said.extend([note] if note else [])
    return environment


def _confirm(maker: Maker, environment: Environment) -> None:
    toolkit = maker.machine.toolkit
    if toolkit is not None:
        nvcc = toolkit.root / "bin/nvcc"
    elif environment.cuda is not None:
        nvcc = environment.path / environment.cuda / "bin" / REAL_NVCC
    else:
        raise ToolchainError("toolkit-incomplete", f"{maker.job_id}: no CUDA root in the lock")
    env = (("PATH", maker.settings.path), ("LC_ALL", "C.UTF-8"))
    confirm_archs(nvcc, maker.plan.job.target.archs, env=env, runner=maker.runner)
