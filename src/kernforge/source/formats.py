"""Archives as a run of members, one at a time: zip, and tar bare or in gz, bz2, xz or zst.

The format is told by the first bytes, never by the name. Nothing is written and no name is judged
here; that is :mod:`kernforge.source.unpack`'s. The standard library's tar reader ends without a
word at a damaged header and reads extended headers of any size into memory; this one does neither.
"""

from __future__ import annotations

import bz2
import calendar
import gzip
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Literal, Self, cast

import zstandard

from kernforge.errors import SourceError

Kind = Literal["file", "folder", "link", "hardlink", "special"]

_LONGEST_HEADER = 1 << 20
_LONGEST_LINK = 4096
_MOST_PADDING = 16 << 20
_ENCRYPTED = 0x1
_EXTENDED = frozenset(
    {
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.SOLARIS_XHDTYPE,
        tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_LONGLINK,
    }
)
_ENDS = frozenset({"EOFHeaderError", "EmptyHeaderError"})  # the two that end a tar file
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zstandard.ZstdError,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    UnicodeError,
    NotImplementedError,
    ValueError,
    OverflowError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member as the archive tells of it.

    Attributes:
        name: as written, with ``/``.
        kind: ``special`` is a device, pipe or socket.
        target: where a link points to; for hard links the name of an earlier member.
        executable: whether its owner may run it.
        mtime: seconds since 1970.
        size: bytes, as declared.
        data: the content of a file, to read before the next member is asked for.
    """

    name: str
    kind: Kind
    target: str = ""
    executable: bool = False
    mtime: int = 0
    size: int = 0
    data: IO[bytes] | None = None


class _StrictInfo(tarfile.TarInfo):
    """A member's header; damage is an error everywhere, not at the first one only."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str | None, errors: str) -> Self:
        """Read one header block; an extended header must be of a size fit for memory."""
        info = super().frombuf(buf, encoding, errors)  # type: ignore[arg-type]
        if info.type in _EXTENDED and info.size > _LONGEST_HEADER:
            raise tarfile.ReadError(f"an extended header of {info.size} bytes")
        return info

    @classmethod
    def fromtarfile(cls, tarfile_: tarfile.TarFile) -> Self:
        """Read the next member's headers."""
        try:
            return super().fromtarfile(tarfile_)
        except tarfile.HeaderError as error:
            if type(error).__name__ in _ENDS:
                raise
            raise tarfile.ReadError(f"a damaged header: {error}") from error


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn what readers raise for damaged bytes into ours; around each read of a member too.

    Raises:
        SourceError: ``archive-damaged``.
    """
    try:
        yield
    except _DAMAGE as error:
        raise damaged(what, str(error) or type(error).__name__) from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise damaged(what, str(error)) from error  # gzip's and bz2's own


def damaged(what: str, why: str) -> SourceError:
    """The fault of an archive whose bytes make no sense."""
    return SourceError(
        "archive-damaged",
        f"{what} cannot be read: {why}",
        hint="if its SHA-256 is right, upstream's file is damaged",
    )


def members(file: IO[bytes], what: str) -> Iterator[Member]:
    """The members of an archive, in its order.

    Args:
        file: the open archive; can seek.
        what: what it is, for messages.

    Raises:
        SourceError: ``archive-format``, ``archive-damaged`` or ``archive-encrypted``.
    """
    file.seek(0)
    magic = file.read(265)
    file.seek(0)
    with reading(what):
        if magic[:4] in {b"PK\3\4", b"PK\5\6"}:
            yield from _zip(file, what)
            return
        stream = _decompressed(file, magic)
        if stream is None:
            raise SourceError(
                "archive-format",
                f"{what} is neither zip nor tar (bare, gz, bz2, xz or zst)",
                hint="is it an error page? Look at what the address gives",
            )
        yield from _tar(stream)
        _read_out(stream)


def _read_out(stream: IO[bytes]) -> None:
    """Read what follows a tar file's end mark, so that the packer's own checksum is checked."""
    left = _MOST_PADDING
    while left > 0 and (chunk := stream.read(1 << 16)):
        left -= len(chunk)
    if left <= 0:
        raise tarfile.ReadError("it goes on after its end")


def _decompressed(file: IO[bytes], magic: bytes) -> IO[bytes] | None:
    if magic[:2] == b"\x1f\x8b":
        return cast("IO[bytes]", gzip.GzipFile(fileobj=file))
    if magic[:3] == b"BZh":
        return bz2.BZ2File(file)
    if magic[:6] == b"\xfd7zXZ\0":
        return lzma.LZMAFile(file)
    if magic[:4] == b"\x28\xb5\x2f\xfd":
        return cast(
            "IO[bytes]",
            zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True),
        )
    return file if magic[257:262] == b"ustar" else None


def _tar(stream: IO[bytes]) -> Iterator[Member]:
    with tarfile.open(fileobj=stream, mode="r|", tarinfo=_StrictInfo) as tar:
        while (info := tar.next()) is not None:
            tar.members = []  # type: ignore[attr-defined] # else every header is kept
            yield Member(
                name=info.name,
                kind=_tar_kind(info),
                target=info.linkname,
                executable=bool(info.mode & stat.S_IXUSR),
                mtime=int(info.mtime),
                size=info.size,
                data=tar.extractfile(info) if info.isfile() else None,
            )


def _tar_kind(info: tarfile.TarInfo) -> Kind:
    if info.isfile():
        return "file"
    if info.isdir():
        return "folder"
    if info.issym():
        return "link"
    return "hardlink" if info.islnk() else "special"


def _zip(file: IO[bytes], what: str) -> Iterator[Member]:
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            if info.flag_bits & _ENCRYPTED:
                raise SourceError(
                    "archive-encrypted", f"{what} holds {info.filename!r}, which is encrypted"
                )
            with archive.open(info) as data:
                yield _zip_member(info, data)


def _zip_member(info: zipfile.ZipInfo, data: IO[bytes]) -> Member:
    mode = info.external_attr >> 16 if info.create_system == 3 else 0
    kinds: dict[int, Kind] = {0: "file", stat.S_IFREG: "file", stat.S_IFLNK: "link"}
    kinds[stat.S_IFDIR] = "folder"
    kind = "folder" if info.is_dir() else kinds.get(stat.S_IFMT(mode), "special")
    return Member(
        name=info.filename,
        kind=kind,
        target=data.read(_LONGEST_LINK).decode("utf-8", "surrogateescape")
        if kind == "link"
        else "",
        executable=bool(mode & stat.S_IXUSR),
        mtime=_dos_time(info.date_time),
        size=info.file_size,
        data=data if kind == "file" else None,
    )


def _dos_time(when: tuple[int, int, int, int, int, int]) -> int:
    try:
        return calendar.timegm((*when, 0, 0, 0))
    except ValueError:  # a month 0, as packers without a clock write
        return 0
