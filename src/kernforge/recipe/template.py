"""Placeholders such as ``{cuda}`` in a recipe's text: a closed list for each use. Pure.

What each stands for in a target is said by :mod:`kernforge.recipe.matrix`. ``{{`` and ``}}`` are
literal braces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kernforge.errors import RecipeError
from kernforge.recipe.fault import near_hint

BUILD_NAMES = (
    "archs",
    "cmake_archs",
    "cuda",
    "cuda_major",
    "cuda_root",
    "jobs",
    "nvcc_threads",
    "python",
    "torch",
    "torch_minor",
)
"""What ``build.cmake``, ``build.env`` and ``build.config_settings`` may name."""

LOCAL_NAMES = ("archs", "cuda", "python", "torch", "torch_minor")
"""What ``publish.local_version`` may name."""

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_LOCAL = re.compile(r"(?:0|[1-9]\d*|\d*[a-z][a-z0-9]*)(?:\.(?:0|[1-9]\d*|\d*[a-z][a-z0-9]*))*")
_SAMPLE = {
    "archs": "90.120a",
    "cuda": "130",
    "python": "311",
    "torch": "2.14.1",
    "torch_minor": "2.14",
}


def names_in(text: str) -> tuple[str, ...]:
    """The placeholders that a text names, in order, right or wrong."""
    return tuple(match[1] for match in _TOKEN.finditer(text) if match[1] is not None)


def check_template(text: str, known: tuple[str, ...]) -> str:
    """Give the text back if every placeholder in it is known.

    Raises:
        RecipeError: word ``recipe-placeholder``.
    """
    for match in _TOKEN.finditer(text):
        if match[0] in {"{", "}"}:
            raise RecipeError(
                "recipe-placeholder",
                f"a lone {match[0]!r} neither opens nor closes a placeholder",
                hint=f"write {match[0] * 2} for the character itself",
            )
        if match[1] is not None and match[1] not in known:
            raise _unknown(match[1], known)
    return text


def _unknown(name: str, known: tuple[str, ...]) -> RecipeError:
    hint = near_hint(name, known)
    if name == "version":
        hint = "the version is read from the built wheel, so nothing before can name it"
    elif name in BUILD_NAMES:
        hint = f"it is for build.cmake, build.env and build.config_settings; here {hint}"
    return RecipeError(
        "recipe-placeholder", f"{'{' + name + '}'!r} is no placeholder of this key", hint=hint
    )


def check_local_template(text: str) -> str:
    """Give the text back if it makes a local version that no tool would rewrite.

    Raises:
        RecipeError: word ``recipe-placeholder``, or ``recipe-local-version`` where the result is
            not a local version in the normal form of the version specifiers (PEP 440).
    """
    trial = fill_template(check_template(text, LOCAL_NAMES), _SAMPLE)
    if not _LOCAL.fullmatch(trial):
        raise RecipeError(
            "recipe-local-version",
            f"{text!r} gives {trial!r}, which is no local version in its normal form",
            hint="join lower-case letters and digits by dots, as cu{cuda}.sm{archs}",
        )
    return text


def fill_template(text: str, values: Mapping[str, str]) -> str:
    """Put values in the place of placeholders; the text has been checked before."""

    def value(match: re.Match[str]) -> str:
        return values[match[1]] if match[1] is not None else match[0][:1]

    return _TOKEN.sub(value, text)
