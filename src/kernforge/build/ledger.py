"""The ledger: one record a compiler call, as the shim wrote it, and what follows from them.

Level of build: reads files of the ledger and of the build folder; starts nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernforge.errors import CompileError

FROM_CACHE = frozenset({"whole", "hit", "part"})
"""What is said of a call for which a compiler did not do all the work."""
_CALLS = "*.jsonl"
_OBJECT_SUFFIXES = (".o", ".obj")
_MAKES_CODE = frozenset({"compile", "device-link", "link"})
_ELF_MAGIC = b"\x7fELF"
_HALF_OF_NVCC = ".cudafe1.cpp"
_RELOCATABLE = frozenset({b"\x01\x00", b"\x00\x01"})  # e_type 1, in either byte order


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A file that a call left.

    Attributes:
        path: below the source or build folder; absolute where it is below neither.
        sha256: hex digest; None where the shim found the file too large to read.
        size: in bytes.
        mtime_ns: time of last change, in nanoseconds.
    """

    path: str
    sha256: str | None
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One compiler call.

    Attributes:
        tool: name under which the compiler was called: ``nvcc``, ``g++`` ...
        kind: compile, device-link, link, preprocess, query or other.
        sources: inputs that are no objects; paths as in :class:`Output`.
        output: the file that the call names or implies, made or not.
        outputs: the files that are there after a call that ended well.
        archs_before: targets that the call named; None where it named none.
        archs_after: targets really compiled; None for the compiler's default or no device code.
        policy: the gencode policy that held; None for host compilers.
        rewritten: whether target options were changed.
        note: what the user should know of the call; empty for most.
        argv: the real command.
        cwd: its folder, as the build saw it.
        start: seconds since 1970.
        seconds: wall time, the shim's own included.
        user_seconds: processor time of the compiler and all its children.
        waited: seconds until the steward let it in, no part of ``seconds``.
        max_rss_kib: memory of the largest single process of the call, in KiB.
        peak_kib: the most that all its processes took together, in KiB; None where nobody looked.
        cache: what the compile cache answered: whole (the call was kept), hit (all its steps were),
            part or miss; None where it was not asked.
        exit: exit code; 128+n for signal n; 96 where the policy refused the call.
        nested: whether another compiler of the ledger made this call.
    """

    tool: str
    kind: str
    sources: tuple[str, ...]
    output: str | None
    outputs: tuple[Output, ...]
    archs_before: tuple[str, ...] | None
    archs_after: tuple[str, ...] | None
    policy: str | None
    rewritten: bool
    note: str
    argv: tuple[str, ...]
    cwd: str
    start: float
    seconds: float
    user_seconds: float
    max_rss_kib: int
    waited: float
    peak_kib: int | None
    cache: str | None
    exit: int
    nested: bool

    @property
    def device(self) -> bool:
        """Whether the call made device code, or an object that could hold some."""
        return self.policy is not None and self.kind in _MAKES_CODE and self.exit == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a build's compiler calls come to.

    Attributes:
        calls: all calls that were not made by another call of the ledger.
        device_calls: calls of nvcc that compiled or linked and ended well.
        archs: targets that those really compiled, in order.
        seconds: wall time of all calls, added up.
        notes: each distinct note with the file it was first said of.
    """

    calls: int
    device_calls: int
    archs: tuple[str, ...]
    seconds: float
    notes: tuple[str, ...]

    @property
    def text(self) -> str:
        """One line: ``143 compiler calls, 96 of nvcc for sm_120a, 812 s``."""
        device = f", {self.device_calls} of nvcc" if self.device_calls else ""
        archs = f" for {' '.join(self.archs)}" if self.archs else ""
        calls = f"{self.calls} compiler call{'' if self.calls == 1 else 's'}"
        return f"{calls}{device}{archs}, {self.seconds:.0f} s"


def _names(value: list[str] | None) -> tuple[str, ...] | None:
    return None if value is None else tuple(value)


def _record(data: dict[str, Any]) -> Record:
    fields = {name: data[name] for name in Record.__slots__}
    fields["sources"] = tuple(data["sources"])
    fields["outputs"] = tuple(Output(**output) for output in data["outputs"])
    fields["archs_before"] = _names(data["archs_before"])
    fields["archs_after"] = _names(data["archs_after"])
    fields["argv"] = tuple(data["argv"])
    return Record(**fields)


def _lines(folder: Path) -> Iterator[tuple[str, Any]]:
    for path in sorted(folder.glob(_CALLS)):
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            try:
                yield f"{path.name}:{number}", json.loads(line)
            except ValueError:  # cut short by a kill; what it made stays unexplained
                continue


def read_ledger(folder: Path) -> tuple[Record, ...]:
    """Read all records of a build, oldest first; a line that a kill cut short is passed over.

    Raises:
        CompileError: ``ledger-invalid``, a whole line is no record.
    """
    records = []
    for where, data in _lines(folder):
        try:
            records.append(_record(data))
        except (KeyError, TypeError) as error:
            raise CompileError(
                "ledger-invalid",
                f"{where} is no record of a compiler call: {error!r}",
                hint="build again from an empty build folder",
            ) from error
    return tuple(sorted(records, key=lambda record: record.start))


def _is_object(path: Path) -> bool:
    if not path.name.endswith(_OBJECT_SUFFIXES) or not path.is_file():
        return False
    with path.open("rb") as stream:
        head = stream.read(18)
    return head.startswith(_ELF_MAGIC) and head[16:18] in _RELOCATABLE


def unseen_nvcc(records: Iterable[Record]) -> tuple[str, ...]:
    """What host compilers made of the host half that an nvcc past the shim left, in order.

    An nvcc that came through the shim calls host compilers that keep no record, or, where it was
    given the shim's own compiler by ``-ccbin`` (torch does), a nested one. A record that is not
    nested means an nvcc that the shim has not seen: none says for which targets it compiled.
    """
    halves = (r for r in records if any(name.endswith(_HALF_OF_NVCC) for name in r.sources))
    return tuple(r.output or r.sources[0] for r in halves if r.policy is None and not r.nested)


class Made:
    """What the calls of a ledger that ended well have made.

    A file is theirs by its bytes, wherever it was copied to; one that was too large to hash by
    path, size and time.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        made = [output for record in records if record.exit == 0 for output in record.outputs]
        self._digests = {output.sha256 for output in made if output.sha256}
        self._large = {(o.path, o.size, o.mtime_ns) for o in made if o.sha256 is None}

    def holds(self, name: str, path: Path) -> bool:
        """Whether a regular file is as a call has left it; ``name`` is its path below its root."""
        facts = path.stat()
        if (name, facts.st_size, facts.st_mtime_ns) in self._large:
            return True
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() in self._digests


def unexplained_objects(build_root: Path, records: Iterable[Record]) -> tuple[str, ...]:
    """Relocatable ELF objects that no call of the ledger made as they are.

    Returns:
        Paths below ``build_root``, sorted.
    """
    made = Made(records)
    found = []
    for path in build_root.rglob("*"):
        name = path.relative_to(build_root).as_posix()
        if _is_object(path) and not made.holds(name, path):
            found.append(name)
    return tuple(sorted(found))


def _natural(name: str) -> tuple[str, int, str]:
    kind, _, digits = name.partition("_")
    number = digits.rstrip("af")
    return kind, int(number) if number.isdigit() else 0, digits


def summarise(records: Iterable[Record]) -> Summary:
    """Count calls and time, and collect the targets really compiled and the notes."""
    outer = [record for record in records if not record.nested]
    device = [record for record in outer if record.device]
    archs = {arch for record in device for arch in record.archs_after or ()}
    notes: dict[str, str] = {}
    for record in outer:
        if record.note:
            notes.setdefault(record.note, (*record.sources, record.output or record.tool)[0])
    return Summary(
        calls=len(outer),
        device_calls=len(device),
        archs=tuple(sorted(archs, key=_natural)),
        seconds=round(sum(record.seconds for record in outer), 3),
        notes=tuple(f"{where}: {note}" for note, where in notes.items()),
    )
