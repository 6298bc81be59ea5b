"""Environments: relocatable, content-addressed, made by uv from a lock, never edited in place."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from kernforge.errors import ToolchainError
from kernforge.process import Command, Runner
from kernforge.toolchain.cuda import complete
from kernforge.toolchain.host import Host
from kernforge.toolchain.lock import Lock, Uv

_MADE_BY = "env 4"
_DATE = 1577836800  # 2020-01-01: nvcc -lineinfo writes every header's date into line tables
_COMPILE = ("-I", "-m", "compileall", "-qq", "-j0", "--invalidation-mode", "unchecked-hash")
"""Byte code, once: torch is imported three times a build, a second faster each (measured)."""
_STAMP = "kernforge-env.json"
SORTED = Path(__file__).parent.parent / "inside/sorted_folders.py"
"""Lets every interpreter of an environment list folders by name."""
_SORTED_NAME = "_kernforge_sorted_folders"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A ready environment. ``cuda`` is its toolkit root relative to ``path``, or None."""

    path: Path
    cuda: str | None

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.path / "bin/python"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvOrder:
    """What an environment is made from.

    Attributes:
        lock: the packages.
        host: gives interpreter and compiler.
        python: as ``3.11``.
        toolkit: whether the packages hold a CUDA toolkit that is to be completed.
        wheels: path and SHA-256 of wheels of our own that are installed too.
    """

    lock: Lock
    host: Host
    python: str
    toolkit: bool
    wheels: tuple[tuple[Path, str], ...] = ()

    @property
    def name(self) -> str:
        """Folder name: what decides the content, and the interpreter it links to."""
        parts = [_MADE_BY, self.lock.content, str(self.host.python), self.toolkit]
        parts += [list(pair) for pair in self.host.identity]
        parts += [digest for _, digest in self.wheels]
        parts.append(hashlib.sha256(SORTED.read_bytes()).hexdigest())
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


def find_python(version: str, *, current: tuple[Path, str], uv: Uv, runner: Runner) -> Path:
    """The interpreter for ``3.11``: the current one where it fits, else what uv finds or gets.

    Raises:
        ToolchainError: ``python-missing``.
    """
    path, have = current
    if have == version:
        return path.resolve()
    find = uv.command("python", "find", "--no-project", version)
    result = runner.run(find)
    if result.returncode != 0:
        runner.run(uv.command("python", "install", version))
        result = runner.run(find)
    if result.returncode != 0:
        raise ToolchainError(
            "python-missing",
            f"No Python {version} is here, and uv cannot get one",
            hint=f"install it, or build for this one: --python {have}",
            detail=result.last_lines,
        )
    return Path(result.text.strip()).resolve()


def existing(order: EnvOrder, folder: Path) -> Environment | None:
    """The ready environment of an order, if it is there."""
    path = folder / order.name
    try:
        stamp = json.loads((path / _STAMP).read_bytes())
        found = Environment(path=path, cuda=stamp["cuda"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    with contextlib.suppress(OSError):  # the time of last use, for `cache gc`
        os.utime(path)
    return found


def make_environment(order: EnvOrder, *, folder: Path, uv: Uv, runner: Runner) -> Environment:
    """Make an environment in ``folder``; the caller holds the lock of its name.

    Raises:
        ToolchainError: ``env-failed`` (uv's reason; also where a download does not have the
            locked hash), or as :func:`kernforge.toolchain.cuda.complete`.
    """
    path = folder / order.name
    draft = folder / f".{order.name}.draft"
    for leftover in (draft, path):
        if leftover.exists():
            shutil.rmtree(leftover)
    folder.mkdir(parents=True, exist_ok=True)
    pins = draft.with_suffix(".txt")
    pins.write_text(_requirements(order.lock), encoding="utf-8")
    python = ("--python", str(order.host.python))
    _uv(uv, runner, "venv", "--relocatable", "--no-project", *python, str(draft))
    into = ("--python", str(draft / "bin/python"))
    strict = ("--require-hashes", "--only-binary", ":all:", "--no-deps")
    _uv(uv, runner, "pip", "install", *strict, *into, "-r", str(pins))
    for wheel, _ in order.wheels:
        _uv(uv, runner, "pip", "install", "--no-deps", "--no-index", *into, str(wheel))
    cuda = _toolkit_root(draft) if order.toolkit else None
    if cuda is not None:
        compiler = order.host.program("gcc")
        path_of = (("PATH", str(Path(compiler).parent)), ("LC_ALL", "C.UTF-8"))
        complete(draft / cuda, compiler=compiler, env=path_of, runner=runner)
    _sort_folders(draft)
    _settle_times(draft)
    runner.run(Command(argv=(str(draft / "bin/python"), *_COMPILE, str(draft / "lib"))))
    (draft / _STAMP).write_text(json.dumps({"cuda": cuda}), encoding="utf-8")
    pins.unlink()
    draft.rename(path)
    return Environment(path=path, cuda=cuda)


def _sort_folders(env: Path) -> None:
    """Python runs what a ``.pth`` file says when it starts, unless it starts without ``site``."""
    (packages,) = env.glob("lib/python*/site-packages")
    shutil.copyfile(SORTED, packages / f"{_SORTED_NAME}.py")
    line = f"import {_SORTED_NAME}; {_SORTED_NAME}.apply()\n"
    (packages / f"{_SORTED_NAME}.pth").write_text(line, encoding="utf-8")


def _settle_times(env: Path) -> None:
    for folder, _, files in os.walk(env):
        for name in files:
            os.utime(os.path.join(folder, name), (_DATE, _DATE), follow_symlinks=False)  # noqa: PTH118 - 30,000 files


def _requirements(lock: Lock) -> str:
    lines = []
    for pin in lock.pins:
        hashes = " ".join(f"--hash=sha256:{digest}" for digest in pin.hashes)
        lines.append(f"{pin.name}=={pin.version} {hashes}\n")
    return "".join(lines)


def _uv(uv: Uv, runner: Runner, *words: str) -> None:
    result = runner.run(uv.command(*words))
    if result.returncode != 0:
        raise ToolchainError(
            "env-failed",
            f"uv {words[0]} cannot make the locked environment",
            hint="check network, index settings and disk space, or make the lock again",
            detail=result.last_lines,
        )


def _toolkit_root(env: Path) -> str:
    roots = sorted(env.glob("lib/python*/site-packages/nvidia/cu*/bin/nvcc"))
    if not roots:
        raise ToolchainError(
            "toolkit-incomplete",
            "The locked environment holds no nvcc",
            hint="lock cuda-toolkit[nvcc,crt,nvvm,cccl,cudart]; CUDA 12 wheels hold no nvcc",
        )
    return str(roots[-1].parent.parent.relative_to(env))
