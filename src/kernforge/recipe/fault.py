"""Where in a document something is wrong, and how that is said. Pure; bottom of the room.

A location is the tuple of mapping keys and list positions that leads to a value:
``("matrix", "archs", 0)``, shown as ``matrix.archs[0]``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from kernforge.errors import RecipeError

Loc = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_USERINFO = re.compile(r"://[^\s'\"]*@")
_SECRET_KEY = re.compile(r"token|secret|passw|credential|auth|api_?key|private", re.IGNORECASE)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong in a document.

    Attributes:
        loc: the value (or missing key) that is wrong.
        error: word, message and hint, without file and line.
        other: a second place that the message speaks of, or None.
        on_key: whether the key itself is wrong, not its value.
        position: line and column, where the location alone does not give them.
    """

    loc: Loc
    error: RecipeError
    other: Loc | None = None
    on_key: bool = False
    position: tuple[int, int] | None = None


def show_loc(loc: Loc) -> str:
    """A location as text: ``sources.demo.patches[0]``, odd keys in quotes."""
    text = ""
    for part in loc:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f'["{redact(part)}"]'
    return text


def redact(text: str) -> str:
    """Replace the user part of every URL: ``https://***@host/``."""
    return _USERINFO.sub("://***@", text)


def discreet(error: RecipeError, loc: Loc) -> RecipeError:
    """The same error with nothing in it that may be a secret.

    User parts of URLs go; under a key that sounds like a secret so does every quoted value.
    """
    message, hint = redact(error.message), error.hint and redact(error.hint)
    if any(isinstance(part, str) and _SECRET_KEY.search(part) for part in loc):
        message = _QUOTED.sub("'***'", message)
        hint = hint and _QUOTED.sub("'***'", hint)
    return RecipeError(error.word, message, hint=hint)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that a misspelt one most likely means, or None."""
    options = list(known)
    lowered = word.strip().lower().replace("-", "_")
    for option in options:
        if option.lower().replace("-", "_") == lowered:
            return option
    near = difflib.get_close_matches(lowered, options, n=1, cutoff=0.6)
    return near[0] if near else None


def near_hint(word: str, known: Iterable[str]) -> str:
    """A hint that names the nearest known word, or else all of them."""
    options = tuple(known)
    near = nearest(word, options)
    return f"did you mean {near!r}?" if near else f"known: {', '.join(options)}"
