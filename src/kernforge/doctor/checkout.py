"""What git says of a checkout that somebody else left on this machine.

Room `doctor`. Git runs without hooks, filters, file system monitors, network, the user's
configuration, or a repository's own programs; nothing is written, the index included.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kernforge.doctor.files import is_folder, read_text
from kernforge.errors import KernforgeError
from kernforge.process import KILLED_FOR_TIME
from kernforge.source.git import Git
from kernforge.source.gitfilters import ASK_FILTERS, without_filters
from kernforge.source.redact import bare_url

_UPWARD = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class GitFacts:
    """One checkout.

    Attributes:
        folder: its top folder.
        commit: 40 (or 64) hex digits; empty where there is none.
        date: of the commit, seconds since 1970; 0 where there is none.
        branch: what is checked out, or empty for a bare commit.
        remote: address without user and password, or empty.
        changed: files that git knows and that differ from the commit.
        shallow: whether history was cut.
        tag: the nearest tag that is an ancestor, or None.
        ahead: commits since that tag.
        tags: how many tags there are in all.
        trouble: why git could not say; then the rest is empty.
    """

    folder: Path
    commit: str = ""
    date: int = 0
    branch: str = ""
    remote: str = ""
    changed: tuple[str, ...] = ()
    shallow: bool = False
    tag: str | None = None
    ahead: int = 0
    tags: int = 0
    trouble: str | None = None


def find_top(folder: Path) -> tuple[Path, Path] | None:
    """Top folder and git folder of the checkout that holds a folder, or None."""
    for place in (folder, *folder.parents)[:_UPWARD]:
        dot = place / ".git"
        if is_folder(dot):
            return place, dot
        text = read_text(dot, 4096)
        if text is not None and text.startswith("gitdir:"):
            return place, place / text.removeprefix("gitdir:").strip()
    return None


class _Asked:
    """Calls of git on one checkout; the programs that its filters name are taken out."""

    def __init__(self, top: Path, dot: Path, git: Git) -> None:
        self._git, self._dot = git, dot
        self._before: tuple[str, ...] = (f"--work-tree={top}",)
        self._before += without_filters((self.words(*ASK_FILTERS) or "").split("\0"))

    def words(self, *words: str) -> str | None:
        """Output of a call, or None where it fails."""
        done = self._git.local(self._dot, *self._before, *words)
        return None if done.returncode else done.text

    def must(self, *words: str) -> str:
        """Output of a call.

        Raises:
            ValueError: with git's own words.
        """
        done = self._git.local(self._dot, *self._before, *words)
        if done.returncode == KILLED_FOR_TIME:
            raise ValueError("it takes too long")
        if done.returncode:
            raise ValueError(done.last_lines[0] if done.last_lines else "no reason given")
        return done.text


def read_checkout(folder: Path, git: Git) -> GitFacts | None:
    """Ask git about the checkout that holds a folder; None where there is none."""
    place = find_top(folder)
    if place is None:
        return None
    top, dot = place
    try:
        return _read(top, _Asked(top, dot, git))
    except (ValueError, KernforgeError) as error:
        return GitFacts(folder=top, trouble=str(error))


def _read(top: Path, asked: _Asked) -> GitFacts:
    commit, date = asked.must("log", "-1", "--no-show-signature", "--format=%H %ct").split()
    status = asked.must(
        "status", "--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=all"
    )
    described = (asked.words("describe", "--tags", "--long", "--abbrev=40") or "").strip()
    tag, _, rest = described.rpartition("-g")
    tag, _, ahead = tag.rpartition("-")
    names = (asked.words("remote") or "").split()
    remote = "origin" if "origin" in names else next(iter(names), "")
    return GitFacts(
        folder=top,
        commit=commit,
        date=int(date),
        branch=(asked.words("symbolic-ref", "--short", "-q", "HEAD") or "").strip(),
        remote=bare_url(asked.must("config", f"remote.{remote}.url").strip()) if remote else "",
        changed=_changed(status),
        shallow=asked.must("rev-parse", "--is-shallow-repository").strip() == "true",
        tag=tag if rest and tag else None,
        ahead=int(ahead) if ahead.isdigit() else 0,
        tags=len((asked.words("for-each-ref", "--format=x", "refs/tags") or "").split()),
    )


def _changed(status: str) -> tuple[str, ...]:
    """Paths of `status --porcelain -z`; a rename is followed by the old name, which is left out."""
    found, words = [], iter(status.split("\0"))
    for word in words:
        if len(word) > 3:
            found.append(word[3:])
            if word[0] in "RC":
                next(words, None)
    return tuple(found)
