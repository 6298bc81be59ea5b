"""Sources of kind ``git``: fetched into mirrors, and written as trees of plain files.

A tree holds the bytes that were committed: no attribute of a repository converts, leaves out or
fills in anything. Every byte is proved by the commit's hash each time (:mod:`.gittree`).
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kernforge.canonical import digest
from kernforge.errors import SourceError
from kernforge.process import Runner
from kernforge.recipe.model import GitSource
from kernforge.source.cache import disk_faults, locked, mirror_folder, write_whole
from kernforge.source.formats import members
from kernforge.source.git import Git
from kernforge.source.gittree import (
    GITLINK,
    Entry,
    check_files,
    commit_time,
    commit_tree,
    damaged,
    object_id,
    read_listing,
    root_hash,
    selected,
    within,
)
from kernforge.source.identity import identity, sparse_paths
from kernforge.source.lfs import fetch_files, pointers, put_files, refuse_pointers
from kernforge.source.metadata import make_repository
from kernforge.source.mirror import Mirror, Want, fill, from_any, is_whole, mirror_of, refs
from kernforge.source.redact import bare_url
from kernforge.source.settings import FetchSettings, Told
from kernforge.source.submodules import wanted_submodules
from kernforge.source.unpack import Unpacking, unpack


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The repository itself, or one submodule: its mirror, and all that its commit holds."""

    mirror: Mirror
    want: Want
    listing: tuple[Entry, ...]


def fetch_git(source: GitSource, settings: FetchSettings, runner: Runner, told: Told) -> None:
    """Have all of a git source in the cache.

    Raises:
        SourceError: ``tag-moved``, ``tag-missing``, ``sparse-missing``, or as
            :func:`kernforge.source.mirror.fill` and
            :func:`kernforge.source.submodules.wanted_submodules`.
        CacheError: ``disk-full`` or ``cache-unwritable``.
    """
    git = Git(runner=runner, settings=settings, told=told)
    root = mirror_of(git, source.git)
    parts = _parts(source, git, fill)
    if source.tag is not None:
        _check_tag(root, source, source.tag)
    stamp = _stamp(source, settings)
    if source.lfs and not stamp.exists():
        for part in parts:
            _fetch_lfs(part)
    used = [[part.mirror.folder.name, part.want.commit] for part in parts]
    with disk_faults(settings.cache):
        write_whole(stamp, json.dumps(used).encode())


def _fetch_lfs(part: Part) -> None:
    git, want = part.mirror.git, part.want
    with locked(git.settings.cache, part.mirror.folder.name, git.told):
        what = f"LFS files of {want.text}"
        from_any(git, want.url, what, lambda url: fetch_files(part.mirror, want, url))


def git_fetched(source: GitSource, settings: FetchSettings) -> bool:
    """Whether all of a git source was fetched, tag checked, and none of its mirrors removed since.

    What the mirrors hold is proved when it is used.
    """
    try:
        used = json.loads(_stamp(source, settings).read_bytes())
        held = all(
            (settings.cache / "git" / str(folder) / "kernforge" / str(commit)).exists()
            for folder, commit in used
        )
    except (OSError, ValueError, TypeError):
        return False
    return held and (source.tag is None or _tag_note(source, settings, source.tag).exists())


def git_epoch(source: GitSource, settings: FetchSettings) -> int | None:
    """The commit's date (seconds since 1970); None where it was not fetched."""
    path = mirror_folder(settings.cache, source.git) / "kernforge" / source.commit
    try:
        data = path.read_bytes()
    except OSError:
        return None
    return commit_time(data) if object_id("commit", data) == source.commit else None


def _stamp(source: GitSource, settings: FetchSettings) -> Path:
    name = f"{digest(identity(source))[:32]}.json"
    return mirror_folder(settings.cache, source.git) / "kernforge" / name


def _tag_note(source: GitSource, settings: FetchSettings, tag: str) -> Path:
    name = f"{source.commit}.tag-{hashlib.sha256(tag.encode()).hexdigest()[:16]}"
    return mirror_folder(settings.cache, source.git) / "kernforge" / name


def _check_tag(mirror: Mirror, source: GitSource, tag: str) -> None:
    git = mirror.git
    note = _tag_note(source, git.settings, tag)
    if note.exists():
        return
    url = bare_url(source.git)
    name = f"refs/tags/{tag}"
    found = from_any(
        git,
        source.git,
        f"Where tag {tag!r} of {url!r} stands",
        lambda one: dict(refs(mirror, one, name, f"{name}^{{}}")),
    )
    commit = found.get(f"{name}^{{}}") or found.get(name)
    if commit is None:
        hint = "mend the recipe's tag, or leave it out"
        raise SourceError("tag-missing", f"{url!r} has no tag {tag!r}", hint=hint)
    if commit != source.commit:
        raise SourceError(
            "tag-moved",
            f"Tag {tag!r} of {url!r} stands at {commit}, not at {source.commit}",
            hint="find out why it moved; then pin the commit that you mean",
        )
    with disk_faults(git.settings.cache):
        write_whole(note, b"")


def _parts(source: GitSource, git: Git, ready: Callable[[Mirror, Want], None]) -> tuple[Part, ...]:
    """The source and its submodules, each made ready before its own submodules are looked for."""
    paths = tuple(sparse_paths(source))
    limits = git.settings.limits
    todo = [(0, Want(url=source.git, commit=source.commit, paths=paths))]
    done: list[Part] = []
    while todo:
        depth, want = todo.pop(0)
        if depth > limits.depth or len(done) > limits.submodules:
            raise SourceError(
                "submodule-refused",
                f"{bare_url(source.git)!r} has submodules without end, as {want.where!r}",
            )
        mirror = mirror_of(git, want.url)
        ready(mirror, want)
        part = Part(mirror=mirror, want=want, listing=_listing(mirror, want))
        _check_sparse(part)
        done.append(part)
        if source.submodules:
            below = wanted_submodules(mirror, want, part.listing)
            todo += [(depth + 1, submodule) for _, submodule in below]
    return tuple(done)


def _listing(mirror: Mirror, want: Want) -> tuple[Entry, ...]:
    """All that a commit holds, proved by its hash."""
    data = mirror.commit_file(want.commit).read_bytes()
    tree = commit_tree(want.commit, data)
    listing = read_listing(mirror.git.must(mirror.folder, "ls-tree", "-r", "-z", tree))
    if root_hash(listing) != tree:
        raise damaged(want.commit, "its list of files has another hash")
    return listing


def _check_sparse(part: Part) -> None:
    links = [entry.path for entry in part.listing if entry.mode == GITLINK]
    for path in part.want.paths:
        inside = any(within(path, link) for link in links)
        if not inside and not selected(part.listing, (path,)):
            raise SourceError(
                "sparse-missing",
                f"{bare_url(part.want.url)!r} has no {path!r} at {part.want.commit[:12]}",
                hint="mend the recipe's sparse",
            )


def place_git(source: GitSource, settings: FetchSettings, into: Path, runner: Runner) -> None:
    """Write a fetched git source as a tree of plain files in a new folder.

    Raises:
        SourceError: ``offline-missing``, ``source-damaged``, ``lfs-pointer``, or as
            :func:`kernforge.source.unpack.unpack`.
    """
    git = Git(runner=runner, settings=settings, told=lambda _line: None)
    for part in _parts(source, git, _must_be_whole):
        base = into / part.want.where
        base.mkdir(parents=True, exist_ok=True)
        if Path(os.path.realpath(base)) != Path(os.path.realpath(into)) / part.want.where:
            raise damaged(part.want.commit, f"submodule {part.want.where!r} lies below a link")
        _write(part, into, lfs=source.lfs)
    if source.git_metadata:
        make_repository(into, git_epoch(source, settings) or 0, settings, runner)


def _must_be_whole(mirror: Mirror, want: Want) -> None:
    if not is_whole(mirror, want):
        raise SourceError(
            "offline-missing",
            f"{want.text} is not in the cache",
            hint="run `kernforge fetch` with network first",
        )


def _write(part: Part, into: Path, *, lfs: bool) -> None:
    base = into / part.want.where
    chosen = selected(part.listing, part.want.paths)
    files = tuple(entry for entry in chosen if entry.mode != GITLINK)
    if files:
        _write_files(part, into, files, lfs=lfs)
    for entry in chosen:
        if entry.mode == GITLINK:
            (base / entry.path).mkdir(parents=True, exist_ok=True)


def _write_files(part: Part, into: Path, files: tuple[Entry, ...], *, lfs: bool) -> None:
    base = into / part.want.where
    what = f"Commit {part.want.commit[:12]} of {bare_url(part.want.url)!r}"
    written = _unpacked(part, into, what, files)
    if set(written) != {entry.path for entry in files}:
        raise damaged(part.want.commit, "other files came out than it lists")
    check_files(base, part.want.commit, files)
    found = pointers(base, written)
    if lfs:
        put_files(part.mirror, base, found)
    else:
        refuse_pointers(found, what)


def _unpacked(part: Part, into: Path, what: str, files: tuple[Entry, ...]) -> tuple[str, ...]:
    paths = [path for path in part.want.paths if selected(files, (path,))]
    commit, limits = part.want.commit, part.mirror.git.settings.limits
    with tempfile.NamedTemporaryFile(dir=into.parent, prefix=".kernforge-") as file:
        words = ("archive", "--format=tar", f"--output={file.name}", commit)
        part.mirror.git.must(part.mirror.folder, *words, *(("--", *paths) if paths else ()))
        with Path(file.name).open("rb") as tar:
            size = os.fstat(tar.fileno()).st_size
            order = Unpacking(
                what=what, root=into, below=part.want.where, packed=size, limits=limits
            )
            return unpack(members(tar, what), order)
