"""Package URLs and source addresses, as software bills and provenance name things. Pure.

Source: the package-url specification, types `pypi`, `github` and `generic`.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from packaging.utils import canonicalize_name

from kernforge.recipe.model import (
    ArchiveSource,
    CargoSource,
    GitSource,
    PathSource,
    PypiSource,
    Source,
)
from kernforge.source.redact import bare_url

_GITHUB = re.compile(r"(?:https://|ssh://git@|git@)github\.com[/:]([^/]+)/([^/]+?)(?:\.git)?/?")
_REVISION = re.compile(
    r"https://github\.com/([^/]+)/([^/]+)/archive/(?:refs/tags/)?([^/]+)\.(?:tar\.gz|zip)"
)


def pypi_purl(name: str, version: str) -> str:
    """A distribution of the Python package index, whichever index it came from."""
    return f"pkg:pypi/{canonicalize_name(name)}@{quote(version, safe='')}"


def generic_purl(name: str, version: str) -> str:
    """Something that no package type covers, known by a digest."""
    return f"pkg:generic/{quote(name, safe='')}@{quote(version, safe='')}"


def source_address(name: str, source: Source) -> str:
    """Where a source is from: a package URL where there is one, else its address without secrets.

    Args:
        name: the source's name in the recipe.
        source: as the recipe pins it.
    """
    match source:
        case PypiSource():
            return pypi_purl(source.pypi, source.version)
        case GitSource():
            found = _GITHUB.fullmatch(source.git)
            if found:
                return f"pkg:github/{found[1].lower()}/{found[2].lower()}@{source.commit}"
            return f"git+{bare_url(source.git)}@{source.commit}"
        case ArchiveSource():
            found = _REVISION.fullmatch(source.archive)
            if found:
                return f"pkg:github/{found[1].lower()}/{found[2].lower()}@{found[3]}"
            local = "://" not in source.archive or source.archive.startswith("file:")
            return generic_purl(name, source.sha256) if local else bare_url(source.archive)
        case CargoSource() | PathSource():
            bare = f"pkg:generic/{quote(name, safe='')}"
            return f"{bare}@{source.sha256}" if isinstance(source, CargoSource) else bare
