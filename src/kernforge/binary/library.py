"""Read one file with native code: the host part and every fat binary in it.

Room `binary`. Nothing is executed and no NVIDIA program is asked. Whatever the bytes are, a
:class:`Library` comes back: what could not be read stands in its findings.
"""

from __future__ import annotations

import mmap
import re
from pathlib import Path

from kernforge.binary import elf, fatbin
from kernforge.binary.dynamic import elf_facts
from kernforge.binary.elf import Buffer, Elf, read_elf
from kernforge.binary.facts import ElfFacts, Finding, Library
from kernforge.binary.fatbin import FatbinReader
from kernforge.binary.findings import FindingLog, GarbledError
from kernforge.binary.opening import open_file

_REGISTERED, _RELOCATABLE = b".nv_fatbin", b"__nv_relfatbin"

LIBRARY_NAME = re.compile(r"\.so(\.\d+)*$", re.ASCII)
"""How a shared library is named, by which a broken one is still told apart from data."""
PLAIN_SUFFIXES = frozenset(
    {".py", ".pyi", ".pyc", ".h", ".hpp", ".cuh", ".cu", ".cc", ".cpp", ".txt", ".md"}
)
"""Files that are not even opened to see whether they are native code."""


def unreadable(path: str, finding: Finding, size: int = 0) -> Library:
    """A library of which nothing could be read."""
    return Library(path=path, size=size, modules=0, images=(), elf=None, findings=(finding,))


def is_native(head: bytes) -> bool:
    """Whether a file that begins so is read as a library: an ELF or a bare fat binary."""
    return head[:4] in {elf.MAGIC, fatbin.MAGIC}


def _read_sections(host: Elf, reader: FatbinReader, log: FindingLog) -> None:
    try:
        sections = host.find(_REGISTERED, _RELOCATABLE)
    except GarbledError as error:
        log.note(error.word, f"names of sections: {error}")
        return
    for name, section in sections:
        try:
            reader.read(host.bytes_of(section), registered=name == _REGISTERED)
        except GarbledError as error:
            log.note(error.word, f"{name.decode()}: {error}")


def _read_host(view: memoryview, reader: FatbinReader, log: FindingLog) -> ElfFacts | None:
    try:
        host = read_elf(view)
    except GarbledError as error:
        log.add(error.finding)
        return None
    if host.machine == elf.EM_CUDA:
        reader.read_cubin(view)
        return None
    _read_sections(host, reader, log)
    return elf_facts(host, log)


def read_library(data: Buffer, path: str, *, kernels: bool = True) -> Library:
    """Read a library from its bytes.

    Args:
        data: the whole file.
        path: the name it is reported under.
        kernels: whether to read kernels too, which unpacks every image; else ``Image.kernels``
            is None everywhere.
    """
    log = FindingLog()
    reader = FatbinReader(log, kernels=kernels)
    facts: ElfFacts | None = None
    with memoryview(data) as view:
        if view[:4] == fatbin.MAGIC:
            reader.read(view, registered=True)
        else:
            facts = _read_host(view, reader, log)
        size = len(view)
    return Library(
        path=path,
        size=size,
        modules=reader.modules,
        images=tuple(reader.images),
        elf=facts,
        findings=log.all,
    )


def read_library_file(file: Path, path: str, *, kernels: bool = True) -> Library:
    """Read a library from disk, mapped into memory.

    Raises:
        OSError: where the file cannot be opened.
    """
    with open_file(file) as stream:
        size = file.stat().st_size
        if size == 0:
            return read_library(b"", path, kernels=kernels)
        with mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_READ) as data:
            return read_library(data, path, kernels=kernels)
