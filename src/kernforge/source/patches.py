"""Patches applied exactly, all or nothing, by ourselves: no git, so no surrounding repository.

Exact means that every hunk's old lines stand at the line that it states: no offset, no fuzz. A
patch that does not fit is an error that says where it would fit, or that it is there already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernforge.errors import SourceError
from kernforge.source.draft import Draft, Touched, path_problem
from kernforge.source.patch import Kind, Patch
from kernforge.source.patchfile import parse_patch
from kernforge.source.sections import Outcome, Trial, Verdict, outcome, stripped

_MOST_LEVELS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A patch that was applied, and the files that it changed, by path."""

    name: str
    files: tuple[Touched, ...]


def natural_order(names: Iterable[str]) -> tuple[str, ...]:
    """Sort with numbers by value: ``2-b`` before ``10-a``. For patches that a glob has found."""

    def key(name: str) -> tuple[tuple[int, int, str], ...]:
        parts = re.split(r"([0-9]+)", name)
        return tuple((0, int(p), p) if p.isdigit() else (1, 0, p) for p in parts if p)

    return tuple(sorted(names, key=key))


def apply_series(
    tree: Path, patches: tuple[tuple[str, bytes], ...], *, strip: int = 1
) -> tuple[Applied, ...]:
    """Apply patches to a tree, in order. Unless all fit, nothing in the tree changes.

    Args:
        tree: the folder; it need not be a repository, nor outside one.
        patches: names for messages, and the bytes of each patch file.
        strip: how many folders to take off the paths in the patches.

    Raises:
        SourceError: as :func:`kernforge.source.patchfile.parse_patch`; as
            :func:`kernforge.source.sections.outcome`; ``patch-applied``, ``patch-merged``,
            ``patch-half-applied``, ``patch-noop``; or a fault of the tree.
    """
    if not tree.is_dir():
        raise SourceError("source-missing", f"{str(tree)!r} is not a folder")
    draft = Draft(tree)
    applied = tuple(_apply(draft, parse_patch(data, name), strip) for name, data in patches)
    draft.land()
    return applied


def _apply(draft: Draft, patch: Patch, strip: int) -> Applied:
    start = draft.copy()
    trial = Trial(name=patch.name, draft=draft, start=start, strip=strip)
    _check_strip(trial, patch)
    outcomes = []
    for section in patch.files:
        result = outcome(trial, section)
        for path, content in result.changes:
            draft.write(path, content)
        outcomes.append(result)
    _check_fresh(patch, outcomes)
    draft.check()
    touched = draft.changes(start)
    if not touched:
        raise SourceError(
            "patch-noop",
            f"{patch.name!r} undoes all that it does; it changes nothing",
            hint="remove the patch",
        )
    return Applied(name=patch.name, files=touched)


def _check_fresh(patch: Patch, outcomes: list[Outcome]) -> None:
    verdicts = {result.verdict for result in outcomes}
    if verdicts <= {Verdict.FITS}:
        return
    said = "; ".join(f"{result.path!r} {result.text}" for result in outcomes)
    if verdicts <= {Verdict.APPLIED}:
        raise SourceError(
            "patch-applied",
            f"{patch.name!r} is applied already: {said}",
            hint="start from the pristine source, or remove the patch from the recipe",
        )
    if verdicts <= {Verdict.APPLIED, Verdict.MERGED}:
        raise SourceError(
            "patch-merged",
            f"{patch.name!r} is in the source already: {said}",
            hint="the pinned commit seems to hold the change; remove the patch from the recipe",
        )
    raise SourceError(
        "patch-half-applied",
        f"{patch.name!r} is applied in part: {said}",
        hint="start from the pristine source, or cut what it holds already from the patch",
    )


def _fits(trial: Trial, patch: Patch, strip: int) -> bool:
    """Whether all files that a patch changes are there, taken with this many folders off."""
    there = []
    for section in patch.files:
        if section.kind is Kind.CREATE:
            continue
        paths = section.paths[:1] if section.kind in {Kind.RENAME, Kind.COPY} else section.paths
        named = [path.stripped(strip) for path in paths]
        there.append(
            any(n and not path_problem(n) and trial.start.read(n) is not None for n in named)
        )
    return bool(there) and all(there)


def _check_strip(trial: Trial, patch: Patch) -> None:
    """Say so where another level fits every file; it is not taken unasked.

    A patch that only makes files could be put anywhere. Git's own folders are no question; one
    that takes off a folder of the tree is.
    """
    changed = any(section.kind is not Kind.CREATE for section in patch.files)
    if changed and not _fits(trial, patch, trial.strip):
        levels = [n for n in range(_MOST_LEVELS) if n != trial.strip and _fits(trial, patch, n)]
        if levels:
            raise _wrong_level(patch, trial.strip, f"all of its files are there with {levels[0]}")
    for section in patch.files:
        for path in section.paths if not changed else ():
            found = stripped(trial, section, path)
            off = path.text.removesuffix(found).strip("/")
            if off not in {"", ".", "a", "b"} and (trial.start.tree / off).is_dir():
                raise _wrong_level(patch, trial.strip, f"it would take off {off!r}, a folder")


def _wrong_level(patch: Patch, strip: int, reason: str) -> SourceError:
    return SourceError(
        "patch-strip",
        f"{patch.name!r} does not fit with {strip} folders off its paths: {reason}",
        hint="write its paths as git does, with a/ and b/ before them",
    )
