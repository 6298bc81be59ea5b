"""Reports of the GPU probe: made here, or brought from where the GPU is, and kept for a wheel.

The store keeps one report a wheel and device, under the wheel's SHA-256: the last that was added.
So `build` and `publish` see what a GPU said of a wheel that was built before.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernforge.arch import Device
from kernforge.canonical import digest
from kernforge.errors import VerifyError
from kernforge.process import Command, Runner
from kernforge.store.local import Store
from kernforge.verify.device import GpuReport, Subject, judge_report, read_report, unfit
from kernforge.verify.ladder import Rung, merged

PROBE = Path(__file__).parent.parent / "inside/gpu_probe.py"
KIND = "report"
_FILE = "report.json"
_AGAIN = "make it again with kernforge verify WHEEL --gpu --report R.json"


def report_key(sha256: str, device: Device) -> str:
    """The key of a wheel's report for a device."""
    return digest({"gpu report": 1, "wheel": sha256, "device": str(device)})


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuOrder:
    """What the GPU probe is to do.

    Attributes:
        wheel: the file.
        report: where the report is written.
        smoke: the recipe's smoke program, which executes the wheel; None to execute nothing of it.
        python: the interpreter that runs the smoke program.
        env: environment of the probe: the user's own, since it runs on the user's GPU.
    """

    wheel: Path
    report: Path
    smoke: Path | None
    python: Path | None
    env: tuple[tuple[str, str], ...]


def make_report(order: GpuOrder, store: Store, *, runner: Runner) -> tuple[GpuReport, str]:
    """Load the wheel's device code on this machine's GPUs and write the report.

    Returns:
        The report, and what the probe said of it, for reading.

    Raises:
        VerifyError: ``gpu-missing`` where no GPU was reached, ``probe-failed``, or
            ``report-unwritable``.
    """
    with store.scratch() as scratch:
        made = scratch / _FILE
        argv = [sys.executable, "-I", str(PROBE), str(order.wheel.absolute()), "--report"]
        argv += [str(made)]
        if order.smoke is not None and order.python is not None:
            argv += ["--smoke", str(order.smoke.absolute())]
            argv += ["--python", str(order.python.absolute())]
        result = runner.run(Command(argv=tuple(argv), env=order.env))
        if not made.is_file():
            why = result.last_lines[-1] if result.last_lines else f"status {result.returncode}"
            raise VerifyError(
                "probe-failed",
                f"The GPU probe made no report of {order.wheel.name}: {why}",
                detail=result.last_lines,
            )
        report = read_report(made.read_bytes())
        if report.trouble is not None:
            raise VerifyError(
                "gpu-missing",
                f"No GPU was reached: {report.trouble}; loads and runs are not verified",
                hint="run it where the GPU is; it needs an NVIDIA driver of 12.4 or later",
            )
        _written(made, order.report)
    return report, result.text


def _written(made: Path, target: Path) -> None:
    try:
        shutil.copyfile(made, target)
    except OSError as error:
        raise VerifyError(
            "report-unwritable",
            f"The report cannot be written to {str(target)!r}: {error.strerror}",
        ) from error


def read_report_file(path: Path) -> GpuReport:
    """Read a report.

    Raises:
        VerifyError: ``report-missing``, or as :func:`kernforge.verify.device.read_report`.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise VerifyError(
            "report-missing", f"The report {str(path)!r} cannot be read: {error.strerror}"
        ) from error
    return read_report(data)


def keep_report(path: Path, hashes: Iterable[str], store: Store) -> GpuReport:
    """Keep a report for the wheel of one of these SHA-256; a former one of that device goes.

    Raises:
        VerifyError: ``report-missing``, ``report-invalid``, or ``report-unfit`` where it says
            nothing about any of these wheels; then nothing is kept.
        CacheError: it cannot be kept.
    """
    report = read_report_file(path)
    known = tuple(hashes)
    sha256 = report.wheel if report.wheel in known else known[0]
    if (why := unfit(report, sha256)) is not None:
        raise VerifyError("report-unfit", f"{str(path)!r} is not added: {why}", hint=_AGAIN)
    for result in report.results:
        key = report_key(sha256, result.device)
        with store.scratch() as scratch:
            shutil.copyfile(path, scratch / _FILE)
            store.remove(KIND, key)
            about = {"wheel_sha256": sha256, "device": str(result.device), "gpu": result.name}
            store.put(KIND, key, {_FILE: scratch / _FILE}, about)
    return report


def _kept(sha256: str, device: Device, store: Store) -> GpuReport | None:
    entry = store.get(KIND, report_key(sha256, device), told=lambda _text: None)
    return None if entry is None else read_report((entry.path / _FILE).read_bytes())


def gpu_rungs(
    subject: Subject, devices: tuple[Device, ...], store: Store | None, *, wanted: bool
) -> tuple[Rung, ...]:
    """The levels `loads` and `runs` of a wheel, by the reports that are kept of it.

    Args:
        subject: the wheel.
        devices: the devices asked about.
        store: where reports are kept, or None.
        wanted: whether one of these levels is demanded: then what is missing is told.
    """
    found = []
    for device in devices:
        report = _kept(subject.sha256, device, store) if store is not None else None
        if report is not None or wanted:
            found.append(judge_report(report, subject, (device,)))
    return tuple(merged(steps) for steps in zip(*found, strict=True))
