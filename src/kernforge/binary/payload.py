"""Unpack the payload of a fat binary entry: as it is, LZ4 or zstd; never more than it may be.

Room `binary`. The size that an entry declares is checked before a byte is unpacked.
"""

from __future__ import annotations

import lz4.block
import zstandard

from kernforge.binary.facts import Compression
from kernforge.binary.findings import GarbledError

SIZE_LIMIT = 1 << 29
"""Bytes of one unpacked image, above the largest seen (about 100 MB in cuBLASLt)."""
_RATIO_LIMIT = 1024
_RATIO_FREE = 1 << 20
_UNREADABLE = "image-unreadable"


def check_size(stored: int, unpacked: int) -> None:
    """Refuse a declared size that no real image has.

    Raises:
        GarbledError: word ``image-bomb``.
    """
    if unpacked > SIZE_LIMIT or unpacked > _RATIO_FREE + _RATIO_LIMIT * stored:
        text = f"{stored} stored bytes claim to hold {unpacked}"
        raise GarbledError("image-bomb", text)


def _unpack_zstd(stored: memoryview, unpacked: int) -> bytes:
    try:
        declared = zstandard.frame_content_size(stored)
        if declared not in {-1, unpacked}:
            text = f"a zstd frame of {declared} bytes where the entry says {unpacked}"
            raise GarbledError(_UNREADABLE, text)
        return zstandard.ZstdDecompressor().decompress(stored, max_output_size=unpacked)
    except zstandard.ZstdError as error:
        raise GarbledError(_UNREADABLE, f"zstd: {error}") from error


def _unpack_lz4(stored: memoryview, unpacked: int) -> bytes:
    try:
        return bytes(lz4.block.decompress(stored, uncompressed_size=unpacked))
    except lz4.block.LZ4BlockError as error:
        raise GarbledError(_UNREADABLE, f"lz4: {error}") from error


def unpack(stored: memoryview, compression: Compression, unpacked: int) -> memoryview:
    """The whole payload.

    Raises:
        GarbledError: words ``image-bomb`` or ``image-unreadable``.
    """
    if compression is Compression.NONE:
        return stored
    check_size(len(stored), unpacked)
    run = _unpack_zstd if compression is Compression.ZSTD else _unpack_lz4
    data = run(stored, unpacked)
    if len(data) != unpacked:
        text = f"{len(data)} bytes unpacked where the entry says {unpacked}"
        raise GarbledError(_UNREADABLE, text)
    return memoryview(data)


def unpack_head(stored: memoryview, compression: Compression, unpacked: int) -> memoryview:
    """At least the first 64 bytes of the payload, cheaply where that can be.

    Raises:
        GarbledError: as :func:`unpack`.
    """
    if compression is not Compression.ZSTD:
        return unpack(stored, compression, unpacked)
    check_size(len(stored), unpacked)
    try:
        with zstandard.ZstdDecompressor().stream_reader(stored) as reader:
            return memoryview(reader.read(64))
    except zstandard.ZstdError as error:
        raise GarbledError(_UNREADABLE, f"zstd: {error}") from error
