"""Wheel archives: unpacked with every member checked, written so that bytes depend on content only.

Sorted names, one time stamp, modes 644 and 755, deflate at level 6 by the zlib that the key names.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import shutil
import stat
import time
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kernforge.errors import VerifyError

_CHUNK = 1 << 20
_MAX_MEMBERS = 200_000
_MAX_BYTES = 32 << 30
_EARLIEST = 315532800  # 1980-01-01, the first date a zip can hold
_LATEST = 4354819198  # 2107-12-31, the last one


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLine:
    """One line of RECORD: path in the wheel, SHA-256 (64 hex digits), size in bytes."""

    path: str
    sha256: str
    size: int


def _bad(wheel: Path, member: str, rule: str) -> VerifyError:
    return VerifyError("wheel-member", f"{wheel.name}: member {member!r} is refused: {rule}")


def checked_members(archive: zipfile.ZipFile, wheel: Path) -> tuple[zipfile.ZipInfo, ...]:
    """The files of a wheel, after a check of every name, kind and size.

    Raises:
        VerifyError: ``wheel-member``.
    """
    members = [info for info in archive.infolist() if not info.is_dir()]
    seen: set[str] = set()
    for info in members:
        name, parts = info.filename, PurePosixPath(info.filename).parts
        place = "/".join(parts)
        kind = stat.S_IFMT(info.external_attr >> 16)
        if name.startswith("/") or ".." in parts or "\\" in name or "\0" in name or not parts:
            raise _bad(wheel, name, "it leads outside the wheel")
        if place in seen:
            raise _bad(wheel, name, "it is there twice")
        if kind not in {0, stat.S_IFREG}:
            raise _bad(wheel, name, "it is no plain file")
        seen.add(place)
    for place in sorted(seen):
        if above := next((str(p) for p in PurePosixPath(place).parents if str(p) in seen), None):
            raise _bad(wheel, place, f"{above!r} is a file, not a folder")
    if len(members) > _MAX_MEMBERS or sum(info.file_size for info in members) > _MAX_BYTES:
        raise _bad(wheel, "(all)", "there are too many, or they are too large")
    return tuple(members)


def unpack(wheel: Path, into: Path) -> None:
    """Unpack a wheel into a new folder.

    Raises:
        VerifyError: ``wheel-member`` or ``wheel-unreadable``.
    """
    into.mkdir(parents=True)
    try:
        with zipfile.ZipFile(wheel) as archive:
            for info in checked_members(archive, wheel):
                target = into / info.filename
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(info) as source, target.open("xb") as sink:
                    shutil.copyfileobj(source, sink, _CHUNK)
                executable = (info.external_attr >> 16) & stat.S_IXUSR
                target.chmod(0o755 if executable else 0o644)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise VerifyError("wheel-unreadable", f"{wheel.name} is no whole wheel: {error}") from error


def elf_files(tree: Path) -> tuple[Path, ...]:
    """Every ELF file of an unpacked wheel, by its first four bytes."""
    files = sorted(path for path in tree.rglob("*") if path.is_file())
    return tuple(path for path in files if _starts(path) == b"\x7fELF")


def _starts(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4)


def _hashed(tree: Path, name: str) -> RecordLine:
    with (tree / name).open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return RecordLine(path=name, sha256=sha256, size=(tree / name).stat().st_size)


def record_text(lines: tuple[RecordLine, ...], record: str) -> str:
    """RECORD for the given files; its own line has neither hash nor size."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for line in lines:
        raw = base64.urlsafe_b64encode(bytes.fromhex(line.sha256)).rstrip(b"=").decode()
        rows.writerow((line.path, f"sha256={raw}", line.size))
    rows.writerow((record, "", ""))
    return text.getvalue()


def _ordered(tree: Path, info_dir: str) -> Iterator[str]:
    names = sorted(path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file())
    yield from (name for name in names if not name.startswith(f"{info_dir}/"))
    yield from (name for name in names if name.startswith(f"{info_dir}/"))


def write_wheel(
    tree: Path, target: Path, *, info_dir: str, epoch: int, compress: bool = True
) -> None:
    """Write a folder as a wheel: package files, then dist-info, RECORD last and made here.

    Args:
        tree: the unpacked wheel; an old RECORD in it is dropped.
        target: the wheel to write.
        info_dir: name of the dist-info folder.
        epoch: time stamp of every member, seconds since 1970, kept within 1980 and 2107.
        compress: whether members are deflated.
    """
    record = f"{info_dir}/RECORD"
    names = [name for name in _ordered(tree, info_dir) if name != record]
    lines = tuple(_hashed(tree, name) for name in names)
    (tree / record).write_text(record_text(lines, record), encoding="utf-8")
    moment = time.gmtime(min(max(epoch, _EARLIEST), _LATEST))[:6]
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(target, "w", method, compresslevel=6) as archive:
        for name in [*names, record]:
            _write_member(archive, tree / name, name, moment)


def _write_member(archive: zipfile.ZipFile, path: Path, name: str, moment: tuple[int, ...]) -> None:
    year, month, day, hour, minute, second = moment
    info = zipfile.ZipInfo(name, (year, month, day, hour, minute, second))
    info.compress_type = archive.compression
    info.create_system = 3
    status = path.stat()
    info.external_attr = (stat.S_IFREG | (0o755 if status.st_mode & stat.S_IXUSR else 0o644)) << 16
    info.file_size = status.st_size
    with path.open("rb") as source, archive.open(info, "w") as sink:
        shutil.copyfileobj(source, sink, _CHUNK)
