"""Checks of a recipe that need several of its blocks at once. Pure.

Blocks are given one by one, None where a block itself is not valid, so that all faults of a file
come out together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kernforge.errors import RecipeError
from kernforge.recipe.fault import Fault, Loc, near_hint
from kernforge.recipe.matrix import matrix_faults, targets
from kernforge.recipe.model import Build, CargoSource, Matrix, Publish, Recipe, Verify
from kernforge.recipe.template import names_in

WHEEL_TOOLKIT_SINCE = (13, 0)
"""First CUDA whose compiler comes as wheels; the cu12 compiler wheel holds no nvcc (measured)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The blocks of a recipe that are valid by themselves.

    Attributes:
        name: the recipe's name.
        sources: each source's name and the name in ``into``, where it has one.
        crates: name of each source of kind ``cargo``, and the path of its Cargo.lock.
        build: or None.
        matrix: or None.
        verify: or None.
        publish: or None.
        requires: names of other recipes.
    """

    name: str | None = None
    sources: tuple[tuple[str, str | None], ...] | None = None
    crates: tuple[tuple[str, str], ...] = ()
    build: Build | None = None
    matrix: Matrix | None = None
    verify: Verify | None = None
    publish: Publish | None = None
    requires: tuple[str, ...] = ()


def blocks_of(recipe: Recipe) -> Blocks:
    """All blocks of a recipe that is valid block by block."""
    return Blocks(
        name=recipe.name,
        sources=tuple((name, source.into) for name, source in recipe.sources),
        crates=tuple((n, s.cargo) for n, s in recipe.sources if isinstance(s, CargoSource)),
        build=recipe.build,
        matrix=recipe.matrix,
        verify=recipe.verify,
        publish=recipe.publish,
        requires=recipe.requires,
    )


def block_faults(blocks: Blocks) -> tuple[Fault, ...]:
    """Everything that is wrong between and within valid blocks."""
    return (
        *_source_faults(blocks),
        *_crate_faults(blocks),
        *_matrix_faults(blocks),
        *_torch_faults(blocks),
        *_toolkit_faults(blocks),
        *_unheard_faults(blocks),
        *_other_faults(blocks),
        *_verify_faults(blocks),
    )


def _fault(loc: Loc, word: str, message: str, hint: str) -> Fault:
    return Fault(loc=loc, error=RecipeError(word, message, hint=hint))


def _source_faults(blocks: Blocks) -> Iterator[Fault]:
    if blocks.sources is None:
        return
    names = [name for name, _into in blocks.sources]
    if not names:
        yield _fault(("sources",), "recipe-source", "names no source", "add one by a name")
    chosen = blocks.build.source if blocks.build else None
    if chosen is not None and chosen not in names:
        message = f"{chosen!r} is no source of this recipe"
        yield _fault(("build", "source"), "recipe-source", message, near_hint(chosen, names))
    elif blocks.build and chosen is None and len(names) > 1:
        message = f"is missing, and there are {len(names)} sources"
        hint = f"name the one that holds the project: {', '.join(names)}"
        yield _fault(("build", "source"), "recipe-source", message, hint)
    for name, into in blocks.sources:
        if into is not None and into.split("/")[0] == name:
            message = f"{into!r} would put the source into itself"
            hint = "name another source first, or leave it out"
            yield _fault(("sources", name, "into"), "recipe-source", message, hint)


def _crate_faults(blocks: Blocks) -> Iterator[Fault]:
    """Crates follow from the lock of another source, and cargo takes them from one folder only."""
    crates = dict(blocks.crates)
    names = [name for name, _into in blocks.sources or () if name not in crates]
    for number, (name, lock) in enumerate(blocks.crates):
        owner = lock.split("/")[0]
        if owner not in names:
            message = f"{lock!r} begins with no other source of this recipe"
            yield _fault(
                ("sources", name, "cargo"), "recipe-source", message, near_hint(owner, names)
            )
        if number:
            message = f"is a second source of crates beside {blocks.crates[0][0]!r}"
            yield _fault(("sources", name), "recipe-source", message, "one Cargo.lock a recipe")
    if blocks.build is not None and blocks.build.source in crates:
        message = f"{blocks.build.source!r} holds crates, no project"
        hint = f"name the one that holds the project: {', '.join(names)}"
        yield _fault(("build", "source"), "recipe-source", message, hint)


def _matrix_faults(blocks: Blocks) -> Iterator[Fault]:
    if blocks.matrix is None:
        return
    for fault in matrix_faults(blocks.matrix):
        other = ("matrix", *fault.other) if fault.other is not None else None
        yield Fault(loc=("matrix", *fault.loc), error=fault.error, other=other)


def _templates(blocks: Blocks) -> Iterator[tuple[Loc, str]]:
    if blocks.build is not None:
        for block in ("cmake", "config_settings", "env"):
            for key, text in getattr(blocks.build, block):
                yield ("build", block, key), text
    if blocks.publish is not None and blocks.publish.local_version is not None:
        yield ("publish", "local_version"), blocks.publish.local_version


def _torch_faults(blocks: Blocks) -> Iterator[Fault]:
    if blocks.matrix is None or all(t.torch is not None for t in targets(blocks.matrix)):
        return
    for loc, text in _templates(blocks):
        for name in names_in(text):
            if name in {"torch", "torch_minor"}:
                message = f"{'{' + name + '}'!r} has no value: a target of the matrix has no torch"
                hint = "add matrix.torch, or leave the placeholder out"
                yield _fault(loc, "recipe-placeholder", message, hint)


def _toolkit_faults(blocks: Blocks) -> Iterator[Fault]:
    if blocks.matrix is None or blocks.build is None or blocks.build.toolkit != "wheels":
        return
    for index, cuda in enumerate(blocks.matrix.cuda):
        if tuple(map(int, cuda.split("."))) < WHEEL_TOOLKIT_SINCE:
            message = f"CUDA {cuda} has no compiler in wheels; they begin with 13.0"
            hint = "write toolkit: host in build, or a newer CUDA"
            yield _fault(("matrix", "cuda", index), "recipe-toolkit", message, hint)


def _unheard_faults(blocks: Blocks) -> Iterator[Fault]:
    """CMake variables that no CMake would ever see."""
    if blocks.build is not None and blocks.build.cmake and blocks.build.backend == "setuptools":
        hint = "pass what its setup.py reads in env, as CMAKE_ARGS"
        message = "does nothing where the backend is setuptools"
        yield _fault(("build", "cmake"), "recipe-value", message, hint)


def _other_faults(blocks: Blocks) -> Iterator[Fault]:
    if blocks.build is not None and "default" not in dict(blocks.build.gencode):
        hint = "add default: replace"
        yield _fault(("build", "gencode"), "recipe-missing-key", "has no default", hint)
    for index, name in enumerate(blocks.requires):
        if name == blocks.name:
            hint = "leave it out"
            yield _fault(("requires", index), "recipe-value", "is this recipe itself", hint)


def _verify_faults(blocks: Blocks) -> Iterator[Fault]:
    verify = blocks.verify
    if verify is None:
        return
    for index, loader in enumerate(verify.loaders):
        if not loader:
            hint = 'write {"9.0": FILE, default: FILE}'
            yield _fault(("verify", "loaders", index), "recipe-value", "is empty", hint)
    if verify.device_code:
        return
    demands = {
        "extensions": any(archs != () for _, archs in verify.extensions),
        "loaders": bool(verify.loaders),
        "kernels": verify.kernels is not None,
    }
    for key, demanded in demands.items():
        if demanded:
            message = "demands device code, and verify.device_code is false"
            yield _fault(("verify", key), "recipe-value", message, "leave one of the two out")
