"""Compare what a wheel's names and texts say with each other and with what is in it.

Room `binary`. Pure: values in, findings out. These are contradictions within the wheel itself;
whether its tags suit a target is judged in `verify`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.tags import Tag, parse_tag
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from kernforge.binary.facts import Finding, Library
from kernforge.binary.record import Fields, field

_MODULE = re.compile(r"\.cpython-(\d)(\d+)t?(?:-[\w-]+)?\.so$", re.ASCII)


def python_module(path: str) -> str | None:
    """The Python that a module's file name is for: ``cp310``, ``abi3``, or None for neither."""
    if path.endswith(".abi3.so"):
        return "abi3"
    match = _MODULE.search(path)
    return f"cp{match[1]}{match[2]}" if match else None


def expand_tags(texts: tuple[str, ...]) -> frozenset[Tag]:
    """Every tag that compressed tag sets stand for; what is no tag set is left out."""
    return frozenset(
        tag
        for text in texts
        if text.count("-") == 2 and len(text) < 4096
        for tag in parse_tag(text)
    )


def name_findings(name: str, version: str, metadata: Fields) -> Iterator[Finding]:
    """Where METADATA names another distribution or version than the file name."""
    inside = field(metadata, "Name")
    if inside is None or canonicalize_name(inside) != name:
        yield Finding(word="name-differs", text=f"METADATA says {inside!r}, the file name {name!r}")
    written = field(metadata, "Version")
    try:
        same = written is not None and Version(written) == Version(version)
    except InvalidVersion:
        same = False
    if not same:
        text = f"METADATA says version {written!r}, the file name {version!r}"
        yield Finding(word="version-differs", text=text)


def tag_findings(
    tags: frozenset[Tag], wheel: Fields, libraries: tuple[Library, ...]
) -> Iterator[Finding]:
    """Where file name, WHEEL and contents contradict each other."""
    inside = expand_tags(tuple(value for key, value in wheel if key.lower() == "tag"))
    if inside != tags:
        text = f"WHEEL has tags {_list(inside)}, the file name {_list(tags)}"
        yield Finding(word="tags-differ", text=text)
    if libraries and (field(wheel, "Root-Is-Purelib") or "").lower() == "true":
        text = f"Root-Is-Purelib is true and {libraries[0].path!r} is native code"
        yield Finding(word="purelib-native", text=text)
    for library in libraries:
        yield from _library_findings(tags, library)


def _list(tags: frozenset[Tag]) -> str:
    return ".".join(sorted(map(str, tags))) or "none"


def _library_findings(tags: frozenset[Tag], library: Library) -> Iterator[Finding]:
    platforms = sorted({tag.platform for tag in tags})
    machine = library.elf.machine if library.elf else None
    if machine in {"x86_64", "aarch64"} and not all(p.endswith(f"_{machine}") for p in platforms):
        text = f"{library.path!r} is for {machine}, the tags for {', '.join(platforms)}"
        yield Finding(word="tag-platform", text=text)
    python = python_module(library.path)
    if python is None or not tags:
        return
    if python == "abi3":
        untrue = not all(tag.abi in {"abi3", "none"} or tag.abi.startswith("cp") for tag in tags)
    else:
        untrue = any(tag.abi.removesuffix("t") != python and tag.abi != "none" for tag in tags)
    if untrue:
        claimed = ", ".join(sorted({f"{tag.interpreter}-{tag.abi}" for tag in tags}))
        text = f"{library.path!r} loads on {python} only, the tags claim {claimed}"
        yield Finding(word="tag-python", text=text)
