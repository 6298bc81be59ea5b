"""Makes an artifact that the store does not hold: environment, compile, pack, facts."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from kernforge.binary.codec import to_json
from kernforge.binary.wheel import read_wheel
from kernforge.build.backend import BackendCall, torch_archs
from kernforge.build.compile import Built, compile_wheel
from kernforge.build.gencode import gencode_config
from kernforge.build.ledger import summarise
from kernforge.build.plan import DEFAULT_EPOCH, Plan, cuda_place
from kernforge.build.workspace import Workspace, World, claim_real_root, clear, prepare, run_inside
from kernforge.canonical import canonical_json
from kernforge.errors import CompileError, ToolchainError
from kernforge.events import Listener, Note, Output, StageEnded, StageStarted, Waiting
from kernforge.pack.archive import elf_files, unpack, write_wheel
from kernforge.pack.licences import find_licences
from kernforge.pack.wheel import PackOrder, build_tag, dist_info, repack
from kernforge.pipeline.documents import Making, inner_documents, statement
from kernforge.pipeline.gather import job_lock
from kernforge.pipeline.machine import Machine, artifact_key, compiled_key, probe_machine
from kernforge.pipeline.settings import Settings
from kernforge.pipeline.sources import place_sources
from kernforge.process import Runner, Sink
from kernforge.recipe.model import UpstreamVersion
from kernforge.store.local import Entry, Store
from kernforge.store.witness import check_bytes
from kernforge.toolchain.cuda import REAL_NVCC, confirm_archs
from kernforge.toolchain.env import Environment, EnvOrder, existing, make_environment
from kernforge.toolchain.lock import Lock
from kernforge.toolchain.torchfacts import check_torch

_STRIP_BATCH = 200


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


def make_artifact(maker: Maker) -> Entry:
    """Make a job's artifact and keep it. The caller holds the lock of its key.

    Raises:
        KernforgeError: whatever a stage reports.
    """
    environment = ready_environment(maker)
    compiled = _compiled(maker, environment)
    return _packed(maker, compiled, environment)


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


def _compiled(maker: Maker, environment: Environment) -> Entry:
    key = compiled_key(maker.plan, maker.machine)
    with maker.store.lock(f"work-{key}", waiting=maker.waiting("the same compile")):
        known = maker.store.get("compiled", key, told=maker.note)
        if known is not None:
            with maker.stage("build") as said:
                said.append("reused")
            return known
        if maker.machine.sandbox.bwrap is not None:
            root = maker.store.folder("work") / key[:24]
            return _compile(maker, environment, root, key)
        root = Path(maker.machine.sandbox.layout.root)
        claim_real_root(root)
        with Store(root).lock("build", waiting=maker.waiting(str(root))):
            return _compile(maker, environment, root, key)


def _compile(maker: Maker, environment: Environment, root: Path, key: str) -> Entry:
    plan, machine = maker.plan, maker.machine
    with maker.stage("patch") as said:
        world = World(
            sandbox=machine.sandbox,
            host=machine.host,
            env=environment,
            cuda=cuda_place(plan.job),
            toolkit=machine.toolkit,
        )
        gencode = gencode_config(plan.job.recipe.build.gencode, plan.job.target.archs)
        space = prepare(root, world, gencode=gencode, runner=maker.runner)
        tree = place_sources(plan, space.folder("src"), maker.settings, runner=maker.runner)
        licences = find_licences(space.folder("src"))
        said.append(f"tree {tree[:16]}")
    log = root / "build.log"
    log.unlink(missing_ok=True)
    timeout = plan.job.recipe.build.timeout

    def heard(line: str) -> None:
        maker.listen(Output(job=maker.job_id, line=line))

    sink = Sink(log=log, on_line=heard, timeout=timeout)
    began = time.monotonic()
    with maker.stage("build", f"{maker.settings.jobs} at once") as said:
        built = compile_wheel(plan, space, sink, jobs=maker.settings.jobs, runner=maker.runner)
        summary = summarise(built.records)
        said.append(summary.text)
    for note in summary.notes:
        maker.note(note)
    wheel = _stripped(maker, space, built, sink)
    seconds = round(time.monotonic() - began, 3)
    about = {"wheel": built.wheel.name, "tree": tree, "seconds": seconds}
    about |= {"jobs": maker.settings.jobs, "licences": [asdict(found) for found in licences]}
    files = {built.wheel.name: wheel, "build.log": log, "ledger.jsonl": _ledger_file(space)}
    entry = maker.store.put("compiled", key, files, about)
    clear(root)
    return entry


def _ledger_file(space: Workspace) -> Path:
    joined = space.root / "ledger.jsonl"
    with joined.open("wb") as sink:
        for part in sorted(space.folder("ledger").iterdir()):
            sink.write(part.read_bytes())
    return joined


def _stripped(maker: Maker, space: Workspace, built: Built, sink: Sink) -> Path:
    """The backend's wheel without local symbols: sccache's objects differ in one of them."""
    tree = space.folder("wheel") / "tree"
    unpack(built.wheel, tree)
    layout = space.layout
    names = [layout.at("wheel/tree", str(path.relative_to(tree))) for path in elf_files(tree)]
    env = (("PATH", layout.at("host")), ("LC_ALL", "C.UTF-8"))
    for start in range(0, len(names), _STRIP_BATCH):
        argv = (layout.at("host/strip"), "-x", "--", *names[start : start + _STRIP_BATCH])
        call = BackendCall(argv=argv, env=env, cwd=layout.at("wheel"))
        if status := run_inside(space, call, sink, runner=maker.runner):
            raise CompileError(
                "strip-failed", f"{maker.job_id}: strip ended with {status}; log: {sink.log}"
            )
    info = dist_info(tree, maker.job_id).name
    target = space.root / built.wheel.name
    write_wheel(
        tree, target, info_dir=info, epoch=maker.plan.epoch or DEFAULT_EPOCH, compress=False
    )
    return target


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


def _packed(maker: Maker, compiled: Entry, environment: Environment) -> Entry:
    key = artifact_key(maker.plan, maker.machine)
    meta = compiled.facts()
    making = Making(plan=maker.plan, lock=maker.lock, machine=maker.machine, key=key)
    with maker.stage("pack") as said, maker.store.scratch() as scratch:
        tree = scratch / "tree"
        unpack(compiled.path / meta["wheel"], tree)
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
            shutil.copyfile(compiled.path / name, scratch / name)
            files[name] = scratch / name
        said.append(wheel.name)
        about = {"wheel": wheel.name, "job": maker.job_id, "build_id": maker.build_id}
        return maker.store.put("artifact", key, files, about)
