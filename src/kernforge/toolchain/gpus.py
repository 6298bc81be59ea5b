"""The GPUs of this machine, asked of nvidia-smi: their compute capabilities and the driver."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kernforge.errors import KernforgeError
from kernforge.process import Command, Runner

_SECONDS = 60.0
_CAPABILITY = re.compile(r"\d{1,2}\.\d", re.ASCII)
_DRIVER = re.compile(r"CUDA (?:UMD )?Version:\s*(\d+\.\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """What nvidia-smi says.

    Attributes:
        devices: compute capabilities, one a GPU, as ``12.0``.
        driver: the CUDA release that the driver supports, or None.
        trouble: why there is none; None where there is one.
        detail: the program's own last lines.
    """

    devices: tuple[str, ...]
    driver: str | None
    trouble: str | None = None
    detail: tuple[str, ...] = ()


def ask_gpus(*, path: str, runner: Runner) -> Gpus:
    """Ask for the machine's GPUs; never raises for want of one.

    Args:
        path: PATH, to find nvidia-smi.
        runner: runs it.
    """
    env = (("PATH", path), ("LC_ALL", "C.UTF-8"))
    words = ("env", "nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader")
    try:
        found = runner.run(Command(argv=words, env=env), timeout=_SECONDS)
    except KernforgeError as error:
        return _none(f"nvidia-smi cannot be started: {error.message}")
    if found.returncode != 0:
        why = "nvidia-smi is not there or does not answer"
        return _none(why, found.last_lines[-3:])
    lines = [line.strip() for line in found.text.splitlines()]
    devices = tuple(line for line in lines if _CAPABILITY.fullmatch(line))
    if not devices:
        return _none("nvidia-smi names no GPU")
    driver = _DRIVER.search(runner.run(Command(argv=words[:2], env=env), timeout=_SECONDS).text)
    return Gpus(devices=devices, driver=driver[1] if driver else None)


def _none(why: str, detail: tuple[str, ...] = ()) -> Gpus:
    return Gpus(devices=(), driver=None, trouble=why, detail=detail)
