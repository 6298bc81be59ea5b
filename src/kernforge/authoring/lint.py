"""What a recipe leaves open, said before hours are spent on it. Pure, but for trying patches.

A remark is no error: the recipe is valid. Each rule is a function over the recipe and what was read
of the sources' build files (:mod:`kernforge.authoring.buildfiles`); paths there begin with the
source's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from kernforge.arch import Arch, format_archs
from kernforge.authoring.buildfiles import (
    all_calls,
    cached_options,
    declared,
    direct_populations,
    fetchings,
    mentioned,
    mentioned_in,
    near_option,
    options,
    read_build_files,
    revision,
)
from kernforge.authoring.cmakescan import Download
from kernforge.binary.facts import Library, State
from kernforge.errors import SourceError
from kernforge.recipe.matrix import targets
from kernforge.recipe.model import ArchiveSource, CargoSource, GitSource, Recipe
from kernforge.source.edits import apply_edits
from kernforge.source.patches import apply_series

_MOVING = re.compile(
    r"/(?:archive|tarball|zipball)/(?:refs/heads/\S+|(?:main|master|dev|develop|trunk|latest|HEAD)\b)"
    r"|/releases/latest/|/(?:nightly|latest)\b",
    re.IGNORECASE,
)
_OURS = re.compile(r"(?:CMAKE|FETCHCONTENT|CPACK|CTEST|SKBUILD|BUILD)_\w+|CUDAToolkit_ROOT|\w+_DIR")
_VERSION = re.compile(r"(?<![\w.])v?(\d+\.\d+(?:\.\d+)*(?:\.?(?:post|rc|dev)\d+)?)(?![\w])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """One thing to look at.

    Attributes:
        word: stable lower-case identifier, as ``option-unknown``.
        place: where: a key of the recipe, or ``file:line`` in a source.
        text: one sentence.
        hint: what to do, or None.
    """

    word: str
    place: str
    text: str
    hint: str | None = None


def lint_recipe(recipe: Recipe) -> tuple[Remark, ...]:
    """Everything that the recipe alone shows.

    Words: ``unconfirmed``, ``ref-moving``, ``verify-less``, ``loader-less``,
    ``patch-version``.
    """
    return (
        *_unconfirmed(recipe),
        *_moving(recipe),
        *_less_than_target(recipe),
        *_loaders(recipe),
        *_patch_versions(recipe),
    )


def _unconfirmed(recipe: Recipe) -> Iterator[Remark]:
    for number, text in enumerate(recipe.unconfirmed):
        yield Remark(word="unconfirmed", place=f"unconfirmed[{number}]", text=text)


def _moving(recipe: Recipe) -> Iterator[Remark]:
    for name, source in recipe.sources:
        if isinstance(source, ArchiveSource) and _MOVING.search(source.archive):
            text = (
                f"{source.archive!r} comes to hold other bytes, and its SHA-256 then fits no more"
            )
            hint = "name the archive of a commit or a release"
            yield Remark(word="ref-moving", place=f"sources.{name}.archive", text=text, hint=hint)


def _has_own_way(recipe: Recipe) -> bool:
    """Whether some files are built as upstream says: then a library may hold other archs."""
    return any(policy != "replace" for _, policy in recipe.build.gencode)


def _less_than_target(recipe: Recipe) -> Iterator[Remark]:
    claims = recipe.verify.extensions
    if claims and all(claim != "target" for _, claim in claims):
        text = "no library is claimed to hold code for the target"
        hint = "write target for those that serve it"
        yield Remark(word="verify-less", place="verify.extensions", text=text, hint=hint)
    for glob, claim in claims:
        if claim == "target" or not claim or _has_own_way(recipe):
            continue
        for archs in {target.archs for target in targets(recipe.matrix)}:
            if missing := _beyond(archs, claim):
                text = f"claims {format_archs(claim)}, less than the target's {missing}"
                hint = "build.gencode replaces all lists by the target: write target"
                place = f"verify.extensions.{glob}"
                yield Remark(word="verify-less", place=place, text=text, hint=hint)


def _beyond(archs: tuple[Arch, ...], claim: tuple[Arch, ...]) -> str:
    return format_archs(tuple(arch for arch in archs if arch not in claim))


def _loaders(recipe: Recipe) -> Iterator[Remark]:
    """The file that a target's device is given must itself be claimed for the target."""
    claims = dict(recipe.verify.extensions)
    devices = sorted({str(a.device) for t in targets(recipe.matrix) for a in t.archs})
    for number, loader in enumerate(recipe.verify.loaders):
        chosen = dict(loader)
        for device in devices:
            glob = chosen.get(device, chosen.get("default"))
            place = f"verify.loaders[{number}]"
            if glob is None:
                text = f"says nothing of device {device}, and has no default"
                yield Remark(word="loader-less", place=place, text=text)
            elif claims and claims.get(glob) != "target":
                text = (
                    f"gives device {device} the file {glob!r}, which is not claimed for the target"
                )
                hint = f"write {glob!r}: target in verify.extensions"
                yield Remark(word="loader-less", place=place, text=text, hint=hint)


def _patch_versions(recipe: Recipe) -> Iterator[Remark]:
    for name, source in recipe.sources:
        own = {recipe.version if isinstance(recipe.version, str) else recipe.version.expect}
        if isinstance(source, GitSource) and source.tag:
            own |= set(_VERSION.findall(source.tag))
        own |= set(_VERSION.findall(recipe.name)) | {getattr(source, "version", "")}
        for patch in source.patches:
            for version in _VERSION.findall(patch.removesuffix(".patch").removesuffix(".diff")):
                if not any(_same(version, mine) for mine in own):
                    text = f"{patch!r} is named after {version}, which is not this recipe's version"
                    hint = "does it still belong here? rename it if so"
                    place = f"sources.{name}.patches"
                    yield Remark(word="patch-version", place=place, text=text, hint=hint)


def _same(version: str, mine: str) -> bool:
    whole, part = mine.removesuffix(".*"), mine.endswith(".*")
    return version == whole or (part and version.startswith(f"{whole}."))


def lint_tree(recipe: Recipe, files: Mapping[str, str]) -> tuple[Remark, ...]:
    """What the build files would fetch by themselves, and what of it no source answers.

    Words: ``download-unanswered``, ``populate-direct``, ``download-nested``,
    ``submodule-left-out``, ``cuda-version-unset``.
    """
    return (
        *_cuda_version(recipe, files),
        *_unanswered(recipe, files),
        *_direct(files),
        *_nested(files),
        *_submodules(recipe, files),
    )


def _unanswered(recipe: Recipe, files: Mapping[str, str]) -> Iterator[Remark]:
    answered = {s.fetchcontent.lower() for _, s in recipe.sources if s.fetchcontent}
    for each in declared(files):
        if each.name.lower() in answered:
            continue
        how = "at a fixed revision" if each.pinned else _moves(each)
        text = f"CMake would fetch {each.name!r} from {each.url}, {how}"
        hint = f"add a source with fetchcontent: {each.name}"
        place = f"{each.file}:{each.line}"
        yield Remark(word="download-unanswered", place=place, text=text, hint=hint)


def _cuda_version(recipe: Recipe, files: Mapping[str, str]) -> Iterator[Remark]:
    """The project compares CUDA_VERSION, and neither it nor the recipe sets one."""
    passed = dict(recipe.build.cmake).get("CUDA_VERSION")
    own = [pair for pair in all_calls(files) if pair[0].startswith(f"{recipe.main_source}/")]
    if passed or any(call.name == "set" and "CUDA_VERSION" in call.arguments for _, call in own):
        return
    for path, call in own:
        if call.name in {"if", "elseif"} and "CUDA_VERSION" in mentioned_in(call):
            text = "compares CUDA_VERSION, and nothing sets it: every comparison is then false"
            hint = 'write CUDA_VERSION: "{cuda}" in build.cmake'
            place = f"{path}:{call.line}"
            yield Remark(word="cuda-version-unset", place=place, text=text, hint=hint)
            return


def _moves(each: Download) -> str:
    named = revision(each)
    if "${" in named:
        return f"at a revision that a variable names ({named})"
    return f"which moves ({named!r})" if named else "which moves"


def _direct(files: Mapping[str, str]) -> Iterator[Remark]:
    for name, place in direct_populations(files):
        text = f"FetchContent_Populate({name} ...) brings its own details: no copy can answer it"
        hint = "patch it into FetchContent_Declare and FetchContent_MakeAvailable"
        yield Remark(word="populate-direct", place=place, text=text, hint=hint)


def _nested(files: Mapping[str, str]) -> Iterator[Remark]:
    for each in fetchings(files):
        hint = "builds have no network: make it a source and patch the call out"
        yield Remark(word="download-nested", place=each.place, text=each.text, hint=hint)


def _submodules(recipe: Recipe, files: Mapping[str, str]) -> Iterator[Remark]:
    for name, source in recipe.sources:
        listed = f"{name}/.gitmodules"
        if isinstance(source, GitSource) and not source.submodules and listed in files:
            paths = re.findall(r"^\s*path\s*=\s*(\S+)", files[listed], re.MULTILINE)
            text = f"leaves out the submodules {', '.join(paths)}"
            hint = "is none of them needed? submodules: true takes all"
            place = f"sources.{name}.submodules"
            yield Remark(word="submodule-left-out", place=place, text=text, hint=hint)


def lint_sources(
    recipe: Recipe, trees: Mapping[str, Path], cache: str | None = None
) -> tuple[Remark, ...]:
    """:func:`lint_tree` and :func:`lint_options` over trees on disk.

    Args:
        recipe: what is linted.
        trees: the folder of each source by its name, as it is placed for a build. Options are asked
            about only where no source is missing.
        cache: as for :func:`lint_options`.

    Raises:
        SourceError: as :func:`kernforge.source.tree.entries`.
    """
    files = {
        f"{name}/{path}": text
        for name, tree in trees.items()
        for path, text in read_build_files(tree).items()
    }
    needed = {name for name, source in recipe.sources if not isinstance(source, CargoSource)}
    whole = needed <= trees.keys()
    known = lint_options(recipe, files, cache) if whole else ()
    return (*lint_tree(recipe, files), *known)


def lint_options(
    recipe: Recipe, files: Mapping[str, str], cache: str | None = None
) -> tuple[Remark, ...]:
    """CMake variables of the recipe that nothing reads: misspelt, renamed or gone upstream.

    Args:
        recipe: whose ``build.cmake`` is asked about.
        files: build files of all its sources.
        cache: text of ``CMakeCache.txt`` after a configure, where there is one.
    """
    known = options(files) | (cached_options(cache) if cache is not None else frozenset())
    read = known | mentioned(files)
    found = []
    for name, _ in recipe.build.cmake:
        if _OURS.fullmatch(name) or name in read:
            continue
        near = near_option(name, known)
        hint = f"did you mean {near!r}?" if near else "was it renamed, or taken away?"
        text = f"{name!r} is no option of these sources: nothing reads it"
        found.append(
            Remark(word="option-unknown", place=f"build.cmake.{name}", text=text, hint=hint)
        )
    return tuple(found)


def lint_libraries(recipe: Recipe, libraries: tuple[Library, ...]) -> tuple[Remark, ...]:
    """Where a built wheel holds more than the recipe claims of it.

    Words: ``verify-less`` for a library that holds kernels for all of the target though less, or
    nothing, is claimed.
    """
    found = []
    for library in libraries:
        fitting = [pair for pair in recipe.verify.extensions if fnmatchcase(library.path, pair[0])]
        glob, claim = max(fitting, key=lambda pair: len(pair[0]), default=("", "target"))
        if claim == "target" or library.state is not State.DEVICE_CODE:
            continue
        held = {str(i.arch) for i in library.images if i.serves_code and i.kernels}
        for archs in {target.archs for target in targets(recipe.matrix)}:
            if all(str(arch).removesuffix("+PTX") in held for arch in archs):
                text = f"{library.path} holds kernels for {format_archs(archs)}: claim target"
                place = f"verify.extensions.{glob}"
                found.append(Remark(word="verify-less", place=place, text=text))
    return tuple(found)


def lint_changes(
    recipe: Recipe, name: str, tree: Path, patches: tuple[tuple[str, bytes], ...]
) -> tuple[Remark, ...]:
    """Whether a source's patches and edits still fit.

    Args:
        recipe: whose source it is.
        name: the source's name.
        tree: a scratch copy of the source as it comes; it is changed.
        patches: name and bytes of its patch files.

    Words: ``patch-unfit`` and ``edit-unfit``, with the reason that applying them gave.
    """
    source = dict(recipe.sources)[name]
    place = f"sources.{name}.patches"
    word = "patch-unfit"
    try:
        apply_series(tree, patches)
        place, word = f"sources.{name}.edits", "edit-unfit"
        apply_edits(tree, source.edits)
    except SourceError as error:
        return (Remark(word=word, place=place, text=error.message, hint=error.hint),)
    return ()
