"""Reads a Cargo.lock: which crates a build needs, each with its SHA-256 or commit. Pure.

Members of the workspace have no source and are no crates. Versions 2 to 4 of the file name each
crate's checksum beside it; version 1 (cargo before 1.41) keeps them apart and is refused. Crates of
git repositories have a commit instead, which cargo has resolved whatever the manifest asked for.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from kernforge.errors import SourceError

_DEFAULT_REGISTRY = "registry+https://github.com/rust-lang/"
"""How every Cargo.lock begins to name the default registry, whichever mirror served it."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}", re.ASCII)
_VERSION = re.compile(r"\d+\.\d+\.\d+[0-9A-Za-z.+-]{0,100}", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}", re.ASCII)
_ASKED = frozenset({"branch", "rev", "tag"})
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Crate:
    """One crate of the registry; ``sha256`` is that of its packed file."""

    name: str
    version: str
    sha256: str

    @property
    def folder(self) -> str:
        """Its folder in a vendored registry, as cargo itself calls it."""
        return f"{self.name}-{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Origin:
    """A git repository at a commit, as a lock names it.

    Attributes:
        name: the lock's own text, less the commit.
        url: the repository.
        asked: what the manifest asked for: ``rev``, ``tag`` or ``branch`` and its value, or none.
        commit: what that was resolved to, all 40 digits.
    """

    name: str
    url: str
    asked: tuple[tuple[str, str], ...]
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class GitCrate:
    """One crate of a git repository."""

    name: str
    version: str
    origin: Origin

    @property
    def folder(self) -> str:
        """Its folder in a vendored registry; the commit tells it from a crate of the registry."""
        return f"{self.name}-{self.version}-{self.origin.commit[:12]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """What a lock names, sorted: crates of the registry, and of git repositories."""

    crates: tuple[Crate, ...]
    git: tuple[GitCrate, ...]

    @property
    def count(self) -> int:
        """How many crates there are."""
        return len(self.crates) + len(self.git)

    @property
    def origins(self) -> tuple[Origin, ...]:
        """The git repositories, each once."""
        return tuple(sorted({crate.origin for crate in self.git}))


def read_lock(data: bytes, what: str) -> Locked:
    """The crates that a lock names; path and workspace packages are left out.

    Args:
        data: the file.
        what: what it is, for messages: ``sglang/rust/Cargo.lock``.

    Raises:
        SourceError: ``cargo-lock-invalid``, or ``crate-origin`` where a package comes from another
            registry than the default one.
    """
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _invalid(what, f"is not TOML: {error}") from error
    packages = document.get("package", [])
    if not isinstance(packages, list) or not all(isinstance(item, dict) for item in packages):
        raise _invalid(what, "has no list of packages")
    fetched = [item for item in packages if item.get("source") is not None]
    from_git = [item for item in fetched if str(item["source"]).startswith("git+")]
    others = [item for item in fetched if item not in from_git]
    _check_origins(others, what)
    return Locked(
        crates=tuple(sorted({_crate(item, what) for item in others})),
        git=tuple(sorted({_git_crate(item, what) for item in from_git})),
    )


def counted(count: int, what: str = "crate") -> str:
    """A number of things in words: ``1 crate``, ``606 crates``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _invalid(what: str, why: str) -> SourceError:
    hint = "let `cargo generate-lockfile` of a recent cargo write it, and pin that"
    return SourceError("cargo-lock-invalid", f"{what} {why}", hint=hint)


def _check_origins(packages: list[dict[str, Any]], what: str) -> None:
    strange = [p for p in packages if not str(p["source"]).startswith(_DEFAULT_REGISTRY)]
    if not strange:
        return
    names = ", ".join(str(p.get("name")) for p in strange[:_SHOWN])
    more = ", ..." if len(strange) > _SHOWN else ""
    raise SourceError(
        "crate-origin",
        f"{what}: from another registry: {counted(len(strange), 'package')} ({names}{more})",
        hint="only crates of the default registry and of git repositories are fetched: make it a "
        "source of its own, patch Cargo.toml to a path, and pin the lock that follows",
    )


def _named(item: dict[str, Any], what: str) -> tuple[str, str]:
    name, version = str(item.get("name", "")), str(item.get("version", ""))
    if not _NAME.fullmatch(name) or not _VERSION.fullmatch(version):
        raise _invalid(what, f"names a package {name[:80]!r} {version[:80]!r}, no crate")
    return name, version


def _crate(item: dict[str, Any], what: str) -> Crate:
    name, version = _named(item, what)
    checksum = str(item.get("checksum", ""))
    if not _SHA256.fullmatch(checksum):
        raise _invalid(what, f"gives no SHA-256 for the crate {name} {version}")
    return Crate(name=name, version=version, sha256=checksum)


def _git_crate(item: dict[str, Any], what: str) -> GitCrate:
    name, version = _named(item, what)
    text, _, commit = str(item["source"]).partition("#")
    if not _COMMIT.fullmatch(commit):
        raise _invalid(what, f"gives no commit for the crate {name} {version}")
    url, _, _ = text.removeprefix("git+").partition("?")
    asked = [(key, value) for key, value in parse_qsl(urlsplit(text).query) if key in _ASKED]
    origin = Origin(name=text, url=url, asked=tuple(asked), commit=commit)
    return GitCrate(name=name, version=version, origin=origin)
