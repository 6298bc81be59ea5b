"""Read whatever `kernforge inspect` is pointed at: a file, a wheel, a folder, a distribution.

Room `binary`. Links to folders are not followed and files are read once, under the first of their
names, so that a loop of links ends; only regular files are opened.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.utils import canonicalize_name

from kernforge.binary.facts import Facts, Finding, Library, TreeFacts
from kernforge.binary.findings import FindingLog
from kernforge.binary.library import (
    LIBRARY_NAME,
    PLAIN_SUFFIXES,
    is_native,
    read_library_file,
    unreadable,
)
from kernforge.binary.opening import open_file
from kernforge.binary.record import TEXT_LIMIT, decode, field, header_fields, read_record
from kernforge.binary.wheel import read_wheel
from kernforge.errors import SelectionError, VerifyError

_INFO = re.compile(r"(?P<name>[^-/]+)-(?P<version>[^-/]+)\.dist-info")


def read_thing(
    thing: str,
    *,
    search: tuple[Path, ...] = (),
    kernels: bool = True,
    workers: int | None = None,
) -> Facts:
    """Read a file, a wheel, a folder, or the files of an installed distribution.

    Args:
        thing: a path, or the name of a distribution where there is no such path.
        search: folders (site-packages) in which distributions are looked for.
        kernels: whether to read kernels too.
        workers: threads, by default one a core.

    Raises:
        SelectionError: word ``thing-missing``.
        VerifyError: words ``library-unreadable`` or ``wheel-unreadable``.
    """
    path = Path(thing)
    if path.name.endswith(".dist-info") and path.is_dir():
        return read_distribution(path, kernels=kernels, workers=workers)
    if path.is_dir():
        return read_folder(path, kernels=kernels, workers=workers)
    if path.suffix == ".whl" and path.is_file():
        return read_wheel(path, kernels=kernels, workers=workers)
    if path.is_file():
        return _read_file(path, kernels=kernels)
    info = find_distribution(thing, search)
    if info is None:
        raise SelectionError(
            "thing-missing",
            f"{thing!r} is no file or folder, and no distribution of that name is installed",
            hint="give a wheel, a library, a folder, or the path of a dist-info folder",
        )
    return read_distribution(info, kernels=kernels, workers=workers)


def _read_file(path: Path, *, kernels: bool) -> Library:
    try:
        return read_library_file(path, path.name, kernels=kernels)
    except OSError as error:
        text = f"{str(path)!r} cannot be read: {error.strerror}"
        raise VerifyError("library-unreadable", text) from error


def find_distribution(name: str, search: Iterable[Path]) -> Path | None:
    """The dist-info folder of a distribution, the first that the search path has."""
    wanted = canonicalize_name(name)
    for folder in search:
        for info in sorted(folder.glob("*.dist-info")):
            match = _INFO.fullmatch(info.name)
            if match and canonicalize_name(match["name"]) == wanted:
                return info
    return None


def read_folder(folder: Path, *, kernels: bool = True, workers: int | None = None) -> TreeFacts:
    """Read every native file below a folder."""
    log = FindingLog()
    files = sorted(_walk(folder, log))
    libraries = _read_files(folder, files, kernels=kernels, workers=workers)
    return TreeFacts(
        path=str(folder), name=None, version=None, libraries=libraries, findings=log.all
    )


def read_distribution(info: Path, *, kernels: bool = True, workers: int | None = None) -> TreeFacts:
    """Read the native files that an installed distribution's RECORD lists."""
    log = FindingLog()
    fields = header_fields(_read_text(info / "METADATA", log))
    rows = read_record(_read_text(info / "RECORD", log), log)
    root = info.parent
    files = []
    for name in sorted(rows):
        if (root / name).is_file():
            files.append(name)
        elif not name.endswith((".pyc", "/RECORD")):
            log.note("record-ghost", f"RECORD lists {name!r}, which is not there")
    return TreeFacts(
        path=str(info),
        name=field(fields, "Name"),
        version=field(fields, "Version"),
        libraries=_read_files(root, files, kernels=kernels, workers=workers),
        findings=log.all,
    )


def _read_text(path: Path, log: FindingLog) -> str:
    try:
        with open_file(path) as stream:
            return decode(stream.read(TEXT_LIMIT))
    except OSError as error:
        log.note("text-missing", f"{path.name} cannot be read: {error.strerror}")
        return ""


def _walk(folder: Path, log: FindingLog) -> Iterator[str]:
    """Paths of regular files below a folder, relative to it."""

    def note(error: OSError) -> None:
        log.note("folder-unreadable", f"{error.filename!r} cannot be read: {error.strerror}")

    for place, _, names in os.walk(folder, onerror=note):
        for name in names:
            path = Path(place, name)
            if stat.S_ISREG(_mode(path)):
                yield str(path.relative_to(folder))


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError:
        return 0


def _read_files(
    root: Path, names: Iterable[str], *, kernels: bool, workers: int | None
) -> tuple[Library, ...]:
    """Read the native ones of some files, each file once; results in the order of the names."""
    seen: set[tuple[int, int]] = set()
    native = []
    # A link comes after the file it leads to, whatever their names.
    for name in sorted(names, key=lambda n: ((root / n).is_symlink(), n)):
        status = (root / name).stat()
        if (status.st_dev, status.st_ino) in seen or not _looks_native(root / name):
            continue
        seen.add((status.st_dev, status.st_ino))
        native.append(name)

    def read(name: str) -> Library:
        try:
            return read_library_file(root / name, name, kernels=kernels)
        except OSError as error:
            text = f"{name!r} cannot be read: {error.strerror}"
            return unreadable(name, Finding(word="library-unreadable", text=text))

    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        return tuple(pool.map(read, sorted(native)))


def _looks_native(path: Path) -> bool:
    if path.suffix in PLAIN_SUFFIXES:
        return False
    try:
        with open_file(path) as stream:
            return is_native(stream.read(4)) or LIBRARY_NAME.search(path.name) is not None
    except OSError:
        return LIBRARY_NAME.search(path.name) is not None
