"""The levels `loads` and `runs`, by the report of the GPU probe. Pure.

The probe ran where the GPU is; here its report is held against the wheel and its facts. A report
of another wheel, or one that was changed by hand, proves nothing and leaves both levels open. The
seal tells edits; it is no signature, and whoever makes reports must be trusted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kernforge.arch import Device, parse_device
from kernforge.binary.facts import Library, State
from kernforge.binary.names import plain_name
from kernforge.errors import KernforgeError, VerifyError
from kernforge.verify.coverage import served_names
from kernforge.verify.evidence import weigh
from kernforge.verify.fault import Fault
from kernforge.verify.ladder import Rung, rung
from kernforge.verify.ptx import driver_fault

FORMAT = 1
_MEANINGS = {
    209: "no code for this GPU",
    221: "PTX, and the driver's compiler is not installed",
    218: "PTX that this driver cannot compile",
    222: "PTX of a newer toolkit than the driver",
    223: "PTX alone, and the driver's compiler is switched off",
    200: "an image that is no device code, or damaged",
    2: "too little GPU memory",
}
"""Codes of CUresult (cuda.h) that a load can end with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedLibrary:
    """What one GPU made of one library.

    Attributes:
        path: the library in the wheel.
        outcome: ``done``, ``failed`` (the driver refused the GPU), ``crashed`` or ``hung``.
        kernels: comparable names of the kernels that resolve.
        errors: (driver code, its name), each once, sorted.
        unresolved: comparable names of kernels that are there and do not load.
    """

    path: str
    outcome: str
    kernels: frozenset[str]
    errors: tuple[tuple[int, str], ...]
    unresolved: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoke:
    """How the smoke program ended: ``passed``, ``failed`` or ``hung``, and its last output."""

    sha256: str
    outcome: str
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceResult:
    """What one GPU made of the wheel."""

    device: Device
    name: str
    libraries: tuple[LoadedLibrary, ...]
    smoke: Smoke | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReport:
    """A report of the GPU probe.

    Attributes:
        wheel: SHA-256 of the wheel that it ran on.
        sealed: whether it is as the probe wrote it.
        driver: the driver's CUDA level, as ``13.0``; None where no driver was reached.
        trouble: why no GPU was reached, or None.
        results: one a compute capability.
    """

    wheel: str
    sealed: bool
    driver: str | None
    trouble: str | None
    results: tuple[DeviceResult, ...]


def _seal(document: dict[str, Any]) -> str:
    body = {key: value for key, value in document.items() if key != "seal"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _library(item: dict[str, Any]) -> LoadedLibrary:
    errors = item.get("errors", [])
    codes = [(int(e["code"]), str(e["name"])) for e in errors]
    if "failed" in item:
        codes.append((int(item["failed"]["code"]), str(item["failed"]["name"])))
    return LoadedLibrary(
        path=str(item["path"]),
        outcome=str(item["outcome"]),
        kernels=frozenset(plain_name(str(name)) for name in item.get("kernels", [])),
        errors=tuple(sorted(set(codes))),
        unresolved=frozenset(plain_name(str(e["kernel"])) for e in errors if "kernel" in e),
    )


def _result(item: dict[str, Any]) -> DeviceResult:
    smoke = item["smoke"]
    return DeviceResult(
        device=parse_device(str(item["device"]["capability"])),
        name=str(item["device"]["name"]),
        libraries=tuple(_library(library) for library in item["libraries"]),
        smoke=None
        if smoke is None
        else Smoke(
            sha256=str(smoke["sha256"]),
            outcome=str(smoke["outcome"]),
            output=str(smoke["output"]),
        ),
    )


def _check_format(number: object) -> None:
    if number != FORMAT:
        raise ValueError(f"format {number!r}")


def read_report(data: bytes) -> GpuReport:
    """Read what the GPU probe wrote.

    Raises:
        VerifyError: ``report-invalid`` where it is no such document.
    """
    try:
        document = json.loads(data)
        _check_format(document["format"])
        version, trouble = document["driver"], document["trouble"]
        return GpuReport(
            wheel=str(document["wheel"]["sha256"]),
            sealed=document["seal"] == _seal(document),
            driver=None if version is None else f"{version // 1000}.{version % 1000 // 10}",
            trouble=None if trouble is None else _trouble(trouble),
            results=tuple(_result(item) for item in document["results"]),
        )
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
        KernforgeError,
    ) as error:
        raise VerifyError(
            "report-invalid",
            f"The document is no GPU report of format {FORMAT}: {error!r}",
            hint="make it again with kernforge verify --gpu --report R.json",
        ) from error


def _trouble(found: dict[str, Any]) -> str:
    failed = found.get("failed")
    return f"{failed['call']}: {failed['name']}" if failed else str(found["outcome"])


def unfit(report: GpuReport, sha256: str) -> str | None:
    """Why a report says nothing about the wheel of a SHA-256; None where it does."""
    if report.wheel != sha256:
        return f"the report is of another wheel ({report.wheel[:12]}, this is {sha256[:12]})"
    if not report.sealed:
        return "the report was changed after it was made"
    if report.trouble is not None:
        return f"no GPU was reached ({report.trouble})"
    return None


def _told(errors: Iterable[tuple[int, str]]) -> str:
    parts = [f"{_MEANINGS.get(code, name)} (error {code}, {name})" for code, name in errors]
    return "; ".join(parts) if parts else "no error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The wheel that a report is held against.

    Attributes:
        sha256: of the wheel.
        libraries: its facts, with kernels.
        smoke: SHA-256 of the recipe's smoke program; None where it has none.
        allow_jit: whether PTX counts as code: then a library of PTX alone is no fault, and open.
    """

    sha256: str
    libraries: tuple[Library, ...]
    smoke: str | None = None
    allow_jit: bool = False


def _load_fault(
    library: Library, loaded: LoadedLibrary | None, device: Device
) -> tuple[str, str] | None:
    """Word and sentence where a library does not do on the GPU what its facts promise."""
    expected = served_names(library, device)
    if loaded is None:
        return ("load-missing", "is not in the report") if expected else None
    if loaded.outcome != "done":
        return "load-failed", f"{loaded.outcome} while it was loaded: {_told(loaded.errors)}"
    if lost := sorted(expected - loaded.kernels):
        many = f"{len(lost)} of {len(expected)} kernels do not load, among them {lost[0]!r}"
        return "load-missing", f"{many}: {_told(loaded.errors)}"
    return None


def _load_faults(subject: Subject, result: DeviceResult, driver: str | None) -> list[Fault]:
    device = result.device
    by_path = {one.path: one for one in result.libraries}
    faults = []
    coded = [library for library in subject.libraries if library.state is State.DEVICE_CODE]
    for library in coded:
        if told := _load_fault(library, by_path.get(library.path), device):
            text = f"{library.path}: on {result.name} ({device}): {told[1]}"
            faults.append(Fault(word=told[0], text=text, device=device))
        newer = driver_fault(library, weigh(library, [device]), driver)
        if subject.allow_jit and newer is not None:
            faults.append(newer)
    if not faults and not _tried(result) and not _waits(subject, device):
        errors = sorted({error for one in result.libraries for error in one.errors})
        what = _told(errors) if errors else _silent(subject, device)
        text = f"No kernel of the wheel loads on {result.name} ({device}): {what}"
        faults.append(Fault(word="load-nothing", text=text, device=device))
    return faults


def _silent(subject: Subject, device: Device) -> str:
    """Why nothing loads though the driver names no error: it takes a container without code."""
    jit = any(served_names(library, device, jit=True) for library in subject.libraries)
    return (
        "no machine code for this GPU, only PTX that the driver would have to compile"
        if jit
        else "no code for this GPU (a kernel of it, launched, ends with error 209)"
    )


def _tried(result: DeviceResult) -> bool:
    """Whether any kernel was loaded: the driver's compiler is off, so that PTX never is."""
    return any(one.kernels for one in result.libraries)


def _waits(subject: Subject, device: Device) -> bool:
    """Whether the recipe is content with PTX that the probe does not have compiled."""
    return subject.allow_jit and any(
        served_names(library, device, jit=True) - served_names(library, device)
        for library in subject.libraries
    )


def _smoke_faults(result: DeviceResult, smoke: str) -> tuple[list[Fault], str | None]:
    """Faults of the smoke program, and why nothing is known."""
    ran = result.smoke
    if ran is None:
        return [], "the report holds no smoke run"
    if ran.sha256 != smoke:
        return [], "the report is of another smoke program"
    if ran.outcome == "passed":
        return [], None
    lines = [line for line in ran.output.splitlines() if line.strip()]
    last = lines[-1][:300] if lines else "no output"
    text = f"The smoke program {ran.outcome} on {result.name} ({result.device}): {last}"
    return [Fault(word="smoke-failed", text=text, device=result.device)], None


def judge_report(
    report: GpuReport | None, subject: Subject, devices: tuple[Device, ...]
) -> tuple[Rung, Rung]:
    """The levels `loads` and `runs`.

    Args:
        report: what the GPU probe wrote; None where there is none.
        subject: the wheel that is judged.
        devices: the devices asked about.

    Returns:
        One rung for each level. A device that the report has no GPU for is not verified, nor is
        one for which kernels wait for the driver's compiler. Faults have the words
        ``load-failed``, ``load-missing``, ``load-nothing``, ``ptx-newer`` and ``smoke-failed``.
    """
    why = "no report of a GPU was added" if report is None else unfit(report, subject.sha256)
    if report is None or why is not None:
        return (
            rung("loads", devices, (), unknown=f"loads: not verified: {why}"),
            rung("runs", devices, (), unknown=f"runs: not verified: {why}"),
        )
    results = {result.device: result for result in report.results}
    seen = tuple(device for device in devices if device in results)
    notes = [f"loads: {d}: not verified: no such GPU" for d in devices if d not in results]
    faults = [f for d in seen for f in _load_faults(subject, results[d], report.driver)]
    waiting = [d for d in seen if _waits(subject, d)]
    notes += [f"loads: {d}: not verified: its PTX was not compiled" for d in waiting]
    told = {fault.device for fault in faults}
    known = [d for d in seen if d not in waiting or d in told]
    loads = rung("loads", known, faults, notes=tuple(notes))
    return loads, _runs(results, seen, subject.smoke)


def _runs(
    results: dict[Device, DeviceResult], devices: tuple[Device, ...], smoke: str | None
) -> Rung:
    if smoke is None:
        return rung("runs", devices, (), unknown="runs: not verified: the recipe has no smoke")
    faults: list[Fault] = []
    notes = []
    known = []
    for device in devices:
        found, unknown = _smoke_faults(results[device], smoke)
        faults += found
        if unknown is None:
            known.append(device)
        else:
            notes.append(f"runs: {device}: not verified: {unknown}")
    return rung("runs", known, faults, notes=tuple(notes))
