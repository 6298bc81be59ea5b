"""Keeps whole compiler calls: what a call made is handed out again to a call that reads the same.

The steward loads it from beside itself: standard library only, nothing of kernforge imported, and
its digest is part of the build key.

sccache keeps the steps of an nvcc call and has to preprocess for every answer. Here a call is named
without running anything: by its words, folder and environment, the text of its options files, what
its compiler could read of the files that the build can write (`reach.py`), and, as one word that
the order brings, what the build cannot write: environment, toolkit, host. So a changed header is a
miss for all units of a project, and sccache answers those whose preprocessed text is the same.

What is kept is one file a call: a line of JSON, then the contents. It is believed only where every
content has the digest that the line names.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernforge.inside.reach import Files, Reach, Strange, renamed, texts
else:  # beside us, copied into the sandbox
    from reach import Files, Reach, Strange, renamed, texts

_VERSION = 1
_HEAD = 1 << 12  # bytes of the line
_LARGEST = 512 << 20  # bytes of one kept output
_IGNORED_ENV = frozenset(
    "PWD OLDPWD SHLVL _ MAX_JOBS NVCC_THREADS CMAKE_BUILD_PARALLEL_LEVEL CARGO_BUILD_JOBS MAKEFLAGS"
    " MAKELEVEL MFLAGS NINJA_STATUS KERNFORGE_CALL".split()
)
_READING_ENV = frozenset(
    "CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH OBJC_INCLUDE_PATH GCC_EXEC_PREFIX COMPILER_PATH"
    " DEPENDENCIES_OUTPUT SUNPRO_DEPENDENCIES GCC_COMPARE_DEBUG GCC_SPECS LD_PRELOAD"
    " NVCC_CCBIN LD_LIBRARY_PATH NVVMIR_LIBRARY_DIR NVVM_LIBRARY_DIR".split()
)


class Recall:
    """The calls that are kept in a folder."""

    def __init__(self, order: dict[str, object]) -> None:
        self.folder = str(order["folder"])
        self.limit = int(str(order["limit"]))
        self.fixed, self.packages = texts(order["fixed"]), texts(order["packages"])
        self.files = Files([*texts(order["roots"]), "/usr/local/include"], self.fixed)
        self.salt = [_VERSION, str(order["salt"]), outside(texts(order["outside"]))]

    def name(self, asked: dict[str, object]) -> tuple[str, Reach] | None:
        """The name of a call and what it makes; None for one that is not kept."""
        environment = asked.get("environment")
        if asked.get("kind") != "compile" or not isinstance(environment, dict):
            return None
        if _READING_ENV & environment.keys():
            return None
        env = sorted((k, v) for k, v in environment.items() if k not in _IGNORED_ENV)
        try:
            reach = Reach(asked, self.files.roots, self.fixed, self.packages)
            files = self.files.named(reach.files, reach.names, reach.made_up)
        except (Strange, OSError, KeyError, ValueError):
            return None
        said = [asked[key] for key in ("tool", "words", "options", "cwd")]
        whole = renamed(json.dumps([self.salt, said, env, files]), reach.made_up)
        return hashlib.sha256(whole.encode()).hexdigest(), reach

    def answer(self, name: str, reach: Reach) -> bytes | None:
        """Make what a call makes; what the compiler said, or None where it is not kept."""
        path = self.place(name)
        try:
            with open(path, "rb") as stream:
                head = json.loads(stream.readline(_HEAD))
                left = os.fstat(stream.fileno()).st_size
                said, *contents = [stream.read(min(size, left)) for size in head["sizes"]]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        digests = [hashlib.sha256(data).hexdigest() for data in (said, *contents)]
        if digests != head.get("sha256") or len(contents) != len(reach.outputs):
            with contextlib.suppress(OSError):
                os.unlink(path)
            return None
        own = {other: name for name, other in reach.made_up.items()}
        try:
            for output, data in zip(reach.outputs, contents, strict=True):
                write_whole(output, [of_bytes(data, own)])
            os.utime(path)
        except OSError:
            return None
        return of_bytes(said, own)

    def keep(self, name: str, reach: Reach, said: bytes) -> None:
        """Keep what a call has made; nothing where something is missing or too large."""
        try:
            contents = [said]
            for output in reach.outputs:
                if os.stat(output).st_size > _LARGEST:
                    return
                with open(output, "rb") as stream:
                    contents.append(stream.read())
            contents = [of_bytes(data, reach.made_up) for data in contents]
            digests = [hashlib.sha256(data).hexdigest() for data in contents]
            head = {"sizes": [len(data) for data in contents], "sha256": digests}
            path = self.place(name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write_whole(path, [json.dumps(head).encode() + b"\n", *contents])
        except OSError:
            return

    def place(self, name: str) -> str:
        """Where a call is kept."""
        return os.path.join(self.folder, name[:2], name)

    def trim(self) -> None:
        """Remove those that were not asked for the longest, until the rest fit the limit."""
        found = []
        for folder, _, names in os.walk(self.folder):
            for name in names:
                with contextlib.suppress(OSError):
                    facts = os.stat(os.path.join(folder, name))
                    found.append((facts.st_mtime, facts.st_size, os.path.join(folder, name)))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self.limit:
                return
            with contextlib.suppress(OSError):
                os.unlink(path)
                total -= size


def of_bytes(data: bytes, names: dict[str, str]) -> bytes:
    """Contents with other names of the same length."""
    for name, other in names.items():
        data = data.replace(name.encode(), other.encode())
    return data


def write_whole(path: str, parts: list[bytes]) -> None:
    """Write a file that is whole or not there."""
    draft = f"{path}.{os.urandom(8).hex()}.draft"
    with open(draft, "wb") as stream:
        stream.writelines(parts)
    os.replace(draft, path)


def outside(folders: list[str]) -> str:
    """Digest of the names, sizes and dates below folders that belong to the machine.

    A folder of headers may be a link, as Debian's ``/usr/include/x86_64-linux-gnu/mpi``.
    """
    total = hashlib.sha256()
    for top in folders:
        entered: set[str] = set()
        for folder, names, files in os.walk(top, followlinks=True):
            real = os.path.realpath(folder)
            if real in entered:
                names.clear()
                continue
            entered.add(real)
            names.sort()
            for name in sorted(files):
                with contextlib.suppress(OSError):
                    facts = os.stat(os.path.join(folder, name))
                    line = f"{folder}/{name}\0{facts.st_size}\0{facts.st_mtime_ns}\0"
                    total.update(line.encode("utf-8", "surrogateescape"))
    return total.hexdigest()
