"""Which wheel of an index fits a machine, and why each of the others does not. Pure.

Room `publish`. A wheel fits where every GPU of the machine has an answer in the index that reaches
what its recipe demands, and the driver, torch and Python are those that it was built for. Code that
was made for a GPU is preferred to code that is expected to run there.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from kernforge.errors import PublishError
from kernforge.publish.listing import Claim, Listed

NO_CUDA = "none"
"""What stands for the CUDA release of a torch that is built without."""
_LEVELS = ("code", "links", "imports", "loads", "runs")
_SUFFIX_SINCE = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """What a wheel would meet.

    Attributes:
        devices: compute capabilities of the GPUs, as ``12.0``, each once.
        driver: the CUDA release that the driver is for, as ``13.0``, or None where not known.
        python: version of the Python that it would be installed into, as ``3.11.7``.
        tags: wheel tags that this Python takes.
        torch: version of the installed torch without its local part, or None.
        torch_cuda: the CUDA release of that torch; ``none`` where it is built without CUDA; None
            where that is not known.
    """

    devices: tuple[str, ...]
    driver: str | None
    python: str
    tags: frozenset[Tag]
    torch: str | None
    torch_cuda: str | None


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _major(version: str) -> int:
    digits = version.split(".", maxsplit=1)[0]
    return int(digits) if digits.isdecimal() else 0


def _reaches(claim: Claim, require: str) -> bool:
    return dict(claim.levels).get(require) in {"reached", "not needed"}


def claim_for(wheel: Listed, device: str) -> Claim | None:
    """What an index says of a wheel on a device; one without device code is alike on all."""
    alike = next((claim for claim in wheel.claims if not claim.needs_gpu), None)
    return next((claim for claim in wheel.claims if claim.device == device), alike)


def misfits(wheel: Listed, here: Here) -> tuple[str, ...]:
    """Why a wheel does not fit; nothing where it does."""
    reasons = [*_gpu_misfits(wheel, here), *_cuda_misfits(wheel, here)]
    if wheel.torch and here.torch and _minor(wheel.torch) != _minor(here.torch):
        reasons.append(f"for torch {_minor(wheel.torch)}, installed is {here.torch}")
    reasons += _python_misfits(wheel, here)
    if wheel.yanked is not None:
        reasons.append(f"taken back: {wheel.yanked or 'no reason given'}")
    return tuple(reasons)


def _gpu_misfits(wheel: Listed, here: Here) -> list[str]:
    reasons = []
    for device in here.devices:
        claim = claim_for(wheel, device)
        if claim is None:
            served = ", ".join(known.device for known in wheel.claims) or "none"
            reasons.append(f"serves GPUs {served}, not {device}")
        elif not _reaches(claim, wheel.require):
            reasons.append(f"does not reach {wheel.require!r} on {device}")
    return reasons


def _cuda_misfits(wheel: Listed, here: Here) -> list[str]:
    # A driver runs code of every minor release of its CUDA major and of older majors: NVIDIA's
    # "CUDA compatibility", minor version compatibility. Machine code only, which wheels hold.
    reasons = []
    if here.driver is not None and _major(wheel.cuda) > _major(here.driver):
        reasons.append(f"for CUDA {wheel.cuda}, the driver is for {here.driver}")
    if wheel.torch and here.torch_cuda == NO_CUDA:
        reasons.append(f"for CUDA {wheel.cuda}, torch is built without CUDA")
    elif wheel.torch and here.torch_cuda and _major(wheel.cuda) != _major(here.torch_cuda):
        reasons.append(f"for CUDA {wheel.cuda}, torch is built for {here.torch_cuda}")
    return reasons


def _python_misfits(wheel: Listed, here: Here) -> list[str]:
    try:
        fits = SpecifierSet(wheel.requires_python or "").contains(here.python, prereleases=True)
    except InvalidSpecifier:
        fits = False
    if not fits:
        return [f"for Python {wheel.requires_python}, this is {here.python}"]
    _, _, _, tags = parse_wheel_filename(wheel.file)
    if not tags & here.tags:
        return [f"for {' '.join(sorted(map(str, tags)))}, which Python {here.python} does not take"]
    return []


def choose(name: str, wheels: tuple[Listed, ...], here: Here) -> Listed:
    """The wheel to install: the newest version that fits; of several, the most verified one.

    Args:
        name: of the distribution or the recipe.
        wheels: all wheels of the index.
        here: the machine.

    Raises:
        PublishError: ``project-unknown``, or ``no-wheel-fits`` with a reason a wheel.
    """
    project = str(canonicalize_name(name))
    own = [wheel for wheel in wheels if project in {wheel.project, wheel.recipe}]
    if not own:
        raise _unknown(name, wheels)
    fitting = [wheel for wheel in own if not misfits(wheel, here)]
    if not fitting:
        raise PublishError(
            "no-wheel-fits",
            f"None of {len(own)} wheels of {name!r} fits: {_told(here)}",
            hint=f"build one: `{build_command(own[-1].recipe, here)}`",
            detail=tuple(f"{wheel.file}: {'; '.join(misfits(wheel, here))}" for wheel in own),
        )
    return max(fitting, key=lambda wheel: _rank(wheel, here))


def _rank(wheel: Listed, here: Here) -> tuple[object, ...]:
    _, version, _, _ = parse_wheel_filename(wheel.file)
    claims = [claim for d in here.devices if (claim := claim_for(wheel, d)) is not None]
    level = min((_LEVELS.index(c.reached) for c in claims if c.reached in _LEVELS), default=-1)
    made_for = not any(claim.expected for claim in claims)
    return Version(version.public), made_for, level, -len(wheel.archs), wheel.published, wheel.file


def expected_on(wheel: Listed, here: Here) -> str | None:
    """What to know of a wheel whose code was made for other GPUs than these; None where it was."""
    claims = [claim for d in here.devices if (claim := claim_for(wheel, d)) is not None]
    devices = [claim.device for claim in claims if claim.expected]
    if not devices:
        return None
    return (
        f"its code is for {' '.join(wheel.archs)} and expected to run on {' and '.join(devices)} "
        "by NVIDIA's rule of binary compatibility; nobody has tried it there"
    )


def _unknown(name: str, wheels: tuple[Listed, ...]) -> PublishError:
    known = sorted({wheel.project for wheel in wheels})
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"it holds: {', '.join(known) or 'nothing'}"
    return PublishError("project-unknown", f"The index holds no {name!r}", hint=hint)


def _told(here: Here) -> str:
    parts = [f"GPU {' and '.join(here.devices)}"]
    parts += [f"driver for CUDA {here.driver}"] if here.driver else []
    parts += [f"torch {here.torch}"] if here.torch else ["no torch"]
    parts.append(f"Python {here.python}")
    return ", ".join(parts)


def build_command(recipe: str, here: Here) -> str:
    """The command that would build what is missing."""
    archs = [f"{d}a" if _major(d) >= _SUFFIX_SINCE else d for d in here.devices]
    words = ["kernforge build", recipe, "--arch", f"'{';'.join(archs)}'" if archs[1:] else archs[0]]
    if here.torch:
        words += ["--torch", here.torch]
    return " ".join([*words, "--python", _minor(here.python)])
