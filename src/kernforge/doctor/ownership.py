"""Who owns what in the folders of packages: claims, ghosts, and libraries left over.

Room `doctor`. Folders are listed, never followed through links; nothing is imported.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from kernforge.binary.facts import Finding
from kernforge.binary.library import LIBRARY_NAME
from kernforge.binary.tags import python_module
from kernforge.doctor.editable import Editable
from kernforge.doctor.files import Found, Walk, is_folder, listing, read_bytes
from kernforge.doctor.installed import Installed

SKIPPED = frozenset({"__pycache__", ".git", "node_modules", ".venv", ".tox"})
_HASHED = 64 << 20
_PLAIN = frozenset({"__pycache__", "lib", "bin", "include", "share", "etc", "man"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One import name that several distributions bring.

    Attributes:
        module: the import name.
        owners: the distributions, the one whose files Python finds first where that is known.
        text: what is known of it, as a sentence.
    """

    module: str
    owners: tuple[str, ...]
    text: str


def claims(
    copied: Iterable[Installed], edited: Iterable[tuple[Installed, Editable]]
) -> list[Claim]:
    """Import names that several distributions bring, sorted by name."""
    by_module: dict[str, list[Installed]] = {}
    for one in copied:
        for module in one.modules:
            by_module.setdefault(module, []).append(one)
    found = []
    for module, owners in by_module.items():
        if len({one.key for one in owners}) > 1 and (claim := _shared(module, owners)):
            found.append(claim)
    for one, place in edited:
        for module, path in place.modules:
            others = [o for o in by_module.get(module, []) if o.info != one.info]
            found += [_beside(module, one, (place, path), others)] if others else []
    return sorted(found, key=lambda claim: claim.module)


def _shared(module: str, owners: list[Installed]) -> Claim | None:
    """Copies: a claim where they wrote the same files with other bytes, or one hides the other."""
    names = tuple(dict.fromkeys(one.name for one in owners))
    common = _contested(module, owners)
    if common:
        winner = _winner(common, owners)
        last = (
            f"its files are those of {winner}" if winner else "whose files lie there is not known"
        )
        many = f"{len(common)} files" if len(common) > 1 else f"{common[0].name!r}"
        text = f"{module!r}: {many} in the RECORD of both {' and '.join(names)}; {last}"
        return Claim(module=module, owners=names, text=text)
    if len({one.site for one in owners}) == 1:
        return None
    first, second = owners[0], owners[1]
    where = f"{module!r} lies in {str(first.site)!r} and in {str(second.site)!r}"
    return Claim(module=module, owners=names, text=f"{where}; Python takes that of {first.name}")


def _contested(module: str, owners: list[Installed]) -> list[Path]:
    """Paths below an import name that two RECORDs list, not both with the same bytes."""
    said: dict[Path, set[bytes | None]] = {}
    times: dict[Path, int] = {}
    for one in owners:
        for name, row in one.record or ():
            if name.split("/")[0].split(".")[0] == module and not name.endswith(".pyc"):
                path = one.site / name
                said.setdefault(path, set()).add(row.sha256)
                times[path] = times.get(path, 0) + 1
    return sorted(p for p, n in times.items() if n > 1 and (len(said[p]) > 1 or None in said[p]))


def _winner(paths: list[Path], owners: list[Installed]) -> str | None:
    """Whose bytes lie there now, by the digests of the RECORDs; None where they do not tell."""
    scores = {one.name: 0 for one in owners}
    for path in paths[:200]:
        said = {one.name: dict(one.record or ()).get(_relative(path, one)) for one in owners}
        digests = {name: row.sha256 for name, row in said.items() if row and row.sha256}
        if len(set(digests.values())) < 2:
            continue
        data = read_bytes(path, _HASHED)
        real = hashlib.sha256(data).digest() if data is not None else b""
        for name, digest in digests.items():
            scores[name] += digest == real
    best = max(scores, key=lambda name: scores[name])
    clear = [name for name, score in scores.items() if score]
    return best if len(clear) == 1 else None


def _relative(path: Path, one: Installed) -> str:
    return str(path.relative_to(one.site)) if path.is_relative_to(one.site) else str(path)


def _beside(
    module: str, one: Installed, place: tuple[Editable, Path], others: list[Installed]
) -> Claim:
    names = (one.name, *dict.fromkeys(other.name for other in others))
    editable, path = place
    what = f"{module!r} is editable at {str(path)!r} and copied into {str(others[0].site)!r}"
    if editable.yields is None:
        return Claim(module=module, owners=names, text=f"{what}; which wins is not known")
    wins = "the copy" if editable.yields else "the editable one"
    return Claim(module=module, owners=names, text=f"{what}; Python takes {wins}")


def twins(installed: Iterable[Installed]) -> Iterator[tuple[Installed, ...]]:
    """Records of one distribution that lie in one folder several times: an update half done."""
    groups: dict[tuple[Path, str], list[Installed]] = {}
    for one in installed:
        groups.setdefault((one.site, one.key), []).append(one)
    yield from (tuple(group) for group in groups.values() if len(group) > 1)


def ghosts(site: Path, owned: frozenset[str]) -> list[Finding]:
    """Folders in site-packages that can be imported and belong to no distribution.

    A folder without an ``__init__`` is imported too, as a namespace package: what is left of an
    uninstalled package answers ``import`` and knows nothing.

    Args:
        site: the folder.
        owned: first parts of all paths that distributions own there.
    """
    found = []
    for one in listing(site) or ():
        name = one.path.name
        if one.folder and name.isidentifier() and name not in owned | _PLAIN:
            found.append(_ghost(one.path))
    return [finding for finding in found if finding is not None]


def _ghost(folder: Path) -> Finding | None:
    walk = Walk(folder)
    names = [one.path for one in walk]
    code = [path for path in names if path.suffix == ".py" and "__pycache__" not in path.parts]
    libraries = [path for path in names if LIBRARY_NAME.search(path.name)]
    if (folder / "__init__.py") in code:
        what = "a package"
    elif code or libraries:
        what = "a namespace package"
    else:
        what = f"an empty namespace package ({len(names)} files, none of them code)"
    more = f", with {len(libraries)} libraries" if libraries else ""
    unseen = "" if walk.whole else "; not all of it was looked at"
    text = f"{str(folder)!r} is imported as {what}{more} and belongs to no distribution{unseen}"
    return Finding(word="ghost-folder", text=text)


def owned_names(installed: Iterable[Installed], site: Path) -> frozenset[str]:
    """First parts of the paths that distributions own in a folder."""
    found: set[str] = set()
    for one in installed:
        if one.site != site:
            continue
        found |= {name.split("/")[0] for name in one.files}
        if one.record is None:  # its files are not known: what it may own accuses nobody
            found |= set(_top_levels(one)) | {one.key.replace("-", "_")}
    return frozenset(found)


def _top_levels(one: Installed) -> list[str]:
    data = read_bytes(one.info / "top_level.txt", 1 << 16) if is_folder(one.info) else None
    return (data or b"").decode("utf-8", "replace").split()


def stale(
    files: Iterable[Found], suffixes: tuple[str, ...], recorded: frozenset[Path]
) -> list[Finding]:
    """Several builds of one module side by side, and libraries that no RECORD lists.

    Args:
        files: the libraries of a distribution's folders.
        suffixes: of extension modules, as the interpreter prefers them.
        recorded: paths that RECORD lists; empty for an editable one, which lists none.
    """
    groups: dict[tuple[Path, str], list[Found]] = {}
    findings = []
    for one in files:
        groups.setdefault((one.path.parent, one.path.name.split(".")[0]), []).append(one)
        if recorded and one.path not in recorded:
            text = f"{str(one.path)!r} ({_day(one)}) is in no RECORD: left by an earlier install"
            findings.append(Finding(word="library-unlisted", text=text))
    for (folder, module), group in sorted(groups.items()):
        builds = [one for one in group if _is_module(one.path.name)]
        if len(builds) > 1:
            findings.append(_several(folder, module, builds, suffixes))
    return findings


def _is_module(name: str) -> bool:
    return python_module(name) is not None or (name.endswith(".so") and not name.startswith("lib"))


def _several(folder: Path, module: str, builds: list[Found], suffixes: tuple[str, ...]) -> Finding:
    def rank(one: Found) -> int:
        ends = one.path.name.removeprefix(module)
        return suffixes.index(ends) if ends in suffixes else len(suffixes)

    ordered = sorted(builds, key=lambda one: (rank(one), one.path.name))
    told = ", ".join(f"{one.path.name} ({_day(one)})" for one in ordered)
    taken = ordered[0] if rank(ordered[0]) < len(suffixes) else None
    wins = f"Python imports {taken.path.name}" if taken else "this Python imports none of them"
    newest = max(ordered, key=lambda one: one.changed)
    older = ", which is not the newest" if taken and newest.changed > taken.changed else ""
    text = f"{str(folder / module)!r} is there {len(builds)} times: {told}; {wins}{older}"
    return Finding(word="library-stale", text=text)


def _day(one: Found) -> str:
    return datetime.fromtimestamp(one.changed / 1e9, tz=UTC).strftime("%Y-%m-%d %H:%M")


def replaced(one: Installed, names: Iterable[str]) -> list[str]:
    """Files whose bytes are not those that RECORD names, in the order given."""
    rows = dict(one.record or ())
    found = []
    for name in names:
        row = rows.get(name)
        if row is None or row.sha256 is None:
            continue
        try:
            with (one.site / name).open("rb") as file:
                same = hashlib.file_digest(file, "sha256").digest() == row.sha256
        except OSError:
            continue
        found += [] if same else [name]
    return found
