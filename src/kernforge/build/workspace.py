"""The folders of one build, our programs in them, and the call that runs the backend there."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernforge.build.backend import SHIMMED, BackendCall
from kernforge.errors import ToolchainError
from kernforge.process import Command, Runner, Sink
from kernforge.toolchain.cuda import REAL_NVCC
from kernforge.toolchain.env import Environment
from kernforge.toolchain.host import COMPILERS, Host
from kernforge.toolchain.hostcuda import HostToolkit, link_toolkit
from kernforge.toolchain.sandbox import Layout, Mount, Sandbox, bwrap_argv, inside_env

_INSIDE = Path(__file__).parent.parent / "inside"
_PROGRAMS = ("shim.py", "guard.py")
_WRITABLE = ("src", "build", "out", "tmp", "home", "ledger", "wheel")
_LAUNCHER = '#!/bin/sh\nexec {python} -I -S {shim} {tool} "$@"\n'


def inside_digest() -> str:
    """SHA-256 over the programs that run inside a build."""
    digest = hashlib.sha256(_LAUNCHER.encode())
    for name in _PROGRAMS:
        digest.update((_INSIDE / name).read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a build is given: sandbox, host, environment, CUDA root.

    Attributes:
        sandbox: what holds here.
        host: the programs that it may call.
        env: the environment.
        cuda: the CUDA root as the build sees it, relative to the layout's root.
        toolkit: the host's toolkit where the root is made of it, else None.
    """

    sandbox: Sandbox
    host: Host
    env: Environment
    cuda: str
    toolkit: HostToolkit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """The real folders of a build and how the build sees them."""

    root: Path
    world: World

    @property
    def layout(self) -> Layout:
        """How the build sees things."""
        return self.world.sandbox.layout

    def folder(self, name: str) -> Path:
        """A real folder of the workspace."""
        return self.root / name

    def mounts(self) -> tuple[Mount, ...]:
        """What the sandbox binds."""
        own = [Mount(source=self.root / n, place=n, writable=n in _WRITABLE) for n in _WRITABLE]
        fixed = [Mount(source=self.root / n, place=n, writable=False) for n in ("shim", "host")]
        fixed.append(Mount(source=self.world.env.path, place="env", writable=False))
        if self.world.toolkit is not None:
            fixed.append(Mount(source=self.root / "cuda", place="cuda", writable=False))
            root = self.world.toolkit.root
            fixed.append(Mount(source=root, place="toolkit", writable=False))
        return (*own, *fixed)

    def command(self, argv: tuple[str, ...], env: tuple[tuple[str, str], ...], cwd: str) -> Command:
        """A command that runs in this build's world."""
        if self.world.sandbox.bwrap is None:
            guard = (self.layout.at("env/bin/python"), "-I", "-S", self.layout.at("shim/guard.py"))
            return Command(argv=(*guard, *argv), env=env, cwd=Path(cwd))
        call = bwrap_argv(
            self.world.sandbox.bwrap,
            mounts=self.mounts(),
            layout=self.layout,
            host=self.world.host,
            cwd=cwd,
        )
        return Command(argv=(*inside_env(call, env), "--", *argv), env=())


def claim_real_root(root: Path) -> None:
    """Make the constant real folder ours: 0700, owned by us, no link.

    Raises:
        ToolchainError: ``workspace-unsafe``.
    """
    try:
        root.mkdir(mode=0o700, exist_ok=True)
        status = root.lstat()
    except OSError as error:
        raise ToolchainError(
            "workspace-unsafe", f"{str(root)!r} cannot be used: {error.strerror}"
        ) from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise ToolchainError(
            "workspace-unsafe",
            f"{str(root)!r} is a link or belongs to somebody else",
            hint="remove it; builds without bubblewrap need this very folder",
        )
    root.chmod(0o700)


def clear(root: Path) -> None:
    """Remove all that a build left, and the folder itself where nothing else is in it."""
    for name in (*_WRITABLE, "shim", "host", "env", "cuda", "toolkit", "build.log", "ledger.jsonl"):
        place = root / name
        if place.is_symlink() or place.is_file():
            place.unlink()
        else:
            shutil.rmtree(place, ignore_errors=True)
    for wheel in root.glob("*.whl"):
        wheel.unlink()
    with contextlib.suppress(OSError):
        root.rmdir()


def prepare(root: Path, world: World, *, gencode: dict[str, Any], runner: Runner) -> Workspace:
    """Make an empty workspace with our programs in it.

    Args:
        root: real folder; emptied first. In the real layout it is the layout's own root.
        world: what the build is given. Where nothing can be bound the environment is copied, so
            that no build can touch the shared one.
        gencode: that part of the shim's configuration.
        runner: compiles the driver stub where the host's toolkit has none.
    """
    layout = world.sandbox.layout
    clear(root)
    for name in (*_WRITABLE, "shim", "host"):
        (root / name).mkdir(parents=True)
    if world.sandbox.bwrap is None:
        shutil.copytree(world.env.path, root / "env", symlinks=True)
    if world.toolkit is not None:
        seen_as, compiler = layout.at("toolkit"), world.host.program("gcc")
        link_toolkit(
            world.toolkit, root / "cuda", seen_as=seen_as, compiler=compiler, runner=runner
        )
        if world.sandbox.bwrap is None:
            (root / "toolkit").symlink_to(world.toolkit.root)
    for name, path in world.host.programs:
        (root / "host" / name).symlink_to(path)
    _write_shims(root / "shim", layout, gencode, world.cuda)
    return Workspace(root=root, world=world)


def _write_shims(folder: Path, layout: Layout, gencode: dict[str, Any], cuda: str) -> None:
    for name in _PROGRAMS:
        shutil.copyfile(_INSIDE / name, folder / name)
    python, shim = layout.at("env/bin/python"), layout.at("shim/shim.py")
    for tool in SHIMMED:
        launcher = folder / tool
        launcher.write_text(_LAUNCHER.format(python=python, shim=shim, tool=tool))
        launcher.chmod(0o755)
    tools = {name: layout.at("host", name) for name in COMPILERS}
    tools["nvcc"] = layout.at(cuda, "bin", REAL_NVCC)
    config = {
        "version": 1,
        "tools": tools,
        "path": ":".join((layout.at("host"), layout.at("env/bin"))),
        "ledger": layout.at("ledger"),
        "roots": [layout.at("src"), layout.at("build")],
        "gencode": gencode,
    }
    (folder / "config.json").write_text(json.dumps(config, sort_keys=True), encoding="utf-8")


def run_inside(space: Workspace, call: BackendCall, sink: Sink, *, runner: Runner) -> int:
    """Run a call in the workspace; answer its exit status."""
    return runner.stream(space.command(call.argv, call.env, call.cwd), sink)
