"""Fits a compile cache to a build: what names its entries, and whether sccache works there.

It is tried with the nvcc that is to use it, once a toolchain, and the answer is kept.

sccache reads what nvcc says of its own steps, and newer releases say it otherwise: 0.16 fails from
CUDA 13.3 on. A two-line kernel is compiled twice; the second time its PTX and cubin must come from
the cache.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

from kernforge.build.backend import BackendCall
from kernforge.build.compile import give_order, read_statistics, stewarded
from kernforge.build.compilecache import CompileCache, host_salt, works
from kernforge.build.effort import Effort
from kernforge.build.workspace import Workspace, run_inside
from kernforge.canonical import canonical_json, digest
from kernforge.pipeline.maker import Maker
from kernforge.process import Sink
from kernforge.toolchain.sandbox import compiler_prefixes, interpreter_parts

_VERSION = 2
_KERNEL = "__global__ void trial(int *out)\n{ *out = 1; }\n"
_SECONDS = 120.0


def usable_cache(maker: Maker, space: Workspace, effort: Effort, log: Path) -> Effort:
    """The effort with the compile cache, less sccache where it does not work with this nvcc."""
    if effort.cache is None:
        return effort
    host = maker.machine.host
    world = {"environment": space.world.env.path.name, "machine": maker.machine.parts}
    shown = (*compiler_prefixes(host), *host.shown, *interpreter_parts(host.python))
    salted = replace(
        effort.cache,
        salt=host_salt(host.identity),
        world=digest(world),
        shown=tuple(map(str, shown)),
    )
    effort = replace(effort, cache=salted)
    if salted.program is None:
        return effort
    key = _trial_key(maker, space, salted.program, salted)
    known = maker.store.get("trial", key, told=lambda _text: None)
    if known is None:
        good, sure = _tried(maker, space, effort, log)
        if sure and (good or not salted.network):  # a storage that is silent says nothing of nvcc
            _keep(maker, key, good=good)
    else:
        good, sure = json.loads((known.path / "trial.json").read_bytes())["works"], True
    if good:
        return effort
    again = "" if sure else "; the next build tries it again"
    storage = ", ".join(name for name, _ in salted.storage if name.startswith("SCCACHE_"))
    what = f"the storage of [compile-cache] ({storage}) or this nvcc" if storage else "this nvcc"
    maker.note(
        f"sccache does not work with {what} (tried on a small kernel): only whole calls are kept"
        f"{again}"
    )
    return replace(effort, cache=replace(salted, program=None))


def _trial_key(maker: Maker, space: Workspace, sccache: Path, cache: CompileCache) -> str:
    """Of the toolchain alone: what is built with it, and from which sources, is all one."""
    with sccache.open("rb") as file:
        program = hashlib.file_digest(file, "sha256").hexdigest()
    return digest(
        {
            "trial": _VERSION,
            "program": program,
            "environment": space.world.env.path.name,
            "machine": maker.machine.parts,
            "storage": [name for name, _ in cache.storage],
        }
    )


def _tried(maker: Maker, space: Workspace, effort: Effort, log: Path) -> tuple[bool, bool]:
    """Compile a small kernel twice in the build's own world; nothing of it stays.

    Returns:
        Whether its steps came from the cache, and whether that was sccache's own answer: a server
        that did not start, or a compile that failed, may be the fault of this hour.
    """
    layout, env = space.layout, dict(maker.plan.call.env)
    kernel = space.folder("tmp") / "trial.cu"
    kernel.write_text(_KERNEL, encoding="utf-8")
    arch = maker.plan.job.target.archs[0].code
    argv = (env["CUDACXX"], f"-gencode=arch=compute_{arch},code=sm_{arch}", "-c", kernel.name)
    call = BackendCall(argv=(*argv, "-o", "trial.o"), env=maker.plan.call.env, cwd=layout.at("tmp"))
    sink = Sink(log=log, on_line=lambda _line: None, timeout=_SECONDS)
    ledger = space.folder("ledger") / "calls.jsonl"
    before = ledger.stat().st_size if ledger.exists() else 0
    good = sure = False
    with maker.stage("cache", "trying sccache with this nvcc"):
        for _ in range(2):
            order = give_order(space, replace(effort, known={}), "trial.json")
            status = run_inside(space, stewarded(space, call, order), sink, runner=maker.runner)
            counts = read_statistics(space)
            sure = status == 0 and counts.hit_count + counts.miss_count > 0
            good = sure and works(counts)
            if not sure:
                break
    for left in space.folder("tmp").iterdir():  # sccache's folders too, where its server was killed
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    if ledger.exists():
        with ledger.open("r+b") as file:
            file.truncate(before)
    log.unlink(missing_ok=True)
    return good, sure


def _keep(maker: Maker, key: str, *, good: bool) -> None:
    with maker.store.scratch() as scratch:
        path = scratch / "trial.json"
        path.write_text(canonical_json({"works": good}), encoding="utf-8")
        maker.store.put("trial", key, {path.name: path}, {})
