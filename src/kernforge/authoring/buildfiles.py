"""What a whole tree's build files ask for: third-party sources, options, downloads of their own.

Stands on :mod:`kernforge.authoring.cmakescan`, which reads one file. Reading the tree is the only
thing here that touches files.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kernforge.authoring.cmakescan import Call, Download, calls, downloads
from kernforge.source.tree import entries

MAX_BYTES = 2**20
"""Build files longer than this are not read."""

_NAMES = re.compile(r"(?:.*/)?(?:CMakeLists\.txt|setup\.py|\.gitmodules|pyproject\.toml)")
_ENDINGS = (".cmake", ".cmake.in")
_REVISION = re.compile(
    r"/(?:archive|tarball|zipball)/(?:refs/(?:heads|tags)/)?(.+?)(?:\.tar\.\w+|\.tgz|\.zip)?$"
)
_RUNS = re.compile(
    r"\bgit\s+(?:clone|pull|fetch|submodule\s+update)\b|\b(?:curl|wget)\s"
    r"|\bpip3?\s+(?:install|download)\b"
)
_LOADS = re.compile(
    r"\burllib\.request\.(?:urlretrieve|urlopen)\b|\burlretrieve\(|\brequests\.get\("
    r"|[\"']git[\"'],\s*[\"'](?:clone|pull|fetch|submodule)[\"']|\b(?:curl|wget)\s+(?:-|http)"
)
_RUNNERS = frozenset({"execute_process", "add_custom_command", "add_custom_target"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetching:
    """A place where a build would fetch something by itself: ``file:line``, and its words."""

    place: str
    text: str


def read_build_files(root: Path) -> dict[str, str]:
    """The build files of a tree by path: CMake, setup.py, pyproject.toml, .gitmodules.

    Raises:
        SourceError: as :func:`kernforge.source.tree.entries`.
    """
    found: dict[str, str] = {}
    for entry in entries(root):
        path = root / entry.path
        if entry.link is None and is_build_file(entry.path) and path.stat().st_size <= MAX_BYTES:
            found[entry.path] = path.read_text(encoding="utf-8", errors="replace")
    return found


def is_build_file(path: str) -> bool:
    """Whether a path is that of a file read here."""
    return bool(_NAMES.fullmatch(path)) or path.endswith(_ENDINGS)


def is_cmake(path: str) -> bool:
    """Whether a path is a CMake file's."""
    return path.endswith(("CMakeLists.txt", *_ENDINGS))


def all_calls(files: Mapping[str, str]) -> Iterator[tuple[str, Call]]:
    """Every call of a command in the CMake files with its file, by path and line."""
    for path in sorted(filter(is_cmake, files)):
        for call in calls(files[path]):
            yield path, call


def declared(files: Mapping[str, str]) -> tuple[Download, ...]:
    """What ``FetchContent_Declare`` names with an address, by name and place."""
    found = [
        each
        for path in filter(is_cmake, files)
        for each in downloads(files[path], path)
        if each.command == "fetchcontent_declare"
    ]
    return tuple(sorted(found, key=lambda each: (each.name.lower(), each.file, each.line)))


def revision(each: Download) -> str:
    """The commit, tag or branch that a download names, in its pin or its address; else empty."""
    if each.kind == "git":
        return each.pin
    in_url = _REVISION.search(each.url)
    return in_url[1] if in_url else ""


def direct_populations(files: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Name and place of each ``FetchContent_Populate`` that brings its own details.

    Such a call heeds neither FETCHCONTENT_SOURCE_DIR_NAME nor FETCHCONTENT_FULLY_DISCONNECTED
    (CMake's documentation of FetchContent), so no copy of ours can answer it.
    """
    return tuple(
        (call.arguments[0], f"{path}:{call.line}")
        for path, call in all_calls(files)
        if call.name == "fetchcontent_populate" and len(call.arguments) > 1
    )


def fetchings(files: Mapping[str, str]) -> tuple[Fetching, ...]:
    """What else the build files would fetch: ExternalProject, file(DOWNLOAD), git, curl, urllib."""
    found = [*_cmake_fetchings(files)]
    for path in sorted(p for p in files if p.endswith("setup.py")):
        for number, line in enumerate(files[path].splitlines(), start=1):
            if _LOADS.search(line.split("#")[0]):
                found.append(Fetching(place=f"{path}:{number}", text=line.strip()))
    return tuple(found)


def _cmake_fetchings(files: Mapping[str, str]) -> Iterator[Fetching]:
    for path, call in all_calls(files):
        told = " ".join(call.arguments)
        if call.name == "externalproject_add":
            wants = bool({"URL", "GIT_REPOSITORY", "SVN_REPOSITORY"} & set(call.arguments))
        elif call.name == "file":
            wants = call.arguments[:1] == ("DOWNLOAD",)
        else:
            wants = call.name in _RUNNERS and bool(_RUNS.search(told))
        if wants:
            yield Fetching(place=f"{path}:{call.line}", text=f"{call.name}({told[:80]})")


def options(files: Mapping[str, str]) -> frozenset[str]:
    """Names that the CMake files declare as options or cache variables."""
    found: set[str] = set()
    for _, call in all_calls(files):
        dependent = call.name in {"option", "cmake_dependent_option"}
        cached = call.name == "set" and "CACHE" in call.arguments
        if call.arguments and (dependent or cached):
            found.add(call.arguments[0])
    return frozenset(found)


def mentioned(files: Mapping[str, str]) -> frozenset[str]:
    """Every identifier in the arguments of any call: what some CMake file may read."""
    return frozenset(word for _, call in all_calls(files) for word in mentioned_in(call))


def mentioned_in(call: Call) -> frozenset[str]:
    """Every identifier in the arguments of a call."""
    words: set[str] = set()
    for argument in call.arguments:
        words.update(re.findall(r"[A-Za-z_]\w*(?:[.+/-]\w+)*", argument))
        words.update(re.findall(r"[A-Za-z_]\w*", argument))
    return frozenset(words)


def cached_options(cache: str) -> frozenset[str]:
    """Names that a ``CMakeCache.txt`` has a type for; those that nobody declared have none."""
    entry = re.compile(r"^([^#/\s][^:=]*):(\w+)=", re.MULTILINE)
    return frozenset(m[1] for m in entry.finditer(cache) if m[2] != "UNINITIALIZED")


def near_option(name: str, known: Iterable[str]) -> str | None:
    """The known variable whose name is nearest, or None; capitals count."""
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return near[0] if near else None
