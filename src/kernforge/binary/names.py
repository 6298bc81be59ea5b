"""Kernel names that can be compared between libraries. Pure.

Room `binary`. CUB and Thrust put the list of archs that a file was compiled for into a namespace
of every kernel (``CUB_300001_SM_800_900``, with ``_NS`` at its end in older releases), so that the
same kernel has another name in a library made for other archs.
"""

from __future__ import annotations

import re

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
