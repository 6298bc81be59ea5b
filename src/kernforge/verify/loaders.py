"""Which of its files a package loads on a device, and whether that file serves it. Pure.

A package that ships several builds of one module chooses at run time, by a rule of its own: the
wheel may hold code for a device in the file that is not chosen there. The rule itself is the
package's; the recipe states what it comes to (`verify.loaders`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from kernforge.arch import Device
from kernforge.binary.facts import Library, State
from kernforge.verify.coverage import Served, Service, serve
from kernforge.verify.fault import Fault

DEFAULT = "default"
"""The key of the file that devices without a key of their own get."""
Loader = tuple[tuple[str, str], ...]
"""One choice: device or ``default``, and the pattern of the file's path in the wheel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What one choice comes to on one device.

    Attributes:
        choice: number of the choice in the recipe, from 0.
        device: the device.
        pattern: the pattern that the device gets; None where neither it nor ``default`` is named.
        paths: the files that the pattern matches; a package loads one, so that it should be one.
        served: what that one file does for the device; None where there is none, several, or one
            without device code.
    """

    choice: int
    device: Device
    pattern: str | None
    paths: tuple[str, ...]
    served: Served | None


def _chosen(number: int, loader: Loader, device: Device, libraries: Iterable[Library]) -> Chosen:
    table = dict(loader)
    pattern = table.get(str(device), table.get(DEFAULT))
    found = [] if pattern is None else [x for x in libraries if fnmatchcase(x.path, pattern)]
    one = found[0] if len(found) == 1 and found[0].state is not State.HOST_ONLY else None
    return Chosen(
        choice=number,
        device=device,
        pattern=pattern,
        paths=tuple(library.path for library in found),
        served=serve(one, device) if one is not None else None,
    )


def simulate(
    loaders: tuple[Loader, ...], libraries: tuple[Library, ...], devices: tuple[Device, ...]
) -> tuple[Chosen, ...]:
    """What every choice comes to on every device, in the order of choices, then devices."""
    return tuple(
        _chosen(number, loader, device, libraries)
        for number, loader in enumerate(loaders)
        for device in devices
    )


def _complaint(chosen: Chosen, *, allow_jit: bool) -> tuple[str, str] | None:
    """Word and sentence of what is wrong, or None."""
    where = f"verify.loaders[{chosen.choice}]: device {chosen.device}"
    if chosen.pattern is None:
        return "loader-none", f"{where} gets no file, and there is no {DEFAULT!r}"
    if not chosen.paths:
        return "loader-missing", f"{where} gets {chosen.pattern!r}, which matches no library"
    if len(chosen.paths) > 1:
        names = ", ".join(chosen.paths)
        return "loader-ambiguous", f"{where} gets {chosen.pattern!r}, which matches {names}"
    served = chosen.served
    jit = allow_jit and served is not None and served.service is Service.JIT and not served.absent
    if jit or (served is not None and served.service in {Service.SERVES, Service.EXPECTED}):
        return None
    what = "holds no device code" if served is None else _told(served)
    return "loader-unserved", f"{where} gets {chosen.paths[0]}, which {what}"


def _told(served: Served) -> str:
    if served.service is Service.UNREAD:
        return "could not be read"
    have = ", ".join(served.images)
    return f"has code of {served.kernels} of its {served.total} kernels for it (it holds {have})"


def loader_faults(chosen: Iterable[Chosen], *, allow_jit: bool = False) -> tuple[Fault, ...]:
    """What is wrong with the choices, for the level `code`.

    Returns:
        Faults with the words ``loader-none``, ``loader-missing``, ``loader-ambiguous`` or
        ``loader-unserved``, each of its device.
    """
    told = ((one.device, _complaint(one, allow_jit=allow_jit)) for one in chosen)
    return tuple(Fault(word=why[0], text=why[1], device=device) for device, why in told if why)
