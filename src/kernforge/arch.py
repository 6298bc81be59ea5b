"""GPU architectures: parse, order, spell for compilers, and say what serves what. Pure.

Bottom layer: knows nothing of recipes, files or processes.

Facts and their source: first and last CUDA releases from the release notes of CUDA 10.0 to 13.0
and `nvcc --list-gpu-code` of 13.0.88; families from "Family-specific features" in the CUDA
programming guide 13.0. Read 2026-11-30. The compiler in use is asked again before a build starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import total_ordering

from kernforge.errors import RecipeError

_ARCH = re.compile(r"(\d{1,2})\.(\d)([af]?)(\+PTX)?", re.ASCII)
_SEPARATORS = re.compile(r"[;,\s]+")
_RULE = "an arch is MAJOR.MINOR[a|f][+PTX]"
_NAMES = {
    "volta": "7.0",
    "turing": "7.5",
    "ampere": "8.0;8.6",
    "ada": "8.9",
    "lovelace": "8.9",
    "hopper": "9.0a",
    "blackwell": "10.0a;12.0a",
}

# plain arch -> (first CUDA that compiles it, first CUDA that no longer does)
_CUDA_OF: dict[tuple[int, int], tuple[tuple[int, int], tuple[int, int] | None]] = {
    (5, 0): ((6, 5), (13, 0)),
    (5, 2): ((6, 5), (13, 0)),
    (5, 3): ((7, 0), (13, 0)),
    (6, 0): ((8, 0), (13, 0)),
    (6, 1): ((8, 0), (13, 0)),
    (6, 2): ((8, 0), (13, 0)),
    (7, 0): ((9, 0), (13, 0)),
    (7, 2): ((9, 2), (13, 0)),
    (7, 5): ((10, 0), None),
    (8, 0): ((11, 0), None),
    (8, 6): ((11, 1), None),
    (8, 7): ((11, 4), None),
    (8, 8): ((13, 0), None),
    (8, 9): ((11, 8), None),
    (9, 0): ((11, 8), None),
    (10, 0): ((12, 8), None),
    (10, 1): ((12, 8), (13, 0)),  # named 11.0 from CUDA 13 on
    (10, 3): ((12, 9), None),
    (11, 0): ((13, 0), None),
    (12, 0): ((12, 8), None),
    (12, 1): ((12, 9), None),
}
_SUFFIX_SINCE = {"a": (12, 0), "f": (12, 9)}
_FAMILY: dict[tuple[int, int], tuple[tuple[int, int], ...]] = {
    (10, 0): ((10, 0), (10, 3)),
    (10, 1): ((10, 1),),
    (10, 3): ((10, 3),),
    (11, 0): ((11, 0),),
    (12, 0): ((12, 0), (12, 1)),
    (12, 1): ((12, 1),),
}
_TEGRA = frozenset({(5, 3), (6, 2), (7, 2), (8, 7), (10, 1), (11, 0)})


class Coverage(StrEnum):
    """What one image means for one device."""

    EXACT = "exact"
    """The image was made for this device."""
    EXPECTED = "expected"
    """Binary compatible by NVIDIA's rule; not proven until a device has run it."""
    NONE = "none"
    """The image does not serve this device."""


@total_ordering
@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A GPU as verification sees it: a compute capability."""

    major: int
    minor: int

    @property
    def number(self) -> tuple[int, int]:
        """The capability as a pair."""
        return self.major, self.minor

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    def __lt__(self, other: Device) -> bool:
        return self.number < other.number


@total_ordering
@dataclass(frozen=True, slots=True, kw_only=True)
class Arch:
    """A compiler target: a capability, its suffix, and whether PTX is kept beside the code."""

    major: int
    minor: int
    suffix: str = ""
    ptx: bool = False

    @property
    def number(self) -> tuple[int, int]:
        """The capability as a pair."""
        return self.major, self.minor

    @property
    def code(self) -> str:
        """Digits and suffix as compilers spell them: ``120a``."""
        return f"{self.major}{self.minor}{self.suffix}"

    @property
    def device(self) -> Device:
        """The device that this target is first of all meant for."""
        return Device(major=self.major, minor=self.minor)

    @property
    def cmake(self) -> str:
        """One entry of CMAKE_CUDA_ARCHITECTURES: ``120a-real``, or ``120a`` to keep PTX."""
        return self.code if self.ptx else f"{self.code}-real"

    @property
    def token(self) -> str:
        """Letters and digits only, for file names and local versions: ``120a``, ``120ptx``."""
        return self.code + ("ptx" if self.ptx else "")

    @property
    def gencode(self) -> tuple[str, ...]:
        """The nvcc options that compile exactly this."""
        real = f"-gencode=arch=compute_{self.code},code=sm_{self.code}"
        virtual = f"-gencode=arch=compute_{self.code},code=compute_{self.code}"
        return (real, virtual) if self.ptx else (real,)

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}{self.suffix}" + ("+PTX" if self.ptx else "")

    def _order(self) -> tuple[int, int, str, bool]:
        return self.major, self.minor, self.suffix, self.ptx

    def __lt__(self, other: Arch) -> bool:
        return self._order() < other._order()


def _reject(text: str, advice: str) -> RecipeError:
    return RecipeError("arch-invalid", f"{text!r} is not an arch; {_RULE}", hint=advice)


def _advice(text: str) -> str:  # noqa: PLR0911 - a table of known slips
    bare = text.strip().strip("'\"")
    if not bare:
        return "name at least one arch, as 12.0a"
    if bare != text.strip():
        return f"leave the inner quotes out: {bare}"
    if bare.lower() in _NAMES:
        numbers = _NAMES[bare.lower()]
        return f"names mean other chips in other releases; write numbers, as {numbers}"
    packed = re.fullmatch(r"(?:sm|compute)?[_-]?(\d{1,2})(\d)([afAF]?)(?:-real|-virtual)?", bare)
    if packed and (int(packed[1]), int(packed[2])) in _CUDA_OF:
        return f"write {packed[1]}.{packed[2]}{packed[3].lower()}"
    if re.fullmatch(r"\d{1,2}", bare):
        known = [f"{a}.{b}" for a, b in _CUDA_OF if a == int(bare)]
        return f"give the minor number too, as {' or '.join(known) or '12.0'}"
    lowered = bare.lower().replace("+ptx", "+PTX")
    if lowered != bare and _ARCH.fullmatch(lowered):
        return f"write {lowered}"
    return "write it as 12.0, 12.0a, 12.0f or 9.0+PTX"


def parse_arch(text: str) -> Arch:
    """Read one arch.

    Raises:
        RecipeError: word ``arch-invalid`` (not in the grammar) or ``arch-unknown`` (no such GPU).
    """
    match = _ARCH.fullmatch(text)
    if match is None:
        raise _reject(text, _advice(text))
    arch = Arch(major=int(match[1]), minor=int(match[2]), suffix=match[3], ptx=match[4] is not None)
    if arch.number not in _CUDA_OF:
        known = ", ".join(f"{a}.{b}" for a, b in _CUDA_OF)
        raise RecipeError("arch-unknown", f"{text!r} is no known GPU", hint=f"known: {known}")
    if arch.suffix == "f" and arch.number not in _FAMILY:
        raise RecipeError(
            "arch-unknown",
            f"{text!r} has no family: f targets begin with 10.0",
            hint=f"write {arch.major}.{arch.minor}",
        )
    if arch.suffix == "a" and arch.number < (9, 0):
        raise RecipeError(
            "arch-unknown",
            f"{text!r} has no arch-specific target: a targets begin with 9.0",
            hint=f"write {arch.major}.{arch.minor}",
        )
    return arch


def canonical(archs: Iterable[Arch]) -> tuple[Arch, ...]:
    """Sort, drop what is named twice, and join ``X`` with ``X+PTX``."""
    wanted = set(archs)
    with_ptx = {(a.number, a.suffix) for a in wanted if a.ptx}
    return tuple(sorted(a for a in wanted if a.ptx or (a.number, a.suffix) not in with_ptx))


def parse_archs(text: str) -> tuple[Arch, ...]:
    """Read a list split on ``;``, ``,`` or blanks into its one canonical form.

    Raises:
        RecipeError: as :func:`parse_arch`; ``arch-invalid`` where the list is empty.
    """
    words = [word for word in _SEPARATORS.split(text) if word]
    if not words:
        raise _reject(text, _advice(""))
    return canonical(parse_arch(word) for word in words)


def format_archs(archs: Iterable[Arch]) -> str:
    """The canonical text of a list: ``9.0;12.0a``."""
    return ";".join(str(arch) for arch in archs)


def _device_advice(text: str) -> str:
    if match := _ARCH.fullmatch(text):
        return f"write {match[1]}.{match[2]}"
    advice = _advice(text)
    if not text or advice.startswith("write it as"):
        return "write it as 12.0"
    return re.sub(r"(\d\.\d)[af]", r"\1", advice)


def parse_device(text: str) -> Device:
    """Read a compute capability such as ``12.0``.

    Raises:
        RecipeError: word ``device-invalid``.
    """
    match = re.fullmatch(r"(\d{1,2})\.(\d)", text.strip(), re.ASCII)
    if match is None:
        raise RecipeError(
            "device-invalid",
            f"{text!r} is not a device; a device is a compute capability MAJOR.MINOR",
            hint=_device_advice(text.strip()),
        )
    return Device(major=int(match[1]), minor=int(match[2]))


def parse_cuda(text: str) -> tuple[int, int]:
    """Read a CUDA release such as ``13.0`` as a pair.

    Raises:
        RecipeError: word ``cuda-invalid``.
    """
    match = re.fullmatch(r"(\d{1,2})\.(\d)", text, re.ASCII)
    if match is None:
        raise RecipeError(
            "cuda-invalid", f"{text!r} is not a CUDA release; write MAJOR.MINOR", hint="as 13.0"
        )
    return int(match[1]), int(match[2])


def cuda_problem(arch: Arch, cuda: tuple[int, int]) -> str | None:
    """Why this CUDA release does not compile this arch, with the way out; None where it does."""
    first, gone = _CUDA_OF[arch.number]
    first = max(first, _SUFFIX_SINCE.get(arch.suffix, first))
    have = f"CUDA {cuda[0]}.{cuda[1]}"
    if cuda < first:
        return f"{have} is too old for {arch}: it needs {first[0]}.{first[1]} or newer"
    if gone is not None and cuda >= gone:
        return f"{have} is too new for {arch}: {gone[0]}.{gone[1]} dropped it"
    return None


def covers(image: Arch, device: Device) -> Coverage:
    """What a cubin made for ``image`` means for ``device``. PTX is not asked here."""
    if image.number == device.number:
        return Coverage.EXACT
    match image.suffix:
        case "a":
            return Coverage.NONE
        case "f":
            family = _FAMILY.get(image.number, ())
            return Coverage.EXPECTED if device.number in family else Coverage.NONE
        case _:
            newer = image.major == device.major and image.minor < device.minor
            tegra = {image.number, device.number} & _TEGRA
            return Coverage.EXPECTED if newer and not tegra else Coverage.NONE


def jit_serves(ptx: Arch, device: Device) -> bool:
    """Whether the driver can compile this PTX for ``device`` when the library is loaded."""
    match ptx.suffix:
        case "a":
            return ptx.number == device.number
        case "f":
            return device.number in _FAMILY.get(ptx.number, ())
        case _:
            return ptx.number <= device.number
