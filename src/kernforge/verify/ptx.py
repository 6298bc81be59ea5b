"""PTX and the driver that would have to compile it: a driver refuses PTX of a newer toolkit. Pure.

From CUDA 11 on a PTX ISA version is that of its toolkit, the major less four; 12.6 kept the ISA of
12.5, so that 8.6 came with 12.7 and 8.8 with 12.9 (the release table of the PTX ISA manual as the
CUDA Python bindings have it, read 2026-11-30).
Machine code knows no such rule within a major release.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kernforge.arch import jit_serves, parse_cuda
from kernforge.binary.facts import ImageKind, Library
from kernforge.binary.names import plain_name
from kernforge.verify.evidence import KernelAnswer, Service
from kernforge.verify.fault import Fault

_OLDEST = (11, 0)
_SKIPPED = (12, 6)


def isa_release(isa: str | None) -> tuple[int, int] | None:
    """The first CUDA release whose driver compiles a PTX ISA version; None where it is not known.

    ISA versions before 7.0 count as CUDA 11.0: no driver that kernforge can ask is older.
    """
    match = re.fullmatch(r"(\d{1,2})\.(\d{1,2})", isa or "", re.ASCII)
    if match is None:
        return None
    major, minor = int(match[1]) + 4, int(match[2])
    late = major == _SKIPPED[0] and minor >= _SKIPPED[1]
    return max(_OLDEST, (major, minor + late))


def driver_fault(
    library: Library, answers: Iterable[KernelAnswer], driver: str | None
) -> Fault | None:
    """The fault of kernels that wait for a driver which cannot compile their PTX, or None.

    Args:
        library: with its images.
        answers: of its kernels on one device.
        driver: the CUDA release that the driver is for, as ``13.0``; None where not known.
    """
    waiting = [answer for answer in answers if answer.service is Service.JIT]
    if driver is None or not waiting:
        return None
    device, limit = waiting[0].device, parse_cuda(driver)
    usable = [i for i in library.images if i.kind is ImageKind.PTX and jit_serves(i.arch, device)]
    fitting = [i for i in usable if (since := isa_release(i.isa)) is not None and since <= limit]
    names = {plain_name(k.name) for image in fitting for k in image.kernels or ()}
    lost = [answer.name for answer in waiting if answer.name not in names]
    if not lost:
        return None
    told = sorted({f"{i.isa or 'unknown'} ({_release(i.isa)})" for i in usable if i not in fitting})
    text = (
        f"{library.path}: device {device}: {len(lost)} kernels have PTX of ISA {', '.join(told)} "
        f"only, the driver is for CUDA {driver}; among them {lost[0]}"
    )
    return Fault(word="ptx-newer", text=text, device=device)


def _release(isa: str | None) -> str:
    since = isa_release(isa)
    return f"CUDA {since[0]}.{since[1]}" if since else "of no known release"
