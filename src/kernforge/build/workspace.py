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
from kernforge.build.compilecache import CompileCache
from kernforge.build.effort import SOCKET
from kernforge.errors import ToolchainError
from kernforge.process import Command, Runner, Sink
from kernforge.toolchain.cuda import REAL_NVCC
from kernforge.toolchain.env import SORTED, Environment
from kernforge.toolchain.host import COMPILERS, Host
from kernforge.toolchain.hostcuda import HostToolkit, link_toolkit
from kernforge.toolchain.sandbox import Layout, Mount, Sandbox, bwrap_argv, inside_env, network_argv

_INSIDE = Path(__file__).parent.parent / "inside"
_PROGRAMS = ("shim.py", "depends.py", "steward.py", "recall.py", "reach.py", "guard.py")
_FILES = ("build.log", "ledger.jsonl", "stamp.json", "stamp.json.draft")
_WRITABLE = ("src", "build", "out", "tmp", "home", "ledger", "wheel")
_PLACES = (*_WRITABLE, "shim", "host", "env", "cuda", "toolkit", *_FILES)
_KEPT = ("src", "build", "ledger", "home", "stamp.json")
_COMPILE = (
    "import py_compile, sys; mode = py_compile.PycInvalidationMode.UNCHECKED_HASH; "
    "py_compile.compile(sys.argv[1], sys.argv[2], doraise=True, invalidation_mode=mode)"
)
_LAUNCHER = '#!/bin/sh\nexec {python} -I -S {shim} {tool} "$@"\n'
_ENTER = 'echo $$ > "$0" 2>/dev/null; exec "$@"'
"""Enters a control group and becomes the program; where that fails the build runs without one."""


def inside_digest() -> str:
    """SHA-256 over the programs that run inside a build."""
    digest = hashlib.sha256(_LAUNCHER.encode())
    for path in (*(_INSIDE / name for name in _PROGRAMS), SORTED):
        digest.update(path.read_bytes())
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
        cache: the compile cache, or None.
        seeded: whether nvcc knows -frandom-seed (tried with CUDA 13).
    """

    sandbox: Sandbox
    host: Host
    env: Environment
    cuda: str
    toolkit: HostToolkit | None = None
    cache: CompileCache | None = None
    seeded: bool = False


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
        return (*own, *fixed, *(self.world.cache.mounts() if self.world.cache else ()))

    def command(self, call: BackendCall, group: Path | None = None) -> Command:
        """A command that runs in this build's world, and in a control group where one is given."""
        command = self._command(call.argv, call.env, call.cwd)
        if group is None:
            return command
        enter = ("/bin/sh", "-c", _ENTER, str(group / "cgroup.procs"))
        return Command(argv=(*enter, *command.argv), env=command.env, cwd=command.cwd)

    def _command(
        self, argv: tuple[str, ...], env: tuple[tuple[str, str], ...], cwd: str
    ) -> Command:
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
        if self.world.cache is not None and self.world.cache.network:
            call = (*call, *network_argv())
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
    _clear_some(root, _PLACES)
    for wheel in root.glob("*.whl"):
        wheel.unlink()
    with contextlib.suppress(OSError):
        root.rmdir()


def _clear_some(root: Path, names: tuple[str, ...]) -> None:
    for name in names:
        place = root / name
        if place.is_symlink() or place.is_file():
            place.unlink()
        else:
            shutil.rmtree(place, ignore_errors=True)


def prepare(
    root: Path, world: World, *, gencode: dict[str, Any], runner: Runner, resumed: bool = False
) -> Workspace:
    """Make an empty workspace with our programs in it, or one that a stopped compile goes on in.

    Args:
        root: real folder; emptied first. In the real layout it is the layout's own root.
        world: what the build is given. Where nothing can be bound the environment is copied, so
            that no build can touch the shared one.
        gencode: that part of the shim's configuration.
        runner: compiles the driver stub where the host's toolkit has none, and our programs.
        resumed: whether sources, what was built of them, and the ledger stay.
    """
    layout = world.sandbox.layout
    if resumed:
        _clear_some(root, tuple(n for n in _PLACES if n not in _KEPT))
    else:
        clear(root)
    for name in (*_WRITABLE, "shim", "host"):
        (root / name).mkdir(parents=True, exist_ok=True)
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
    _write_shims(root / "shim", world, gencode, runner)
    return Workspace(root=root, world=world)


def _write_shims(folder: Path, world: World, gencode: dict[str, Any], runner: Runner) -> None:
    layout = world.sandbox.layout
    for name in _PROGRAMS:
        shutil.copyfile(_INSIDE / name, folder / name)
    python, shim = layout.at("env/bin/python"), layout.at("shim", _byte_code(folder, world, runner))
    for tool in SHIMMED:
        launcher = folder / tool
        launcher.write_text(_LAUNCHER.format(python=python, shim=shim, tool=tool))
        launcher.chmod(0o755)
    tools = {name: layout.at("host", name) for name in COMPILERS}
    tools["nvcc"] = layout.at(world.cuda, "bin", REAL_NVCC)
    config = {
        "version": 1,
        "tools": tools,
        "path": ":".join((layout.at("host"), layout.at("env/bin"))),
        "ledger": layout.at("ledger"),
        "roots": [layout.at("src"), layout.at("build")],
        "gencode": gencode,
        "steward": layout.at("ledger", SOCKET),
        "seeded": world.seeded,
    }
    (folder / "config.json").write_text(json.dumps(config, sort_keys=True), encoding="utf-8")


def _byte_code(folder: Path, world: World, runner: Runner) -> str:
    """The shim as the interpreter reads it fastest: it is started once a compiler call."""
    made = folder / "shim.pyc"
    words = ("-I", "-S", "-c", _COMPILE, str(folder / "shim.py"), str(made))
    command = Command(argv=(str(world.host.python), *words), env=(("LC_ALL", "C.UTF-8"),))
    result = runner.run(command)
    return made.name if result.returncode == 0 and made.is_file() else "shim.py"


def run_inside(
    space: Workspace, call: BackendCall, sink: Sink, *, runner: Runner, group: Path | None = None
) -> int:
    """Run a call in the workspace, and in a control group; answer its exit status."""
    return runner.stream(space.command(call, group), sink)
