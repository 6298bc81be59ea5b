"""The verdict on a wheel: facts held against devices and a recipe's rules. Pure.

Judges the level `code`: library by library by what covers a device, kernel by kernel by what the
code does. The levels above it are never called reached here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase

from kernforge.arch import Arch, Device, format_archs
from kernforge.binary.facts import Finding, Library, State
from kernforge.verify.coverage import Served, Service, holds, holds_ptx, serve, unrequested
from kernforge.verify.evidence import KernelAnswer, weigh
from kernforge.verify.evidence import Service as Kernel
from kernforge.verify.fault import Fault
from kernforge.verify.gaps import (
    Accepted,
    KernelTable,
    kernel_table,
    open_gaps,
    refusing_fault,
    required_faults,
    sift,
)
from kernforge.verify.ptx import driver_fault

LEVELS = ("code", "links", "imports", "loads", "runs")
_JUDGED = ("code",)
_DAMAGE = frozenset(
    "archive-garbled member-bomb member-duplicate member-garbled member-unsafe member-unsupported "
    "findings-many".split()
)
"""Findings after which a wheel may hold, or install, other libraries than those that were read."""


class Answer(StrEnum):
    """What is known of a level for a device."""

    REACHED = "reached"
    FAILED = "failed"
    NOT_VERIFIED = "not verified"
    NOT_NEEDED = "not needed"
    """The wheel holds no device code and its recipe says that there is none."""

    @property
    def good(self) -> bool:
        """Whether the levels above may stand on it."""
        return self in {Answer.REACHED, Answer.NOT_NEEDED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a verdict demands.

    Attributes:
        require: the level that must be reached.
        extensions: pattern of a library's path and the archs that it must hold, or None for
            "serves the devices". Empty: every library with device code serves the devices.
        archs: the targets that were asked for; empty where a wheel of unknown origin is judged.
        exact: whether images of other targets are a fault.
        allow_jit: whether PTX counts as code.
        driver: the CUDA release of the driver that would compile it, as ``13.0``; None: any.
        device_code: whether the wheel holds device code at all; where not, any is a fault.
        required: patterns of kernel names (as compiled); each must match, and every match must
            serve each device.
        accepted: gaps that are known and no fault.
    """

    require: str
    extensions: tuple[tuple[str, tuple[Arch, ...] | None], ...] = ()
    archs: tuple[Arch, ...] = ()
    exact: bool = False
    allow_jit: bool = False
    driver: str | None = None
    device_code: bool = True
    required: tuple[str, ...] = ()
    accepted: tuple[Accepted, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceVerdict:
    """The answer for one device: each level in order with what is known of it."""

    device: Device
    levels: tuple[tuple[str, Answer], ...]

    @property
    def reached(self) -> str | None:
        """The highest level reached, or None."""
        reached = [level for level, answer in self.levels if answer is Answer.REACHED]
        return reached[-1] if reached else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The judgement on a wheel.

    Attributes:
        require: the level demanded.
        devices: one answer a device.
        served: one line a library and device.
        tables: one table of kernels a library and device, in the order of ``served``; none for
            a library that could not be read.
        host_only: libraries without device code.
        faults: why it falls short; none means that every judged demand is met.
        notes: what a reader should know: what was not verified, and why; demands without effect.
    """

    require: str
    devices: tuple[DeviceVerdict, ...]
    served: tuple[Served, ...]
    tables: tuple[KernelTable, ...]
    host_only: tuple[str, ...]
    faults: tuple[Fault, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the demanded level is reached on every device and nothing is at fault."""
        wanted = all(dict(device.levels)[self.require].good for device in self.devices)
        return wanted and not self.faults and bool(self.devices)


def _pattern(path: str, rules: Rules) -> str | None:
    matching = [glob for glob, _ in rules.extensions if fnmatchcase(path, glob)]
    return max(matching, key=len, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weighed:
    """A library with device code and one device: what covers it, what its kernels do."""

    served: Served
    answers: tuple[KernelAnswer, ...] = ()
    open_ones: tuple[KernelAnswer, ...] = ()
    table: KernelTable | None = None
    used: frozenset[Accepted] = frozenset()


def _weighed(library: Library, device: Device, rules: Rules) -> _Weighed:
    served = serve(library, device)
    if served.service is Service.UNREAD:
        return _Weighed(served=served)
    answers = weigh(library, [device])
    sifted = sift(answers, rules.accepted)
    open_ones = open_gaps(answers, sifted, allow_jit=rules.allow_jit)
    table = kernel_table(library, device, answers, sifted)
    if served.service in {Service.SERVES, Service.EXPECTED} and table.count(Kernel.REFUSES):
        served = replace(served, service=Service.REFUSES)
    return _Weighed(
        served=served, answers=answers, open_ones=open_ones, table=table, used=sifted.used
    )


def _short(one: _Weighed) -> str | None:
    """What a device lacks in a library; None where it lacks nothing, or nothing that matters."""
    served = one.served
    absent = [answer for answer in one.open_ones if answer.service is not Kernel.REFUSES]
    if one.answers and not absent:
        return None
    match served.service:
        case Service.JIT if all(answer.service is Kernel.NONE for answer in absent):
            gap = f"{len(absent)} of {served.total} kernels have no PTX either"
            return f"{gap}, among them {absent[0].name}"
        case Service.JIT:
            return "only PTX, which the driver would have to compile"
        case Service.PARTIAL:
            some = f"code for {served.kernels} of {served.total} kernels only"
            return f"{some}; none for {absent[0].name}"
        case Service.EMPTY:
            return "images without a single kernel"
        case _:
            return f"no code ({served.total} kernels for other devices)"


def _unread_faults(library: Library) -> list[Fault]:
    found = library.findings[0].text if library.findings else "its kernels were not read"
    return [Fault(word="code-unread", text=f"{library.path}: cannot be judged: {found}")]


def _device_faults(library: Library, one: _Weighed, rules: Rules) -> list[Fault]:
    device, faults = one.served.device, []
    if why := _short(one):
        text = f"{library.path}: device {device} gets {why}"
        faults.append(Fault(word="code-missing", text=text, device=device))
    if one.table and (refuses := refusing_fault(one.table, one.open_ones, one.served.total)):
        faults.append(refuses)
    if rules.allow_jit and (newer := driver_fault(library, one.answers, rules.driver)):
        faults.append(newer)
    return faults


def _target_faults(library: Library, found: list[_Weighed], rules: Rules) -> list[Fault]:
    faults = [fault for one in found for fault in _device_faults(library, one, rules)]
    for arch in rules.archs:
        if not holds(library, arch):
            text = f"{library.path}: the target {arch} was asked for and is not in it"
            faults.append(Fault(word="target-missing", text=text))
        elif arch.ptx and not holds_ptx(library, arch):
            text = f"{library.path}: PTX of {arch} was asked for and is not in it"
            faults.append(Fault(word="ptx-missing", text=text))
    if rules.exact and (extra := unrequested(library, rules.archs)):
        wanted = format_archs(rules.archs)
        text = f"{library.path}: holds {', '.join(extra)}, asked for was {wanted}"
        faults.append(Fault(word="target-unrequested", text=text))
    return faults


def _declared_faults(library: Library, archs: tuple[Arch, ...]) -> list[Fault]:
    return [
        Fault(word="target-missing", text=f"{library.path}: holds no kernel for the declared {a}")
        for a in archs
        if not holds(library, a)
    ]


def _unmatched(paths: list[str], rules: Rules) -> list[Fault]:
    return [
        Fault(word="extension-missing", text=f"verify.extensions {glob!r} matches no library")
        for glob, _ in rules.extensions
        if not any(fnmatchcase(path, glob) for path in paths)
    ]


def _coded_faults(library: Library, glob: str | None, rules: Rules) -> list[Fault] | None:
    """What is wrong with there being device code, or none; None where it has still to be judged."""
    if library.state is State.HOST_ONLY:
        if glob is None:
            return []
        text = f"{library.path}: the recipe expects device code and there is none"
        return [Fault(word="code-missing", text=text)]
    if glob is None and rules.extensions:
        text = f"{library.path}: holds device code and no verify.extensions pattern names it"
        return [Fault(word="extension-unnamed", text=text)]
    return None


def _library_faults(library: Library, found: list[_Weighed], rules: Rules) -> list[Fault]:
    glob = _pattern(library.path, rules)
    declared = dict(rules.extensions)[glob] if glob is not None else None
    if library.state is State.DEVICE_CODE and not rules.device_code:
        what = "the recipe says that there is none (verify.device_code: false)"
        text = f"{library.path}: holds device code, and {what}"
        return [Fault(word="code-unexpected", text=text)]
    if declared == ():
        return []
    if (told := _coded_faults(library, glob, rules)) is not None:
        return told
    if any(one.served.service is Service.UNREAD for one in found):
        return _unread_faults(library)
    if declared is not None:
        return _declared_faults(library, declared)
    return _target_faults(library, found, rules)


def _bare_faults(
    found: list[_Weighed], devices: tuple[Device, ...], rules: Rules, faults: list[Fault]
) -> list[Fault]:
    """Devices that no library holds usable code for, where nothing else has said so."""
    usable = [Kernel.SERVES, Kernel.DOUBTFUL, *([Kernel.JIT] if rules.allow_jit else [])]
    told = {fault.device for fault in faults}
    used = {one.table.device for one in found if one.table and one.table.count(*usable)}
    return [
        Fault(word="code-missing", text=f"No library holds code for device {device}", device=device)
        for device in devices
        if found and None not in told and device not in told | used
    ]


def judge(
    libraries: tuple[Library, ...],
    devices: tuple[Device, ...],
    rules: Rules,
    findings: tuple[Finding, ...] = (),
) -> Verdict:
    """Hold the libraries of a wheel against devices and rules.

    Args:
        libraries: every library that was read.
        devices: the devices asked about.
        rules: what is demanded.
        findings: what is wrong with the wheel as an archive; where libraries may have been
            missed, nothing is called reached.
    """
    damage = [finding.text for finding in findings if finding.word in _DAMAGE]
    faults = [Fault(word="wheel-damaged", text=f"The wheel is damaged: {text}") for text in damage]
    faults += _unmatched([library.path for library in libraries], rules)
    found: list[_Weighed] = []
    for library in libraries:
        coded = library.state is not State.HOST_ONLY
        weighed = [_weighed(library, device, rules) for device in devices] if coded else []
        found += weighed
        faults += _library_faults(library, weighed, rules)
    answers = [(one.served.path, answer) for one in found for answer in one.answers]
    faults += required_faults(answers, rules.required, allow_jit=rules.allow_jit)
    faults += _bare_faults(found, devices, rules, faults)
    if not found and rules.device_code:
        faults.append(Fault(word="code-missing", text="No library of the wheel holds device code"))
    used = {line for one in found for line in one.used}
    return Verdict(
        require=rules.require,
        devices=tuple(_device(device, faults, rules) for device in devices),
        served=tuple(one.served for one in found),
        tables=tuple(one.table for one in found if one.table is not None),
        host_only=tuple(lib.path for lib in libraries if lib.state is State.HOST_ONLY),
        faults=tuple(faults),
        notes=tuple(
            f"accepted_gaps: no gap is like {str(line)!r}"
            for line in rules.accepted
            if line not in used
        ),
    )


def _device(device: Device, faults: list[Fault], rules: Rules) -> DeviceVerdict:
    failed = any(fault.device in {None, device} for fault in faults)
    good = Answer.REACHED if rules.device_code else Answer.NOT_NEEDED
    code = Answer.FAILED if failed else good
    levels = [(level, code if level in _JUDGED else Answer.NOT_VERIFIED) for level in LEVELS]
    return DeviceVerdict(device=device, levels=tuple(levels))
