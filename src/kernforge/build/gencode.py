"""What the shim is told of targets: the recipe's policies and the job's archs as plain data. Pure.

Level of build: knows archs, but no files, processes or compilers.
"""

from __future__ import annotations

from typing import Any

from kernforge.arch import Arch

DEFAULT = "default"
"""Key of a recipe's policy for files that no pattern fits."""


def gencode_config(
    policies: tuple[tuple[str, str], ...], archs: tuple[Arch, ...]
) -> dict[str, Any]:
    """The ``gencode`` part of the shim's configuration.

    Args:
        policies: pattern and policy as the recipe has them, ``default`` among them. Patterns fit
            the path of the compiled file below the source or build folder; for device links, which
            have none, the path of the output.
        archs: the targets of the job.

    Returns:
        The longest pattern first, for the first that fits counts; equal input gives equal data
        whatever the order in the recipe, so that it can be part of a key.
    """
    by_pattern = dict(policies)
    default = by_pattern.pop(DEFAULT)
    ordered = sorted(by_pattern.items(), key=lambda pair: (-len(pair[0]), pair[0]))
    return {
        "default": default,
        "by_path": [list(pair) for pair in ordered],
        "archs": [{"code": arch.code, "ptx": arch.ptx} for arch in archs],
    }


def expected_archs(archs: tuple[Arch, ...]) -> tuple[str, ...]:
    """Names of what a call under policy ``replace`` leaves: ``sm_120a``, ``compute_90`` ..."""
    names: list[str] = []
    for arch in archs:
        names += [f"sm_{arch.code}", f"compute_{arch.code}"] if arch.ptx else [f"sm_{arch.code}"]
    return tuple(names)
