"""The world a build sees: constant paths, named programs, no network where bubblewrap works.

Two layouts. ``kf``: everything lies at fixed places under ``/kf``, where bubblewrap binds it.
Without a working bubblewrap a fixed real folder of the user's own is used; the network is then not
cut. That is ``/kf`` itself where the user has made one (then nothing in a path differs from the
sandbox), else the layout ``real`` below ``/var/tmp``. The layout is part of the key, and so is what
compilers find in ``/usr/local`` where it is not masked; what held is recorded.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernforge.errors import ToolchainError
from kernforge.process import Command, Runner
from kernforge.toolchain.host import COMPILERS, Host

_NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl")
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc/alternatives", "/etc/ld.so.cache")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where things lie, as the build sees them. ``name`` and ``root`` are part of the key."""

    name: str
    root: str

    def at(self, *parts: str) -> str:
        """A path below the root."""
        return "/".join((self.root, *parts))


KF = Layout(name="kf", root="/kf")


def real_layout(uid: int) -> Layout:
    """The constant real folder of a user."""
    return Layout(name="real", root=f"/var/tmp/kernforge-{uid}")  # noqa: S108 - made 0700, checked


def constant_folder(uid: int, kf: Path = Path(KF.root)) -> Layout:
    """The layout of builds without bubblewrap: ``/kf`` where it is a folder of the user's own."""
    try:
        status = kf.lstat()
    except OSError:
        return real_layout(uid)
    ours = status.st_uid == uid and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return KF if stat.S_ISDIR(status.st_mode) and ours else real_layout(uid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What holds here.

    Attributes:
        layout: where the build sees things.
        bwrap: path of bubblewrap, or None where it is not used.
        reason: why it is not.
        unmasked: digest of what compilers find in ``/usr/local``; empty where that is nothing.
    """

    layout: Layout
    bwrap: str | None
    reason: str
    unmasked: str = ""

    @property
    def network_cut(self) -> bool:
        """Whether the build has no network."""
        return self.bwrap is not None


def probe_sandbox(*, bwrap: str | None, uid: int, wanted: bool, runner: Runner) -> Sandbox:
    """Try bubblewrap by running it; a program that is there may still be forbidden."""
    real = constant_folder(uid)
    if not wanted:
        return Sandbox(layout=real, bwrap=None, reason="switched off by --no-sandbox")
    if bwrap is None:
        return Sandbox(layout=real, bwrap=None, reason="bubblewrap (bwrap) is not installed")
    trial = (bwrap, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--unshare-all")
    try:
        result = runner.run(Command(argv=(*trial, "--die-with-parent", "/bin/true")), timeout=20)
    except ToolchainError as error:
        why = f"bubblewrap does not start here: {error.message}"
        return Sandbox(layout=real, bwrap=None, reason=why)
    if result.returncode != 0:
        why = result.complaint.splitlines()[-1] if result.complaint else "no reason given"
        return Sandbox(layout=real, bwrap=None, reason=f"bubblewrap is forbidden here: {why}")
    return Sandbox(layout=KF, bwrap=bwrap, reason="bubblewrap")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A real folder or file and the place, below the layout's root, where the build sees it."""

    source: Path
    place: str
    writable: bool


def shown_by_system(path: Path) -> bool:
    """Whether the system's folders, which every build sees, hold a path."""
    return Path("/usr") in path.parents and Path("/usr/local") not in path.parents


def interpreter_parts(python: Path) -> tuple[Path, ...]:
    """The files of an interpreter that the system's folders do not show already."""
    prefix, name = python.parent.parent, python.name
    parts = (
        python,
        prefix / "lib" / name,
        prefix / "include" / name,
        *sorted((prefix / "lib").glob(f"lib{name}*.so*")),
    )
    return tuple(path for path in parts if path.exists() and not shown_by_system(path))


def unmasked(hidden: tuple[Path, ...], prefix: Path = Path("/usr/local")) -> str:
    """Digest of headers and libraries that compilers look for of themselves; empty: there are none.

    Names and sizes alone: what lies there can be gigabytes.

    Args:
        hidden: what a sandbox shows too, as :func:`interpreter_parts`.
        prefix: of what is masked in a sandbox.
    """
    lines = [
        f"{path}\0{path.lstat().st_size}\0"
        for name in ("include", "lib", "lib64")
        for path in _files(prefix / name, hidden)
    ]
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest() * bool(
        lines
    )


def _files(folder: Path, hidden: tuple[Path, ...]) -> Iterator[Path]:
    """Files below a folder, in order, less Python's own packages: no compiler looks there."""
    for top, folders, names in os.walk(folder):
        here = Path(top)
        folders[:] = sorted(f for f in folders if here / f not in hidden and f[:6] != "python")
        yield from (here / name for name in sorted(names) if here / name not in hidden)


def compiler_prefixes(host: Host) -> tuple[Path, ...]:
    """Prefixes of compilers and linkers that lie elsewhere, as in `/opt/rh/gcc-toolset-14`."""
    real = {
        Path(place).resolve() for name, place in host.programs if name in (*COMPILERS, "as", "ld")
    }
    return tuple(sorted({path.parent.parent for path in real if not shown_by_system(path)}))


def bwrap_argv(
    bwrap: str, *, mounts: tuple[Mount, ...], layout: Layout, host: Host, cwd: str
) -> tuple[str, ...]:
    """The bubblewrap call, up to the program. Looks only which system paths exist."""
    argv = [bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]
    for place in _SYSTEM:
        real = Path(place)
        if real.is_symlink():
            argv += ["--symlink", str(real.readlink()), place]
        elif real.exists():
            argv += ["--ro-bind", place, place]
    argv += ["--tmpfs", "/usr/local", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]  # noqa: S108 - theirs
    for part in (*compiler_prefixes(host), *host.shown, *interpreter_parts(host.python)):
        argv += ["--ro-bind", str(part), str(part)]
    argv += ["--dir", layout.root]
    for mount in mounts:
        kind = "--bind" if mount.writable else "--ro-bind"
        argv += [kind, str(mount.source), layout.at(mount.place)]
    return (*argv, "--hostname", "kernforge", "--chdir", cwd)


def network_argv() -> tuple[str, ...]:
    """What a bubblewrap call gains where a compile cache's server needs a network.

    The build itself leaves that network again: see `inside/steward.py`.
    """
    shown = [word for place in _NETWORK for word in ("--ro-bind-try", place, place)]
    return ("--share-net", *shown)


def inside_env(argv: tuple[str, ...], env: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Add a build's environment to a bubblewrap call (its own process gets none)."""
    return (*argv, *(word for key, value in env for word in ("--setenv", key, value)))
