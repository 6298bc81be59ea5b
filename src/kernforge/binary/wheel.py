"""Read a wheel without unpacking it to disk: names, texts, RECORD, and every library in it.

Room `binary`. Libraries are read in threads: unpacking, digests and zstd run outside the
interpreter lock and are most of the work, so that processes would pay their start and the way
back of the facts for little. Nothing of the wheel is executed.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from kernforge.binary.archive import (
    Member,
    list_members,
    locate,
    overlapping,
    peek,
    read_member,
)
from kernforge.binary.facts import Finding, Library, WheelFacts
from kernforge.binary.findings import FindingLog, GarbledError
from kernforge.binary.library import (
    LIBRARY_NAME,
    PLAIN_SUFFIXES,
    is_native,
    read_library,
    unreadable,
)
from kernforge.binary.record import TEXT_LIMIT, Fields, Row, decode, header_fields, read_record
from kernforge.binary.tags import name_findings, tag_findings
from kernforge.errors import VerifyError

_IN_FLIGHT = 8 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class _Name:
    """What a wheel's file name says."""

    name: str
    version: str
    build: str
    tags: frozenset[Tag]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What came of one member."""

    library: Library | None
    findings: tuple[Finding, ...]


class _Room:
    """Lets members into memory while they fit; one that never fits goes in alone."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._size = size
        self._changed = threading.Condition()

    @contextmanager
    def take(self, size: int) -> Iterator[None]:
        """Hold so many bytes of the whole; waits until they are left."""
        size = min(size, self._size)
        with self._changed:
            self._changed.wait_for(lambda: self._left >= size)
            self._left -= size
        try:
            yield
        finally:
            with self._changed:
                self._left += size
                self._changed.notify_all()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What reading any member needs."""

    data: mmap.mmap
    rows: dict[str, Row] | None
    kernels: bool
    room: _Room


def _read_name(file: str, log: FindingLog) -> _Name:
    try:
        name, version, build, tags = parse_wheel_filename(file)
    except InvalidWheelFilename as error:
        log.note("wheel-name-invalid", str(error))
        return _Name(name="", version="", build="", tags=frozenset())
    number = "".join(map(str, build))
    return _Name(name=name, version=str(version), build=number, tags=tags)


def _map(path: Path) -> mmap.mmap:
    try:
        with path.open("rb") as stream:
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise VerifyError("wheel-unreadable", f"{str(path)!r} cannot be read: {error}") from error


def _members(path: Path, data: mmap.mmap, log: FindingLog) -> dict[str, Member]:
    """Members that can be read, by path; the others become findings."""
    found: dict[str, Member] = {}
    try:
        infos = list_members(path)
    except GarbledError as error:
        log.add(error.finding)
        return found
    for info in infos:
        name = info.filename
        if name in found:
            log.note("member-duplicate", f"the archive holds {name!r} twice")
        if not name or name.startswith("/") or ".." in PurePosixPath(name).parts or "\\" in name:
            log.note("member-unsafe", f"{name!r} would be written outside the folder")
        try:
            found[name] = locate(data, info)
        except GarbledError as error:
            log.add(error.finding)
    for name in overlapping(tuple(found.values())):
        log.note("member-bomb", f"{name!r} shares its bytes with another member")
        del found[name]
    return found


def _info_folder(members: dict[str, Member], log: FindingLog) -> str:
    """The one dist-info folder, or an empty string."""
    folders = {
        name.split("/", 1)[0] for name in members if name.count("/") and ".dist-info/" in name
    }
    folders = {folder for folder in folders if folder.endswith(".dist-info")}
    if len(folders) != 1:
        text = f"{len(folders)} dist-info folders at the top, not one"
        log.note("dist-info", text)
    return min(folders, default="")


def _text(data: mmap.mmap, members: dict[str, Member], name: str, log: FindingLog) -> str | None:
    member = members.get(name)
    if member is None or member.size > TEXT_LIMIT:
        log.note("text-missing", f"{name!r} is missing, unreadable or too large")
        return None
    try:
        return decode(read_member(data, member).data)
    except GarbledError as error:
        log.add(error.finding)
        return None


def _record_findings(member: Member, sha256: bytes, job: _Job) -> Iterator[Finding]:
    if job.rows is None:
        return
    name = member.path
    row = job.rows.get(name)
    if name.endswith((".dist-info/RECORD", ".dist-info/RECORD.jws", ".dist-info/RECORD.p7s")):
        return
    if row is None:
        yield Finding(word="record-unlisted", text=f"RECORD does not list {name!r}")
    elif row.sha256 is None:
        yield Finding(word="record-undigested", text=f"RECORD has no SHA-256 of {name!r}")
    elif row.sha256 != sha256 or row.size not in {None, member.size}:
        text = f"{name!r} is not the file that RECORD lists"
        yield Finding(word="record-mismatch", text=text)


def _looks_native(data: mmap.mmap, member: Member) -> bool:
    path = PurePosixPath(member.path)
    if path.suffix in PLAIN_SUFFIXES:
        return False
    return LIBRARY_NAME.search(path.name) is not None or is_native(peek(data, member))


def _read(job: _Job, member: Member) -> _Read:
    native = _looks_native(job.data, member)
    with job.room.take(member.size if member.deflated else 0):
        try:
            content = read_member(job.data, member)
        except GarbledError as error:
            library = unreadable(member.path, error.finding, member.size) if native else None
            return _Read(library=library, findings=() if native else (error.finding,))
        library = None
        if native:
            library = read_library(content.data, member.path, kernels=job.kernels)
        findings = tuple(_record_findings(member, content.sha256, job))
        return _Read(library=library, findings=findings)


def _read_all(job: _Job, members: dict[str, Member], workers: int | None) -> tuple[_Read, ...]:
    """Read every member, the largest first; results in the order of their paths."""
    order = sorted(members.values(), key=lambda m: (-m.size, m.path))
    count = min(workers or os.cpu_count() or 1, len(order))
    if count < 2:
        results = [_read(job, member) for member in order]
    else:
        with ThreadPoolExecutor(count) as pool:
            results = list(pool.map(lambda member: _read(job, member), order))
    by_path = {member.path: result for member, result in zip(order, results, strict=True)}
    return tuple(by_path[path] for path in sorted(by_path))


def read_wheel(path: Path, *, kernels: bool = True, workers: int | None = None) -> WheelFacts:
    """Read a wheel.

    Args:
        path: the file.
        kernels: whether to read kernels too; else ``Image.kernels`` is None everywhere.
        workers: threads, by default one a core; the result is the same with any number.

    Raises:
        VerifyError: word ``wheel-unreadable`` where the file cannot be opened or is empty.
    """
    log = FindingLog()
    data = _map(path)
    name = _read_name(path.name, log)
    members = _members(path, data, log)
    texts = _read_texts(data, members, log)
    job = _Job(data=data, rows=texts.rows, kernels=kernels, room=_Room(_IN_FLIGHT))
    results = _read_all(job, members, workers)
    libraries = tuple(result.library for result in results if result.library)
    for result in results:
        for finding in result.findings:
            log.add(finding)
    for ghost in sorted(set(texts.rows or ()) - set(members)):
        log.note("record-ghost", f"RECORD lists {ghost!r}, which is not in the archive")
    if name.name:
        _add_all(log, name_findings(name.name, name.version, texts.metadata))
        _add_all(log, tag_findings(name.tags, texts.wheel, libraries))
    return WheelFacts(
        file=path.name,
        size=len(data),
        name=name.name,
        version=name.version,
        build=name.build,
        tags=tuple(sorted(map(str, name.tags))),
        metadata=texts.metadata,
        wheel=texts.wheel,
        members=len(members),
        libraries=libraries,
        findings=log.all,
    )


def _add_all(log: FindingLog, findings: Iterator[Finding]) -> None:
    for finding in findings:
        log.add(finding)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Texts:
    """The texts of the dist-info folder; ``rows`` is None where RECORD cannot be read."""

    metadata: Fields
    wheel: Fields
    rows: dict[str, Row] | None


def _read_texts(data: mmap.mmap, members: dict[str, Member], log: FindingLog) -> _Texts:
    folder = _info_folder(members, log)
    if not folder:
        return _Texts(metadata=(), wheel=(), rows=None)
    metadata = _text(data, members, f"{folder}/METADATA", log)
    wheel = _text(data, members, f"{folder}/WHEEL", log)
    rows = _text(data, members, f"{folder}/RECORD", log)
    return _Texts(
        metadata=header_fields(metadata or ""),
        wheel=header_fields(wheel or ""),
        rows=None if rows is None else read_record(rows, log),
    )
