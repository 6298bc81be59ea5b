"""A CUDA toolkit that the host has: one root for compiler, headers and libraries, or a stop.

The root is hashed whole, by content; its files are never changed. A build sees a folder of links
to it, completed as the root of wheels is, at a constant place.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernforge.errors import ToolchainError
from kernforge.process import Command, Runner
from kernforge.toolchain.cuda import LAUNCHER, REAL_NVCC, make_stub, name_libraries
from kernforge.toolchain.host import Memory

_NEEDED = (
    "bin/nvcc", "bin/ptxas", "bin/cudafe++", "bin/fatbinary", "bin/nvlink", "nvvm/bin/cicc",
    "include/cuda.h", "include/cuda_runtime_api.h",
)  # fmt: skip
_LIBRARY_FOLDERS = ("lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "lib")
_HASHED = ("bin", "nvvm", "include", "targets", "lib64", "lib")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostToolkit:
    """A whole toolkit of the host.

    Attributes:
        root: its folder, all links resolved.
        libraries: folder of its libraries, relative to the root.
        digest: SHA-256 over names and contents of all that a build may read.
        has_stub: whether it brings a stub of the driver library.
    """

    root: Path
    libraries: str
    digest: str
    has_stub: bool


def candidates(named: tuple[str, ...], path: str, system: Path) -> tuple[Path, ...]:
    """Roots in the order of preference: those named, the one of nvcc on PATH, those in ``system``.

    Raises:
        ToolchainError: ``toolkit-ambiguous`` where the names differ.
    """
    roots = tuple(dict.fromkeys(Path(name).resolve() for name in named if name))
    if len(roots) > 1:
        raise ToolchainError(
            "toolkit-ambiguous",
            f"CUDA_HOME and CUDA_PATH name two toolkits: {', '.join(map(str, roots))}",
            hint="unset one of them",
        )
    if roots:
        return roots
    found = []
    for folder in path.split(os.pathsep):
        program = Path(folder) / "nvcc"
        if folder and program.is_file() and program.resolve().parent.name == "bin":
            found.append(program.resolve().parent.parent)
    found += [root.resolve() for root in (system / "cuda", *sorted(system.glob("cuda-*")))]
    parts = ("bin/nvcc", "nvvm/bin/cicc")  # a script on PATH that calls nvcc elsewhere is no root
    whole = (root for root in found if all((root / part).is_file() for part in parts))
    return tuple(dict.fromkeys(whole))


def _compiler_release(root: Path, env: tuple[tuple[str, str], ...], runner: Runner) -> str:
    result = runner.run(Command(argv=(str(root / "bin/nvcc"), "--version"), env=env), timeout=60)
    match = re.search(r"release (\d+\.\d+)", result.text)
    if match is None:
        raise ToolchainError(
            "toolkit-incomplete", f"{root}/bin/nvcc does not say its release: {result.complaint}"
        )
    return match[1]


def _header_release(root: Path, header: str, macro: str) -> str:
    text = (root / "include" / header).read_text(encoding="utf-8", errors="replace")
    match = re.search(rf"^#define\s+{macro}\s+(\d+)", text, re.MULTILINE)
    number = int(match[1]) if match else 0
    return f"{number // 1000}.{number % 1000 // 10}"


def _library_majors(folder: Path) -> set[str]:
    names = [path.name for path in folder.glob("libcudart.so.*")]
    return {name.removeprefix("libcudart.so.").split(".")[0] for name in names}


def _library_folder(root: Path) -> str:
    for name in _LIBRARY_FOLDERS:
        folder = root / name
        if any(folder.glob("libcudart*")):
            inside = folder.resolve()
            if root != inside and root not in inside.parents:
                raise _mixed(root, f"{name} lies in {inside}")
            return name
    raise ToolchainError("toolkit-incomplete", f"{root} holds no libcudart")


def _mixed(root: Path, what: str) -> ToolchainError:
    return ToolchainError(
        "toolkit-mixed",
        f"{root} is not one toolkit: {what}",
        hint="name one whole root with CUDA_HOME, or use toolkit: wheels",
    )


def check_whole(root: Path, env: tuple[tuple[str, str], ...], runner: Runner) -> tuple[str, str]:
    """Release and library folder of a root whose parts agree.

    Raises:
        ToolchainError: ``toolkit-incomplete`` or ``toolkit-mixed``.
    """
    if missing := [name for name in _NEEDED if not (root / name).exists()]:
        raise ToolchainError(
            "toolkit-incomplete",
            f"{root} is no whole toolkit: {missing[0]} is not there",
            hint="install the whole toolkit, or use toolkit: wheels",
        )
    for name in _NEEDED:
        place = (root / name).resolve()
        if root not in place.parents:
            raise _mixed(root, f"{name} lies in {place.parent}")
    release = _compiler_release(root, env, runner)
    libraries = _library_folder(root)
    for header, macro in (("cuda.h", "CUDA_VERSION"), ("cuda_runtime_api.h", "CUDART_VERSION")):
        other = _header_release(root, header, macro)
        if other != release:
            raise _mixed(root, f"nvcc is {release}, {header} is {other}")
    majors = _library_majors(root / libraries)
    if majors and majors != {release.split(".")[0]}:
        raise _mixed(root, f"nvcc is {release}, libcudart is {', '.join(sorted(majors))}")
    return release, libraries


def _release_among(
    roots: tuple[Path, ...], root: Path, env: tuple[tuple[str, str], ...], runner: Runner
) -> str | None:
    """What one of several roots says it is: a broken one does not stand in the way of others."""
    if len(roots) == 1:
        return None
    try:
        return _compiler_release(root, env, runner)
    except ToolchainError:
        return "a broken nvcc"


def choose_toolkit(
    roots: tuple[Path, ...], release: str, *, path: str, memory: Memory, runner: Runner
) -> HostToolkit:
    """The first of some roots that is whole and of the release that the target asks for.

    Raises:
        ToolchainError: ``toolkit-missing`` (none, or none of the release), ``toolkit-incomplete``
            or ``toolkit-mixed`` (the only one, or the one of the release, is not whole).
    """
    env = (("PATH", path), ("LC_ALL", "C.UTF-8"))
    seen: list[str] = []
    for root in roots:
        found = _release_among(roots, root, env, runner) or release
        if found != release:
            seen.append(f"{found} in {root}")
            continue
        have, libraries = check_whole(root, env, runner)
        if have != release:
            seen.append(f"{have} in {root}")
            continue
        stub = root / libraries / "stubs/libcuda.so"
        return HostToolkit(
            root=root,
            libraries=libraries,
            digest=_digest(root, memory),
            has_stub=stub.exists(),
        )
    raise ToolchainError(
        "toolkit-missing",
        f"No CUDA {release} toolkit is here: {'; '.join(seen) or 'none at all'}",
        hint="set CUDA_HOME to its root, choose that release with --cuda, or use toolkit: wheels",
    )


def _files(root: Path) -> Iterable[tuple[str, Path]]:
    for top in _HASHED:
        folder = root / top
        if folder.is_symlink():
            yield top, folder
            continue
        for path in sorted(folder.rglob("*")):
            if path.is_symlink() or path.is_file():
                yield str(path.relative_to(root)), path


def _digest(root: Path, memory: Memory) -> str:
    stamps, digest = hashlib.sha256(), hashlib.sha256(b"kernforge toolkit 1\0")
    files = list(_files(root))
    for name, path in files:
        status = path.lstat()
        times = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        stamps.update(f"{name}\0{times}\0".encode())
    topic = f"toolkit-{hashlib.sha256(str(root).encode()).hexdigest()[:16]}"
    known = memory.recall(topic)
    if known is not None and known.get("stamps") == stamps.hexdigest():
        return known["digest"]
    for name, path in files:
        digest.update(name.encode("utf-8", "surrogateescape") + b"\0")
        if path.is_symlink():
            digest.update(b"-> " + os.fsencode(path.readlink()))
        else:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    memory.keep(topic, [], {"stamps": stamps.hexdigest(), "digest": digest.hexdigest()})
    return digest.hexdigest()


def link_toolkit(
    toolkit: HostToolkit, into: Path, *, seen_as: str, compiler: str, runner: Runner
) -> None:
    """Make a completed root of links to a toolkit.

    Args:
        toolkit: the toolkit.
        into: a new folder.
        seen_as: where the build will see the toolkit's own root.
        compiler: a C compiler, for the driver stub.
        runner: runs it.

    Raises:
        ToolchainError: ``stub-failed``.
    """
    (into / "bin").mkdir(parents=True)
    for item in toolkit.root.iterdir():
        if item.name not in {"bin", "lib", "lib64"}:
            (into / item.name).symlink_to(f"{seen_as}/{item.name}")
    for item in (toolkit.root / "bin").iterdir():
        if item.name != "nvcc":
            (into / "bin" / item.name).symlink_to(f"{seen_as}/bin/{item.name}")
    real = into / "bin" / REAL_NVCC  # a copy: nvcc looks for its parts beside itself
    real.write_bytes((toolkit.root / "bin/nvcc").read_bytes())
    real.chmod(0o755)
    (into / "bin/nvcc").write_text(LAUNCHER, encoding="utf-8")
    (into / "bin/nvcc").chmod(0o755)
    (into / "lib").mkdir()
    (into / "lib64").symlink_to("lib")
    for item in (toolkit.root / toolkit.libraries).iterdir():
        if item.name != "stubs" or toolkit.has_stub:
            (into / "lib" / item.name).symlink_to(f"{seen_as}/{toolkit.libraries}/{item.name}")
    name_libraries(into / "lib")
    if not toolkit.has_stub:
        header = (toolkit.root / "include/cuda.h").read_text(encoding="utf-8", errors="replace")
        env = (("PATH", str(Path(compiler).parent)), ("LC_ALL", "C.UTF-8"))
        make_stub(into / "lib/stubs", header, compiler=(compiler, env), runner=runner)
