"""What of a source enters a key: the pins that decide its bytes. Pure.

Never an address, a mirror, a tag or a token: two places that serve the same commit or the same
SHA-256 serve the same source.
"""

from __future__ import annotations

from packaging.utils import canonicalize_name

from kernforge.recipe.model import ArchiveSource, CargoSource, GitSource, PypiSource

Fetched = GitSource | ArchiveSource | PypiSource | CargoSource
"""A source that has to be fetched."""

Plain = str | int | bool | list[str]


def identity(source: Fetched) -> dict[str, Plain]:
    """The pins of a source as plain data for canonical JSON."""
    match source:
        case GitSource():
            return {
                "kind": "git",
                "commit": source.commit,
                "sparse": sparse_paths(source),
                "submodules": source.submodules,
                "lfs": source.lfs,
                "git_metadata": source.git_metadata,
            }
        case ArchiveSource():
            return {"kind": "archive", "sha256": source.sha256, "strip": source.strip}
        case PypiSource():
            name = str(canonicalize_name(source.pypi))
            version, sha256 = source.version, source.sha256
            return {"kind": "pypi", "name": name, "version": version, "sha256": sha256}
        case CargoSource():
            return {"kind": "cargo", "sha256": source.sha256}


def sparse_paths(source: GitSource) -> list[str]:
    """The folders of a git source, sorted, those inside others left out; none means all."""
    paths = sorted(set(source.sparse))
    if "." in paths:
        return []
    return [p for p in paths if not any(p.startswith(f"{other}/") for other in paths)]
