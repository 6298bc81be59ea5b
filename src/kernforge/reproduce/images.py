"""Digests of all device code in a library: each cubin and PTX, and the kernels within.

Room `reproduce`. Images are read as `binary` reads them; here their bytes are kept as digests.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from kernforge.binary.elf import MAGIC, Elf, Section, Strings, read_elf
from kernforge.binary.facts import Image
from kernforge.binary.fatbin import FatbinReader
from kernforge.binary.findings import FindingLog, GarbledError

_SECTIONS = ((b".nv_fatbin", True), (b"__nv_relfatbin", False))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCode:
    """One image: what it is, SHA-256 of its unpacked bytes, and of each section of a cubin."""

    label: str
    module: int
    sha256: str
    sections: tuple[tuple[str, str], ...]


class _Digesting(FatbinReader):
    """Keeps a digest of each image beside its facts."""

    def __init__(self) -> None:
        super().__init__(FindingLog(), kernels=True)
        self.code: list[DeviceCode] = []

    def _image(self, entry: Any, content: Any, *, registered: bool) -> Image:
        try:
            data = memoryview(bytes(content()))
        except GarbledError as error:
            data = memoryview(f"garbled: {error}".encode())
        image = super()._image(entry, lambda: data, registered=registered)
        self.code.append(
            DeviceCode(
                label=image.label,
                module=image.module,
                sha256=hashlib.sha256(data).hexdigest(),
                sections=section_digests(data),
            )
        )
        return image


def device_code(data: bytes) -> tuple[DeviceCode, ...]:
    """Every image of a library's bytes in the order of the file; none where it is no ELF."""
    reader = _Digesting()
    try:
        elf = read_elf(data)
        for name, section in elf.find(*(name for name, _ in _SECTIONS)):
            reader.read(elf.bytes_of(section), registered=dict(_SECTIONS)[name])
    except GarbledError:
        return tuple(reader.code)
    return tuple(reader.code)


def section_digests(data: bytes | memoryview) -> tuple[tuple[str, str], ...]:
    """Name and SHA-256 of each section of an ELF, in order; none where it is no readable one."""
    if bytes(data[:4]) != MAGIC:
        return ()
    try:
        elf = read_elf(data)
        names = _names(elf)
        return tuple(
            (names.at(section.name), hashlib.sha256(elf.bytes_of(section)).hexdigest())
            for section in elf.sections[1:]
        )
    except GarbledError:
        return ()


def _names(elf: Elf) -> Strings:
    if not 0 < elf.names < len(elf.sections):
        raise GarbledError("elf-garbled", "its sections have no names")
    table: Section = elf.sections[elf.names]
    return Strings(elf.bytes_of(table))
