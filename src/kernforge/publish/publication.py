"""Publishing to a folder: what is there, what comes, what the next generation shows.

Room `publish`. All of a call is published or nothing of it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import parse_wheel_filename

from kernforge.errors import PublishError
from kernforge.publish.candidate import Candidate
from kernforge.publish.folder import Added, Shown, Waiting, claimed, read_shown, write_generation
from kernforge.publish.index import leaf_pages
from kernforge.publish.listing import CATALOGUE, Listed, catalogue_text
from kernforge.publish.page import start_page


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to become of an index.

    Attributes:
        candidates: wheels that come, or are there already with the same bytes.
        yank: file names and the reason why each is taken back; an empty reason is one too.
        unyank: file names that are offered again.
        base_url: where the index will be served, for the start page; None leaves what was told.
    """

    candidates: tuple[Candidate, ...] = ()
    yank: tuple[tuple[str, str], ...] = ()
    unyank: tuple[str, ...] = ()
    base_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What came of it: the folder that is served, wheels that are new, and all that it shows."""

    folder: Path
    new: tuple[Listed, ...]
    wheels: tuple[Listed, ...]


def publish(root: Path, order: Order, *, waiting: Waiting, now: float | None = None) -> Published:
    """Carry out an order; where nothing changes, nothing is written.

    Args:
        root: the index's folder; made where it is not there.
        order: what is to become of it.
        waiting: called while another publisher holds the folder.
        now: the time in seconds since 1970, for what is new.

    Raises:
        PublishError: ``file-name-taken``, ``index-damaged``, ``index-foreign``, ``index-full``,
            ``index-unwritable``, ``wheel-changed`` or ``yank-unknown``.
    """
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    with claimed(root, waiting=waiting):
        shown = read_shown(root)
        added = _added(shown, order.candidates, moment)
        new = tuple(each.listed for each in added)
        wheels = _superseded((*shown.wheels, *new), new)
        wheels = _yanked(wheels, dict(order.yank), frozenset(order.unyank))
        base_url = order.base_url if order.base_url is not None else shown.base_url
        wanted = Shown(path=shown.path, wheels=_sorted(wheels), base_url=base_url)
        if shown.path is not None and wanted == replace(shown, wheels=_sorted(shown.wheels)):
            return Published(folder=shown.path, new=(), wheels=wanted.wheels)
        folder = write_generation(root, shown, added, _pages(wanted))
    return Published(folder=folder, new=new, wheels=wanted.wheels)


def _sorted(wheels: tuple[Listed, ...]) -> tuple[Listed, ...]:
    return tuple(sorted(wheels, key=lambda wheel: wheel.place))


def _pages(wanted: Shown) -> dict[str, str]:
    pages = leaf_pages(wanted.wheels)
    pages["index.html"] = start_page(wanted.wheels, wanted.base_url)
    pages[CATALOGUE] = catalogue_text(wanted.wheels, wanted.base_url)
    return pages


def _added(shown: Shown, candidates: tuple[Candidate, ...], moment: str) -> tuple[Added, ...]:
    known = {wheel.file: wheel.sha256 for wheel in shown.wheels}
    added: list[Added] = []
    for candidate in candidates:
        listed = replace(candidate.listed, published=moment)
        if known.setdefault(listed.file, listed.sha256) != listed.sha256:
            raise PublishError(
                "file-name-taken",
                f"{listed.file} is published with other bytes ({known[listed.file][:12]}...)",
                hint="a name never gets other bytes: `kernforge reproduce` says what differs",
            )
        there = {wheel.file for wheel in (*shown.wheels, *(a.listed for a in added))}
        if listed.file not in there:
            added.append(
                Added(
                    listed=listed,
                    path=candidate.path,
                    metadata=candidate.metadata,
                    provenance=candidate.provenance,
                )
            )
    return tuple(added)


def _same_offer(wheel: Listed) -> tuple[object, ...]:
    """What makes two wheels the same to an installer, which then goes by the build tag alone."""
    _, version, _, tags = parse_wheel_filename(wheel.file)
    return wheel.leaf, wheel.project, version, tags


def _superseded(wheels: tuple[Listed, ...], new: tuple[Listed, ...]) -> tuple[Listed, ...]:
    """Take back what a new wheel of the same version stands for: build tags have no age."""
    by_offer = {_same_offer(wheel): wheel.file for wheel in new}
    return tuple(
        replace(wheel, yanked=f"superseded by {by_offer[_same_offer(wheel)]}")
        if wheel.yanked is None and by_offer.get(_same_offer(wheel), wheel.file) != wheel.file
        else wheel
        for wheel in wheels
    )


def _yanked(
    wheels: tuple[Listed, ...], yank: dict[str, str], unyank: frozenset[str]
) -> tuple[Listed, ...]:
    if unknown := sorted((yank.keys() | unyank) - {wheel.file for wheel in wheels}):
        raise PublishError(
            "yank-unknown",
            f"The index holds no {unknown[0]!r}",
            hint="give a file name as the index shows it",
        )
    taken_back = (
        replace(wheel, yanked=yank[wheel.file]) if wheel.file in yank else wheel for wheel in wheels
    )
    return tuple(
        replace(wheel, yanked=None) if wheel.file in unyank else wheel for wheel in taken_back
    )
