"""The host's part of a build: compiler, linker, C library, Python, and a digest of each.

Digests are of contents. So that a warm start does not read 40 MB of compiler again, they are
remembered beside the cache under what the kernel says of each file (device, inode, size, times of
content and of inode); a change of any of these reads the file again.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kernforge.errors import ToolchainError
from kernforge.process import Command, Runner

COMPILERS = ("gcc", "g++", "cc", "c++")
_PARTS = ("cc1", "cc1plus", "collect2", "as", "ld")
_FILES = ("crti.o", "libc.so.6", "libstdc++.so")
_TOOLS = (
    "as ld ld.bfd ld.gold nm ar ranlib objcopy objdump strip readelf size strings c++filt "
    "sh bash dash env cat cp mv rm rmdir ln ls mkdir touch chmod echo printf pwd test true false "
    "sed grep egrep fgrep awk gawk mawk find xargs sort uniq head tail tr cut wc tee dirname "
    "basename realpath readlink uname date expr mktemp sleep install diff cmp patch tar gzip bzip2 "
    "xz unzip make file ldd id seq stat which"
).split()


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What of the host goes into a build.

    Attributes:
        programs: name and absolute path of each program that a build may call.
        python: the interpreter, all links resolved.
        identity: name and digest or version of all that shapes output; never a path.
        asked: the same of the programs that a recipe asks for by name; environments do not depend
            on them.
        shown: files and folders that a sandbox must show for those programs.
    """

    programs: tuple[tuple[str, str], ...]
    python: Path
    identity: tuple[tuple[str, str], ...]
    asked: tuple[tuple[str, str], ...] = ()
    shown: tuple[Path, ...] = ()

    def program(self, name: str) -> str:
        """Absolute path of a program.

        Raises:
            ToolchainError: ``program-missing``.
        """
        for known, path in self.programs:
            if known == name:
                return path
        raise ToolchainError("program-missing", f"Program {name!r} is not on PATH")


def find_programs(path: str) -> tuple[tuple[str, str], ...]:
    """Look up what a build may call on a PATH.

    Raises:
        ToolchainError: ``compiler-missing`` or ``linker-missing``.
    """
    # A program of the current folder is never meant, and links to it would break.
    path = os.pathsep.join(folder for folder in path.split(os.pathsep) if folder.startswith("/"))
    found = {name: shutil.which(name, path=path) for name in (*COMPILERS, *_TOOLS)}
    found["cc"] = found["cc"] or found["gcc"]
    found["c++"] = found["c++"] or found["g++"]
    found["gcc"] = found["gcc"] or found["cc"]
    found["g++"] = found["g++"] or found["c++"]
    for language, names in (("C++", ("c++", "g++")), ("C", ("cc", "gcc"))):
        if not found[names[0]]:
            raise ToolchainError(
                "compiler-missing",
                f"No {language} compiler is on PATH: neither {names[0]} nor {names[1]}",
                hint="install one, as `apt-get install g++`",
            )
    if not found["ld"] or not found["strip"]:
        raise ToolchainError(
            "linker-missing", "No ld or strip is on PATH", hint="as `apt-get install binutils`"
        )
    return tuple(sorted((name, place) for name, place in found.items() if place))


def _stamp(path: str) -> list[int]:
    status = Path(path).stat()
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def file_digest(path: str) -> str:
    """SHA-256 of a file."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Memory:
    """Remembers facts about files under the files' stamps, in one small JSON file a topic."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def recall(self, topic: str) -> dict[str, str] | None:
        """The facts of a topic, unless one of its files has changed since."""
        try:
            kept = json.loads((self._folder / f"{topic}.json").read_bytes())
            if all(_stamp(path) == stamp for path, stamp in kept["files"].items()):
                return {str(key): str(value) for key, value in kept["facts"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return None

    def keep(self, topic: str, files: list[str], facts: Mapping[str, str]) -> None:
        """Remember; where the folder cannot be written, nothing is lost but time."""
        text = json.dumps({"files": {path: _stamp(path) for path in files}, "facts": dict(facts)})
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            draft = self._folder / f".{topic}.{os.getpid()}"
            draft.write_text(text, encoding="utf-8")
            draft.replace(self._folder / f"{topic}.json")
        except OSError:
            return


def topic_of(*words: str) -> str:
    """The name under which :class:`Memory` keeps what is known of these words."""
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]


def _ask(argv: tuple[str, ...], env: tuple[tuple[str, str], ...], runner: Runner) -> str:
    result = runner.run(Command(argv=argv, env=env), timeout=60)
    if result.returncode != 0:
        raise ToolchainError(
            "compiler-broken", f"{argv[0]!r} fails when asked {argv[1]}", detail=result.last_lines
        )
    return result.text


def compiler_identity(
    programs: Mapping[str, str], *, path: str, memory: Memory, runner: Runner
) -> dict[str, str]:
    """Digest of compiler, assembler, linker and C library, and of what the headers say.

    Raises:
        ToolchainError: ``compiler-broken``.
    """
    drivers = {name: programs[name] for name in ("gcc", "g++", "strip")}
    # The compiler takes assembler and linker from PATH, where another one may come to stand.
    topic = topic_of("compiler", *drivers.values(), *(programs.get(n, "") for n in ("as", "ld")))
    if known := memory.recall(topic):
        return known
    env = (("PATH", path), ("LC_ALL", "C.UTF-8"))
    gxx = drivers["g++"]
    files = dict(drivers)
    for part in _PARTS:
        place = _ask((gxx, f"-print-prog-name={part}"), env, runner).strip()
        files[part] = shutil.which(place, path=path) or place
    for name in _FILES:
        files[name] = _ask((gxx, f"-print-file-name={name}"), env, runner).strip()
    present = {
        name: os.path.realpath(place) for name, place in files.items() if Path(place).is_file()
    }
    facts = {name: file_digest(place) for name, place in present.items()}
    facts["version"] = _ask((gxx, "-dumpfullversion"), env, runner).strip()
    defines = _ask((gxx, "-x", "c++", "-include", "cstdlib", "-dM", "-E", "/dev/null"), env, runner)
    facts["defines"] = hashlib.sha256(defines.encode()).hexdigest()
    memory.keep(topic, [*drivers.values(), *present.values()], facts)
    return facts


def python_identity(python: Path, *, memory: Memory, runner: Runner) -> dict[str, str]:
    """Exact version and ABI of an interpreter."""
    topic = topic_of("python", str(python))
    if known := memory.recall(topic):
        return known
    ask = "import sys, sysconfig; print(sys.version); print(sysconfig.get_config_var('SOABI'))"
    text = _ask((str(python), "-I", "-S", "-c", ask), (), runner)
    *version, abi = text.strip().splitlines()
    facts = {"python": " ".join(version), "abi": abi}
    memory.keep(topic, [str(python)], facts)
    return facts


def probe_host(*, python: Path, path: str, memory: Memory, runner: Runner) -> Host:
    """Find and identify what the host gives to a build.

    Raises:
        ToolchainError: ``compiler-missing``, ``linker-missing`` or ``compiler-broken``.
    """
    programs = find_programs(path)
    compiler = compiler_identity(dict(programs), path=path, memory=memory, runner=runner)
    facts = {f"compiler {name}": value for name, value in compiler.items()}
    facts |= python_identity(python, memory=memory, runner=runner)
    facts |= {"machine": platform.machine(), "zlib": zlib.ZLIB_RUNTIME_VERSION}
    return Host(programs=programs, python=python, identity=tuple(sorted(facts.items())))
