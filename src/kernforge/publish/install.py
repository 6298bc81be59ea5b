"""Installing from a published index: its catalogue read, one wheel chosen, fetched, installed.

Room `publish`. The catalogue comes from a server that may lie, stall or fail: its form is checked
field by field, its size and time are bounded, and the wheel's bytes must have the SHA-256 that it
names. uv installs what is then on disk; what the wheel requires comes from the user's own index.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

import requests

from kernforge.errors import PublishError
from kernforge.pipeline.settings import Settings
from kernforge.process import Runner
from kernforge.publish.listing import CATALOGUE, CATALOGUE_LIMIT, Listed, read_catalogue
from kernforge.source.download import Download, download
from kernforge.source.redact import bare_url, redacted
from kernforge.source.settings import FetchSettings
from kernforge.source.web import account, open_session, reason_of, secrets_for
from kernforge.store.local import Store

_CHUNK = 1 << 16
_NOT_FOUND = frozenset({404, 410})


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """What was installed, and where it came from."""

    wheel: Listed
    url: str
    python: str


def read_index(url: str, settings: FetchSettings) -> tuple[Listed, ...]:
    """The wheels of a published index.

    Args:
        url: its root, as the start page stands there.
        settings: how things are fetched.

    Raises:
        PublishError: ``index-unreachable``, ``index-missing`` or ``index-damaged``.
    """
    shown = bare_url(url)
    if urlsplit(url).scheme not in {"http", "https"}:
        raise PublishError(
            "index-missing", f"{shown!r} is no http address", hint="as https://wheels.example/"
        )
    wheels, _ = read_catalogue(_fetched(_join(url, CATALOGUE), shown, settings), shown)
    return wheels


def _join(url: str, place: str) -> str:
    parts = urlsplit(url)
    path = f"{parts.path.rstrip('/')}/{quote(place)}"
    return parts._replace(path=path, fragment="").geturl()


def _fetched(url: str, shown: str, settings: FetchSettings) -> bytes:
    limits = settings.limits
    deadline = time.monotonic() + limits.stall
    try:
        with (
            open_session(settings) as session,
            session.get(
                url,
                stream=True,
                timeout=(limits.connect, limits.stall),
                auth=account(url, settings),
            ) as answer,
        ):
            if answer.status_code in _NOT_FOUND:
                raise PublishError(
                    "index-missing",
                    f"There is no index of ours at {shown!r}: it has no {CATALOGUE}",
                    hint="--index names the root, where the start page stands",
                )
            if not answer.ok:
                raise _unreachable(shown, f"it answers {answer.status_code}")
            return _bounded(answer, shown, deadline)
    except requests.RequestException as error:
        silent = time.monotonic() > deadline
        raise _unreachable(shown, "it fell silent" if silent else reason_of(error)) from error


def _bounded(answer: requests.Response, shown: str, deadline: float) -> bytes:
    data = bytearray()
    for chunk in answer.iter_content(_CHUNK):
        data += chunk
        if len(data) > CATALOGUE_LIMIT:
            raise _unreachable(shown, "its catalogue does not end")
        if time.monotonic() > deadline:
            raise _unreachable(shown, "it is too slow")
    return bytes(data)


def _unreachable(shown: str, why: str) -> PublishError:
    return PublishError("index-unreachable", f"The index {shown!r} cannot be read: {why}")


def wheel_url(index: str, wheel: Listed) -> str:
    """The address of a wheel in an index."""
    return _join(index, wheel.place)


def install(
    wheel: Listed, index: str, python: str, settings: Settings, *, runner: Runner
) -> Installed:
    """Fetch a wheel and have uv install it; answers what was installed.

    Raises:
        PublishError: ``install-failed`` with uv's own words.
        SourceError: the wheel cannot be had, or has other bytes than the index names.
    """
    url = wheel_url(index, wheel)
    wanted = Download(url=url, sha256=wheel.sha256, what=f"wheel {wheel.file!r}")
    told: Callable[[str], None] = _silent
    fetched = download(wanted, settings.fetching, told)
    with Store(settings.cache).scratch() as scratch:
        named = scratch / wheel.file
        shutil.copyfile(fetched, named)
        words = ("pip", "install", "--python", python, "--reinstall-package", wheel.project)
        done = runner.run(settings.uv.command(*words, str(named)))
    if done.returncode != 0:
        secrets = secrets_for(url, settings.fetching)
        raise PublishError(
            "install-failed",
            f"{wheel.file} could not be installed into {python!r}",
            detail=tuple(redacted(line, secrets) for line in done.last_lines),
        )
    return Installed(wheel=wheel, url=bare_url(url), python=python)


def _silent(_text: str) -> None:
    return
