"""Sources of kind ``pypi``: found in the user's indexes, downloaded, unpacked. Nothing is run.

The file is chosen by its SHA-256 alone, so that it does not matter which index serves it. An index
is read by pypi-simple (over http and https), or from a folder that a ``file`` address names.
"""

from __future__ import annotations

import email.parser
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

import pypi_simple
import requests
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from kernforge.errors import SourceError
from kernforge.recipe.model import PypiSource
from kernforge.source.archive import Packed, note_time, opened, place_packed
from kernforge.source.cache import file_place, file_sha256
from kernforge.source.download import Download, download
from kernforge.source.formats import members
from kernforge.source.redact import bare_url
from kernforge.source.settings import FetchSettings, Told
from kernforge.source.web import account, open_session, reason_of

_LONGEST_METADATA = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offer:
    """One file that an index offers for the name; ``sha256`` is ``""`` where it does not say."""

    filename: str
    version: str
    url: str
    sha256: str


def fetch_pypi(source: PypiSource, settings: FetchSettings, told: Told) -> None:
    """Have the distribution in the cache, whole and readable.

    Raises:
        SourceError: ``index-missing``, ``hash-mismatch``, ``offline-missing``, or as
            :func:`kernforge.source.download.download` and
            :func:`kernforge.source.formats.members`.
        CacheError: ``disk-full`` or ``cache-unwritable``.
    """
    if not pypi_fetched(source, settings):
        _fetch(source, settings, told)
    note_time(_packed(source, settings), settings)


def pypi_fetched(source: PypiSource, settings: FetchSettings) -> bool:
    """Whether the right file is in the cache."""
    return file_sha256(file_place(settings.cache, source.sha256)) == source.sha256


def place_pypi(source: PypiSource, settings: FetchSettings, into: Path) -> None:
    """Unpack the distribution into a new folder: an sdist without its top folder, a wheel as is.

    Raises:
        SourceError: ``distribution-other``, or as :func:`kernforge.source.archive.place_packed`.
    """
    packed = _packed(source, settings)
    with opened(packed) as file:
        wheel, text = _metadata(members(file, packed.what))
    _check_metadata(source, text)
    place_packed(packed, settings, into, strip=0 if wheel else 1)


def _what(source: PypiSource) -> str:
    return f"distribution '{source.pypi} {source.version}'"


def _packed(source: PypiSource, settings: FetchSettings) -> Packed:
    path = file_place(settings.cache, source.sha256)
    return Packed(path=path, sha256=source.sha256, what=_what(source))
