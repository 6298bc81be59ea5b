"""What a wheel says of its own making: the texts of its dist-info folder, ``build.json`` first.

A wheel may come from a stranger: nothing of it is executed, and no word of it is believed before
its form is checked.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernforge.arch import canonical, parse_arch, parse_archs
from kernforge.errors import KernforgeError, SelectionError, VerifyError
from kernforge.pack.archive import checked_members
from kernforge.recipe.load import load_recipe
from kernforge.recipe.matrix import Job, expand, retarget

_TEXT_LIMIT = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a wheel's own ``build.json`` says of it.

    Attributes:
        recipe: name of the recipe.
        job: id of the job.
        build_key: 64 hex digits.
        archs: canonical, as ``12.0a``.
        cuda: as ``13.0``.
        torch: as ``2.14.1``, or None.
        python: as ``3.11``.
        document: the whole, as read.
    """

    recipe: str
    job: str
    build_key: str
    archs: tuple[str, ...]
    cuda: str
    torch: str | None
    python: str
    document: dict[str, Any]

    @property
    def leaf(self) -> str:
        """Where it stands in an index: by CUDA, torch's minor release and arch set."""
        tokens = ".".join(parse_arch(arch).token for arch in self.archs)
        torch = [f"torch{'.'.join(self.torch.split('.')[:2])}"] if self.torch else []
        return "/".join([f"cu{self.cuda.replace('.', '')}", *torch, f"sm{tokens}"])


def read_texts(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel's dist-info folder by name: METADATA, build.json and so on.

    Raises:
        VerifyError: ``wheel-unreadable`` or ``wheel-member``.
    """
    found: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(wheel) as archive:
            for info in checked_members(archive, wheel):
                folder, _, name = info.filename.partition(".dist-info/")
                if name and "/" not in folder and info.file_size <= _TEXT_LIMIT:
                    found[name] = archive.read(info)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError) as error:
        raise VerifyError("wheel-unreadable", f"{wheel.name} is no whole wheel: {error}") from error
    return found


def read_built(wheel: Path, texts: dict[str, bytes]) -> Built:
    """What ``build.json`` in a wheel says.

    Raises:
        VerifyError: ``wheel-foreign`` where there is none, or it is not one of ours.
    """
    try:
        document = json.loads(texts["build.json"])
        build = document["stages"]["build"]
        torch = build["torch"]
        return Built(
            recipe=_word(document["recipe"]),
            job=_word(document["job"]),
            build_key=_word(document["build_key"]),
            archs=tuple(str(a) for a in canonical(parse_arch(_word(x)) for x in build["archs"])),
            cuda=_word(build["cuda"]),
            torch=None if torch is None else _word(torch),
            python=_word(document["stages"]["env"]["python"]),
            document=document,
        )
    except (KeyError, ValueError, TypeError, RecursionError, KernforgeError) as error:
        why = "it holds no build.json" if "build.json" not in texts else "its build.json is garbled"
        raise VerifyError(
            "wheel-foreign",
            f"{wheel.name} was not built by kernforge: {why}",
            hint="`kernforge verify` and `kernforge inspect` read any wheel",
        ) from error


def _word(value: object) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise TypeError(value)
    return value


def job_of(built: Built, recipes: Path) -> Job:
    """The job that a wheel says it was built by, from the folder of recipes.

    Raises:
        SelectionError: ``recipe-missing``.
        RecipeError: the recipe, or what the wheel says, is not valid.
    """
    path = recipes / f"{built.recipe}.yaml"
    if path.parent != recipes or not path.is_file():
        raise SelectionError(
            "recipe-missing",
            f"The wheel was built by recipe {built.recipe!r}, which is not in this project",
            hint="name the project that holds it with --project",
        )
    jobs = retarget(
        expand(load_recipe(path)),
        archs=parse_archs(" ".join(built.archs)),
        python=built.python,
        torch=built.torch,
        cuda=built.cuda,
    )
    return next((job for job in jobs if job.id == built.job), jobs[0])
