"""Bare mirrors: the objects of a repository that were needed so far, fetched as cheaply as can be.

A commit comes by its hash, without history; without file contents where only some are wanted or
others may be at hand, which then come by their hashes too. Servers that refuse this are asked for
a branch or tag that stands at the commit, and only then for everything. No address is written into
a mirror, and what git writes into its configuration is undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from kernforge.errors import SourceError
from kernforge.source.cache import disk_faults, locked, mirror_folder, write_whole
from kernforge.source.git import REMOTE, Git
from kernforge.source.gittree import commit_tree
from kernforge.source.redact import bare_url

T = TypeVar("T")

ATTRIBUTES = (
    b"* -export-ignore -export-subst -text -ident -filter -merge -diff"
    b" !eol !working-tree-encoding !crlf\n"
)
"""Strongest layer of git's attributes: whatever a tree's own say, files are as they were stored."""

_CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n"
_AT_ONCE = 2000  # hashes in one call; 82 kB, well within what arguments may hold
_FETCH = (
    "fetch",
    "--quiet",
    "--no-tags",
    "--no-write-fetch-head",
    "--no-recurse-submodules",
    "--no-auto-maintenance",
)
_BLOBLESS = "--filter=blob:none"
_WHOLE = "--no-filter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """What is wanted of a repository.

    Attributes:
        url: its address, as recipes and submodules name it.
        commit: all 40 digits.
        paths: the files and folders wanted; none means all.
        where: which submodule it is, for messages; ``""`` for the source itself.
    """

    url: str
    commit: str
    paths: tuple[str, ...] = ()
    where: str = ""

    @property
    def text(self) -> str:
        """What it is, for messages."""
        where = f", submodule {self.where!r}" if self.where else ""
        return f"Commit {self.commit} of {bare_url(self.url)!r}{where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """One bare mirror."""

    git: Git
    folder: Path
    url: str

    def commit_file(self, commit: str) -> Path:
        """Where the content of a fetched commit is kept, to be read without git."""
        return self.folder / "kernforge" / commit

    def remote(self, url: str, *words: str) -> bytes:
        """A call that may use the network; what git notes of it in the configuration is undone.

        Raises:
            SourceError: as :meth:`kernforge.source.git.Git.remote`.
            CacheError: ``disk-full`` or ``cache-unwritable``.
        """
        try:
            return self.git.remote(self.folder, url, *words)
        finally:
            with disk_faults(self.git.settings.cache):
                write_whole(self.folder / "config", _CONFIG)


def mirror_of(git: Git, url: str) -> Mirror:
    """The mirror of an address; nothing is touched."""
    return Mirror(git=git, folder=mirror_folder(git.settings.cache, url), url=url)


def fill(mirror: Mirror, want: Want) -> None:
    """Have a commit with all wanted files in the mirror; no network where they are there already.

    Raises:
        SourceError: ``commit-gone``, ``offline-missing``, ``source-incomplete`` or a word of
            :mod:`kernforge.source.git`.
        CacheError: ``disk-full`` or ``cache-unwritable``.
    """
    git = mirror.git
    with locked(git.settings.cache, mirror.folder.name, git.told):
        with disk_faults(git.settings.cache):
            _prepare(mirror.folder)
        if is_whole(mirror, want):
            return
        try:
            from_any(git, want.url, want.text, lambda url: _fill_from(mirror, want, url))
        except SourceError as fault:
            raise _placed(fault, want) from fault
        _keep(mirror, want.commit)


def from_any(git: Git, url: str, what: str, call: Callable[[str], T]) -> T:
    """What a call gives for the first of an address's mirrors, or the address, where it succeeds.

    Args:
        git: its settings name the mirrors.
        url: the address.
        what: what is wanted, for the message without network.
        call: gets the address to use.

    Raises:
        SourceError: ``offline-missing``, or what the last one tried raises.
    """
    urls = git.settings.candidates(url)
    if git.settings.offline:
        urls = tuple(one for one in urls if one.lower().startswith("file:"))
    fault = SourceError(
        "offline-missing",
        f"{what} is not in the cache, and the network may not be used",
        hint="run `kernforge fetch` with network first",
    )
    for one in urls:
        try:
            return call(one)
        except SourceError as error:
            fault = error
            if one != urls[-1]:
                git.told(f"{error.message}; asking the next mirror")
    raise fault


def _placed(fault: SourceError, want: Want) -> SourceError:
    """The fault with the commit and submodule that it is about."""
    where = f" (submodule {want.where!r})" if want.where else ""
    if fault.word == "offline-missing":
        return fault
    if fault.word == "commit-gone":
        message = f"Commit {want.commit} is no longer in {bare_url(want.url)!r}{where}"
        hint = "history was rewritten, or the commit never was there; nothing else is taken for it"
        return SourceError("commit-gone", message, hint=hint, detail=fault.detail)
    message = f"{fault.message}{where}, wanted for commit {want.commit[:12]}"
    return SourceError(fault.word, message, hint=fault.hint, detail=fault.detail)


def _prepare(folder: Path) -> None:
    for name in ("objects/pack", "objects/info", "refs", "info"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    write_whole(folder / "config", _CONFIG)
    write_whole(folder / "info/attributes", ATTRIBUTES)
    for lock in (*folder.glob("*.lock"), *folder.glob("refs/**/*.lock")):
        lock.unlink(missing_ok=True)  # of a killed git: we hold the lock that counts
    for draft in folder.glob("objects/*/tmp_*"):
        draft.unlink(missing_ok=True)
    if not (folder / "HEAD").exists():
        write_whole(folder / "HEAD", b"ref: refs/heads/none\n")


def is_whole(mirror: Mirror, want: Want) -> bool:
    """Whether a commit and all wanted files of it are in the mirror."""
    return mirror.commit_file(want.commit).exists() and missing(mirror, want) == ()


def missing(mirror: Mirror, want: Want) -> tuple[str, ...] | None:
    """Hashes of the wanted files that are not there; None where the commit itself is not."""
    if not _has(mirror, want.commit):
        return None
    words = ("rev-list", "--objects", "--missing=print", f"{want.commit}^{{tree}}")
    tail = ("--", *want.paths, ".gitmodules") if want.paths else ()
    listing = mirror.git.must(mirror.folder, *words, *tail)
    return tuple(line[1:].decode("ascii") for line in listing.splitlines() if line.startswith(b"?"))


def _has(mirror: Mirror, commit: str) -> bool:
    return not mirror.git.local(mirror.folder, "cat-file", "-e", f"{commit}^{{tree}}").returncode


def _fill_from(mirror: Mirror, want: Want, url: str) -> None:
    mirror.git.told(f"Fetching {bare_url(url)} at {want.commit[:12]}")
    if not _has(mirror, want.commit):
        _fetch_commit(mirror, want, url)
    if missing(mirror, want):
        _fetch_files(mirror, want, url)
    if missing(mirror, want) != ():
        raise SourceError(
            "source-incomplete", f"Repository {bare_url(url)!r} does not give all files"
        )


def _fetch_commit(mirror: Mirror, want: Want, url: str) -> None:
    fresh = not any((mirror.folder / "objects/pack").glob("*.pack"))
    lean = _WHOLE if fresh and not want.paths else _BLOBLESS
    try:
        mirror.remote(url, *_FETCH, "--depth=1", lean, REMOTE, want.commit)
    except SourceError as fault:
        if fault.word != "by-hash-refused":
            raise
        _fetch_by_name(mirror, want, url)


def _fetch_by_name(mirror: Mirror, want: Want, url: str, *again: str) -> None:
    """The way for servers that give only what a branch or tag reaches."""
    git = mirror.git
    names = [name for name, commit in refs(mirror, url) if commit == want.commit]
    if names:
        name = names[0].removesuffix("^{}")
        mirror.remote(url, *_FETCH, *again, "--depth=1", _WHOLE, REMOTE, name)
    else:
        git.told(f"{bare_url(url)} serves no commit by its hash: fetching all of its history")
        deep = ("--unshallow",) if (mirror.folder / "shallow").exists() else ()
        everything = ("heads", "tags")
        specs = (f"+refs/{kind}/*:refs/kernforge/{kind}/*" for kind in everything)
        mirror.remote(url, *_FETCH, *again, "--prune", *deep, _WHOLE, REMOTE, *specs)
    if not _has(mirror, want.commit):
        raise SourceError("commit-gone", f"Repository {bare_url(url)!r} does not have it")


def refs(mirror: Mirror, url: str, *patterns: str) -> tuple[tuple[str, str], ...]:
    """Names and hashes of a repository's refs; an annotated tag's commit is at ``NAME^{}``.

    Raises:
        SourceError: as :meth:`kernforge.source.git.Git.remote`.
    """
    text = mirror.remote(url, "ls-remote", REMOTE, *patterns).decode("utf-8", "replace")
    rows = (line.partition("\t") for line in text.splitlines())
    return tuple((name, commit) for commit, _, name in rows if name)


def _fetch_files(mirror: Mirror, want: Want, url: str) -> None:
    # No haves: the mirror may hold commits whose files it lacks, and must not claim them.
    alone = ("-c", "fetch.negotiationAlgorithm=noop", *_FETCH)
    try:
        for hashes in _parts(missing(mirror, want) or ()):
            mirror.remote(url, *alone, _BLOBLESS, REMOTE, *hashes)
    except SourceError as fault:
        if fault.word not in {"by-hash-refused", "commit-gone"}:
            raise
        _fetch_again(mirror, want, url)


def _fetch_again(mirror: Mirror, want: Want, url: str) -> None:
    """All of the commit, from servers that give no file by its hash."""
    again = (*_FETCH, "--refetch", "--depth=1", _WHOLE, REMOTE, want.commit)
    try:
        mirror.remote(url, *again)
    except SourceError as fault:
        if fault.word != "by-hash-refused":
            raise
        _fetch_by_name(mirror, want, url, "--refetch")


def _parts(hashes: Iterable[str]) -> Iterator[tuple[str, ...]]:
    every = tuple(hashes)
    for start in range(0, len(every), _AT_ONCE):
        yield every[start : start + _AT_ONCE]


def _keep(mirror: Mirror, commit: str) -> None:
    data = mirror.git.must(mirror.folder, "cat-file", "commit", commit)
    commit_tree(commit, data)
    mirror.git.must(mirror.folder, "update-ref", f"refs/kernforge/commits/{commit}", commit)
    with disk_faults(mirror.git.settings.cache):
        write_whole(mirror.commit_file(commit), data)


def remote_refs(git: Git, url: str, *patterns: str) -> tuple[tuple[str, str], ...]:
    """As :func:`refs`, of an address that need not have been used before."""
    mirror = mirror_of(git, url)
    with locked(git.settings.cache, mirror.folder.name, git.told):
        with disk_faults(git.settings.cache):
            _prepare(mirror.folder)
        addresses = git.settings.candidates(url)
        return refs(mirror, addresses[0], *patterns)
