"""Sources of kind ``pypi``: found in the user's indexes, downloaded, unpacked. Nothing is run.

The file is chosen by its SHA-256 alone, so that it does not matter which index serves it. An index
is read by pypi-simple (over http and https), or from a folder that a ``file`` address names.
"""

from __future__ import annotations

import email.parser
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pypi_simple
import requests
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from kernforge.errors import SourceError
from kernforge.recipe.model import PypiSource
from kernforge.source.archive import Packed, note_time, opened, place_packed
from kernforge.source.cache import file_place, file_sha256
from kernforge.source.download import Download, download
from kernforge.source.formats import Member, members, reading
from kernforge.source.redact import bare_url
from kernforge.source.settings import FetchSettings, Told
from kernforge.source.web import account, may_pass, open_session, reason_of, with_account

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
        wheel, text = _metadata(members(file, packed.what), packed.what)
    _check_metadata(source, text)
    place_packed(packed, settings, into, strip=0 if wheel else 1)


def _what(source: PypiSource) -> str:
    return f"distribution '{source.pypi} {source.version}'"


def _packed(source: PypiSource, settings: FetchSettings) -> Packed:
    path = file_place(settings.cache, source.sha256)
    return Packed(path=path, sha256=source.sha256, what=_what(source))


def _metadata(found: Iterator[Member], what: str) -> tuple[bool, str]:
    """Whether it is a wheel, and its metadata; the names are where the standards put them."""
    for member in found:
        folder, _, name = member.name.removeprefix("./").partition("/")
        wheel = name == "METADATA" and folder.endswith(".dist-info")
        if (wheel or name == "PKG-INFO") and member.data is not None:
            if member.size > _LONGEST_METADATA:
                break
            with reading(what):
                return wheel, member.data.read(_LONGEST_METADATA).decode("utf-8", "replace")
    raise SourceError(
        "distribution-other",
        f"{what} is neither an sdist nor a wheel: it holds no metadata where they have it",
        hint="a plain archive is a source of kind archive",
    )


def _check_metadata(source: PypiSource, text: str) -> None:
    headers = email.parser.HeaderParser().parsestr(text)
    name, version = headers.get("Name", ""), headers.get("Version", "")
    same = canonicalize_name(name) == canonicalize_name(source.pypi)
    if not same or not _same_version(version, source.version):
        raise SourceError(
            "distribution-other",
            f"{_what(source)} is by its own metadata {name!r} {version!r}",
            hint="mend name, version or sha256 in the recipe",
        )


def _same_version(one: str | None, other: str) -> bool:
    try:
        return one is not None and Version(one) == Version(other)
    except InvalidVersion:
        return False


def _fetch(source: PypiSource, settings: FetchSettings, told: Told) -> None:
    offers: list[_Offer] = []
    faults: list[SourceError] = []
    for index in _indexes(source, settings):
        try:
            found = _offers(source, index, settings)
        except SourceError as fault:
            faults.append(fault)
            told(fault.message)
            continue
        offers += found
        if _download_fitting(source, found, settings, told):
            return
    raise _not_offered(source, offers, faults)


def _indexes(source: PypiSource, settings: FetchSettings) -> tuple[str, ...]:
    named = [index or pypi_simple.PYPI_SIMPLE_ENDPOINT for index in settings.indexes]
    every = tuple(url for index in named for url in settings.candidates(index))
    if not every:
        raise SourceError(
            "index-missing",
            f"{_what(source)}: no package index is named",
            hint="name one as for uv or pip",
        )
    usable = tuple(i for i in every if not settings.offline or i.lower().startswith("file:"))
    if not usable:
        raise SourceError(
            "offline-missing",
            f"{_what(source)} is not in the cache, and the network may not be used",
            hint="run `kernforge fetch` with network first",
        )
    return usable


def _download_fitting(
    source: PypiSource, offers: tuple[_Offer, ...], settings: FetchSettings, told: Told
) -> bool:
    """Download what has the right SHA-256; of files without one, each of the right version."""
    certain = [offer for offer in offers if offer.sha256 == source.sha256]
    unknown = [o for o in offers if not o.sha256 and _same_version(o.version, source.version)]
    for offer in certain or unknown:
        wanted = Download(url=offer.url, sha256=source.sha256, what=_what(source))
        try:
            download(wanted, settings, told)
        except SourceError as fault:
            if certain or fault.word != "hash-mismatch":
                raise
        else:
            return True
    return False


def _not_offered(
    source: PypiSource, offers: list[_Offer], faults: list[SourceError]
) -> SourceError:
    same = [offer for offer in offers if _same_version(offer.version, source.version)]
    if same:
        listed = tuple(f"{o.filename}  {o.sha256 or 'no SHA-256'}" for o in same)
        return SourceError(
            "hash-mismatch",
            f"{_what(source)} is offered, but not with SHA-256 {source.sha256}",
            hint="find out why it differs; a release's files should never change",
            detail=listed,
        )
    if faults:
        return faults[-1]
    versions = ", ".join(dict.fromkeys(offer.version for offer in offers[-5:] if offer.version))
    return SourceError(
        "index-missing",
        f"{_what(source)} is in none of the package indexes",
        hint=f"the newest that they have: {versions}" if versions else "mend the name",
    )


def _offers(source: PypiSource, index: str, settings: FetchSettings) -> tuple[_Offer, ...]:
    name = str(canonicalize_name(source.pypi))
    try:
        if urlsplit(index).scheme.lower() == "file":
            page = _page_of_folder(name, index)
        else:
            page = _page(name, index, settings)
    except pypi_simple.NoSuchProjectError:
        return ()
    except requests.HTTPError as error:
        raise _status_fault(index, error) from error
    except requests.RequestException as error:
        raise SourceError(
            "source-unreachable",
            f"Package index {bare_url(index)!r} cannot be reached: {reason_of(error)}",
            hint="check network and proxy, or name a mirror",
        ) from error
    except (ValueError, KeyError, TypeError, pypi_simple.UnsupportedContentTypeError) as error:
        raise SourceError(
            "index-invalid", f"Package index {bare_url(index)!r} gives no page that can be read"
        ) from error
    offers = (_offer(package, index) for package in page.packages)
    return tuple(offer for offer in offers if offer is not None)


def _status_fault(index: str, error: requests.HTTPError) -> SourceError:
    status = error.response.status_code if error.response is not None else 0
    word = "source-auth" if status in {401, 403, 407} else "source-unreachable"
    hint = "give user and password in ~/.netrc" if word == "source-auth" else None
    message = f"Package index {bare_url(index)!r} answers with status {status}"
    return SourceError(word, message, hint=hint)


def _page(name: str, index: str, settings: FetchSettings) -> pypi_simple.ProjectPage:
    limits = settings.limits
    pause = limits.pause
    with open_session(settings) as session:
        client = pypi_simple.PyPISimple(
            bare_url(index), auth=account(index, settings), session=session
        )
        for left in reversed(range(limits.tries)):
            try:
                return client.get_project_page(name, timeout=(limits.connect, limits.stall))
            except requests.RequestException as error:
                if not left or not may_pass(error):
                    raise
                time.sleep(pause)
                pause *= 2
    raise AssertionError  # pragma: no cover - the last try returns or raises


def _page_of_folder(name: str, index: str) -> pypi_simple.ProjectPage:
    folder = Path(unquote(urlsplit(index).path)) / name
    try:
        html = (folder / "index.html").read_bytes()
    except OSError as error:
        raise pypi_simple.NoSuchProjectError(name, index) from error
    return pypi_simple.ProjectPage.from_html(name, html, base_url=f"{folder.as_uri()}/")


def _offer(package: pypi_simple.DistributionPackage, index: str) -> _Offer | None:
    url = urljoin(index, package.url)
    if urlsplit(url).scheme.lower() not in {"http", "https", urlsplit(index).scheme.lower()}:
        return None  # a page from the network must not name a file of this machine
    return _Offer(
        filename=package.filename,
        version=package.version or "",
        url=with_account(url, index),
        sha256=package.digests.get("sha256", ""),
    )
