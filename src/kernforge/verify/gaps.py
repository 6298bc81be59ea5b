"""Kernels that a device cannot use: counted, by family, held against what is accepted. Pure.

A recipe names gaps that it knows of in a file (`verify.kernels.accepted_gaps`), one a line: a
shell pattern of a family as C++ writes it or of a name as compiled, with a device before it where
it is accepted there only. What the file does not accept is a fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from kernforge.arch import Device, parse_device
from kernforge.binary.facts import Library
from kernforge.binary.names import family
from kernforge.binary.summary import arch_summaries
from kernforge.errors import RecipeError, VerifyError
from kernforge.verify.evidence import Group, KernelAnswer, Service, grouped, tally
from kernforge.verify.fault import Fault

_SHOWN = 3
_DEVICE = re.compile(r"(\d\S*)(?:\s+(.*))?")
_WORDS = {
    Service.REFUSES: "kernel-refuses",
    Service.JIT: "kernel-jit",
    Service.NONE: "kernel-absent",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """One line of a baseline: kernels that need not serve ``device``, or None for every device."""

    pattern: str
    device: Device | None = None

    def __str__(self) -> str:
        return self.pattern if self.device is None else f"{self.device} {self.pattern}"

    def covers(self, answer: KernelAnswer) -> bool:
        """Whether it accepts a gap."""
        if self.device not in {None, answer.device}:
            return False
        if fnmatchcase(answer.name, self.pattern):
            return True
        return fnmatchcase(family(answer.name), self.pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sifted:
    """Gaps held against a baseline: the answers that it accepts, and the lines that do so."""

    known: frozenset[KernelAnswer]
    used: frozenset[Accepted]


def sift(answers: Iterable[KernelAnswer], accepted: tuple[Accepted, ...]) -> Sifted:
    """Hold every gap against every line, once."""
    gaps = [answer for answer in answers if answer.service.gap] if accepted else []
    pairs = [(answer, line) for answer in gaps for line in accepted if line.covers(answer)]
    return Sifted(
        known=frozenset(answer for answer, _ in pairs), used=frozenset(line for _, line in pairs)
    )


def parse_baseline(text: str, where: str = "baseline") -> tuple[Accepted, ...]:
    """Read a baseline; blank lines and ``#`` lines are left out.

    Raises:
        VerifyError: ``baseline-invalid``, with the line.
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.strip()
        if not words or words.startswith("#"):
            continue
        match = _DEVICE.fullmatch(words)
        if match is None:  # no kernel's name begins with a digit
            found.append(Accepted(pattern=words))
            continue
        found.append(_of_device(match, f"{where}:{number}"))
    return tuple(found)


def _of_device(match: re.Match[str], where: str) -> Accepted:
    hint = "write `12.0 PATTERN`, or a pattern alone"
    try:
        device = parse_device(match[1])
    except RecipeError as error:
        raise VerifyError("baseline-invalid", f"{where}: {error.message}", hint=hint) from error
    if not match[2]:
        raise VerifyError("baseline-invalid", f"{where}: {match[1]!r} has no pattern", hint=hint)
    return Accepted(pattern=match[2], device=device)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTable:
    """What the kernels of one library do on one device.

    Attributes:
        path: the library in the wheel.
        device: the device.
        counts: how many kernels give each answer, every answer in order.
        groups: kernels that do not plainly serve, by answer and family, the largest first.
        accepted: how many gaps the recipe's baseline accepts.
        code: what the library holds for each arch: label as ``12.0a`` and bytes of machine code.
    """

    path: str
    device: Device
    counts: tuple[tuple[Service, int], ...]
    groups: tuple[Group, ...]
    accepted: int
    code: tuple[tuple[str, int], ...]

    def count(self, *services: Service) -> int:
        """Kernels that give one of these answers."""
        return sum(number for service, number in self.counts if service in services)


def open_gaps(
    answers: Iterable[KernelAnswer], sifted: Sifted, *, allow_jit: bool
) -> tuple[KernelAnswer, ...]:
    """The kernels that a device cannot use and no line accepts; with ``allow_jit`` PTX will do."""
    return tuple(
        answer
        for answer in answers
        if answer.service.gap
        and not (allow_jit and answer.service is Service.JIT)
        and answer not in sifted.known
    )


def kernel_table(
    library: Library, device: Device, answers: tuple[KernelAnswer, ...], sifted: Sifted
) -> KernelTable:
    """The table of a library and device, from the answers of its kernels there."""
    return KernelTable(
        path=library.path,
        device=device,
        counts=tuple(tally(answers).get(device, dict.fromkeys(Service, 0)).items()),
        groups=grouped(answers),
        accepted=len(sifted.known),
        code=tuple((one.label, one.code_bytes) for one in arch_summaries(library)),
    )


def refusing_fault(
    table: KernelTable, open_ones: Iterable[KernelAnswer], total: int
) -> Fault | None:
    """The fault of a library whose code for a device refuses to work, or None.

    Args:
        table: of the library and device.
        open_ones: gaps that nothing accepts.
        total: kernels of the library.
    """
    bad = [answer for answer in open_ones if answer.service is Service.REFUSES]
    if not bad:
        return None
    groups = grouped(bad)
    told = [f"{len(group.names)} of {group.family!r}" for group in groups[:_SHOWN]]
    more = len(groups) - _SHOWN
    told += [f"{more} more famil{'ies' if more > 1 else 'y'}"] if more > 0 else []
    text = (
        f"{table.path}: device {table.device}: {len(bad)} of {total} kernels refuse to work: "
        f"{', '.join(told)} ({groups[0].reason})"
    )
    return Fault(word=_WORDS[Service.REFUSES], text=text, device=table.device)


def _required_fault(path: str, group: Group) -> Fault:
    many = f"{len(group.names)} kernel{'s' if len(group.names) > 1 else ''}"
    text = f"{path}: device {group.device}: {many} of {group.family!r}: {group.service}"
    return Fault(word=_WORDS[group.service], text=f"{text} ({group.reason})", device=group.device)


def required_faults(
    answers: Iterable[tuple[str, KernelAnswer]], patterns: Iterable[str], *, allow_jit: bool = False
) -> tuple[Fault, ...]:
    """Each pattern of kernel names must match, and every match must serve each device.

    Args:
        answers: the library of each kernel, and what the kernel does on a device.
        patterns: of names as compiled.
        allow_jit: whether PTX will do.

    Returns:
        Faults with the words ``kernel-missing``, ``kernel-refuses``, ``kernel-jit`` or
        ``kernel-absent``.
    """
    known = tuple(answers)
    faults = []
    for pattern in patterns:
        matching = [(path, one) for path, one in known if fnmatchcase(one.name, pattern)]
        if not matching:
            text = f"No library holds a kernel like {pattern!r}"
            faults.append(Fault(word="kernel-missing", text=text))
        for path in sorted({path for path, _ in matching}):
            groups = grouped(one for where, one in matching if where == path)
            faults += [
                _required_fault(path, group)
                for group in groups
                if group.service.gap and not (allow_jit and group.service is Service.JIT)
            ]
    return tuple(faults)
