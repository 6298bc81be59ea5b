"""Sources of kind ``cargo``: the crates of a Cargo.lock, fetched one by one, vendored for cargo.

The lock is known by its SHA-256 and kept beside the downloads, so that what it names is known
without the source it came from. Cargo itself is never called here: a registry's ``config.json``
says where its crates lie, and each is checked against the lock's checksum; crates of git
repositories come by commit, as sources of kind ``git`` do.
"""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path

from kernforge.errors import SourceError
from kernforge.process import Runner
from kernforge.recipe.model import CargoSource, GitSource
from kernforge.source.archive import place_packed
from kernforge.source.cache import disk_faults, file_place, file_sha256, write_whole
from kernforge.source.checkout import fetch_git, git_fetched, place_git
from kernforge.source.cratelock import Locked, Origin, read_lock
from kernforge.source.crateregistry import fetch_crates, is_kept, packed
from kernforge.source.gitcrate import place_git_crate
from kernforge.source.redact import bare_url
from kernforge.source.settings import FetchSettings, Told

_CONFIG = """\
[source.crates-io]
replace-with = "kernforge"

[source.kernforge]
directory = "{folder}"

[net]
offline = true
"""
_REPLACED = """
[source.{name}]
git = {url}
{asked}replace-with = "kernforge"
"""


def lock_kept(source: CargoSource, settings: FetchSettings) -> bool:
    """Whether the lock's very bytes are in the cache."""
    return file_sha256(file_place(settings.cache, source.sha256)) == source.sha256


def check_lock(source: CargoSource, path: Path) -> bytes:
    """The bytes of the Cargo.lock that lies in a placed source; they must be what is pinned.

    Raises:
        SourceError: ``cargo-lock-missing`` or ``hash-mismatch``.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SourceError(
            "cargo-lock-missing",
            f"{source.cargo!r} is not there: {error.strerror}",
            hint="name the source, then the path of the Cargo.lock in it; is it in sparse?",
        ) from error
    got = sha256(data).hexdigest()
    if got != source.sha256:
        raise SourceError(
            "hash-mismatch",
            f"{source.cargo!r} has SHA-256 {got}, not {source.sha256}",
            hint="the pin is of the lock as the build sees it, patches and edits done",
        )
    return data


def keep_lock(source: CargoSource, path: Path, settings: FetchSettings) -> None:
    """Put the lock of a placed source into the cache.

    Raises:
        SourceError: as :func:`check_lock` and :func:`kernforge.source.cratelock.read_lock`.
        CacheError: ``disk-full`` or ``cache-unwritable``.
    """
    data = check_lock(source, path)
    read_lock(data, source.cargo)
    with disk_faults(settings.cache):
        write_whole(file_place(settings.cache, source.sha256), data)


def fetch_cargo(source: CargoSource, settings: FetchSettings, runner: Runner, told: Told) -> None:
    """Have every crate of a kept lock in the cache.

    Raises:
        SourceError: ``offline-missing``, ``crates-unnamed``, or as
            :func:`kernforge.source.download.download` and
            :func:`kernforge.source.checkout.fetch_git`.
        CacheError: ``disk-full`` or ``cache-unwritable``.
    """
    locked = _locked(source, settings)
    for origin in locked.origins:
        fetch_git(_repository(origin, source.cargo), settings, runner, told)
    fetch_crates(locked.crates, source.cargo, settings, told)


def cargo_fetched(source: CargoSource, settings: FetchSettings) -> bool:
    """Whether the lock and all its crates are in the cache."""
    if not lock_kept(source, settings):
        return False
    locked = _locked(source, settings)
    repositories = (_repository(origin, source.cargo) for origin in locked.origins)
    return all(is_kept(crate, settings) for crate in locked.crates) and all(
        git_fetched(repository, settings) for repository in repositories
    )


def place_cargo(source: CargoSource, settings: FetchSettings, into: Path, runner: Runner) -> None:
    """Unpack every crate into a folder of its own, as cargo expects of a vendored registry.

    ``.cargo-checksum.json`` names no single file: the packed crate was checked here, and the recipe
    may edit what comes of it.

    Raises:
        SourceError: ``offline-missing``, ``hash-mismatch``, as
            :func:`kernforge.source.unpack.unpack`, or as
            :func:`kernforge.source.gitcrate.place_git_crate`.
    """
    locked = _locked(source, settings)
    for crate in locked.crates:
        folder = into / crate.folder
        folder.mkdir()
        place_packed(packed(crate, settings), settings, folder, strip=1)
        _write_checksum(folder, crate.sha256)
    for origin in locked.origins:
        checkout = into / ".checkout"
        checkout.mkdir()
        place_git(_repository(origin, source.cargo), settings, checkout, runner)
        for each in (crate for crate in locked.git if crate.origin == origin):
            place_git_crate(each, checkout, into / each.folder)
            _write_checksum(into / each.folder, None)
        shutil.rmtree(checkout)


def _write_checksum(folder: Path, package: str | None) -> None:
    path = folder / ".cargo-checksum.json"
    path.unlink(missing_ok=True)  # a crate's own may be a link
    path.write_text(json.dumps({"files": {}, "package": package}), encoding="utf-8")


def write_config(source: CargoSource, settings: FetchSettings, tree: Path, place: str) -> None:
    """Tell every cargo that runs below ``tree`` to take crates from the folder ``place`` alone.

    Raises:
        SourceError: ``offline-missing``.
    """
    text = _CONFIG.format(folder=place)
    for origin in _locked(source, settings).origins:
        asked = "".join(f"{key} = {json.dumps(value)}\n" for key, value in origin.asked)
        text += _REPLACED.format(
            name=json.dumps(origin.name), url=json.dumps(origin.url), asked=asked
        )
    folder = tree / ".cargo"
    folder.mkdir()
    (folder / "config.toml").write_text(text, encoding="utf-8")


def _repository(origin: Origin, what: str) -> GitSource:
    fault = SourceError(
        "crate-origin",
        f"{what}: {bare_url(origin.url)!r} is no git address that is allowed here",
        hint="https, http, ssh and git addresses are, without user and password",
    )
    if origin.url.lower().startswith("file:"):  # no lock may name a folder of this machine
        raise fault
    try:
        return GitSource.model_validate({"git": origin.url, "commit": origin.commit})
    except ValueError as error:
        raise fault from error


def _locked(source: CargoSource, settings: FetchSettings) -> Locked:
    path = file_place(settings.cache, source.sha256)
    if not lock_kept(source, settings):
        raise SourceError(
            "offline-missing",
            f"the crates of {source.cargo!r} are not at hand",
            hint="run `kernforge fetch` with network first",
        )
    return read_lock(path.read_bytes(), source.cargo)
