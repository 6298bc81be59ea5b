"""Count what a library holds for each arch. Pure: facts in, numbers out.

Room `binary`. Archs are told as inspect prints them: ``12.0a`` for linked machine code,
``9.0+PTX`` for PTX. Relocatable machine code serves no device and is counted apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kernforge.binary.facts import Image, ImageKind, Library
from kernforge.binary.names import plain_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchSummary:
    """What a library holds for one arch.

    Attributes:
        label: ``12.0a``, ``10.0f``, ``9.0`` or ``9.0+PTX``.
        images: entries of this arch.
        kernels: different kernel names in them; None where kernels were not read.
        code_bytes: machine code of these kernels, every copy counted; 0 for PTX.
        stored_bytes: bytes of the entries in the file.
        trapping: different kernels of which some copy holds a trap instruction.
    """

    label: str
    images: int
    kernels: int | None
    code_bytes: int
    stored_bytes: int
    trapping: int


def _summary(label: str, images: list[Image]) -> ArchSummary:
    kernels = [kernel for image in images for kernel in image.kernels or ()]
    unread = all(image.kernels is None for image in images)
    return ArchSummary(
        label=label,
        images=len(images),
        kernels=None if unread else len({plain_name(kernel.name) for kernel in kernels}),
        code_bytes=sum(kernel.code_bytes for kernel in kernels),
        stored_bytes=sum(image.size for image in images),
        trapping=len({plain_name(kernel.name) for kernel in kernels if kernel.traps}),
    )


def _grouped(images: Iterable[Image]) -> tuple[ArchSummary, ...]:
    by_label: dict[str, list[Image]] = {}
    for image in images:
        by_label.setdefault(image.label, []).append(image)
    ordered = sorted(by_label.items(), key=lambda item: (item[1][0].arch, item[0]))
    return tuple(_summary(label, members) for label, members in ordered)


def arch_summaries(library: Library) -> tuple[ArchSummary, ...]:
    """Linked machine code and PTX of each arch, in the order of archs."""
    return _grouped(i for i in library.images if i.serves_code or i.kind is ImageKind.PTX)


def relocatable_summaries(library: Library) -> tuple[ArchSummary, ...]:
    """Machine code that is not linked, and intermediate code, of each arch."""
    return _grouped(i for i in library.images if not i.serves_code and i.kind is not ImageKind.PTX)


def kernel_names(library: Library) -> frozenset[str]:
    """Different comparable kernel names of a library, whatever they are compiled for."""
    return frozenset(
        plain_name(kernel.name) for image in library.images for kernel in image.kernels or ()
    )


def kernel_table(library: Library) -> dict[str, dict[str, int]]:
    """For each comparable name, the trap instructions in it for each arch that has it.

    Where several images hold a kernel of one arch, the largest number counts.
    """
    table: dict[str, dict[str, int]] = {}
    for image in library.images:
        if not image.serves_code and image.kind is not ImageKind.PTX:
            continue
        for kernel in image.kernels or ():
            row = table.setdefault(plain_name(kernel.name), {})
            row[image.label] = max(row.get(image.label, 0), kernel.traps)
    return dict(sorted(table.items()))
