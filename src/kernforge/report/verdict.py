"""A verdict for people: a line a device, the libraries with their kernels, then the reasons."""

from __future__ import annotations

from kernforge.report.errors import printable
from kernforge.verify.coverage import Served, Service
from kernforge.verify.evidence import Service as Kernel
from kernforge.verify.gaps import KernelTable
from kernforge.verify.policy import DeviceVerdict, Verdict

_SHOWN = 6
_FAMILY = 72
_HINT = "hint: kernels that are never called there: a recipe names them in kernels.accepted_gaps"
_TOLD_BY_ROW = frozenset({"code-missing", "kernel-refuses"})


def _device_line(device: DeviceVerdict) -> str:
    said: dict[str, list[str]] = {}
    for level, answer in device.levels:
        said.setdefault(answer.value, []).append(level)
    parts = [f"{', '.join(levels)} {answer}" for answer, levels in said.items()]
    return f"device {device.device}: {'; '.join(parts)}"


def _held(served: Served, table: KernelTable | None) -> str:
    """The archs that serve, each with its machine code; else all that is there."""
    if not served.archs:
        return f"holds {', '.join(served.images)}"
    size = dict(table.code) if table else {}
    return ", ".join(f"{arch}: {size.get(arch, 0) / (1 << 20):,.1f} MiB" for arch in served.archs)


def _said(served: Served, table: KernelTable | None) -> str:
    """What the row of a library and device tells in words."""
    if served.service is Service.UNREAD:
        return f"{served.image_count} images found"
    if served.service is Service.EMPTY:
        return f"{served.image_count} images, all empty ({', '.join(served.images)})"
    bad = table.count(Kernel.REFUSES) if table else 0
    doubt = table.count(Kernel.DOUBTFUL) if table else 0
    parts = [f"{served.kernels - bad:,} of {served.total:,} kernels ({_held(served, table)})"]
    parts += [f"{bad:,} refuse{'s' if bad == 1 else ''} to work"] if bad else []
    parts += [f"{doubt:,} {'is' if doubt == 1 else 'are'} doubtful"] if doubt else []
    parts += [f"{table.accepted:,} of the gaps accepted"] if table and table.accepted else []
    parts += [f"without {served.missing[0]}"] if served.missing else []
    parts += [f"no PTX of {served.absent[0]}"] if served.absent and not served.missing else []
    return ", ".join(parts)


def _family_lines(table: KernelTable) -> list[str]:
    """The families of a library that do not plainly serve, each with its evidence.

    Where a library has no code at all for the device, its row says so.
    """
    if not table.count(Kernel.SERVES, Kernel.DOUBTFUL, Kernel.REFUSES):
        return []
    lines = []
    for group in table.groups[:_SHOWN]:
        lines.append(f"    {group.service.value:<8} {len(group.names):>5,}  {_short(group.family)}")
        lines.append(f"{'':<20}{group.reason}")
    more = len(table.groups) - _SHOWN
    if more > 0:
        told = f"{more} more famil{'ies' if more > 1 else 'y'}"
        lines.append(f"    and {told}; --json names every kernel")
    return lines


def _short(family: str) -> str:
    """Both ends of a long name tell most: what it is, and of what."""
    if len(family) <= _FAMILY:
        return family
    return f"{family[: _FAMILY // 2 - 1]}…{family[-_FAMILY // 2 :]}"


def _device_lines(device: DeviceVerdict, verdict: Verdict, width: int) -> list[str]:
    """One device: its levels, then each library with what its kernels do there."""
    lines = [_device_line(device)]
    tables = {table.path: table for table in verdict.tables if table.device == device.device}
    for row in verdict.served:
        if row.device != device.device:
            continue
        table = tables.get(row.path)
        said = _said(row, table)
        lines.append(f"  {row.path:<{width}}  {row.service.value:<9}  {said}")
        lines += [f"  {line}" for line in _family_lines(table)] if table else []
    return lines


def _gathered(texts: list[str], paths: set[str]) -> list[str]:
    """The same said of several libraries is told once, with the number of the others."""
    found: dict[str, list[str]] = {}
    for text in texts:
        key = text
        for path in sorted(paths, key=len, reverse=True):
            key = key.replace(path, "*")
        found.setdefault(key, []).append(text)
    lines = []
    for alike in found.values():
        more = len(alike) - 1
        others = f" (and {more} more {'library' if more == 1 else 'libraries'})" if more else ""
        lines.append(alike[0] + others)
    return lines


def verdict_lines(verdict: Verdict) -> list[str]:
    """A verdict: each device with its libraries, then faults that no row tells, and notes."""
    width = max((len(row.path) for row in verdict.served), default=0)
    lines = [line for one in verdict.devices for line in _device_lines(one, verdict, width)]
    if verdict.host_only:
        lines.append(f"without device code: {', '.join(verdict.host_only)}")
    told = {row.device for row in verdict.served}
    paths = {*(row.path for row in verdict.served), *verdict.host_only}
    faults = [
        f"fault[{fault.word}]: {fault.text}"
        for fault in verdict.faults  # what a library lacks for a device stands in its row
        if fault.word not in _TOLD_BY_ROW or fault.device not in told
    ]
    lines += _gathered(faults, paths)
    lines += _gathered([f"note: {note}" for note in verdict.notes], paths)
    if any(fault.word == "kernel-refuses" for fault in verdict.faults):
        lines.append(_HINT)
    return [printable(line) for line in lines]


def verdict_text(name: str, verdict: Verdict) -> str:
    """The judgement on a wheel."""
    head = f"{name}: {'reaches' if verdict.passed else 'falls short of'} {verdict.require}"
    return "\n".join([printable(head), *(f"  {line}" for line in verdict_lines(verdict))])
