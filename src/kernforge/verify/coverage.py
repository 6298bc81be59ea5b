"""What one library's images mean for one device, or hold of one compiler target. Pure.

Only linked machine code covers: relocatable images and PTX do not, images without kernels count
for nothing. Kernels are compared by name over all images of the library.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from kernforge.arch import Arch, Coverage, Device, covers, jit_serves
from kernforge.binary.facts import Image, ImageKind, Library, State
from kernforge.binary.names import plain_name


class Service(StrEnum):
    """What a library does for a device."""

    SERVES = "serves"
    """Every kernel has machine code made for the device."""
    EXPECTED = "expected"
    """Every kernel has code that is binary compatible by rule; unproven until a device runs it."""
    REFUSES = "refuses"
    """Every kernel has code for the device, and that of some refuses to work: :mod:`evidence`."""
    PARTIAL = "partial"
    """Some kernels have code for the device and some have none."""
    JIT = "jit only"
    """No machine code, but PTX that the driver could compile."""
    EMPTY = "no kernel"
    """It holds images, but not one kernel in any of them."""
    NONE = "none"
    """It has kernels, and none of them for the device."""
    UNREAD = "not read"
    """It could not be read well enough to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A library's service for a device.

    Attributes:
        path: the library in the wheel.
        device: the device asked about.
        service: the answer.
        kernels: how many kernels the device can run from machine code.
        total: how many kernels the library has in all.
        missing: names of kernels without code for the device, sorted; empty unless ``partial``.
        absent: names of kernels with neither code nor usable PTX for the device, sorted; empty
            unless ``partial`` or ``jit only``.
        archs: the targets of the images that cover the device, canonical text, sorted.
        images: what all its images were made for, ``9.0+PTX`` for PTX, sorted.
        image_count: how many images it holds.
    """

    path: str
    device: Device
    service: Service
    kernels: int
    total: int
    missing: tuple[str, ...]
    absent: tuple[str, ...]
    archs: tuple[str, ...]
    images: tuple[str, ...]
    image_count: int


def _names(images: Iterable[Image]) -> frozenset[str]:
    return frozenset(plain_name(k.name) for image in images for k in image.kernels or ())


def _ptx_names(library: Library, device: Device) -> frozenset[str]:
    ptx = (image for image in library.images if image.kind is ImageKind.PTX)
    return _names(image for image in ptx if jit_serves(image.arch, device))


def served_names(library: Library, device: Device, *, jit: bool = False) -> frozenset[str]:
    """Names of the kernels that a library has code of for a device; with ``jit``, PTX counts."""
    linked = (image for image in library.images if image.serves_code)
    names = _names(image for image in linked if covers(image.arch, device) is not Coverage.NONE)
    return names | _ptx_names(library, device) if jit else names


def _fully_read(library: Library) -> bool:
    if library.state is State.UNREADABLE or library.findings:
        return False
    return all(image.kernels is not None for image in library.images if image.serves_code)


def _sorted_labels(labels: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(labels), key=lambda text: (float(text.rstrip("afPTX+")), text)))


def serve(library: Library, device: Device) -> Served:
    """Say what a library with device code does for a device."""
    linked = [image for image in library.images if image.serves_code]
    covering = [i for i in linked if covers(i.arch, device) is not Coverage.NONE]
    exact = [i for i in covering if covers(i.arch, device) is Coverage.EXACT]
    usable = [i for i in library.images if i.serves_code or i.kind is ImageKind.PTX]
    every = _names(usable) or _names(library.images)
    served, missing = _names(covering), every - _names(covering)
    ptx = _ptx_names(library, device)
    if not _fully_read(library):
        service = Service.UNREAD
    elif not every:
        service = Service.EMPTY
    elif served and not missing:
        service = Service.SERVES if served == _names(exact) else Service.EXPECTED
    elif served:
        service = Service.PARTIAL
    else:
        service = Service.JIT if ptx else Service.NONE
    open_question = service in {Service.PARTIAL, Service.JIT}
    return Served(
        path=library.path,
        device=device,
        service=service,
        kernels=len(served),
        total=len(every),
        missing=tuple(sorted(missing)) if service is Service.PARTIAL else (),
        absent=tuple(sorted(missing - ptx)) if open_question else (),
        archs=_sorted_labels(str(i.arch) for i in covering if i.kernels),
        images=_sorted_labels(i.label for i in library.images),
        image_count=len(library.images),
    )


def holds(library: Library, arch: Arch) -> bool:
    """Whether a library holds at least one kernel of linked code for exactly this target."""
    return any(
        image.kernels
        for image in library.images
        if image.serves_code and str(image.arch) == str(arch).removesuffix("+PTX")
    )


def holds_ptx(library: Library, arch: Arch) -> bool:
    """Whether a library holds PTX of exactly this target."""
    text = str(arch).removesuffix("+PTX")
    return any(i.kind is ImageKind.PTX and str(i.arch) == text for i in library.images)


def unrequested(library: Library, archs: tuple[Arch, ...]) -> tuple[str, ...]:
    """Targets of images (empty ones too) in a library that nobody asked for, sorted."""
    real = {str(arch).removesuffix("+PTX") for arch in archs}
    virtual = {str(arch) for arch in archs if arch.ptx}
    found = set()
    for image in library.images:
        wanted = image.label in virtual if image.kind is ImageKind.PTX else str(image.arch) in real
        if not wanted:
            found.add(image.label)
    return _sorted_labels(found)
