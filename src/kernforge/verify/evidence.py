"""What each kernel does on a device: serve, refuse, wait for JIT compilation, or nothing. Pure.

Code is not enough: kernels written for another arch compile cleanly, into traps as large as the
real thing or into a body that returns at once. No single sign convicts. Weighed together are trap
instructions, tensor core instructions here and in the same kernel for other archs, the size of the
code against those, the texts of refusal in the image, and names of kernels that cannot be without
tensor cores. An ordinary ``assert`` leaves traps too and accuses nobody.

Thresholds were measured on sglang-kernel 0.4.10 and sgl-kernel 0.3.21 (`docs/verify.md`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from kernforge.arch import Arch, Coverage, Device, covers, jit_serves
from kernforge.binary.facts import ImageKind, Library
from kernforge.binary.names import family, plain_name

_TINY = 768
"""Bytes of code up to which a kernel may be an empty shell: shells seen have 256 to 768."""
_SHRUNK = 8
"""How many times larger another arch's code must be before a tiny kernel counts as a shell."""
_RANK = {"": 0, "f": 1, "a": 2}
_TENSOR_NAME = re.compile(
    r"MainloopSm\d|Tma[GU]mma|[GU]mmaWarp|Fmha\w*Tma|FlashAttnFwdSm\d|SM90_64x|SM100_MMA"
    r"|SM120_16x|gemm_sm(?:90|100|120)|sm(?:90|100|120)_\w*gemm"
)
"""Compiled names of kernels whose work is done by tensor cores of one generation."""


class Service(StrEnum):
    """What a kernel does on a device."""

    SERVES = "serves"
    """Code for the device, and nothing that speaks against it."""
    DOUBTFUL = "doubtful"
    """Code for the device with some signs of refusal; only a run on the device can tell."""
    REFUSES = "refuses"
    """Code for the device that traps, or returns at once, instead of doing its work."""
    JIT = "jit only"
    """No code, but PTX that the driver could compile."""
    NONE = "none"
    """Neither code nor usable PTX."""

    @property
    def gap(self) -> bool:
        """Whether the kernel cannot be used on the device as it is."""
        return self in {Service.REFUSES, Service.JIT, Service.NONE}


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelAnswer:
    """The answer for one kernel and device.

    Attributes:
        name: comparable name as compiled, see :func:`kernforge.binary.names.plain_name`.
        device: the device asked about.
        service: the answer.
        reason: the evidence in words; empty where it serves.
    """

    name: str
    device: Device
    service: Service
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Code:
    """One kernel compiled for one arch, all its copies together."""

    arch: Arch
    size: int
    traps: int
    matrix: bool
    texts: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Forms:
    """Everything a library holds of one kernel."""

    name: str
    codes: tuple[_Code, ...]
    ptx: tuple[Arch, ...]


def _joined(old: _Code | None, new: _Code) -> _Code:
    """Two copies of a kernel for one arch: the signs against it add up."""
    if old is None:
        return new
    return _Code(
        arch=old.arch,
        size=max(old.size, new.size),
        traps=max(old.traps, new.traps),
        matrix=old.matrix or new.matrix,
        texts=old.texts | new.texts,
    )


def _forms(library: Library) -> tuple[_Forms, ...]:
    """The kernels of a library, sorted by name; device links and relocatable images left out."""
    codes: dict[str, dict[Arch, _Code]] = {}
    ptx: dict[str, set[Arch]] = {}
    for image in library.images:
        texts = frozenset(image.refusals)
        for kernel in image.kernels or ():
            name = plain_name(kernel.name)
            if image.kind is ImageKind.PTX:
                ptx.setdefault(name, set()).add(image.arch)
            elif image.serves_code:
                row = codes.setdefault(name, {})
                new = _Code(
                    arch=image.arch,
                    size=kernel.code_bytes,
                    traps=kernel.traps,
                    matrix=kernel.matrix,
                    texts=texts,
                )
                row[image.arch] = _joined(row.get(image.arch), new)
    return tuple(
        _Forms(
            name=name,
            codes=tuple(code for _, code in sorted(codes.get(name, {}).items())),
            ptx=tuple(sorted(ptx.get(name, ()))),
        )
        for name in sorted({*codes, *ptx})
    )


def _chosen(forms: _Forms, device: Device) -> _Code | None:
    """The code that the driver takes: the nearest arch, the narrowest suffix."""
    fitting = [code for code in forms.codes if covers(code.arch, device) is not Coverage.NONE]
    return max(fitting, key=lambda c: (c.arch.number, _RANK[c.arch.suffix]), default=None)


def _told(code: _Code, *more: str) -> str:
    traps = f"{code.traps} trap{'s' if code.traps != 1 else ''}" if code.traps else ""
    size = f"{code.size} bytes of code for {code.arch}"
    text = f"the image says {min(code.texts)!r}" if code.texts else ""
    return ", ".join(part for part in (size, traps, *more, text) if part)


def _weigh_tensor(here: _Code, others: list[_Code]) -> tuple[Service, str]:
    """Code that uses tensor cores: at most some branch of it refuses."""
    able = [code.traps for code in others if code.matrix]
    if here.texts and able and here.traps > min(able):
        why = f"tensor cores are used, but {min(able)} traps would do for another arch"
        return Service.DOUBTFUL, _told(here, why)
    return Service.SERVES, ""


def _weigh_lost(here: _Code, able: list[_Code]) -> tuple[Service, str]:
    """Code without tensor core instructions where other archs have them."""
    best = max(able, key=lambda code: code.size)
    lost = f"no tensor core instruction, {best.arch} has them in {best.size} bytes"
    if here.traps or (here.size <= _TINY and best.size >= _SHRUNK * here.size):
        return Service.REFUSES, _told(here, lost)
    if here.texts:
        return Service.DOUBTFUL, _told(here, lost)
    return Service.SERVES, ""


def _weigh_plain(here: _Code, others: list[_Code], name: str) -> tuple[Service, str]:
    """Code without tensor core instructions, and none for any other arch either."""
    tensor = _TENSOR_NAME.search(name) is not None
    named = "no tensor core instruction in a kernel named for them" if tensor else ""
    if tensor and (here.size <= _TINY or (here.traps and here.texts)):
        return Service.REFUSES, _told(here, named)
    if here.size <= _TINY and here.traps and here.texts:
        return Service.REFUSES, _told(here)
    largest = max((code.size for code in others), default=0)
    if here.size <= _TINY and largest >= _SHRUNK * here.size:
        return Service.DOUBTFUL, _told(here, f"another arch has {largest}")
    # The same traps where no text explains them are ordinary assertions.
    ordinary = any(code.traps >= here.traps and not code.texts for code in others)
    if here.traps and here.texts and not ordinary:
        return Service.DOUBTFUL, _told(here)
    return Service.SERVES, ""


def _weigh_code(here: _Code, forms: _Forms) -> tuple[Service, str]:
    others = [code for code in forms.codes if code.arch != here.arch]
    if here.matrix:
        return _weigh_tensor(here, others)
    able = [code for code in others if code.matrix]
    return _weigh_lost(here, able) if able else _weigh_plain(here, others, forms.name)


def _weigh(forms: _Forms, device: Device) -> KernelAnswer:
    here = _chosen(forms, device)
    if here is not None:
        service, reason = _weigh_code(here, forms)
    elif usable := [arch for arch in forms.ptx if jit_serves(arch, device)]:
        service, reason = Service.JIT, f"PTX of {usable[-1]}"
    else:
        have = ", ".join([*(str(c.arch) for c in forms.codes), *(f"{a}+PTX" for a in forms.ptx)])
        service, reason = Service.NONE, f"only {have}"
    return KernelAnswer(name=forms.name, device=device, service=service, reason=reason)


def weigh(library: Library, devices: Iterable[Device]) -> tuple[KernelAnswer, ...]:
    """What each kernel of a library does on each device, by name, then device.

    Images whose kernels were not read say nothing; `policy` refuses such libraries.
    """
    wanted = tuple(devices)
    return tuple(_weigh(forms, device) for forms in _forms(library) for device in wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Kernels of one family with the same answer on one device.

    Attributes:
        family: demangled, without parameters, see :func:`kernforge.binary.names.family`.
        device: the device.
        service: their answer.
        names: their names as compiled, sorted.
        reason: that of the first of them.
    """

    family: str
    device: Device
    service: Service
    names: tuple[str, ...]
    reason: str


def grouped(answers: Iterable[KernelAnswer], *, serving: bool = False) -> tuple[Group, ...]:
    """Answers gathered by device, answer and family, the largest groups first.

    Args:
        answers: from :func:`weigh`.
        serving: whether kernels that serve are told too.
    """
    found: dict[tuple[Device, Service, str], list[KernelAnswer]] = {}
    for answer in answers:
        if answer.service is not Service.SERVES or serving:
            key = (answer.device, answer.service, family(answer.name))
            found.setdefault(key, []).append(answer)
    groups = (
        Group(
            family=kin,
            device=device,
            service=service,
            names=tuple(sorted(answer.name for answer in members)),
            reason=members[0].reason,
        )
        for (device, service, kin), members in found.items()
    )
    return tuple(sorted(groups, key=lambda g: (g.device, -len(g.names), g.service, g.family)))


def tally(answers: Iterable[KernelAnswer]) -> dict[Device, dict[Service, int]]:
    """How many kernels give each answer on each device; every answer is counted, 0 too."""
    counts: dict[Device, dict[Service, int]] = {}
    for answer in answers:
        row = counts.setdefault(answer.device, dict.fromkeys(Service, 0))
        row[answer.service] += 1
    return dict(sorted(counts.items()))
