"""HTTP sessions as the user's environment asks: proxies, certificates, ``.netrc``.

requests would read the process's environment by itself; here it gets what it may know as values.
"""

from __future__ import annotations

import netrc
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import requests
from requests.adapters import HTTPAdapter

from kernforge.source.redact import credentials_of, secrets_of
from kernforge.source.settings import FetchSettings

_CERTIFICATES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")
_MOST_REDIRECTS = 10

BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses of servers that may answer otherwise later."""


class _Adapter(HTTPAdapter):
    """Chooses the proxy for each request, redirected ones too."""

    def __init__(self, proxies: Mapping[str, str]) -> None:
        super().__init__()
        self._proxies = dict(proxies)

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # type: ignore[override]
        """Send by way of the proxy that the request's host needs, if any."""
        host = urlsplit(request.url or "").hostname or ""
        direct = _is_direct(host, self._proxies.get("no", ""))
        options["proxies"] = {} if direct else self._proxies
        return super().send(request, **options)


def open_session(settings: FetchSettings) -> requests.Session:
    """A session for http and https; any other scheme, redirected to as well, is refused."""
    env = dict(settings.env)
    session = requests.Session()
    session.trust_env = False
    session.max_redirects = _MOST_REDIRECTS
    session.verify = next((env[name] for name in _CERTIFICATES if env.get(name)), True)
    session.headers["User-Agent"] = "kernforge"
    adapter = _Adapter(_proxies(env))
    session.mount("http://", adapter)
    session.mount("https://", adapter)
    return session


def _proxies(env: Mapping[str, str]) -> dict[str, str]:
    # The lower-case name rules; HTTP_PROXY in capitals can be set by a request in a CGI program,
    # which we are not.
    found = {}
    for scheme in ("http", "https", "all", "no"):
        value = env.get(f"{scheme}_proxy") or env.get(f"{scheme}_proxy".upper())
        if value:
            found[scheme] = value
    return found


def _is_direct(host: str, no_proxy: str) -> bool:
    """Whether ``no_proxy`` names a host: ``*``, or hosts and domains parted by commas."""
    for entry in no_proxy.lower().split(","):
        domain = entry.strip().partition(":")[0].removeprefix("*").lstrip(".")
        if entry.strip() == "*" or (domain and (host == domain or host.endswith(f".{domain}"))):
            return True
    return False


def account(url: str, settings: FetchSettings) -> tuple[str, str] | None:
    """User and password for an address: its own, else those of ``.netrc``; None for neither."""
    own = credentials_of(url)
    if own is not None:
        return own
    env = dict(settings.env)
    path = env.get("NETRC") or (f"{env['HOME']}/.netrc" if env.get("HOME") else "")
    host = urlsplit(url).hostname
    if not path or not host or not Path(path).is_file():
        return None
    try:
        found = netrc.netrc(path).authenticators(host)
    except (netrc.NetrcParseError, OSError, UnicodeDecodeError):
        return None  # as curl and git do
    return (found[0] or found[1], found[2]) if found and found[2] else None


def with_account(url: str, index: str) -> str:
    """An address that an index names, with the index's user and password if of one host."""
    parts, base = urlsplit(url), urlsplit(index)
    user, at, host = base.netloc.rpartition("@")
    if not at or parts.netloc != host or parts.scheme != base.scheme:
        return url
    return urlunsplit(parts._replace(netloc=f"{user}@{host}"))


def secrets_for(url: str, settings: FetchSettings) -> tuple[str, ...]:
    """What must not be shown of a request to an address."""
    found = account(url, settings)
    return (*settings.secrets, *secrets_of(url), *(found or ()))


def may_pass(error: requests.RequestException) -> bool:
    """Whether a request that failed may succeed later."""
    if isinstance(error, requests.HTTPError):
        return error.response is not None and error.response.status_code in BUSY
    return not isinstance(error, ValueError)  # faults of schemes and addresses are


def reason_of(error: BaseException) -> str:
    """Why a request failed, in a few words without any part of its address."""
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate is not accepted"
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return "no connection in time"
    if isinstance(error, requests.exceptions.ReadTimeout):
        return "it fell silent"
    if isinstance(error, requests.exceptions.ProxyError):
        return "the proxy refuses"
    seen: list[BaseException] = []
    cause: object = error
    while isinstance(cause, BaseException) and cause not in seen:
        seen.append(cause)
        if type(cause).__module__ in {"builtins", "socket"} and isinstance(cause, OSError):
            return (cause.strerror or type(cause).__name__).lower()
        cause = getattr(cause, "reason", None) or cause.__cause__ or cause.__context__
    return "the connection broke"
