"""Binary blocks of git patches: base 85 over deflate, whole files or deltas, both ways. Pure.

Source: git's documentation of the pack format ("Deltified representation"), and blocks that
`git diff --binary` 2.39 wrote; the alphabet is the one of RFC 1924, as in `base64.b85encode`.
"""

from __future__ import annotations

import base64
import hashlib
import zlib

_LINE = 52
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_LIMIT = 256 << 20
"""Most bytes that a block may inflate to: a patch is no way to ship larger files."""


def git_hash(data: bytes, like: str) -> str:
    """Git's name for a file's content; SHA-1 or SHA-256 as the length of ``like`` says."""
    whole = b"blob %d\0%b" % (len(data), data)
    if len(like) == 64:
        return hashlib.sha256(whole).hexdigest()
    return hashlib.sha1(whole, usedforsecurity=False).hexdigest()


def encode_line(data: bytes) -> bytes:
    """One line of a block: its length as a letter, then base 85."""
    return _LETTERS[len(data) - 1 : len(data)] + base64.b85encode(data, pad=True) + b"\n"


def encode(data: bytes) -> bytes:
    """A whole file as a ``literal`` block, with the blank line that ends it."""
    packed = zlib.compress(data, 9)
    lines = (encode_line(packed[at : at + _LINE]) for at in range(0, len(packed), _LINE))
    return b"literal %d\n%b\n" % (len(data), b"".join(lines))


def decode_line(line: bytes) -> bytes:
    """The bytes of one line of a block, without its line end.

    Raises:
        ValueError: it is no such line.
    """
    count = _LETTERS.find(line[:1]) + 1
    if not line or count < 1 or len(line) - 1 != -(-count // 4) * 5:
        raise ValueError("its length letter and its length differ")
    data = base64.b85decode(line[1:])
    if any(data[count:]):
        raise ValueError("it is padded with other bytes than zero")
    return data[:count]


def inflate(packed: bytes, size: int) -> bytes:
    """Undo deflate; the result must be ``size`` bytes long, and no byte may be left over.

    Raises:
        ValueError: it is not so, or larger than any patch needs.
    """
    if size > _LIMIT:
        raise ValueError(f"it says to hold {size} bytes; the limit is {_LIMIT}")
    machine = zlib.decompressobj()
    try:
        data = machine.decompress(packed, size + 1)
    except zlib.error as error:
        raise ValueError("its deflate stream is broken") from error
    if len(data) != size or not machine.eof or machine.unused_data:
        raise ValueError(f"it does not hold the {size} bytes that it says")
    return data


def _number(delta: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = delta[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at


def _copied(delta: bytes, at: int, code: int) -> tuple[int, int, int]:
    offset = length = 0
    for bit in range(4):
        if code & (1 << bit):
            offset |= delta[at] << (8 * bit)
            at += 1
    for bit in range(3):
        if code & (0x10 << bit):
            length |= delta[at] << (8 * bit)
            at += 1
    return offset, length or 0x10000, at


def apply_delta(source: bytes, delta: bytes) -> bytes:
    """The file that a delta makes of ``source``.

    Raises:
        ValueError: the delta is broken or made for another source.
    """
    try:
        return _apply_delta(source, delta)
    except IndexError as error:
        raise ValueError("its delta ends too early") from error


def _apply_delta(source: bytes, delta: bytes) -> bytes:
    source_size, at = _number(delta, 0)
    size, at = _number(delta, at)
    if source_size != len(source) or size > _LIMIT:
        raise ValueError("its delta is for a file of another size")
    out = bytearray()
    while at < len(delta) and len(out) <= size:
        code, at = delta[at], at + 1
        if code & 0x80:
            offset, length, at = _copied(delta, at, code)
            if offset + length > len(source):
                raise ValueError("its delta copies from beyond the file")
            out += source[offset : offset + length]
        elif code:
            if at + code > len(delta):
                raise ValueError("its delta ends too early")
            out += delta[at : at + code]
            at += code
        else:
            raise ValueError("its delta holds an unknown instruction")
    if len(out) != size:
        raise ValueError("its delta makes a file of another size")
    return bytes(out)
