r"""Names as git writes them in patches: plain, or in quotes with ``\n`` and octal escapes. Pure.

Source: the description of ``core.quotePath`` in git-config(1) and of the patch format in
git-diff(1), 2.39.
"""

from __future__ import annotations

import os
import re

_LETTERS = {
    "a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92,
}  # fmt: skip
_ESCAPES = {number: letter for letter, number in _LETTERS.items()}
_QUOTED = re.compile(rb'"((?:[^"\\\n]|\\[abtnvfr"\\]|\\[0-3][0-7]{2})*)"')
_ESCAPE = re.compile(rb'\\([abtnvfr"\\]|[0-3][0-7]{2})')


def _unescape(match: re.Match[bytes]) -> bytes:
    word = match[1].decode("ascii")
    return bytes([_LETTERS[word] if word in _LETTERS else int(word, 8)])


def take_quoted(text: bytes) -> tuple[str, bytes] | None:
    """Read a quoted name at the beginning; the name and what follows, or None if there is none."""
    match = _QUOTED.match(text)
    if match is None:
        return None
    return os.fsdecode(_ESCAPE.sub(_unescape, match[1])), text[match.end() :]


def read_name(text: bytes) -> str | None:
    """The name that a whole text is, quoted or plain. None where it is neither."""
    if not text.startswith(b'"'):
        return os.fsdecode(text) or None
    taken = take_quoted(text)
    return taken[0] if taken is not None and not taken[1] else None


def _halves(text: bytes) -> set[tuple[str, str]]:
    """Every way to split a plain pair at a blank into names equal after their first folder."""
    found = set()
    for place in (m.start() for m in re.finditer(rb" ", text)):
        old, new = text[:place], text[place + 1 :]
        if old and new and (old == new or _tail(old) == _tail(new) != b""):
            found.add((os.fsdecode(old), os.fsdecode(new)))
    return found


def _tail(name: bytes) -> bytes:
    return name.partition(b"/")[2]


def read_pair(text: bytes) -> tuple[str, str] | None:
    """The two names of a ``diff --git`` line, or None where they cannot be told apart.

    Unquoted names may hold blanks; they are told apart only where both are equal after their
    first folder. Of a rename git writes the names on lines of their own.
    """
    first = take_quoted(text)
    if first is not None:
        second = read_name(first[1].removeprefix(b" "))
        return (first[0], second) if second else None
    if text.startswith(b'"'):
        return None
    if text.endswith(b'"'):
        plain, _, rest = text.partition(b' "')
        second = read_name(b'"' + rest)
        return (os.fsdecode(plain), second) if plain and second else None
    if text.count(b" ") == 1:
        old, _, new = text.partition(b" ")
        return (os.fsdecode(old), os.fsdecode(new)) if old and new else None
    found = _halves(text)
    return found.pop() if len(found) == 1 else None


def write_name(name: str) -> bytes:
    """The name as git writes it: quoted where it holds quotes, control or non-ASCII bytes."""
    raw = os.fsencode(name)
    if all(32 <= byte < 127 and byte not in b'"\\' for byte in raw):
        return raw
    out = bytearray(b'"')
    for byte in raw:
        if byte in _ESCAPES:
            out += b"\\" + _ESCAPES[byte].encode("ascii")
        elif 32 <= byte < 127:
            out.append(byte)
        else:
            out += b"\\%03o" % byte
    return bytes(out + b'"')
