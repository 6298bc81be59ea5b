"""The plan of a job: stages, commands and keys as plain data, from facts already read. Pure.

No file, process, clock or network: the caller reads lock and sources (`pipeline.gather`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernforge.build.backend import BackendCall, backend_call, fetch_content, fixed_environment
from kernforge.build.gencode import gencode_config
from kernforge.build.key import stage_key
from kernforge.canonical import canonical_json
from kernforge.recipe.matrix import Job, expand_local
from kernforge.toolchain.lock import Lock
from kernforge.toolchain.sandbox import Layout

PACK_VERSION = 3
DEFAULT_EPOCH = 1577836800
"""2020-01-01, the date of sources that carry none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceInput:
    """A source as read.

    Attributes:
        name: as in the recipe.
        pins: what decides its bytes, canonical JSON: a tree hash, or the pins of what is fetched.
        place: where it is put, relative to the folder of sources.
        patches: name and SHA-256 of each patch, in order.
        edits: canonical JSON of its edits.
    """

    name: str
    pins: str
    place: str
    patches: tuple[tuple[str, str], ...] = ()
    edits: str = "[]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What was read for a plan.

    Attributes:
        sources: the sources, in the order in which they are placed.
        lock: the lock of the environment.
        epoch: SOURCE_DATE_EPOCH in seconds; None where the source that decides it was not fetched
            yet. It follows from the sources and is therefore no part of a key.
        requires: name and recipe key of each recipe whose wheel the environment holds too.
    """

    sources: tuple[SourceInput, ...]
    lock: Lock
    epoch: int | None
    requires: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage: its key, what decides it (canonical JSON), and its command if it has one."""

    name: str
    key: str
    parts: str
    command: BackendCall | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that will be done for a job. ``epoch`` is None until its sources are fetched."""

    job: Job
    stages: tuple[Stage, ...]
    call: BackendCall
    local_version: str | None
    epoch: int | None

    @property
    def recipe_key(self) -> str:
        """SHA-256 over everything that pins decide."""
        return self.stages[-1].key

    def stage(self, name: str) -> Stage:
        """A stage by name."""
        return next(stage for stage in self.stages if stage.name == name)


def cuda_place(job: Job) -> str:
    """The CUDA root, relative to the layout's: in the environment by the wheels' convention."""
    if job.recipe.build.toolkit == "host":
        return "cuda"
    major = job.target.cuda.split(".")[0]
    return f"env/lib/python{job.target.python}/site-packages/nvidia/cu{major}"


def make_plan(job: Job, inputs: Inputs, layout: Layout) -> Plan:
    """Plan a job as it will run in ``layout``. Keys do not depend on the layout.

    Raises:
        RecipeError: as :func:`kernforge.build.backend.fixed_environment`.
    """
    env = fixed_environment(job, layout=layout, cuda=cuda_place(job), epoch=inputs.epoch)
    call = backend_call(job, layout=layout, env=env)
    template = job.recipe.publish.local_version
    local = None if template is None else expand_local(template, job.target)
    stages: list[Stage] = []
    for name, parts in _parts(job, inputs, local):
        before = stages[-1].key if stages else ""
        command = call if name == "build" else None
        key = stage_key(name, before, parts)
        stages.append(Stage(name=name, key=key, parts=canonical_json(parts), command=command))
    return Plan(job=job, stages=tuple(stages), call=call, local_version=local, epoch=inputs.epoch)


def _parts(job: Job, inputs: Inputs, local: str | None) -> list[tuple[str, Mapping[str, Any]]]:
    requires = {"requires": [list(pair) for pair in inputs.requires]} if inputs.requires else {}
    changed = [s for s in inputs.sources if s.patches or s.edits != "[]"]
    return [
        ("fetch", {"sources": [[s.name, s.place, json.loads(s.pins)] for s in inputs.sources]}),
        ("patch", {"sources": [_changes(source) for source in changed]}),
        ("env", {"lock": inputs.lock.content, "python": job.target.python, **requires}),
        ("build", _build_parts(job)),
        ("pack", {"pack": PACK_VERSION, "distribution": job.recipe.distribution, "local": local}),
    ]


def _changes(source: SourceInput) -> list[Any]:
    return [source.name, [list(p) for p in source.patches], json.loads(source.edits)]


def _build_parts(job: Job) -> dict[str, Any]:
    build, target = job.recipe.build, job.target
    return {
        "source": job.recipe.main_source,
        "subdir": build.subdir,
        "backend": build.backend,
        "toolkit": build.toolkit,
        "cmake": [list(pair) for pair in build.cmake],
        "settings": [list(pair) for pair in build.config_settings],
        "env": [list(pair) for pair in build.env],
        "gencode": gencode_config(build.gencode, target.archs),
        "archs": [str(arch) for arch in target.archs],
        "cuda": target.cuda,
        "torch": target.torch,
        "platform": target.platform,
        "version": canonical_version(job),
        "fetchcontent": [list(pair) for pair in fetch_content(job)],
    }


def canonical_version(job: Job) -> str | None:
    """The version the recipe gives, or None where it is read from upstream."""
    version = job.recipe.version
    return version if isinstance(version, str) else None
