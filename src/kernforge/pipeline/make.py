"""Makes an artifact that the store does not hold: compile, pack, facts."""

from __future__ import annotations

import hashlib
import shutil

from kernforge.binary.codec import to_json
from kernforge.binary.wheel import read_wheel
from kernforge.build.plan import DEFAULT_EPOCH
from kernforge.canonical import canonical_json
from kernforge.pack.archive import unpack
from kernforge.pack.wheel import PackOrder, build_tag, repack
from kernforge.pipeline.compiling import compiled
from kernforge.pipeline.documents import Making, inner_documents, statement
from kernforge.pipeline.machine import artifact_key
from kernforge.pipeline.maker import Maker
from kernforge.recipe.model import UpstreamVersion
from kernforge.store.local import Entry
from kernforge.store.witness import check_bytes
from kernforge.toolchain.env import Environment


def make_artifact(maker: Maker) -> Entry:
    """Make a job's artifact and keep it. The caller holds the lock of its key.

    Raises:
        KernforgeError: whatever a stage reports.
    """
    entry, environment = compiled(maker)
    return _packed(maker, entry, environment)


def _order(maker: Maker, key: str) -> PackOrder:
    recipe = maker.plan.job.recipe
    upstream = recipe.version if isinstance(recipe.version, UpstreamVersion) else None
    return PackOrder(
        where=maker.job_id,
        distribution=recipe.distribution,
        exact=recipe.version if isinstance(recipe.version, str) else None,
        expect=upstream.expect if upstream else None,
        local=maker.plan.local_version,
        build_tag=build_tag(key),
        epoch=maker.plan.epoch or DEFAULT_EPOCH,
        torch=maker.plan.job.target.torch,
    )


def _packed(maker: Maker, entry: Entry, environment: Environment) -> Entry:
    key = artifact_key(maker.plan, maker.machine)
    meta = entry.facts()
    making = Making(plan=maker.plan, lock=maker.lock, machine=maker.machine, key=key)
    with maker.stage("pack") as said, maker.store.scratch() as scratch:
        tree = scratch / "tree"
        unpack(entry.path / meta["wheel"], tree)
        order = _order(maker, key)
        documents = inner_documents(making, tree, order, meta, environment.path)
        wheel = repack(tree, meta["wheel"], order, documents=documents, into=scratch)
        facts = scratch / "facts.json"
        facts.write_text(canonical_json(to_json(read_wheel(wheel))), encoding="utf-8")
        provenance = scratch / "provenance.json"
        with wheel.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        check_bytes(maker.store, key, maker.job_id, sha256)
        text = statement(making, (wheel.name, sha256), maker.build_id, meta)
        provenance.write_text(text, encoding="utf-8")
        files = {wheel.name: wheel, facts.name: facts, provenance.name: provenance}
        for name in ("build.log", "ledger.jsonl"):
            shutil.copyfile(entry.path / name, scratch / name)
            files[name] = scratch / name
        said.append(wheel.name)
        about = {"wheel": wheel.name, "job": maker.job_id, "build_id": maker.build_id}
        return maker.store.put("artifact", key, files, about)
