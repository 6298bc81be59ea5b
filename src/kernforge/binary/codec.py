"""Facts as JSON and back, without loss; `docs/inspect.md` describes the document.

Room `binary`. Kernel names stand once in a library, in ``names``; images refer to them by number,
which makes the document a third of the size. What is derived (``state``, ``kernels``, ``archs``)
is written for readers and not read back.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kernforge.arch import Arch
from kernforge.binary.abi import cuda_majors, cxx11_abi, module_names, torch_symbols
from kernforge.binary.facts import (
    Compression,
    ElfFacts,
    Facts,
    Finding,
    Image,
    ImageKind,
    Kernel,
    Library,
    Symbol,
    TreeFacts,
    WheelFacts,
)
from kernforge.binary.summary import (
    ArchSummary,
    arch_summaries,
    kernel_names,
    relocatable_summaries,
)
from kernforge.binary.tags import python_module
from kernforge.errors import VerifyError

FORMAT = 1
"""Number of the document's format; it grows when a member changes its meaning."""
_ARCH = re.compile(r"(\d{1,3})\.(\d)([af]?)", re.ASCII)


def to_json(facts: Facts) -> dict[str, Any]:
    """Facts as plain data for :func:`json.dumps`."""
    match facts:
        case TreeFacts():
            return {"format": FORMAT, "kind": "tree", **_from_tree(facts)}
        case Library():
            return {"format": FORMAT, "kind": "library", **_from_library(facts)}
        case WheelFacts():
            return {"format": FORMAT, "kind": "wheel", **_from_wheel(facts)}


def from_json(document: dict[str, Any]) -> Facts:
    """Facts from what :func:`to_json` made.

    Raises:
        VerifyError: word ``facts-invalid`` where the document is not of that shape.
    """
    try:
        return _READERS[document["format"], document["kind"]](document)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise VerifyError(
            "facts-invalid",
            f"The document holds no facts of format {FORMAT}: {error!r}",
            hint="make it again with kernforge inspect",
        ) from error


def wheel_from_json(document: dict[str, Any]) -> WheelFacts:
    """The facts of a wheel from what :func:`to_json` made of them.

    Raises:
        VerifyError: word ``facts-invalid``, also where the facts are those of another thing.
    """
    facts = from_json(document)
    if not isinstance(facts, WheelFacts):
        raise VerifyError(
            "facts-invalid", f"Facts of a {document['kind']!r} where a wheel's belong"
        )
    return facts


def _from_archs(archs: tuple[ArchSummary, ...]) -> dict[str, dict[str, int | None]]:
    return {
        arch.label: {
            "images": arch.images,
            "kernels": arch.kernels,
            "code_bytes": arch.code_bytes,
            "stored_bytes": arch.stored_bytes,
            "trapping": arch.trapping,
        }
        for arch in archs
    }


def _from_findings(findings: tuple[Finding, ...]) -> list[dict[str, str]]:
    return [{"word": finding.word, "text": finding.text} for finding in findings]


def _from_library(library: Library) -> dict[str, Any]:
    names = {kernel.name for image in library.images for kernel in image.kernels or ()}
    numbers = {name: number for number, name in enumerate(sorted(names))}
    read = any(image.kernels is not None for image in library.images)
    return {
        "path": library.path,
        "python": python_module(library.path),
        "size": library.size,
        "state": str(library.state),
        "modules": library.modules,
        "kernels": len(kernel_names(library)) if read or not library.images else None,
        "archs": _from_archs(arch_summaries(library)),
        "relocatable": _from_archs(relocatable_summaries(library)),
        "elf": None if library.elf is None else _from_elf(library.elf),
        "findings": _from_findings(library.findings),
        "names": list(numbers),
        "images": [_from_image(image, numbers) for image in library.images],
    }


def _from_elf(elf: ElfFacts) -> dict[str, Any]:
    return {
        "kind": elf.kind,
        "machine": elf.machine,
        "soname": elf.soname,
        "needed": list(elf.needed),
        "runpath": list(elf.runpath),
        "rpath": list(elf.rpath),
        "floors": dict(elf.floors),
        "cuda_majors": list(cuda_majors(elf)),
        "cxx11_abi": cxx11_abi(elf),
        "modules": list(module_names(elf)),
        "torch_symbols": len(torch_symbols(elf)),
        "defined": list(elf.defined),
        "undefined": [[s.name, s.version, s.weak] for s in elf.undefined],
    }


def _from_image(image: Image, numbers: dict[str, int]) -> dict[str, Any]:
    kernels = None
    if image.kernels is not None:
        kernels = [
            [numbers[k.name], k.code_bytes, k.traps, *([True] if k.matrix else [])]
            for k in image.kernels
        ]
    return {
        "kind": str(image.kind),
        "arch": str(image.arch),
        "linked": image.linked,
        "module": image.module,
        "size": image.size,
        "unpacked": image.unpacked,
        "compression": str(image.compression),
        "isa": image.isa,
        "refusals": list(image.refusals),
        "kernels": kernels,
    }


def _from_wheel(wheel: WheelFacts) -> dict[str, Any]:
    return {
        "file": wheel.file,
        "size": wheel.size,
        "name": wheel.name,
        "version": wheel.version,
        "build": wheel.build,
        "tags": list(wheel.tags),
        "metadata": [list(pair) for pair in wheel.metadata],
        "wheel": [list(pair) for pair in wheel.wheel],
        "members": wheel.members,
        "findings": _from_findings(wheel.findings),
        "libraries": [_from_library(library) for library in wheel.libraries],
    }


def _from_tree(tree: TreeFacts) -> dict[str, Any]:
    return {
        "path": tree.path,
        "name": tree.name,
        "version": tree.version,
        "findings": _from_findings(tree.findings),
        "libraries": [_from_library(library) for library in tree.libraries],
    }


def _to_arch(text: str) -> Arch:
    match = _ARCH.fullmatch(text)
    if match is None:
        raise ValueError(f"arch {text!r}")
    return Arch(major=int(match[1]), minor=int(match[2]), suffix=match[3])


def _to_findings(items: list[dict[str, str]]) -> tuple[Finding, ...]:
    return tuple(Finding(word=item["word"], text=item["text"]) for item in items)


def _to_pairs(items: list[list[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((str(key), str(value)) for key, value in items)


def _to_elf(item: dict[str, Any]) -> ElfFacts:
    return ElfFacts(
        kind=item["kind"],
        machine=item["machine"],
        soname=item["soname"],
        needed=tuple(item["needed"]),
        runpath=tuple(item["runpath"]),
        rpath=tuple(item["rpath"]),
        floors=tuple(sorted(item["floors"].items())),
        defined=tuple(item["defined"]),
        undefined=tuple(
            Symbol(name=name, version=version, weak=weak)
            for name, version, weak in item["undefined"]
        ),
    )


def _to_image(item: dict[str, Any], names: list[str]) -> Image:
    kernels = item["kernels"]
    return Image(
        kind=ImageKind(item["kind"]),
        arch=_to_arch(item["arch"]),
        linked=item["linked"],
        module=item["module"],
        size=item["size"],
        unpacked=item["unpacked"],
        compression=Compression(item["compression"]),
        isa=item["isa"],
        kernels=None
        if kernels is None
        else tuple(
            Kernel(name=names[number], code_bytes=code, traps=traps, matrix=bool(matrix))
            for number, code, traps, *matrix in kernels
        ),
        refusals=tuple(item.get("refusals", ())),  # documents of before 0.1 have none
    )


def _to_library(item: dict[str, Any]) -> Library:
    return Library(
        path=item["path"],
        size=item["size"],
        modules=item["modules"],
        images=tuple(_to_image(image, item["names"]) for image in item["images"]),
        elf=None if item["elf"] is None else _to_elf(item["elf"]),
        findings=_to_findings(item["findings"]),
    )


def _to_wheel(item: dict[str, Any]) -> WheelFacts:
    return WheelFacts(
        file=item["file"],
        size=item["size"],
        name=item["name"],
        version=item["version"],
        build=item["build"],
        tags=tuple(item["tags"]),
        metadata=_to_pairs(item["metadata"]),
        wheel=_to_pairs(item["wheel"]),
        members=item["members"],
        libraries=tuple(_to_library(library) for library in item["libraries"]),
        findings=_to_findings(item["findings"]),
    )


def _to_tree(item: dict[str, Any]) -> TreeFacts:
    return TreeFacts(
        path=item["path"],
        name=item["name"],
        version=item["version"],
        libraries=tuple(_to_library(library) for library in item["libraries"]),
        findings=_to_findings(item["findings"]),
    )


_READERS: dict[tuple[int, str], Callable[[dict[str, Any]], Facts]] = {
    (FORMAT, "library"): _to_library,
    (FORMAT, "wheel"): _to_wheel,
    (FORMAT, "tree"): _to_tree,
}
