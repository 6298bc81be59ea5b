"""Moves a recipe's pins to another tag, and says what changed upstream that the recipe names.

The recipe's text is changed in place, so that comments and order stay. Tags are resolved by the
caller's :class:`Tags`; the trees of both commits are the caller's too. Nothing is fetched here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from kernforge.authoring.buildfiles import (
    declared,
    is_build_file,
    mentioned,
    near_option,
    options,
    read_build_files,
    revision,
)
from kernforge.authoring.cmakescan import Download
from kernforge.authoring.lint import Remark
from kernforge.errors import RecipeError, SourceError
from kernforge.recipe.model import (
    ArchiveSource,
    CargoSource,
    GitSource,
    PypiSource,
    Recipe,
    Source,
)
from kernforge.source.tree import entries

_PLUS = re.compile(r"^(?:---|\+\+\+) [ab]/([^\t\n]+)", re.MULTILINE)


class Tags(Protocol):
    """Says at which commit a tag of a repository stands."""

    def commit(self, url: str, tag: str) -> str | None:
        """The commit, 40 hex digits, that a tag points at (peeled); None where there is no tag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bumped:
    """A recipe moved to another tag.

    Attributes:
        text: the new text of the file.
        old: tag and commit before.
        new: tag and commit now.
        remarks: places that may have to follow, and were left.
    """

    text: str
    old: tuple[str, str]
    new: tuple[str, str]
    remarks: tuple[Remark, ...]


def bump(text: str, recipe: Recipe, tag: str, tags: Tags) -> Bumped:
    """Move the main source to another tag; the version follows where it is the tag's.

    Args:
        text: the recipe file.
        recipe: what it says.
        tag: the new tag.
        tags: resolves it.

    Raises:
        RecipeError: ``bump-source``: the main source is not of kind git, or names no tag;
            ``bump-ambiguous``: a pin does not stand exactly once in the text.
        SourceError: ``tag-missing``: the repository has no such tag.
    """
    source = dict(recipe.sources)[recipe.main_source]
    if not isinstance(source, GitSource) or source.tag is None:
        raise RecipeError(
            "bump-source",
            f"{recipe.name}: source {recipe.main_source!r} has no tag that could be moved",
            hint="bump moves a git source with a tag; change other pins by hand",
        )
    commit = tags.commit(source.git, tag)
    if commit is None:
        raise SourceError(
            "tag-missing",
            f"{source.git!r} has no tag {tag!r}",
            hint="is it spelt as upstream does?",
        )
    moved = _swapped(text, f"commit: {source.commit}", f"commit: {commit}", recipe.name)
    moved = _swapped(moved, f"tag: {source.tag}", f"tag: {tag}", recipe.name)
    moved = _with_version(moved, recipe, source.tag, tag)
    return Bumped(
        text=moved,
        old=(source.tag, source.commit),
        new=(tag, commit),
        remarks=tuple(_left(moved, source.tag)),
    )


def _swapped(text: str, old: str, new: str, name: str) -> str:
    pattern = re.compile(rf"(?<![\w-]){re.escape(old)}(?![\w.-])")
    count = len(pattern.findall(text))
    if count != 1:
        raise RecipeError(
            "bump-ambiguous",
            f"{name}: {old!r} stands {count} times in the file, not once",
            hint="write the pin on a line of its own, without quotes, once",
        )
    return pattern.sub(lambda _: new, text)


def _with_version(text: str, recipe: Recipe, old: str, new: str) -> str:
    if recipe.version != old.removeprefix("v"):
        return text
    line = re.compile(
        rf"^(version:\s*[\"']?){re.escape(old.removeprefix('v'))}(?![\w.])", re.MULTILINE
    )
    return line.sub(lambda m: m[1] + new.removeprefix("v"), text)


def _left(text: str, old: str) -> Iterator[Remark]:
    """Lines that still name the old version: comments, settings, other recipes' versions."""
    version = re.compile(rf"(?<![\w.]){re.escape(old.removeprefix('v'))}(?![\w]|\.\d)")
    for number, line in enumerate(text.splitlines(), start=1):
        if version.search(line):
            said = f"still names {old.removeprefix('v')!r}: {line.strip()}"
            yield Remark(word="version-left", place=f"line {number}", text=said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """What was read of the main source at one commit.

    Attributes:
        paths: every file and folder, relative.
        build_files: text of its build files by path.
        named: text of the other files that the recipe names (those of edits), by path.
    """

    paths: frozenset[str]
    build_files: Mapping[str, str]
    named: Mapping[str, str]


def upstream_changes(
    recipe: Recipe, old: Upstream, new: Upstream, patches: Mapping[str, str]
) -> tuple[Remark, ...]:
    """What the recipe names and upstream changed from one commit to another.

    Args:
        recipe: as written for the old commit.
        old: the main source at the old commit.
        new: the main source at the new commit.
        patches: text of the main source's patch files by name.

    Words: ``layout-moved``, ``edit-unfit``, ``patched-changed``, ``option-gone``, ``option-new``,
    ``pin-moved``, ``pin-new``, ``pin-gone``.
    """
    source = dict(recipe.sources)[recipe.main_source]
    return (
        *_layout(recipe, source, new),
        *_edits(recipe, source, new),
        *_patched(old, new, patches),
        *_options(recipe, old, new),
        *_pins(recipe, old, new),
    )


def _layout(recipe: Recipe, source: Source, new: Upstream) -> Iterator[Remark]:
    wanted = [("build.subdir", recipe.build.subdir)]
    if isinstance(source, GitSource):
        wanted += [(f"sources.{recipe.main_source}.sparse", path) for path in source.sparse]
    for place, path in wanted:
        if path == "." or path in new.paths:
            continue
        near = _moved_to(path, new)
        hint = f"is it {near!r} now?" if near else None
        text = f"{path!r} is not there any more"
        yield Remark(word="layout-moved", place=place, text=text, hint=hint)


def _moved_to(path: str, new: Upstream) -> str | None:
    """The folder with a pyproject.toml whose name is nearest; of several, the shortest path."""
    projects = sorted(
        (p.rpartition("/")[0] for p in new.paths if p.endswith("/pyproject.toml")), key=len
    )
    last = {folder.rpartition("/")[2]: folder for folder in reversed(projects)}
    near = near_option(path.rpartition("/")[2], last)
    return last[near] if near else (projects[0] if len(projects) == 1 else None)


def _edits(recipe: Recipe, source: Source, new: Upstream) -> Iterator[Remark]:
    for number, edit in enumerate(source.edits):
        found = new.named.get(edit.file, new.build_files.get(edit.file, "")).count(edit.find)
        if found != edit.count:
            text = f"its text stands {found} times in {edit.file!r}, not {edit.count}"
            place = f"sources.{recipe.main_source}.edits[{number}]"
            yield Remark(word="edit-unfit", place=place, text=text)


def _patched(old: Upstream, new: Upstream, patches: Mapping[str, str]) -> Iterator[Remark]:
    for name, text in sorted(patches.items()):
        for path in sorted(set(_PLUS.findall(text))):
            before = {**old.named, **old.build_files}.get(path)
            after = {**new.named, **new.build_files}.get(path)
            gone = path in old.paths and path not in new.paths
            if gone or before != after:
                said = f"{path!r} is gone" if gone else f"{path!r} changed"
                hint = "try it: kernforge patch shows where it no longer fits"
                yield Remark(word="patched-changed", place=name, text=said, hint=hint)


def _options(recipe: Recipe, old: Upstream, new: Upstream) -> Iterator[Remark]:
    before, after = options(old.build_files), options(new.build_files)
    read = after | mentioned(new.build_files)
    for name, _ in recipe.build.cmake:
        if name in before and name not in read:
            near = near_option(name, after - before)
            hint = f"is it {near!r} now?" if near else None
            text = f"{name!r} was an option and is none any more"
            yield Remark(word="option-gone", place=f"build.cmake.{name}", text=text, hint=hint)
    for name in sorted(after - before):
        yield Remark(word="option-new", place="build.cmake", text=f"{name!r} is a new option")


def _pins(recipe: Recipe, old: Upstream, new: Upstream) -> Iterator[Remark]:
    before = {each.name.lower(): each for each in declared(old.build_files)}
    after = {each.name.lower(): each for each in declared(new.build_files)}
    sources = {s.fetchcontent.lower(): (n, s) for n, s in recipe.sources if s.fetchcontent}
    for name, each in sorted(after.items()):
        if name in sources:
            own, source = sources[name]
            if (name in before and _same(before[name], each)) or _holds(source, each):
                continue
            text = f"upstream pins {_told(each)}, the recipe {_pin_of(source)}"
            yield Remark(word="pin-moved", place=f"sources.{own}", text=text)
        elif name not in before:
            place = f"{each.file}:{each.line}"
            text = f"{each.name!r} is new: {_told(each)}"
            yield Remark(word="pin-new", place=place, text=text, hint=f"add fetchcontent: {name}")
    for name in sorted(before.keys() - after.keys()):
        if name in sources:
            text = f"upstream asks for {name!r} no more"
            yield Remark(word="pin-gone", place=f"sources.{sources[name][0]}", text=text)


def _same(old: Download, new: Download) -> bool:
    return (old.url, old.pin) == (new.url, new.pin)


def _told(each: Download) -> str:
    pin = each.pin if each.kind == "archive" and each.pin else ""
    return " ".join(part for part in (each.url, revision(each), pin) if part)


def _pin_of(source: Source) -> str:
    match source:
        case GitSource():
            return source.commit
        case ArchiveSource() | PypiSource() | CargoSource():
            return f"SHA256={source.sha256}"
        case _:
            return source.path


def _holds(source: Source, each: Download) -> bool:
    """Whether a source is at the very pin that upstream names."""
    if isinstance(source, GitSource):
        return source.commit == revision(each)
    pin = each.pin.partition("=")[2].lower()
    return isinstance(source, ArchiveSource) and source.sha256 == pin


def upstream_of(paths: frozenset[str], texts: Mapping[str, str]) -> Upstream:
    """Sort what was read of a tree: build files apart from others."""
    build = {path: text for path, text in texts.items() if is_build_file(path)}
    named = {path: text for path, text in texts.items() if path not in build}
    return Upstream(paths=paths, build_files=build, named=named)


def read_upstream(recipe: Recipe, root: Path, patches: Mapping[str, str]) -> Upstream:
    """Read of a tree what :func:`upstream_changes` asks about.

    Args:
        recipe: names the files of its edits.
        root: the main source as it comes, at one commit.
        patches: text of the main source's patch files by name; the files they touch are read.

    Raises:
        SourceError: as :func:`kernforge.source.tree.entries`.
    """
    files = frozenset(entry.path for entry in entries(root) if entry.link is None)
    folders = frozenset(str(parent) for path in files for parent in PurePosixPath(path).parents)
    wanted = {edit.file for edit in dict(recipe.sources)[recipe.main_source].edits}
    wanted |= {path for text in patches.values() for path in _PLUS.findall(text)}
    named = {
        path: (root / path).read_text(encoding="utf-8", errors="replace") for path in wanted & files
    }
    return upstream_of(files | folders, {**named, **read_build_files(root)})
