"""Which licences stand in a tree of sources, and which an environment's packages name.

A licence is recognised by whole phrases of its text; what is not recognised is told as a file
without a name, never guessed.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from kernforge.pack.metadata import header

_FILE = re.compile(r"(?:LICEN[CS]E|COPYING|EULA)([._-].*)?", re.IGNORECASE)
_TEXT_LIMIT = 1 << 20
_MOST = 500
# SPDX identifier and phrases that must all stand in the text, the narrower ones first.
_PHRASES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Apache-2.0 WITH LLVM-exception", ("apache license", "llvm exceptions")),
    ("Apache-2.0", ("apache license", "version 2.0")),
    ("BSL-1.0", ("boost software license - version 1.0",)),
    ("MPL-2.0", ("mozilla public license", "version 2.0")),
    ("LGPL-3.0-only", ("gnu lesser general public license", "version 3")),
    ("GPL-3.0-only", ("gnu general public license", "version 3")),
    ("GPL-2.0-only", ("gnu general public license", "version 2")),
    ("BSD-3-Clause", ("redistribution and use in source and binary forms", "neither the name")),
    ("BSD-2-Clause", ("redistribution and use in source and binary forms",)),
    ("MIT", ("permission is hereby granted, free of charge", "the software is provided")),
    ("Unlicense", ("this is free and unencumbered software",)),
)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Vendored:
    """A licence file in a tree of sources, which speaks for the folder it stands in.

    Attributes:
        path: of the file, relative to the tree.
        licence: SPDX identifier or expression, or None where it is not recognised.
        sha256: of the file.
    """

    path: str
    licence: str | None
    sha256: str

    @property
    def folder(self) -> str:
        """The folder that it speaks for."""
        return self.path.rpartition("/")[0]


def recognise(text: str) -> str | None:
    """The SPDX identifier of a licence's text, or None."""
    plain = " ".join(text.lower().split())
    return next((name for name, words in _PHRASES if all(w in plain for w in words)), None)


def find_licences(tree: Path) -> tuple[Vendored, ...]:
    """Every licence file of a tree, by path; links are not followed. At most 500 are told.

    A folder that holds several, as a choice between licences, gives each.
    """
    found = []
    for path in sorted(tree.rglob("*")):
        if _FILE.fullmatch(path.name) is None or path.is_symlink() or not path.is_file():
            continue
        if path.stat().st_size > _TEXT_LIMIT or path.suffix in {".py", ".h", ".c", ".cu", ".cpp"}:
            continue
        data = path.read_bytes()
        found.append(
            Vendored(
                path=path.relative_to(tree).as_posix(),
                licence=recognise(data.decode("utf-8", "replace")),
                sha256=hashlib.sha256(data).hexdigest(),
            )
        )
    return tuple(found[:_MOST])


def installed_licences(environment: Path) -> tuple[tuple[str, str], ...]:
    """Normalised name and licence of each installed distribution that names one, sorted.

    Only `License-Expression` is taken, and a `License` field of one short line.
    """
    found = {}
    for path in sorted(environment.glob("lib/python3*/site-packages/*.dist-info/METADATA")):
        text = path.read_text(encoding="utf-8", errors="replace")
        words = [*header(text, "License-Expression"), *header(text, "License")]
        names = header(text, "Name")
        if names and words and 0 < len(words[0]) <= 60:
            found[str(canonicalize_name(names[0]))] = words[0]
    return tuple(sorted(found.items()))
