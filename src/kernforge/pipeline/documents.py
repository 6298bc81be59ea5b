"""The documents of an artifact: ``build.json`` and the bill inside the wheel, provenance beside it.

What stands in the wheel follows from its key alone; all that varies stands in the provenance.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernforge import __version__
from kernforge.build.plan import Plan
from kernforge.canonical import canonical_json
from kernforge.pack.licences import Vendored, installed_licences
from kernforge.pack.metadata import header
from kernforge.pack.provenance import (
    NO_CACHE,
    BuildRun,
    BuiltWheel,
    CacheUse,
    Ingredients,
    provenance_text,
)
from kernforge.pack.sbom import PLACE, BillOrder, sbom_text
from kernforge.pack.wheel import PackOrder, dist_info, final_name
from kernforge.pipeline.machine import Machine
from kernforge.toolchain.lock import Lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """What the documents of one artifact are made of: its plan, lock, machine and key."""

    plan: Plan
    lock: Lock
    machine: Machine
    key: str


def build_document(making: Making) -> str:
    """``build.json``: the keyed inputs and nothing else, so that equal keys give equal bytes."""
    plan = making.plan
    stages = {stage.name: json.loads(stage.parts) for stage in plan.stages}
    document = {
        "format": 1,
        "job": plan.job.id,
        "recipe": plan.job.recipe.name,
        "recipe_key": plan.recipe_key,
        "build_key": making.key,
        "stages": stages,
        "machine": making.machine.parts,
    }
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _sources(plan: Plan) -> tuple[tuple[str, str, str], ...]:
    rows = json.loads(plan.stage("fetch").parts)["sources"]
    return tuple((name, place, canonical_json(pins)) for name, place, pins in rows)


def inner_documents(
    making: Making, tree: Path, order: PackOrder, meta: dict[str, Any], environment: Path
) -> tuple[tuple[str, str], ...]:
    """Name and text of each document that goes into dist-info.

    Args:
        making: what is made.
        tree: the backend's wheel, unpacked.
        order: what the wheel is to say.
        meta: what the compile left, its licences among it.
        environment: the environment that it was compiled in.

    Raises:
        VerifyError: as :func:`kernforge.pack.wheel.final_name`.
    """
    metadata = (dist_info(tree, order.where) / "METADATA").read_text(encoding="utf-8")
    name = final_name(meta["wheel"], metadata, order)
    bill = BillOrder(
        distribution=order.distribution,
        version=name.version,
        licence=next(iter(header(metadata, "License-Expression")), None),
        key=making.key,
        sources=_sources(making.plan),
        vendored=tuple(Vendored(**found) for found in meta["licences"]),
        pins=making.lock.pins,
        licences=installed_licences(environment),
    )
    return ("build.json", build_document(making)), (PLACE, sbom_text(bill))


def statement(making: Making, wheel: tuple[str, str], build_id: str, meta: dict[str, Any]) -> str:
    """The provenance of a wheel, given by file name and SHA-256."""
    sandbox = making.machine.sandbox
    cache = CacheUse(**meta["compile_cache"]) if "compile_cache" in meta else NO_CACHE
    network = "cut" if sandbox.network_cut else "reachable"
    if sandbox.network_cut and cache.kind == "network":
        network = "reachable through the compile cache"
    run = BuildRun(
        build_id=build_id,
        kernforge=__version__,
        finished=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        seconds=meta["seconds"],
        jobs=meta["jobs"],
        tree=meta["tree"],
        sandbox=(
            ("layout", sandbox.layout.name),
            ("network_cut", sandbox.network_cut),
            ("network", network),
            ("reason", sandbox.reason),
        ),
        compile_cache=cache,
    )
    ingredients = Ingredients(
        sources=tuple((name, pins) for name, _, pins in _sources(making.plan)),
        pins=making.lock.pins,
        machine=making.machine.parts,
    )
    recipe_key = making.plan.recipe_key
    built = BuiltWheel(name=wheel[0], sha256=wheel[1], key=making.key, recipe_key=recipe_key)
    return provenance_text(built, making.plan.job, ingredients, run)
