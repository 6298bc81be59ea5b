"""What fetching is told from outside: folders, the user's environment, mirrors, limits. Plain data.

None of it enters a key, and none of it is ever shown but by way of :mod:`kernforge.source.redact`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kernforge.source.redact import secrets_of

Told = Callable[[str], None]
"""Called with one line, free of secrets, for the user."""

ENV_NAMES = frozenset(
    "HOME PATH USER LOGNAME XDG_CONFIG_HOME XDG_RUNTIME_DIR NETRC "
    "http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY "
    "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE "
    "GIT_SSL_CAINFO GIT_SSL_CAPATH GIT_SSH GIT_SSH_COMMAND GIT_SSH_VARIANT SSH_AUTH_SOCK "
    "GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_NOSYSTEM GIT_CONFIG_COUNT".split()
)
"""The user's variables that git and HTTP may read; all others (traces, GIT_DIR) are dropped.

``GIT_CONFIG_KEY_n`` and ``GIT_CONFIG_VALUE_n`` go with GIT_CONFIG_COUNT. GIT_ASKPASS is not among
them: credentials come from git's credential helper, ssh's agent or ``.netrc``, never from a prompt.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long and how much. Times in seconds, sizes in bytes.

    Attributes:
        connect: for a connection to be made.
        stall: without a byte (HTTP: or with less than 1 KiB/s on average over that time).
        git: for one call of git to end.
        tries: how often a transfer is begun in all.
        pause: before the second try; doubled before each further one.
        download: the largest file that is downloaded.
        tree: the most that one archive may unpack to.
        members: the most files, folders and links in one archive.
        submodules: the most submodules of one source.
        depth: how deep submodules may be nested.
    """

    connect: float = 15.0
    stall: float = 60.0
    git: float = 3600.0
    tries: int = 4
    pause: float = 1.0
    download: int = 8 * 2**30
    tree: int = 32 * 2**30
    members: int = 1_000_000
    submodules: int = 500
    depth: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """One run's settings for fetching.

    Attributes:
        cache: the folder of fetched sources.
        project: the folder that archive paths are relative to.
        env: the user's environment; only :data:`ENV_NAMES` are used.
        offline: whether the network may not be used.
        mirrors: beginnings of URLs and what to write for them. The longest one that fits rules;
            several for one beginning are tried in order. Where one fits, the source itself is not
            asked.
        indexes: addresses of package indexes, asked in order; an empty one is the public index.
        crates: addresses of registries of crates (their sparse index), asked in order.
        limits: how long and how much.
    """

    cache: Path
    project: Path
    env: tuple[tuple[str, str], ...] = ()
    offline: bool = False
    mirrors: tuple[tuple[str, str], ...] = ()
    indexes: tuple[str, ...] = ()
    crates: tuple[str, ...] = ()
    limits: Limits = Limits()

    def candidates(self, url: str) -> tuple[str, ...]:
        """The addresses to ask for a URL, in order."""
        fitting = [(old, new) for old, new in self.mirrors if old and url.startswith(old)]
        longest = max((len(old) for old, _ in fitting), default=0)
        found = [new + url[longest:] for old, new in fitting if len(old) == longest]
        return tuple(found) or (url,)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that must never be shown: users and passwords of the addresses in here."""
        urls = [new for _, new in self.mirrors]
        urls += [*self.indexes, *self.crates]
        urls += [value for name, value in self.env if name.lower().endswith("_proxy")]
        return tuple(secret for url in urls for secret in secrets_of(url))
