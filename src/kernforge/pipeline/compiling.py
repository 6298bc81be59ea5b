"""Compiles a job: its workspace, its steward, its compile cache, what it leaves.

A compile that failed or was interrupted goes on where it stopped: its workspace stays, under its
key, with the sources put back.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from kernforge.build.backend import BackendCall, fetch_content, source_place
from kernforge.build.compile import Built, compile_wheel, tell_free
from kernforge.build.compilecache import CompileCache
from kernforge.build.effort import Effort
from kernforge.build.failures import progress
from kernforge.build.gencode import gencode_config
from kernforge.build.history import History, Took, learned, read_history, write_history
from kernforge.build.ledger import Made, Record, read_ledger, summarise
from kernforge.build.live import Watch, expected_of
from kernforge.build.memory import choose_budget, free_memory
from kernforge.build.plan import DEFAULT_EPOCH, Plan, cuda_place
from kernforge.build.processors import usable_processors
from kernforge.build.resume import (
    drop_unfinished,
    is_stamped,
    restore,
    stamp,
    unstamp,
)
from kernforge.build.unused import UnusedOptions
from kernforge.build.workspace import Workspace, World, claim_real_root, clear, prepare, run_inside
from kernforge.errors import CompileError, KernforgeError
from kernforge.events import Listener
from kernforge.pack.archive import elf_files, unpack, write_wheel
from kernforge.pack.buildid import settle_build_id
from kernforge.pack.licences import find_licences
from kernforge.pack.wheel import dist_info
from kernforge.pipeline.cachetrial import usable_cache
from kernforge.pipeline.layout import check_layout
from kernforge.pipeline.machine import Machine, compiled_key
from kernforge.pipeline.maker import Maker, ready_environment
from kernforge.pipeline.sources import place_sources
from kernforge.process import Sink
from kernforge.store.local import Entry, Store
from kernforge.toolchain.env import Environment

_STRIP_BATCH = 200
_SEEDED = 13
"""First CUDA release whose nvcc was tried with -frandom-seed."""
_TICK = 0.5


def work_folder(store: Store, plan: Plan, machine: Machine) -> Path:
    """Where a job is compiled, on this machine."""
    if machine.sandbox.bwrap is None:
        return Path(machine.sandbox.layout.root)
    return store.folder("work") / compiled_key(plan, machine)[:24]


def follow(store: Store, plan: Plan, machine: Machine, listen: Listener) -> Callable[[], None]:
    """What to call while another process builds the same: tells the listener how far it is."""
    watches: list[Watch] = []
    told = [0.0]

    def tick() -> None:
        if time.monotonic() - told[0] < _TICK:
            return
        told[0] = time.monotonic()
        if not watches:
            ledger = work_folder(store, plan, machine) / "ledger"
            watches.append(Watch(ledger, plan.job.id, listen, jobs=None))
        watches[0].tick()

    return tick


def compiled(maker: Maker) -> tuple[Entry, Environment]:
    """What the compile of a job leaves, from the store or made now, and the job's environment.

    Raises:
        KernforgeError: whatever a stage reports.
    """
    key = compiled_key(maker.plan, maker.machine)
    with maker.store.lock(f"work-{key}", waiting=maker.waiting("the same compile")):
        known = maker.store.get("compiled", key, told=maker.note)
        if known is not None:
            with maker.stage("build") as said:
                said.append("reused")
            return known, ready_environment(maker)
        root = work_folder(maker.store, maker.plan, maker.machine)
        if maker.machine.sandbox.bwrap is not None:
            return _compile(maker, root, key)
        claim_real_root(root)
        with Store(root).lock("build", waiting=maker.waiting(str(root))):
            return _compile(maker, root, key)


def _compile(maker: Maker, root: Path, key: str) -> tuple[Entry, Environment]:
    with maker.store.scratch() as scratch:
        tree = _placed(maker, scratch / "src")
        licences = find_licences(scratch / "src")
        environment = ready_environment(maker)
        space = _space(maker, environment, root, scratch / "src", (key, tree))
    log = root / "build.log"
    log.unlink(missing_ok=True)
    history = _history_place(maker)
    effort = _effort(maker, space, read_history(history), log)
    began = time.monotonic()
    with maker.stage("build", f"{effort.jobs} at once") as said:
        sink = _sink(maker, log, space, effort.known)
        try:
            built = compile_wheel(maker.plan, space, sink, effort=effort, runner=maker.runner)
        finally:
            _remember(maker, history, read_ledger(space.folder("ledger")))
        summary = summarise(built.records)
        said.extend(text for text in (summary.text, built.cache_text) if text)
    for note in summary.notes:
        maker.note(note)
    wheel = _stripped(maker, space, built, sink)
    about = {"wheel": built.wheel.name, "tree": tree, "seconds": round(time.monotonic() - began, 3)}
    about |= {"jobs": effort.jobs, "licences": [asdict(found) for found in licences]}
    about |= _cache_facts(effort.cache, built)
    files = {built.wheel.name: wheel, "build.log": log, "ledger.jsonl": _ledger_file(space)}
    entry = maker.store.put("compiled", key, files, about)
    clear(root)
    return entry, environment


def _placed(maker: Maker, src: Path) -> str:
    """Place the sources: what is wrong with them is told before the environment is made."""
    with maker.stage("patch") as said:
        tree = place_sources(maker.plan, src, maker.settings, runner=maker.runner)
        check_layout(maker.plan.job, src)
        said.append(f"tree {tree[:16]}")
    return tree


def _space(
    maker: Maker, environment: Environment, root: Path, src: Path, identity: tuple[str, str]
) -> Workspace:
    """The workspace, new or as a stopped compile left it, with the sources in it."""
    machine, job = maker.machine, maker.plan.job
    world = World(
        sandbox=machine.sandbox,
        host=machine.host,
        env=environment,
        cuda=cuda_place(job),
        toolkit=machine.toolkit,
        cache=maker.settings.compile_cache,
        seeded=int(job.target.cuda.split(".")[0]) >= _SEEDED,
    )
    if world.cache is not None:
        for folder in (world.cache.folder, world.cache.calls):
            folder.mkdir(parents=True, exist_ok=True)
    gencode = gencode_config(job.recipe.build.gencode, job.target.archs)
    resumed = not maker.settings.fresh and is_stamped(root, *identity)
    space = prepare(root, world, gencode=gencode, runner=maker.runner, resumed=resumed)
    if resumed:
        copies = tuple(source_place(job, name) for _, name in fetch_content(job))
        placed = frozenset(path.relative_to(src).as_posix() for path in src.rglob("*"))
        restore(src, space.folder("src"), copies)
        records = read_ledger(space.folder("ledger"))
        for name, known in (("src", placed), ("build", frozenset[str]())):
            drop_unfinished(space.folder(name), known, Made(records))
        maker.note(
            f"Goes on with the compile that stopped: {progress(records)} (--fresh begins anew)"
        )
    else:
        space.folder("src").rmdir()
        shutil.move(src, space.folder("src"))
        stamp(root, *identity)
    return space


def _history_place(maker: Maker) -> Path:
    return maker.settings.cache / "history" / f"{maker.plan.job.recipe.name}.json"


def _remember(maker: Maker, place: Path, records: tuple[Record, ...]) -> None:
    """Keep what each call took; a cache that cannot be written loses nothing but time."""
    try:
        with maker.store.lock(f"history-{place.stem}", waiting=lambda _owner, _seconds: None):
            write_history(place, learned(read_history(place), records))
    except (OSError, KernforgeError) as error:
        maker.note(f"What the compiles took cannot be kept: {error}")


def _effort(maker: Maker, space: Workspace, known: History, log: Path) -> Effort:
    """What this run may use: the user's wishes, and what the machine has now."""
    settings = maker.settings
    if settings.no_cache:
        maker.note(settings.no_cache)
    effort = Effort(
        jobs=settings.jobs,
        threads=settings.threads,
        budget=choose_budget(free_memory(), settings.memory),
        processors=usable_processors(),
        default=maker.plan.job.recipe.build.memory,
        cache=settings.compile_cache,
        known=known,
    )
    return usable_cache(maker, space, effort, log)


def _cache_facts(cache: CompileCache | None, built: Built) -> dict[str, object]:
    """What is recorded of the compile cache: an object that came from it was not compiled here."""
    hits = built.counts.hit_count
    for record in built.records:  # a run that was resumed has left its records, no counts
        hits += record.cache == "whole"
        hits += record.cache in {"hit", "part"} and not built.counts.hit_count
    kind = cache.kind if cache else "none"
    return {"compile_cache": {"kind": kind, "hits": hits}, "cache_counts": built.counts.to_dict()}


def _sink(maker: Maker, log: Path, space: Workspace, known: Mapping[str, Took]) -> Sink:
    """Where a build's output goes; an option that nothing reads stops it before it compiles."""
    recipe = maker.plan.job.recipe
    unused = UnusedOptions(tuple(name for name, _ in recipe.build.cmake))
    watch = Watch(
        space.folder("ledger"),
        maker.job_id,
        maker.listen,
        jobs=maker.settings.jobs,
        expected=expected_of(known, len(maker.plan.job.target.archs)),
    )

    def tick() -> None:
        """Look at the build, and let it know what is free."""
        watch.tick()
        tell_free(space, free_memory())

    def heard(line: str) -> None:
        """Take in a line of the build's output."""
        watch.line(line)
        if names := unused.hear(line):
            unstamp(space.root)  # CMake has kept the option: a build that goes on says nothing
            raise CompileError(
                "option-unused",
                f"{maker.job_id}: nothing reads build.cmake {', '.join(names)}; log: {log}",
                hint="was it renamed upstream? `kernforge lint --sources` names the nearest; mend "
                "it, or leave it out: it has no effect",
            )

    return Sink(log=log, on_line=heard, timeout=recipe.build.timeout, on_tick=tick)


def _ledger_file(space: Workspace) -> Path:
    joined = space.root / "ledger.jsonl"
    with joined.open("wb") as sink:
        for part in sorted(space.folder("ledger").glob("*.jsonl")):
            sink.write(part.read_bytes())
    return joined


def _stripped(maker: Maker, space: Workspace, built: Built, sink: Sink) -> Path:
    """The backend's wheel without the symbols that only a linker needs.

    Names of temporary files are among them (``strip -x`` keeps those), and a compile cache's
    objects spell them otherwise.
    """
    tree = space.folder("wheel") / "tree"
    unpack(built.wheel, tree)
    layout = space.layout
    names = [layout.at("wheel/tree", str(path.relative_to(tree))) for path in elf_files(tree)]
    env = (("PATH", layout.at("host")), ("LC_ALL", "C.UTF-8"))
    for start in range(0, len(names), _STRIP_BATCH):
        argv = (
            layout.at("host/strip"),
            "--strip-unneeded",
            "--",
            *names[start : start + _STRIP_BATCH],
        )
        call = BackendCall(argv=argv, env=env, cwd=layout.at("wheel"))
        if status := run_inside(space, call, sink, runner=maker.runner):
            raise CompileError(
                "strip-failed", f"{maker.job_id}: strip ended with {status}; log: {sink.log}"
            )
    for path in elf_files(tree):
        settle_build_id(path)
        path.chmod(0o755)  # CMake leaves it off where it finds /etc/debian_version
    info = dist_info(tree, maker.job_id).name
    target = space.root / built.wheel.name
    write_wheel(
        tree, target, info_dir=info, epoch=maker.plan.epoch or DEFAULT_EPOCH, compress=False
    )
    return target
