"""Git options that keep a stranger's checkout from running programs of its choice. Pure.

`git status` and `git diff` run the clean filters that a repository's own configuration names (seen
with git 2.39); hooks, the file system monitor and external diffs are programs too.
"""

from __future__ import annotations

from collections.abc import Iterable

ASK_FILTERS = ("config", "--name-only", "--null", "--get-regexp", r"^filter\.")
"""The git call whose output, split at NUL, :func:`without_filters` takes."""

NO_PROGRAMS = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "diff.external=",
)  # fmt: skip


def without_filters(names: Iterable[str]) -> tuple[str, ...]:
    """Options that take the programs out of these settings, as ``filter.lfs.clean``."""
    options: list[str] = []
    for name in dict.fromkeys(names):
        if name.endswith((".clean", ".smudge", ".process")):
            options += ["-c", f"{name}="]
        elif name.endswith(".required"):
            options += ["-c", f"{name}=false"]
    return tuple(options)
