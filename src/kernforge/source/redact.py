"""Keeps secrets out of what is shown and kept: addresses and texts, less their secret parts. Pure.

A secret shows up in a URL, percent-encoded or not, as an Authorization value, or in base64.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from urllib.parse import quote, unquote, urlsplit

MASK = "***"
_SHORTEST = 4
_USERINFO = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<user>[^\s/?#'\"<>]*)@")
_QUERY = re.compile(r"(?P<url>[A-Za-z][A-Za-z0-9+.-]*://[^\s?#'\"<>]*)\?[^\s#'\"<>]*")
_HEADER = re.compile(
    r"(?i)\b(?P<name>(?:proxy-)?authorization|cookie|private-token)\s*[:=][^\n'\"]*"
)
_SCHEME = re.compile(r"(?i)\b(?P<name>basic|bearer)\s+[A-Za-z0-9+/=_.~-]{8,}")


def _without_user(match: re.Match[str]) -> str:
    scheme, user = match["scheme"], match["user"]
    if scheme.lower() in {"ssh", "git+ssh"} and ":" not in user:
        return match[0]  # the account that every user of that server logs in to, as git@
    return f"{scheme}://{MASK}@"


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without secrets.

    Args:
        text: what a program or library said.
        secrets: texts to mask wherever they stand; those under 4 characters only within URLs.
    """
    for secret in sorted({s for s in secrets if len(s) >= _SHORTEST}, key=len, reverse=True):
        text = text.replace(secret, MASK)
    text = _USERINFO.sub(_without_user, text)
    text = _QUERY.sub(rf"\g<url>?{MASK}", text)
    text = _HEADER.sub(rf"\g<name>: {MASK}", text)
    return _SCHEME.sub(rf"\g<name> {MASK}", text)


def bare_url(url: str) -> str:
    """An address without user (but ssh's account name), query and fragment, to show and to keep."""
    short = re.split(r"[?#]", url, maxsplit=1)[0]
    found = _USERINFO.match(short)
    if found is None:
        return short
    if _without_user(found) == found[0]:
        return short
    return f"{found['scheme']}://{short[found.end() :]}"


def secrets_of(url: str) -> tuple[str, ...]:
    """User and password of an address in every form in which a program may write them."""
    user, at, _ = _authority(url).rpartition("@")
    if not at or (url.lower().startswith("ssh://") and ":" not in user):
        return ()
    name, _, password = user.partition(":")
    parts = [text for part in (name, password) for text in (part, unquote(part))]
    parts += [quote(unquote(part), safe="") for part in (name, password)]
    for pair in (user, f"{unquote(name)}:{unquote(password)}"):
        parts.append(base64.b64encode(pair.encode()).decode().rstrip("="))
    return tuple(dict.fromkeys(part for part in parts if part))


def credentials_of(url: str) -> tuple[str, str] | None:
    """User and password of an address, decoded; None where it has none."""
    user, at, _ = _authority(url).rpartition("@")
    if not at:
        return None
    name, _, password = user.partition(":")
    return unquote(name), unquote(password)


def _authority(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""
