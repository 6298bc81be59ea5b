"""Programs of the host that a recipe asks for beside compiler and shell tools: found, and known.

What is asked for must be there before anything is fetched. Each is let into the sandbox and is part
of the key by the digest of its file. ``rustc`` and ``cargo`` are taken from the toolchain that
rustc itself names, for rustup puts stand-ins on PATH that work in no sandbox; compiler library and
standard library are part of the key too.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from kernforge.errors import ToolchainError
from kernforge.process import Command, Runner
from kernforge.toolchain.host import Host, Memory, file_digest, topic_of
from kernforge.toolchain.sandbox import shown_by_system

RUST = ("cargo", "rustc")
_RUST_READS = ("HOME", "RUSTUP_HOME", "CARGO_HOME", "RUSTUP_TOOLCHAIN")
_PACKAGES = {
    "cargo": "cargo",
    "rustc": "rustc",
    "protoc": "protobuf-compiler",
    "flatc": "flatbuffers-compiler",
    "perl": "perl",
    "make": "make",
    "patch": "patch",
    "pkg-config": "pkg-config",
    "swig": "swig",
    "xxd": "xxd",
    "git": "git",
}
"""Debian's packages of programs that builds of this kind ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a recipe asks for.

    Attributes:
        programs: their names.
        who: who asks, for messages: a job's id.
        env: the user's environment; only what says where Rust is installed is read of it.
    """

    programs: tuple[str, ...] = ()
    who: str = ""
    env: tuple[tuple[str, str], ...] = ()


def with_programs(host: Host, wanted: Wanted, *, path: str, memory: Memory, runner: Runner) -> Host:
    """A host with the programs that a recipe asks for, found and identified.

    Args:
        host: compilers and shell tools.
        wanted: what is asked for.
        path: PATH.
        memory: remembers digests.
        runner: asks rustc where its toolchain is.

    Raises:
        ToolchainError: ``program-missing`` with all that is not there, or ``program-broken``.
    """
    places = {name: shutil.which(name, path=path) for name in sorted(set(wanted.programs))}
    if missing := [name for name, place in places.items() if place is None]:
        raise _missing(wanted.who, missing)
    programs = {name: str(place) for name, place in places.items()}
    asked: dict[str, str] = {}
    shown: list[Path] = []
    if rust := [name for name in RUST if name in programs]:
        root = _sysroot(wanted, path, runner)
        programs |= _of_toolchain(root, rust, wanted.who)
        asked |= _rust_identity(root, memory, runner)
        shown += _parts_of(root)
    for name in sorted(programs.keys() - set(rust)):
        real = Path(programs[name]).resolve()  # a link on PATH may lie where no build looks
        programs[name] = str(real)
        asked[f"program {name}"] = _remembered(memory, real)
        shown += [] if shown_by_system(real) else [real]
    return replace(
        host,
        programs=tuple(sorted({**dict(host.programs), **programs}.items())),
        asked=tuple(sorted(asked.items())),
        shown=tuple(shown),
    )


def _missing(who: str, names: list[str]) -> ToolchainError:
    packages = sorted({_PACKAGES[name] for name in names if name in _PACKAGES})
    install = f"on Debian: apt-get install {' '.join(packages)}" if packages else "install them"
    return ToolchainError(
        "program-missing",
        f"{who}: the build calls what is not on PATH: {', '.join(names)}",
        hint=f"{install}; build.programs, or a source of kind cargo, asks for it",
    )


def _remembered(memory: Memory, path: Path) -> str:
    topic = topic_of("program", str(path))
    if known := memory.recall(topic):
        return known["sha256"]
    digest = file_digest(str(path))
    memory.keep(topic, [str(path)], {"sha256": digest})
    return digest


def _ask(argv: tuple[str, ...], env: tuple[tuple[str, str], ...], runner: Runner) -> str:
    # In a project's own folder rustup would follow that project's choice of toolchain.
    result = runner.run(Command(argv=argv, env=env, cwd=Path("/")), timeout=60)
    if result.returncode != 0:
        raise ToolchainError(
            "program-broken",
            f"{argv[0]!r} fails when asked {' '.join(argv[1:])}",
            hint="a toolchain of rustup's must be installed: rustup default stable",
            detail=result.last_lines,
        )
    return result.text.strip()


def _sysroot(wanted: Wanted, path: str, runner: Runner) -> Path:
    rustc = shutil.which("rustc", path=path)
    if rustc is None:
        raise _missing(wanted.who, ["rustc"])
    env = tuple((name, value) for name, value in wanted.env if name in _RUST_READS)
    text = _ask((rustc, "--print", "sysroot"), (*env, ("PATH", path)), runner)
    return Path(os.path.realpath(text))


def _of_toolchain(root: Path, names: list[str], who: str) -> dict[str, str]:
    found = {name: str(root / "bin" / name) for name in names}
    if missing := [name for name, place in found.items() if not os.access(place, os.X_OK)]:
        raise ToolchainError(
            "program-missing",
            f"{who}: rustc's toolchain {str(root)!r} holds no {' and no '.join(missing)}",
            hint="install cargo and rustc from one place",
        )
    return found


def _parts_of(root: Path) -> list[Path]:
    """What of a Rust toolchain a sandbox must show; its prefix may be one that it hides."""
    if root == Path("/usr"):
        return []
    found = [root / "bin/cargo", root / "bin/rustc"]
    for name in ("rustlib", "librustc_driver-*", "libLLVM*", "libstd-*"):
        found += sorted((root / "lib").glob(name))
    return found


def _rust_files(root: Path, libraries: Path) -> Iterator[Path]:
    yield root / "bin/rustc"
    yield root / "bin/cargo"
    for pattern in ("lib/librustc_driver-*.so", "lib/*/librustc_driver-*.so"):
        yield from sorted(root.glob(pattern))
    for suffix in ("rlib", "so"):
        yield from sorted(libraries.glob(f"*.{suffix}"))


def _rust_identity(root: Path, memory: Memory, runner: Runner) -> dict[str, str]:
    """Digest of the compiler, its library, cargo and the standard library of this machine."""
    topic = topic_of("rust", str(root))
    if known := memory.recall(topic):
        return known
    rustc = str(root / "bin/rustc")
    libraries = Path(_ask((rustc, "--print", "target-libdir"), (), runner))
    files = [path for path in _rust_files(root, libraries) if path.is_file()]
    digests = [f"{path.name} {file_digest(str(path))}" for path in files]
    facts = {
        "rust files": hashlib.sha256("\n".join(digests).encode()).hexdigest(),
        "rust version": _ask((rustc, "-V"), (), runner),
    }
    memory.keep(topic, [str(path) for path in files], facts)
    return facts
