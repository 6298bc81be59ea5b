"""The user's configuration of indexes and mirrors: where things are fetched, never what.

`kernforge/config.toml` in the user's configuration folder:

    indexes = ["https://index.example/simple"]
    crates = ["https://crates.example/index/"]

    [mirrors]
    "https://github.com/" = "https://mirror.example/github/"

    [compile-cache]
    SCCACHE_REDIS_ENDPOINT = "redis://cache.example:6379"

Without `indexes`, those of uv's and pip's settings are used; without `crates`, the registry that
cargo's own configuration puts in place of the default one.
"""

from __future__ import annotations

import configparser
import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernforge.errors import RecipeError

_KEYS = frozenset({"indexes", "mirrors", "crates", "compile-cache"})
_AWS = re.compile(r"AWS_[A-Z0-9_]+")
_PLACES = {
    "SCCACHE_AZURE_BLOB_CONTAINER": "AZURE_CONNECTION_STRING AZURE_KEY_PREFIX AZURE_RW_MODE",
    "SCCACHE_BUCKET": "ENDPOINT REGION S3_ENABLE_VIRTUAL_HOST_STYLE S3_KEY_PREFIX S3_RW_MODE"
    " S3_NO_CREDENTIALS S3_SERVER_SIDE_ENCRYPTION S3_USE_SSL",
    "SCCACHE_COS_BUCKET": "COS_ENDPOINT COS_KEY_PREFIX COS_RW_MODE",
    "SCCACHE_GCS_BUCKET": "GCS_CREDENTIALS_URL GCS_KEY_PATH GCS_KEY_PREFIX GCS_OAUTH_URL"
    " GCS_RW_MODE GCS_SERVICE_ACCOUNT",
    "SCCACHE_GHA_ENABLED": "GHA_RW_MODE GHA_VERSION",
    "SCCACHE_MEMCACHED": "MEMCACHED_EXPIRATION MEMCACHED_KEY_PREFIX MEMCACHED_PASSWORD"
    " MEMCACHED_RW_MODE MEMCACHED_USERNAME",
    "SCCACHE_MEMCACHED_ENDPOINT": "",
    "SCCACHE_OSS_BUCKET": "OSS_ENDPOINT OSS_KEY_PREFIX OSS_NO_CREDENTIALS OSS_RW_MODE",
    "SCCACHE_REDIS": "REDIS_DB REDIS_EXPIRATION REDIS_KEY_PREFIX REDIS_PASSWORD REDIS_RW_MODE"
    " REDIS_TTL REDIS_USERNAME",
    "SCCACHE_REDIS_CLUSTER_ENDPOINTS": "",
    "SCCACHE_REDIS_ENDPOINT": "",
    "SCCACHE_WEBDAV_ENDPOINT": "WEBDAV_KEY_PREFIX WEBDAV_PASSWORD WEBDAV_RW_MODE WEBDAV_TOKEN"
    " WEBDAV_USERNAME",
}
"""Settings of sccache 0.16 that name a storage, and those that go with it (its program's texts)."""
_KNOWN = {*_PLACES, *(f"SCCACHE_{name}" for more in _PLACES.values() for name in more.split())}


@dataclass(frozen=True, slots=True, kw_only=True)
class UserConfig:
    """Where things are fetched.

    Attributes:
        indexes: package indexes, in the order in which they are asked; an empty one stands for the
            public one, the client library's own default.
        mirrors: beginnings of URLs with their replacement.
        crates: sparse indexes of crate registries, in the order in which they are asked.
        storage: where machines share their compile cache, in sccache's own words.
    """

    indexes: tuple[str, ...]
    mirrors: tuple[tuple[str, str], ...]
    crates: tuple[str, ...] = ()
    storage: tuple[tuple[str, str], ...] = ()


def _folder(env: Mapping[str, str]) -> Path | None:
    base = env.get("XDG_CONFIG_HOME") or (f"{env['HOME']}/.config" if env.get("HOME") else "")
    return Path(base) if base else None


def _own(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RecipeError("config-invalid", f"{path}: {error}", hint="it is TOML") from error


def _texts(own: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = own.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise RecipeError("config-invalid", f"{where}: {key} is a list of addresses")
    return tuple(value)


def _pairs(value: object, where: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise RecipeError("config-invalid", f"{where}: mirrors maps beginnings of URLs to others")
    return tuple(sorted(value.items()))


_STORAGE_HINT = (
    'as SCCACHE_REDIS_ENDPOINT = "redis://cache.example:6379"; AWS_ ones may be variables of the '
    "environment"
)


def _storage(value: object, where: str) -> tuple[tuple[str, str], ...]:
    named = value if isinstance(value, dict) else {"": ""}
    what = f"{where}: [compile-cache]"
    if not all(isinstance(item, str) and item.strip().isprintable() and item.strip()
               for item in named.values()):  # fmt: skip
        text = f"{what} holds sccache's own settings as text"
        raise RecipeError("config-invalid", text, hint=_STORAGE_HINT)
    for name in named:
        if name not in _KNOWN and not _AWS.fullmatch(name):
            near = difflib.get_close_matches(name, sorted(_KNOWN), n=1)
            hint = f"did you mean {near[0]}?" if near else _STORAGE_HINT
            text = f"{what}: {name!r} is no setting of a storage that sccache 0.16 knows"
            raise RecipeError("config-invalid", text, hint=hint)
    if named and not _PLACES.keys() & named.keys():
        text = f"{what} names no storage"
        raise RecipeError("config-invalid", text, hint=f"one of {', '.join(sorted(_PLACES))}")
    return tuple(sorted(named.items()))


def _is_named(word: str) -> bool:
    return "=" in word and "://" not in word.split("=", 1)[0]


def _addresses(text: str | None) -> list[str]:
    words = (text or "").split()
    return [word.split("=", 1)[1] if _is_named(word) else word for word in words]


def _of_environment(env: Mapping[str, str]) -> tuple[list[str], list[str]]:
    first = env.get("UV_DEFAULT_INDEX") or env.get("UV_INDEX_URL") or env.get("PIP_INDEX_URL")
    more = env.get("UV_INDEX") or env.get("UV_EXTRA_INDEX_URL") or env.get("PIP_EXTRA_INDEX_URL")
    return _addresses(first), _addresses(more)


def _of_pip(files: tuple[Path, ...]) -> tuple[list[str], list[str]]:
    first: list[str] = []
    more: list[str] = []
    for file in files:
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read(file, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError, OSError):
            continue
        first = parser.get("global", "index-url", fallback="").split() or first
        more += parser.get("global", "extra-index-url", fallback="").split()
    return first, more


def _indexes(env: Mapping[str, str], pip_files: tuple[Path, ...]) -> tuple[str, ...]:
    first, more = _of_environment(env)
    pip_first, pip_more = _of_pip(pip_files)
    return tuple(dict.fromkeys([*(first or pip_first or [""]), *(more or pip_more)]))


def _of_cargo(env: Mapping[str, str]) -> tuple[str, ...]:
    """The sparse registry that cargo's configuration puts in place of the default one, if any."""
    home = env.get("CARGO_HOME") or (f"{env['HOME']}/.cargo" if env.get("HOME") else "")
    for name in ("config.toml", "config") if home else ():
        try:
            found = tomllib.loads((Path(home) / name).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
            continue
        sources, registries = _table(found, "source"), _table(found, "registries")
        chosen = "crates-io"
        for _ in sources:
            chosen = str(_table(sources, chosen).get("replace-with", chosen))
        address = _table(sources, chosen).get("registry", _table(registries, chosen).get("index"))
        if isinstance(address, str) and address.startswith("sparse+"):
            return (address,)
    return ()


def _table(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = document.get(key)
    return found if isinstance(found, dict) else {}


def read_user_config(env: Mapping[str, str]) -> UserConfig:
    """Read what the user's environment and files say.

    Args:
        env: the user's environment.

    Raises:
        RecipeError: ``config-invalid``.
    """
    folder = _folder(env)
    path = folder / "kernforge/config.toml" if folder else None
    own = _own(path) if path else {}
    if unknown := sorted(own.keys() - _KEYS):
        raise RecipeError(
            "config-invalid",
            f"{path}: unknown key {unknown[0]!r}",
            hint=f"known: {', '.join(sorted(_KEYS))}",
        )
    pip_files = [Path("/etc/pip.conf"), Path("/etc/xdg/pip/pip.conf")]
    if folder:
        pip_files += [folder.parent / ".pip/pip.conf", folder / "pip/pip.conf"]
    pip_files += [Path(env["PIP_CONFIG_FILE"])] if env.get("PIP_CONFIG_FILE") else []
    named = _texts(own, "indexes", str(path))
    return UserConfig(
        indexes=named or _indexes(env, tuple(pip_files)),
        mirrors=_pairs(own.get("mirrors", {}), str(path)),
        crates=_texts(own, "crates", str(path)) or _of_cargo(env),
        storage=_storage(own.get("compile-cache", {}), str(path)),
    )
