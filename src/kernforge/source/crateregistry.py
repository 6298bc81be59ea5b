"""Fetches crates from a registry: its ``config.json`` says where they lie, a lock what they are.

The registry's address is the user's to name, as those of package indexes are; none is known here.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import requests

from kernforge.errors import SourceError
from kernforge.source.archive import Packed
from kernforge.source.cache import file_place, file_sha256
from kernforge.source.cratelock import Crate, counted
from kernforge.source.download import Download, download
from kernforge.source.redact import bare_url
from kernforge.source.settings import FetchSettings, Told
from kernforge.source.web import account, may_pass, open_session, reason_of, with_account

_MARKERS = ("{crate}", "{version}", "{prefix}", "{lowerprefix}", "{sha256-checksum}")


def fetch_crates(crates: tuple[Crate, ...], lock: str, settings: FetchSettings, told: Told) -> None:
    """Have crates in the cache; no network where they are there.

    Args:
        crates: which.
        lock: what names them, for messages: ``sglang/rust/Cargo.lock``.
        settings: name the registries.
        told: hears how many are fetched.

    Raises:
        SourceError: ``offline-missing``, ``crates-unnamed``, or as
            :func:`kernforge.source.download.download`.
        CacheError: ``disk-full`` or ``cache-unwritable``.
    """
    missing = tuple(crate for crate in crates if not is_kept(crate, settings))
    if missing:
        registries = _registries(lock, settings, len(missing))
        told(f"Fetching {counted(len(missing))} of {lock}")
        _fetch_first(missing, registries, settings, told)


def is_kept(crate: Crate, settings: FetchSettings) -> bool:
    """Whether a crate is in the cache, whole."""
    return file_sha256(file_place(settings.cache, crate.sha256)) == crate.sha256


def packed(crate: Crate, settings: FetchSettings) -> Packed:
    """A crate in the cache, as an archive."""
    path = file_place(settings.cache, crate.sha256)
    return Packed(path=path, sha256=crate.sha256, what=_what(crate))


def _what(crate: Crate) -> str:
    return f"crate '{crate.name} {crate.version}'"


def _registries(lock: str, settings: FetchSettings, count: int) -> tuple[str, ...]:
    named = [index.removeprefix("sparse+").rstrip("/") + "/" for index in settings.crates]
    if not named:
        raise SourceError(
            "crates-unnamed",
            f"No registry is named to fetch {counted(count)} of {lock!r} from",
            hint='write crates = ["https://REGISTRY/INDEX/"] into kernforge/config.toml, or name '
            "one in cargo's own configuration; its sparse index is meant",
        )
    usable = tuple(url for url in named if not settings.offline or _is_local(url))
    if not usable:
        raise SourceError(
            "offline-missing",
            f"The cache lacks {counted(count)} of {lock!r}, and no network may be used",
            hint="run `kernforge fetch` with network first",
        )
    return usable


def _is_local(url: str) -> bool:
    return urlsplit(url).scheme.lower() == "file"


def _fetch_first(
    missing: tuple[Crate, ...], registries: tuple[str, ...], settings: FetchSettings, told: Told
) -> None:
    *others, last = registries
    for registry in others:
        try:
            return _fetch_all(missing, registry, settings, told)
        except SourceError as fault:
            told(f"{fault.message}; asking the next registry")
    return _fetch_all(missing, last, settings, told)


def _fetch_all(
    missing: tuple[Crate, ...], registry: str, settings: FetchSettings, told: Told
) -> None:
    template = _download_template(registry, settings)
    for crate in missing:
        url = with_account(_address(template, crate), registry)
        wanted = Download(url=url, sha256=crate.sha256, what=_what(crate), announced=False)
        download(wanted, settings, told)


def _address(template: str, crate: Crate) -> str:
    if not any(marker in template for marker in _MARKERS):
        return f"{template.rstrip('/')}/{crate.name}/{crate.version}/download"
    prefix = _prefix(crate.name)
    values = (crate.name, crate.version, prefix, prefix.lower(), crate.sha256)
    for marker, value in zip(_MARKERS, values, strict=True):
        template = template.replace(marker, value)
    return template


def _prefix(name: str) -> str:
    """The folder of a crate in an index: by its length, or by its first four characters."""
    short = {1: "1", 2: "2", 3: f"3/{name[0]}"}
    return short.get(len(name), f"{name[:2]}/{name[2:4]}")


def _download_template(registry: str, settings: FetchSettings) -> str:
    """What a registry's ``config.json`` says of where its crates lie."""
    faults: list[SourceError] = []
    for url in settings.candidates(f"{registry}config.json"):
        try:
            found = _config(url, settings)
        except SourceError as fault:
            faults.append(fault)
            continue
        template = found.get("dl") if isinstance(found, dict) else None
        if not isinstance(template, str) or not _is_allowed(template, url):
            raise _no_registry(url)
        return template
    raise faults[-1]


def _is_allowed(template: str, url: str) -> bool:
    """An answer from the network must not name a file of this machine."""
    return urlsplit(template).scheme.lower() in {"http", "https", urlsplit(url).scheme.lower()}


def _no_registry(url: str) -> SourceError:
    return SourceError(
        "index-invalid",
        f"Crate registry {bare_url(url)!r} says nothing of where crates lie",
        hint="name the registry's sparse index: the folder that holds config.json",
    )


def _config(url: str, settings: FetchSettings) -> Any:
    try:
        if _is_local(url):
            return json.loads(Path(unquote(urlsplit(url).path)).read_bytes())
        return _get(url, settings).json()
    except requests.HTTPError as error:
        status = error.response.status_code if error.response is not None else 0
        word = "source-auth" if status in {401, 403, 407} else "source-unreachable"
        message = f"Crate registry {bare_url(url)!r} answers with status {status}"
        raise SourceError(word, message, hint="mend crates in kernforge/config.toml") from error
    except requests.JSONDecodeError as error:
        raise _no_registry(url) from error
    except requests.RequestException as error:
        raise SourceError(
            "source-unreachable",
            f"Crate registry {bare_url(url)!r} cannot be reached: {reason_of(error)}",
            hint="check network and proxy, or name a mirror",
        ) from error
    except (OSError, ValueError) as error:
        raise _no_registry(url) from error


def _get(url: str, settings: FetchSettings) -> requests.Response:
    limits = settings.limits
    pause = limits.pause
    with open_session(settings) as session:
        for left in reversed(range(limits.tries)):
            try:
                found = session.get(
                    bare_url(url),
                    timeout=(limits.connect, limits.stall),
                    auth=account(url, settings),
                )
                found.raise_for_status()
            except requests.RequestException as error:
                if not left or not may_pass(error):
                    raise
                time.sleep(pause)
                pause *= 2
            else:
                return found
    raise AssertionError  # pragma: no cover - the last try returns or raises
