"""Kernel names that can be compared between libraries, and grouped. Pure.

Room `binary`. CUB and Thrust put the list of archs that a file was compiled for into a namespace
of every kernel (``CUB_300001_SM_800_900``, with ``_NS`` at its end in older releases), so that the
same kernel has another name in a library made for other archs.
"""

from __future__ import annotations

import re
from functools import lru_cache

from kernforge.binary.demangle import demangle

_SPACE = re.compile(r"(?<!\d)(\d{1,4})((CUB|THRUST)_\d+(?:_SM)?(?:_\d+)*(?:_*NS)?)", re.ASCII)


def _without_archs(match: re.Match[str]) -> str:
    # The length before an identifier says where it ends; digits of what follows are not its own.
    size = int(match[1])
    rest = match[2][size:]
    whole = re.fullmatch(r"(CUB|THRUST)_\d+(?:_SM)?(?:_\d+)*(?:_*NS)?", match[2][:size])
    short = match[3]
    return f"{len(short)}{short}{rest}" if whole and len(match[2]) >= size else match[0]


def plain_name(name: str) -> str:
    """A mangled name without the arch list in the namespaces of CUB and Thrust."""
    if "CUB_" not in name and "THRUST_" not in name:
        return name
    return _SPACE.sub(_without_archs, name)


@lru_cache(maxsize=1 << 14)
def family(name: str) -> str:
    """What a kernel is an instance of: its C++ name without parameters and most arguments.

    A template with one class as its only argument is a wrapper, and what it wraps is kept:
    ``cutlass::device_kernel<flash::FlashAttnFwdSm90>``. A name that is no C++ name is its own
    family.
    """
    text = demangle(plain_name(name))
    return name if text is None else _head(_without_result(text))


def _without_result(text: str) -> str:
    """A function's text from its name on."""
    depth, start = 0, 0
    for at, sign in enumerate(text):
        if sign in "<({":
            if sign == "(" and not depth and not text.startswith("(anonymous namespace)", at):
                break
            depth += 1
        elif sign in ">)}":
            depth -= 1
        elif sign == " " and not depth:
            start = at + 1
    return text[start:]


def _head(text: str) -> str:
    """The name before arguments; for a wrapper, with the head of what it wraps."""
    at = re.search(r"<|\((?!anonymous namespace\))", text)
    if at is None:
        return text
    head = text[: at.start()]
    if at[0] == "(":
        return head
    inside = _only_argument(text, at.end())
    return f"{head}<{_head(inside)}>" if inside and ("::" in inside or "<" in inside) else head


def _only_argument(text: str, start: int) -> str:
    """The argument of a template that has just one; else an empty text."""
    depth = 1
    for at in range(start, len(text)):
        sign = text[at]
        if sign in "<({":
            depth += 1
        elif sign in ">)}":
            depth -= 1
            if not depth:
                return text[start:at].strip()
        elif sign == "," and depth == 1:
            return ""
    return ""
