"""The verdict on a wheel: facts held against devices and a recipe's rules. Pure.

This version judges the level `code`. The levels above it are never called reached here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from kernforge.arch import Arch, Device, format_archs
from kernforge.binary.facts import Finding, Library, State
from kernforge.verify.coverage import (
    Served,
    Service,
    holds,
    holds_ptx,
    serve,
    served_names,
    unrequested,
)

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
        required: patterns of kernel names (as compiled); each device must get one of each.
        unjudged: demands of the recipe that this version cannot judge; told, never passed.
    """

    require: str
    extensions: tuple[tuple[str, tuple[Arch, ...] | None], ...] = ()
    archs: tuple[Arch, ...] = ()
    exact: bool = False
    allow_jit: bool = False
    required: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One reason why a wheel falls short: a stable word and a sentence.

    ``device`` is the device it concerns, or None where it concerns all.
    """

    word: str
    text: str
    device: Device | None = None


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
        host_only: libraries without device code.
        faults: why it falls short; none means that every judged demand is met.
        unjudged: demands that were not judged.
    """

    require: str
    devices: tuple[DeviceVerdict, ...]
    served: tuple[Served, ...]
    host_only: tuple[str, ...]
    faults: tuple[Fault, ...]
    unjudged: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the demanded level is reached on every device and nothing is at fault."""
        wanted = all(dict(device.levels)[self.require] is Answer.REACHED for device in self.devices)
        return wanted and not self.faults and bool(self.devices)


def _pattern(path: str, rules: Rules) -> str | None:
    matching = [glob for glob, _ in rules.extensions if fnmatchcase(path, glob)]
    return max(matching, key=len, default=None)


def _short(served: Served, *, allow_jit: bool) -> str | None:
    jit = allow_jit and served.service in {Service.JIT, Service.PARTIAL} and not served.absent
    if jit or served.service in {Service.SERVES, Service.EXPECTED}:
        return None
    match served.service:
        case Service.JIT if allow_jit:
            gap = f"{len(served.absent)} of {served.total} kernels have no PTX either"
            return f"{gap}, among them {served.absent[0]}"
        case Service.JIT:
            return "only PTX, which the driver would have to compile"
        case Service.PARTIAL:
            some = f"code for {served.kernels} of {served.total} kernels only"
            return f"{some}; none for {served.missing[0]}"
        case Service.EMPTY:
            return "images without a single kernel"
        case _:
            return f"no code ({served.total} kernels for other devices)"


def _unread_faults(library: Library) -> list[Fault]:
    found = library.findings[0].text if library.findings else "its kernels were not read"
    return [Fault(word="code-unread", text=f"{library.path}: cannot be judged: {found}")]


def _target_faults(library: Library, served: list[Served], rules: Rules) -> list[Fault]:
    faults = []
    for answer in served:
        if why := _short(answer, allow_jit=rules.allow_jit):
            text = f"{library.path}: device {answer.device} gets {why}"
            faults.append(Fault(word="code-missing", text=text, device=answer.device))
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


def _library_faults(library: Library, served: list[Served], rules: Rules) -> list[Fault]:
    glob = _pattern(library.path, rules)
    declared = dict(rules.extensions)[glob] if glob is not None else None
    if declared == () or (library.state is State.HOST_ONLY and glob is None):
        return []
    if library.state is State.HOST_ONLY:
        text = f"{library.path}: the recipe expects device code and there is none"
        return [Fault(word="code-missing", text=text)]
    if glob is None and rules.extensions:
        text = f"{library.path}: holds device code and no verify.extensions pattern names it"
        return [Fault(word="extension-unnamed", text=text)]
    if any(answer.service is Service.UNREAD for answer in served):
        return _unread_faults(library)
    if declared is not None:
        return _declared_faults(library, declared)
    return _target_faults(library, served, rules)


def _bare_faults(
    rows: list[Served], devices: tuple[Device, ...], rules: Rules, faults: list[Fault]
) -> list[Fault]:
    """Devices that no library holds any code for, where nothing else has said so."""
    told = {fault.device for fault in faults}
    used = {
        row.device
        for row in rows
        if row.kernels or (rules.allow_jit and row.service is Service.JIT)
    }
    return [
        Fault(word="code-missing", text=f"No library holds code for device {device}", device=device)
        for device in devices
        if rows and None not in told and device not in told | used
    ]


def _required_faults(
    libraries: tuple[Library, ...], devices: tuple[Device, ...], rules: Rules
) -> list[Fault]:
    faults = []
    for device in devices if rules.required else ():
        names = {
            name
            for library in libraries
            for name in served_names(library, device, jit=rules.allow_jit)
        }
        for pattern in rules.required:
            if not any(fnmatchcase(name, pattern) for name in names):
                text = f"device {device} gets no kernel like {pattern!r}"
                faults.append(Fault(word="kernel-missing", text=text, device=device))
    return faults


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
    rows: list[Served] = []
    for library in libraries:
        coded = library.state is not State.HOST_ONLY
        served = [serve(library, device) for device in devices] if coded else []
        rows += served
        faults += _library_faults(library, served, rules)
    faults += _required_faults(libraries, devices, rules)
    faults += _bare_faults(rows, devices, rules, faults)
    if not rows:
        faults.append(Fault(word="code-missing", text="No library of the wheel holds device code"))
    return Verdict(
        require=rules.require,
        devices=tuple(_device(device, faults) for device in devices),
        served=tuple(rows),
        host_only=tuple(lib.path for lib in libraries if lib.state is State.HOST_ONLY),
        faults=tuple(faults),
        unjudged=rules.unjudged,
    )


def _device(device: Device, faults: list[Fault]) -> DeviceVerdict:
    failed = any(fault.device in {None, device} for fault in faults)
    code = Answer.FAILED if failed else Answer.REACHED
    levels = [(level, code if level in _JUDGED else Answer.NOT_VERIFIED) for level in LEVELS]
    return DeviceVerdict(device=device, levels=tuple(levels))
