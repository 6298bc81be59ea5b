"""Submodules: which commits of which repositories a commit names, and which of them are allowed.

``.gitmodules`` is a stranger's file. Addresses in it may use https, http, ssh and git, and ``file``
only where the repository itself came so; commands (``ext::``) and folders of this machine may not.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from kernforge.errors import SourceError
from kernforge.source.git import Git
from kernforge.source.gittree import GITLINK, Entry, within
from kernforge.source.mirror import Mirror, Want
from kernforge.source.redact import bare_url, redacted

_URL = re.compile(r"(https?|ssh|git|file)://[^\s\x00-\x1f\x7f]+", re.IGNORECASE)
_SCP = re.compile(r"[\w.][\w.-]*@[\w.][\w.-]*:(?![:-])[^\s\x00-\x1f\x7f]+", re.ASCII)
_REMEDY = "leave submodules out, and name this one as a source of its own with `into`"


def wanted_submodules(
    mirror: Mirror, want: Want, listing: tuple[Entry, ...]
) -> tuple[tuple[str, Want], ...]:
    """The submodules of a commit within the wanted paths: their path in it, and what they are.

    Raises:
        SourceError: ``submodule-unknown`` or ``submodule-refused``.
    """
    links = [entry for entry in listing if entry.mode == GITLINK]
    chosen = [(link, _paths_in(link.path, want.paths)) for link in links]
    chosen = [(link, paths) for link, paths in chosen if paths is not None]
    if not chosen:
        return ()
    addresses = _addresses(mirror.git, mirror, want)
    found = []
    for link, paths in chosen:
        where = f"{want.where}/{link.path}" if want.where else link.path
        url = addresses.get(link.path)
        if url is None:
            raise SourceError(
                "submodule-unknown",
                f"{where!r} is a submodule, but .gitmodules of {bare_url(want.url)!r} gives no "
                "address for it",
                hint=_REMEDY,
            )
        real = resolved(want.url, url, where)
        found.append((link.path, Want(url=real, commit=link.oid, paths=paths or (), where=where)))
    return tuple(found)


def _paths_in(path: str, wanted: tuple[str, ...]) -> tuple[str, ...] | None:
    """What of a submodule is wanted: ``()`` all, None nothing."""
    if not wanted or any(within(path, folder) for folder in wanted):
        return ()
    inside = tuple(p[len(path) + 1 :] for p in wanted if within(p, path))
    return inside or None


def _addresses(git: Git, mirror: Mirror, want: Want) -> dict[str, str]:
    """Addresses by path."""
    blob = f"{want.commit}:.gitmodules"
    if git.local(mirror.folder, "cat-file", "-e", blob).returncode:
        return {}
    result = git.local(mirror.folder, "config", f"--blob={blob}", "-z", "--list")
    if result.returncode:
        message = f".gitmodules of {bare_url(want.url)!r} cannot be read"
        raise SourceError("submodule-refused", message, hint=_REMEDY)
    modules: dict[str, dict[str, str]] = {}
    for item in result.text.split("\0"):
        key, _, value = item.partition("\n")
        section, _, rest = key.partition(".")
        name, dot, field = rest.rpartition(".")
        if section == "submodule" and dot:
            modules.setdefault(name, {})[field] = value
    return {m["path"].rstrip("/"): m["url"] for m in modules.values() if "path" in m and "url" in m}


def resolved(parent: str, url: str, where: str) -> str:
    """The whole address of a submodule.

    Args:
        parent: the address of the repository that names it.
        url: what that repository says.
        where: the submodule's path, for messages.

    Raises:
        SourceError: ``submodule-refused``.
    """
    whole = _joined(parent, url, where) if url.startswith(("./", "../")) else url
    if not _URL.fullmatch(whole) and not _SCP.fullmatch(whole):
        raise _refused(where, url, "is no address of a server")
    if whole.lower().startswith("file:") and not parent.lower().startswith("file:"):
        raise _refused(where, url, "is a folder of this machine")
    if "://" in whole and urlsplit(whole).netloc.rpartition("@")[2].startswith("-"):
        raise _refused(where, url, "looks like an option")
    return whole


def _joined(parent: str, url: str, where: str) -> str:
    base = parent.rstrip("/")
    rest = url
    while rest.startswith(("./", "../")):
        if rest.startswith("../"):
            head = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*|[^/:]*:(?!//)", base)
            start = head.end() if head else 0
            path = base[start:].strip("/")
            if not path:
                raise _refused(where, url, f"leads above {bare_url(parent)!r}")
            cut = path.rpartition("/")[0]
            slash = "/" if base[start:].startswith("/") and cut else ""
            base = base[:start] + slash + cut
        rest = rest.partition("/")[2]
    if ".." in rest.split("/"):
        raise _refused(where, url, "leads upwards in its midst")
    return base + rest if base.endswith(":") else f"{base}/{rest}"


def _refused(where: str, url: str, why: str) -> SourceError:
    return SourceError(
        "submodule-refused",
        f"Submodule {where!r}: its address {redacted(bare_url(url))!r} {why}",
        hint=_REMEDY,
    )
