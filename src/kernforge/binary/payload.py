"""Unpack the payloads of fat binary entries: as they are, LZ4 or zstd; never more than they may be.

Room `binary`. The size that an entry declares is checked before a byte is unpacked. A thread
unpacks ahead of the reader, into memory that is used again: on the 849 MB that are zstd in
sglang-kernel 0.4.10's `flash_ops`, new memory for each image costs as much as the unpacking
(0.65 s against 0.36 s).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import lz4.block
import zstandard

from kernforge.binary.facts import Compression
from kernforge.binary.findings import GarbledError

SIZE_LIMIT = 1 << 29
"""Bytes of one unpacked image; the largest seen has 128 MiB (NCCL 2.32)."""
# Seen: 207 for an image of torch 2.14, 18 for all images of a library (its libtorch_nvshmem).
_RATIO_LIMIT = 1024
_RATIO_FREE = 1 << 20
_TOTAL_RATIO = 64
_TOTAL_FREE = 1 << 30
_THREAD_FROM = 4 << 20
_AHEAD, _AHEAD_BYTES = 2, 256 << 20
_REUSE_FROM, _REUSE_TO = 1 << 20, 64 << 20
_UNREADABLE = "image-unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A payload as stored.

    Attributes:
        compression: how.
        unpacked: bytes that it claims to hold.
        stored: the bytes.
    """

    compression: Compression
    unpacked: int
    stored: memoryview


_P = TypeVar("_P", bound=Packed)


Content = Callable[[], memoryview]
"""Gives the bytes of a payload, good until the next one is taken, or raises GarbledError."""


class _Room:
    """Memory that is used again; it is taken when it is first needed."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._data = bytearray()

    def take(self, size: int) -> memoryview:
        """The first bytes of it."""
        if len(self._data) < size:
            self._data = bytearray(max(size, self._size))
        return memoryview(self._data)[:size]


def check_size(stored: int, unpacked: int) -> None:
    """Refuse a declared size that no real image has.

    Raises:
        GarbledError: word ``image-bomb``.
    """
    if unpacked > SIZE_LIMIT or unpacked > _RATIO_FREE + _RATIO_LIMIT * stored:
        text = f"{stored} stored bytes claim to hold {unpacked}"
        raise GarbledError("image-bomb", text)


def _check_length(found: int, unpacked: int) -> None:
    if found != unpacked:
        text = f"{found} bytes unpacked where the entry says {unpacked}"
        raise GarbledError(_UNREADABLE, text)


def _unpack_lz4(payload: Packed) -> memoryview:
    try:
        data = lz4.block.decompress(payload.stored, uncompressed_size=payload.unpacked)
    except lz4.block.LZ4BlockError as error:
        raise GarbledError(_UNREADABLE, f"lz4: {error}") from error
    return memoryview(data)


def _unpack_zstd(payload: Packed, room: _Room) -> memoryview:
    """Unpack in one go, or into ``room`` where that is cheaper."""
    size = payload.unpacked
    try:
        declared = zstandard.frame_content_size(payload.stored)
        # -1: the frame does not say. Then the size of the output is what bounds it.
        if declared not in {-1, size}:
            _check_length(declared, size)
        if not _REUSE_FROM <= size <= _REUSE_TO:
            unpacker = zstandard.ZstdDecompressor()
            return memoryview(unpacker.decompress(payload.stored, max_output_size=size))
        return _fill(payload, room)
    except zstandard.ZstdError as error:
        raise GarbledError(_UNREADABLE, f"zstd: {error}") from error


def _fill(payload: Packed, room: _Room) -> memoryview:
    size = payload.unpacked
    out = room.take(size)
    filled = 0
    with zstandard.ZstdDecompressor().stream_reader(payload.stored) as reader:
        while filled < size and (count := reader.readinto(out[filled:])):
            filled += count
    return out[:filled]


def unpack(payload: Packed, room: _Room) -> memoryview:
    """The whole payload; it may stand in ``room``.

    Raises:
        GarbledError: words ``image-bomb`` or ``image-unreadable``.
    """
    if payload.compression is Compression.NONE:
        return payload.stored
    check_size(len(payload.stored), payload.unpacked)
    if payload.compression is Compression.ZSTD:
        data = _unpack_zstd(payload, room)
    else:
        data = _unpack_lz4(payload)
    _check_length(len(data), payload.unpacked)
    return data


def unpack_head(payload: Packed) -> memoryview:
    """At least the first 64 bytes of the payload, cheaply where that can be.

    Raises:
        GarbledError: as :func:`unpack`.
    """
    if payload.compression is not Compression.ZSTD:
        return unpack(payload, _Room(0))
    check_size(len(payload.stored), payload.unpacked)
    try:
        with zstandard.ZstdDecompressor().stream_reader(payload.stored) as reader:
            return memoryview(reader.read(64))
    except zstandard.ZstdError as error:
        raise GarbledError(_UNREADABLE, f"zstd: {error}") from error


def _refuse(payload: Packed) -> memoryview:
    text = f"{payload.unpacked} bytes more than all images of one section may unpack to"
    raise GarbledError("image-bomb", text)


def _within_budget(payloads: Sequence[Packed]) -> list[bool]:
    """Which payloads, taken in order, stay within what a section may unpack to in all."""
    left = _TOTAL_FREE + _TOTAL_RATIO * sum(len(p.stored) for p in payloads)
    answers = []
    for payload in payloads:
        fits = payload.compression is Compression.NONE or payload.unpacked <= left
        if fits and payload.compression is not Compression.NONE:
            left -= payload.unpacked
        answers.append(fits)
    return answers


def unpacked(payloads: Sequence[_P], *, whole: bool) -> Iterator[tuple[_P, Content]]:
    """Each payload with its bytes, in order; a thread unpacks ahead where there is much to do.

    Args:
        payloads: what is stored.
        whole: whether all bytes are wanted, or only the first 64.
    """
    fits = _within_budget(payloads)
    if not whole:
        for payload, fit in zip(payloads, fits, strict=True):
            yield payload, partial(unpack_head if fit else _refuse, payload)
        return
    packed = sum(p.unpacked for p in payloads if p.compression is not Compression.NONE)
    if packed >= _THREAD_FROM:
        yield from _unpacked_ahead(payloads, fits)
        return
    for payload in payloads:
        yield payload, partial(unpack, payload, _Room(0))


def _unpacked_ahead(payloads: Sequence[_P], fits: Sequence[bool]) -> Iterator[tuple[_P, Content]]:
    # One room more than is unpacked ahead: the reader still holds the one before.
    size = max((p.unpacked for p in payloads if p.unpacked <= _REUSE_TO), default=0)
    rooms = [_Room(size) for _ in range(_AHEAD + 1)]
    waiting: deque[Future[memoryview]] = deque()
    with ThreadPoolExecutor(1) as pool:
        for at, payload in enumerate(payloads):
            for ahead in range(at + len(waiting), min(at + _AHEAD, len(payloads))):
                queued = sum(p.unpacked for p in payloads[at:ahead])
                if waiting and queued > _AHEAD_BYTES:
                    break
                if fits[ahead]:
                    room = rooms[ahead % len(rooms)]
                    waiting.append(pool.submit(unpack, payloads[ahead], room))
                else:
                    waiting.append(pool.submit(_refuse, payloads[ahead]))
            yield payload, waiting.popleft().result
