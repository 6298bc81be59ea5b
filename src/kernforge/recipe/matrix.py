"""From a recipe's matrix to targets and jobs, their names, and the text of placeholders. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from kernforge.arch import Arch, cuda_problem, format_archs, parse_cuda
from kernforge.errors import RecipeError
from kernforge.recipe.fault import Fault
from kernforge.recipe.model import PLATFORMS, ExcludedTarget, IncludedTarget, Matrix, Recipe
from kernforge.recipe.template import fill_template
from kernforge.recipe.values import read_python, read_torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One choice of everything that a matrix leaves open.

    Attributes:
        archs: GPU architectures in canonical order.
        python: as ``3.11``.
        torch: as ``2.14.1``, or None where the build uses no torch.
        cuda: as ``13.0``.
        platform: as ``linux_x86_64``.
    """

    archs: tuple[Arch, ...]
    python: str
    torch: str | None
    cuda: str
    platform: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A recipe for one target: nothing is left to choose."""

    recipe: Recipe
    target: Target

    @property
    def id(self) -> str:
        """Short, readable, unique: ``sgl-kernel-cu130-torch2.14.1-cp311-sm120a``."""
        target = self.target
        parts = [self.recipe.name, f"cu{_digits(target.cuda)}"]
        if target.torch is not None:
            parts.append(f"torch{target.torch}")
        parts += [f"cp{_digits(target.python)}", f"sm{_tokens(target.archs)}"]
        if target.platform != PLATFORMS[0]:
            parts.append(target.platform)
        return "-".join(parts)


def _digits(version: str) -> str:
    return version.replace(".", "")


def _tokens(archs: tuple[Arch, ...]) -> str:
    return ".".join(arch.token for arch in archs)


def lock_name(target: Target) -> str:
    """The file name of a target's lock: ``py311-torch2.14.1-cu130-linux_x86_64.lock``."""
    torch = f"torch{target.torch}-" if target.torch is not None else ""
    python, cuda = _digits(target.python), _digits(target.cuda)
    return f"py{python}-{torch}cu{cuda}-{target.platform}.lock"


def _combinations(matrix: Matrix) -> tuple[Target, ...]:
    return tuple(
        Target(archs=archs, cuda=cuda, torch=torch, python=python, platform=platform)
        for archs, cuda, torch, python, platform in product(
            matrix.archs, matrix.cuda, matrix.torch or (None,), matrix.python, matrix.platform
        )
    )


def _matches(target: Target, part: ExcludedTarget) -> bool:
    wanted = {name: getattr(part, name) for name in ExcludedTarget.model_fields}
    return all(v is None or getattr(target, name) == v for name, v in wanted.items())


def _whole(entry: IncludedTarget) -> Target:
    return Target(
        archs=entry.archs,
        cuda=entry.cuda,
        torch=entry.torch,
        python=entry.python,
        platform=entry.platform,
    )


def targets(matrix: Matrix) -> tuple[Target, ...]:
    """Every target of a matrix: combinations in the order written, less exclude, then include."""
    kept = (t for t in _combinations(matrix) if not any(_matches(t, e) for e in matrix.exclude))
    return tuple(dict.fromkeys((*kept, *map(_whole, matrix.include))))


def expand(recipe: Recipe) -> tuple[Job, ...]:
    """Every job of a recipe, in the order of :func:`targets`.

    Raises:
        RecipeError: the matrix has a fault; the first is raised. A recipe that
            :mod:`kernforge.recipe.load` gave has none.
    """
    for fault in matrix_faults(recipe.matrix):
        raise fault.error
    return tuple(Job(recipe=recipe, target=target) for target in targets(recipe.matrix))


def matrix_faults(matrix: Matrix) -> tuple[Fault, ...]:
    """What is wrong with a matrix as a whole; locations begin at the matrix.

    Words: ``recipe-matrix``, ``recipe-missing-key``, ``cuda-too-old``, ``cuda-too-new``,
    ``recipe-toolkit``.
    """
    found = [*_missing(matrix), *_repeated(matrix), *_include_exclude(matrix)]
    if not found and not targets(matrix):
        message = "no target is left: exclude takes every combination out"
        found.append(_fault(("exclude",), message, "exclude less, or add to include"))
    return (*found, *_compiler_faults(matrix))


def _fault(
    loc: tuple[str | int, ...], message: str, hint: str, other: tuple[str | int, ...] | None = None
) -> Fault:
    return Fault(loc=loc, error=RecipeError("recipe-matrix", message, hint=hint), other=other)


def _missing(matrix: Matrix) -> Iterator[Fault]:
    needed = ("archs", "cuda", "python")
    empty = [name for name in needed if not getattr(matrix, name)]
    if len(empty) == len(needed) and matrix.include and not matrix.torch:
        return
    examples = {"archs": '["12.0a"]', "cuda": '["13.0"]', "python": '["3.11"]'}
    for name in empty:
        error = RecipeError(
            "recipe-missing-key", "names nothing to build for", hint=f"write {examples[name]}"
        )
        yield Fault(loc=(name,), error=error)
    if not matrix.platform:
        yield _fault(("platform",), "names no platform", "leave it out for linux_x86_64")


def _repeated(matrix: Matrix) -> Iterator[Fault]:
    for name in ("archs", "cuda", "torch", "python", "platform"):
        first: dict[object, int] = {}
        for index, value in enumerate(getattr(matrix, name)):
            if first.setdefault(value, index) == index:
                continue
            same = f"{name}[{first[value]}]"
            shown = value if isinstance(value, str) else format_archs(value)
            what = f"is {shown!r}, the same as {same}"
            yield _fault((name, index), what, "keep one of them", (name, first[value]))


def _include_exclude(matrix: Matrix) -> Iterator[Fault]:
    combined = _combinations(matrix)
    for index, part in enumerate(matrix.exclude):
        if not part.model_fields_set:
            what, hint = "is empty and would exclude everything", "name at least one key"
            yield _fault(("exclude", index), what, hint)
        elif not any(_matches(target, part) for target in combined):
            what, hint = "matches no combination", "compare it with the lists of the matrix"
            yield _fault(("exclude", index), what, hint)
    kept = {t for t in combined if not any(_matches(t, e) for e in matrix.exclude)}
    first: dict[Target, int] = {}
    for index, entry in enumerate(matrix.include):
        target = _whole(entry)
        if target in kept:
            what = "is one of the combinations already"
            yield _fault(("include", index), what, "leave it out")
        elif first.setdefault(target, index) != index:
            what = f"is the same target as include[{first[target]}]"
            yield _fault(("include", index), what, "keep one of them", ("include", first[target]))


def _compiler_faults(matrix: Matrix) -> Iterator[Fault]:
    """One fault for each arch and CUDA release that do not go together, where the arch stands."""
    seen: set[tuple[Arch, str]] = set()
    for target in targets(matrix):
        for arch in target.archs:
            if (arch, target.cuda) in seen:
                continue
            seen.add((arch, target.cuda))
            error = cuda_error(arch, target.cuda)
            if error is not None:
                yield Fault(loc=_place(matrix, target), error=error)


def _place(matrix: Matrix, target: Target) -> tuple[str | int, ...]:
    if target.archs in matrix.archs and target.cuda in matrix.cuda:
        return ("archs", matrix.archs.index(target.archs))
    return ("include", next(i for i, e in enumerate(matrix.include) if _whole(e) == target))


def cuda_error(arch: Arch, cuda: str) -> RecipeError | None:
    """Why a CUDA release cannot compile an arch, as ``cuda-too-old`` or ``cuda-too-new``."""
    problem = cuda_problem(arch, parse_cuda(cuda))
    if problem is None:
        return None
    old = "too old" in problem
    hint = "name a newer CUDA" if old else "name an older CUDA, or leave the arch out"
    return RecipeError("cuda-too-old" if old else "cuda-too-new", problem, hint=hint)


def retarget(
    jobs: Iterable[Job],
    *,
    archs: tuple[Arch, ...] | None = None,
    python: str | None = None,
    torch: str | None = None,
    cuda: str | None = None,
) -> tuple[Job, ...]:
    """Choose jobs by parts of their targets; a part that a recipe's jobs lack makes new ones.

    Parts are taken one after the other, recipe by recipe: where some jobs have the value, only
    they stay; where none has it, it takes the place of theirs. Order stays, what becomes equal is
    named once.

    Args:
        jobs: jobs of any number of recipes.
        archs: a canonical list, as :func:`kernforge.arch.parse_archs` gives.
        python: as ``3.11``.
        torch: as ``2.14.1``.
        cuda: as ``13.0``.

    Raises:
        RecipeError: a value is not in its form; ``torch-unused`` where a recipe uses no torch;
            ``cuda-too-old`` or ``cuda-too-new`` where a new target could not be compiled.
    """
    parts = {"archs": archs, "cuda": cuda, "torch": torch, "python": python}
    wanted = {name: value for name, value in parts.items() if value is not None}
    _check_parts(python, torch, cuda)
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.recipe.name, []).append(job)
    chosen = [job for group in groups.values() for job in _choose(group, wanted)]
    for job in chosen:
        for arch in job.target.archs:
            if (error := cuda_error(arch, job.target.cuda)) is not None:
                raise error
    return tuple(chosen)


def _check_parts(python: str | None, torch: str | None, cuda: str | None) -> None:
    if python is not None:
        read_python(python)
    if torch is not None:
        read_torch(torch)
    if cuda is not None:
        parse_cuda(cuda)


def _choose(group: list[Job], wanted: dict[str, str | tuple[Arch, ...]]) -> list[Job]:
    for name, value in wanted.items():
        if name == "torch" and all(job.target.torch is None for job in group):
            recipe = group[0].recipe.name
            raise RecipeError(
                "torch-unused", f"{recipe!r} is built without torch", hint="leave the torch out"
            )
        having = [job for job in group if getattr(job.target, name) == value]
        group = having or [_replaced(job, name, value) for job in group]
    return list(dict.fromkeys(group))


def _replaced(job: Job, name: str, value: str | tuple[Arch, ...]) -> Job:
    change: dict[str, Any] = {name: value}
    return Job(recipe=job.recipe, target=dataclasses.replace(job.target, **change))


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def expand_text(text: str, target: Target, *, cuda_root: str) -> str:
    """Fill the placeholders of ``build.cmake``, ``build.env`` or ``build.config_settings``.

    ``{cuda}`` is ``13.0``, ``{cuda_major}`` ``13``, ``{torch}`` ``2.14.1``, ``{torch_minor}``
    ``2.14``, ``{python}`` ``3.11``, ``{archs}`` ``9.0;12.0a``, ``{cmake_archs}``
    ``90-real;120a-real``, ``{cuda_root}`` the folder of the CUDA toolkit as the build sees it.
    ``{jobs}`` and ``{nvcc_threads}`` stay: they are filled when the build runs, and no key knows
    their values.
    """
    values = {
        "jobs": "{jobs}",
        "nvcc_threads": "{nvcc_threads}",
        "cuda_root": cuda_root,
        "cuda": target.cuda,
        "cuda_major": target.cuda.split(".")[0],
        "python": target.python,
        "archs": format_archs(target.archs),
        "cmake_archs": ";".join(arch.cmake for arch in target.archs),
    }
    return fill_template(text, values | _torch_values(target))


def expand_local(text: str, target: Target) -> str:
    """Fill the placeholders of ``publish.local_version``.

    ``{cuda}`` is ``130``, ``{torch}`` ``2.14.1``, ``{torch_minor}`` ``2.14``, ``{python}``
    ``311``, ``{archs}`` ``90.120a``.
    """
    values = {
        "cuda": _digits(target.cuda),
        "python": _digits(target.python),
        "archs": _tokens(target.archs),
    }
    return fill_template(text, values | _torch_values(target))


def _torch_values(target: Target) -> dict[str, str]:
    if target.torch is None:
        return {}
    return {"torch": target.torch, "torch_minor": _minor(target.torch)}
