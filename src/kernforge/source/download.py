"""Downloads of single files, known by their SHA-256: resumed, retried, bounded, kept whole or not.

A transfer goes to ``partial/SHA256`` and to ``files/SHA256`` by one rename once its hash is right.
What an interrupted one left is gone on with; if the whole is wrong then, it is begun afresh.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

import requests
from urllib3.exceptions import HTTPError, ReadTimeoutError

from kernforge.errors import SourceError
from kernforge.source.cache import disk_faults, file_place, file_sha256, locked
from kernforge.source.redact import bare_url
from kernforge.source.settings import FetchSettings, Told
from kernforge.source.web import BUSY, account, may_pass, open_session, reason_of

_CHUNK = 1 << 16
_SLOWEST = 1024  # bytes/s, on average over the time that counts as a stall
_LONGEST_PAUSE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """One file to fetch.

    Attributes:
        url: http, https or file address.
        sha256: what its bytes must give.
        what: what it is, for messages: ``archive 'https://...'``.
        announced: whether the user is told when it begins.
    """

    url: str
    sha256: str
    what: str
    announced: bool = True


class _Broken(Exception):  # noqa: N818 - never leaves this module
    """A try failed. ``pause`` is what the server asks for, in seconds; None: do not try again."""

    def __init__(self, fault: SourceError, pause: float | None = 0.0) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.pause = pause


def download(wanted: Download, settings: FetchSettings, told: Told) -> Path:
    """The file in the cache, fetched if it is not there or has other bytes.

    Raises:
        SourceError: ``offline-missing``, ``hash-mismatch``, ``download-truncated``,
            ``download-endless``, ``download-stalled``, ``redirect-refused``, ``source-missing``,
            ``source-auth``, ``source-refused`` or ``source-unreachable``.
        CacheError: ``disk-full`` or ``cache-unwritable``.
    """
    place = file_place(settings.cache, wanted.sha256)
    with locked(settings.cache, wanted.sha256, told), disk_faults(settings.cache):
        if file_sha256(place) == wanted.sha256:
            return place
        part = settings.cache / "partial" / wanted.sha256
        part.parent.mkdir(parents=True, exist_ok=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        _from_first(wanted, part, settings, told)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(place)
    return place


def _from_first(wanted: Download, part: Path, settings: FetchSettings, told: Told) -> None:
    *others, last = settings.candidates(wanted.url)
    for url in others:
        try:
            return _from_one(replace(wanted, url=url), part, settings, told)
        except SourceError as fault:
            told(f"{bare_url(url)}: {fault.message}; asking the next mirror")
    return _from_one(replace(wanted, url=last), part, settings, told)


def _from_one(wanted: Download, part: Path, settings: FetchSettings, told: Told) -> None:
    if urlsplit(wanted.url).scheme.lower() == "file":
        return _copy(wanted, part, settings)
    if settings.offline:
        raise SourceError(
            "offline-missing",
            f"{wanted.what} is not in the cache, and the network may not be used",
            hint="run `kernforge fetch` with network first",
        )
    if wanted.announced:
        told(f"Downloading {bare_url(wanted.url)}")
    pause = settings.limits.pause
    with open_session(settings) as session:
        for left in reversed(range(settings.limits.tries)):
            try:
                return _try(wanted, part, session, settings)
            except _Broken as broken:
                if broken.pause is None or not left:
                    raise broken.fault from broken
                told(f"{broken.fault.message}; trying again")
                time.sleep(min(max(pause, broken.pause), _LONGEST_PAUSE))
                pause *= 2
    raise AssertionError  # pragma: no cover - the last try returns or raises


def _try(wanted: Download, part: Path, session: requests.Session, settings: FetchSettings) -> None:
    if file_sha256(part) == wanted.sha256:
        return  # whole, whatever the server said of its length
    have = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    limits = settings.limits
    try:
        response = session.get(
            wanted.url,
            headers=headers,
            stream=True,
            timeout=(limits.connect, limits.stall),
            auth=account(wanted.url, settings),
        )
    except requests.exceptions.TooManyRedirects as error:
        raise _Broken(_refused(wanted, "it redirects without end"), None) from error
    except requests.RequestException as error:
        if not may_pass(error):
            raise _Broken(_no_web_address(wanted), None) from error
        raise _Broken(_unreachable(wanted, reason_of(error))) from error
    except ValueError as error:
        raise _Broken(_no_web_address(wanted), None) from error
    with response:
        start = _start(response, have, wanted, part)
        with part.open("r+b" if start else "wb") as file:
            file.seek(start)
            _save(response, file, wanted, settings)
    _check(wanted, part, resumed=bool(start))


def _refused(wanted: Download, why: str) -> SourceError:
    return SourceError("redirect-refused", f"{wanted.what} is refused: {why}")


def _no_web_address(wanted: Download) -> SourceError:
    return _refused(wanted, "it is, or redirects to, what is no web address")


def _unreachable(wanted: Download, why: str) -> SourceError:
    return SourceError(
        "source-unreachable",
        f"{wanted.what} cannot be reached: {why}",
        hint="check network and proxy, or name a mirror",
    )


def _start(response: requests.Response, have: int, wanted: Download, part: Path) -> int:
    """Where the answer's bytes begin; an answer without a usable body raises."""
    status = response.status_code
    if status == 200:
        return 0
    if status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
        return have
    if status in {206, 416}:
        part.unlink(missing_ok=True)
        raise _Broken(_status_fault(wanted, status))
    asked = response.headers.get("Retry-After", "")
    raise _Broken(
        _status_fault(wanted, status),
        (float(asked) if asked.isascii() and asked.isdigit() else 0.0) if status in BUSY else None,
    )


def _status_fault(wanted: Download, status: int) -> SourceError:
    if status in {401, 403, 407}:
        return SourceError(
            "source-auth",
            f"{wanted.what} is refused with status {status}",
            hint="give user and password in ~/.netrc",
        )
    if status in {404, 410}:
        hint = "mend the address, or name a mirror that still has it"
        return SourceError(
            "source-missing", f"{wanted.what} is not there (status {status})", hint=hint
        )
    word = "source-unreachable" if status in BUSY else "source-refused"
    return SourceError(word, f"{wanted.what} is answered with status {status}")


def _save(
    response: requests.Response, file: IO[bytes], wanted: Download, settings: FetchSettings
) -> None:
    for chunk in _body(response, wanted, settings):
        file.write(chunk)
        if file.tell() > settings.limits.download:
            file.truncate(0)
            raise _Broken(
                SourceError(
                    "download-endless",
                    f"{wanted.what} is larger than {settings.limits.download} bytes",
                    hint="is it the right address?",
                ),
                None,
            )


def _truncated(wanted: Download) -> SourceError:
    return SourceError(
        "download-truncated",
        f"{wanted.what} came in part only: the connection ended early",
        hint="run it again: it goes on where it ended",
    )


def _body(
    response: requests.Response, wanted: Download, settings: FetchSettings
) -> Iterator[bytes]:
    stall = settings.limits.stall
    began, got = time.monotonic(), 0
    try:
        while chunk := response.raw.read1(_CHUNK, decode_content=False):
            yield chunk
            got += len(chunk)
            passed = time.monotonic() - began
            if passed > stall:
                if got < stall * _SLOWEST:
                    raise _Broken(_stalled(wanted, f"{got} bytes in {passed:.0f} s"))
                began, got = time.monotonic(), 0
    except ReadTimeoutError as error:
        raise _Broken(_stalled(wanted, f"no byte for {stall:g} s")) from error
    except HTTPError as error:
        raise _Broken(_truncated(wanted)) from error  # urllib3 holds it against Content-Length


def _stalled(wanted: Download, why: str) -> SourceError:
    return SourceError("download-stalled", f"{wanted.what} stalls: {why}")


def _check(wanted: Download, part: Path, *, resumed: bool) -> None:
    got = file_sha256(part)
    if got == wanted.sha256:
        return
    size = part.stat().st_size
    part.unlink()
    fault = SourceError(
        "hash-mismatch",
        f"{wanted.what} has SHA-256 {got}, not {wanted.sha256} ({size} bytes)",
        hint="upstream changed the file, or the recipe's sha256 is wrong: find out which",
    )
    # A part of an older try may have been of other bytes: only a whole transfer is final.
    raise _Broken(fault, 0.0 if resumed else None)


def _copy(wanted: Download, part: Path, settings: FetchSettings) -> None:
    parts = urlsplit(wanted.url)
    if parts.netloc not in {"", "localhost"}:
        raise SourceError("source-refused", f"{wanted.what} names a host in a file address")
    path = Path(unquote(parts.path))
    if not path.is_file():
        raise SourceError("source-missing", f"{wanted.what} is not there", hint="mend the address")
    if path.stat().st_size > settings.limits.download:
        raise SourceError("download-endless", f"{wanted.what} is larger than is allowed")
    shutil.copyfile(path, part)
    try:
        _check(wanted, part, resumed=False)
    except _Broken as broken:
        raise broken.fault from broken
