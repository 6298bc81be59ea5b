"""Installed distributions, as their own records tell: dist-info and egg-info folders.

Room `doctor`. Text is read and nothing else; what is missing or garbled is a finding.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from kernforge.binary.facts import Finding
from kernforge.binary.findings import FindingLog
from kernforge.binary.record import Fields, Row, field, header_fields, read_record
from kernforge.doctor.files import is_folder, listing, read_text, regular
from kernforge.errors import VerifyError
from kernforge.pack.built import Built, read_built
from kernforge.source.redact import bare_url

_INFO = re.compile(r"(?P<name>[^-/]+?)(?:-(?P<version>[^-/]+))?(?:-py[\d.]+)?\.(?:dist|egg)-info")
"""Lines of blanks continue a field (licences that are written out); only an empty one ends all."""
_ASIDE = frozenset({"tests", "test", "testing", "docs", "doc", "examples", "benchmarks"})
_COMMIT = re.compile(r"\+(?:\w+\.)*?g([0-9a-f]{7,40})")
_SHOWN = 3
_BUILD_LIMIT = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Direct:
    """What ``direct_url.json`` says: where it was installed from.

    Attributes:
        url: without user and password.
        folder: the folder of a ``file:`` address, or None.
        editable: whether it was installed as editable.
        commit: of a repository, or None.
    """

    url: str
    folder: Path | None
    editable: bool
    commit: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """One distribution by its own records.

    Attributes:
        name: as METADATA spells it, else as its folder does.
        version: as METADATA has it, or None.
        info: its dist-info or egg-info folder (or file).
        site: the folder that holds it.
        metadata: header fields.
        installer: the program that installed it, or None.
        record: rows of RECORD by path relative to ``site``; None where there is none.
        missing: files of RECORD that are not there; bytecode, scripts, tests and documentation do
            not count, which images of containers are often rid of.
        direct: where it was installed from, or None.
        built: what its ``build.json`` says, where kernforge built it.
        findings: what is wrong with its records.
    """

    name: str
    version: str | None
    info: Path
    site: Path
    metadata: Fields
    installer: str | None
    record: tuple[tuple[str, Row], ...] | None
    missing: tuple[str, ...]
    direct: Direct | None
    built: Built | None
    findings: tuple[Finding, ...]

    @property
    def key(self) -> str:
        """Its name in the form by which names are compared."""
        return canonicalize_name(self.name)

    @property
    def named_commit(self) -> str | None:
        """The commit that its version names, as in ``0.5.9.dev3+g1936256e0``; digits as there."""
        match = _COMMIT.search(self.version or "")
        return match[1] if match else None

    @property
    def files(self) -> tuple[str, ...]:
        """The files of RECORD, relative to ``site``."""
        return tuple(name for name, _ in self.record or ())

    @property
    def own_files(self) -> tuple[str, ...]:
        """Those of them that are neither its records, scripts nor bytecode."""
        return tuple(name for name in self.files if _is_own(name))

    @property
    def modules(self) -> tuple[str, ...]:
        """The import names of its files, sorted."""
        tops = (name.split("/")[0].split(".")[0] for name in self.own_files if _is_code(name))
        return tuple(sorted({top for top in tops if top.isidentifier()}))


def _is_own(name: str) -> bool:
    top = name.split("/", maxsplit=1)[0]
    return not (
        top in {"..", "__pycache__", ""}
        or top.endswith((".dist-info", ".egg-info", ".data", ".pth"))
        or name.endswith((".pyc", ".pyo"))
    )


def _is_code(name: str) -> bool:
    return name.endswith((".py", ".pyi")) or ".so" in name.rpartition("/")[2]


def unknown_version(text: str | None) -> bool:
    """Whether a version says nothing: missing, no version at all, or all zeros as ``0.0.0.dev0``.

    Nothing may be concluded from such a version, neither "too old" nor "new enough".
    """
    try:
        return text is None or not any(Version(text).release)
    except InvalidVersion:
        return True


def find_installed(folders: tuple[Path, ...]) -> tuple[Installed, ...]:
    """Every distribution in these folders, in the order of folders, then by name."""
    found = []
    for site in folders:
        for one in listing(site) or ():
            match = _INFO.fullmatch(one.path.name)
            if match and not one.path.name.startswith("~"):
                found.append(_read(one.path, site, match))
    return tuple(found)


def leftovers(folder: Path) -> tuple[Path, ...]:
    """What an installer that was interrupted has left: names that begin with ``~``."""
    return tuple(one.path for one in listing(folder) or () if one.path.name.startswith("~"))


def _read(info: Path, site: Path, match: re.Match[str]) -> Installed:
    log = FindingLog()
    text = _metadata(info)
    if text is None:
        log.note("metadata-missing", f"{info.name} has no METADATA that can be read")
    fields = header_fields(text or "")
    record = _record(info, log)
    missing = _missing(site, record) if record is not None else ()
    if missing:
        names = ", ".join(missing[:_SHOWN]) + (" ..." if len(missing) > _SHOWN else "")
        many = f"{len(missing)} of {len(record or ())}"
        log.note("files-missing", f"RECORD lists files that are not there ({many}): {names}")
    return Installed(
        name=field(fields, "Name") or match["name"],
        version=field(fields, "Version") or (match["version"] if text is None else None),
        info=info,
        site=site,
        metadata=fields,
        installer=(read_text(info / "INSTALLER", 256) or "").strip() or None,
        record=record,
        missing=missing,
        direct=_direct(info, log),
        built=_built(info),
        findings=log.all,
    )


def _metadata(info: Path) -> str | None:
    if info.name.endswith(".egg-info"):
        return read_text(info / "PKG-INFO" if is_folder(info) else info)
    return read_text(info / "METADATA")


def _record(info: Path, log: FindingLog) -> tuple[tuple[str, Row], ...] | None:
    if info.name.endswith(".egg-info"):
        return None
    text = read_text(info / "RECORD", 64 << 20)
    if text is None:
        log.note("record-missing", f"{info.name} has no RECORD: its files are not known")
        return None
    return tuple(sorted(read_record(text, log).items()))


def _missing(site: Path, record: tuple[tuple[str, Row], ...]) -> tuple[str, ...]:
    return tuple(
        name
        for name, _ in record
        if _is_own(name) and not _ASIDE & set(name.split("/")) and regular(site / name) is None
    )


def _direct(info: Path, log: FindingLog) -> Direct | None:
    text = read_text(info / "direct_url.json", 1 << 20)
    if text is None:
        return None
    try:
        document: dict[str, Any] = json.loads(text)
        url = str(document["url"])
        parts = urlsplit(url)
        return Direct(
            url=bare_url(url),
            folder=Path(unquote(parts.path)) if parts.scheme == "file" else None,
            editable=document.get("dir_info", {}).get("editable") is True,
            commit=_commit(document.get("vcs_info", {}).get("commit_id")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        log.note("direct-url-garbled", "its direct_url.json cannot be read")
        return None


def _commit(value: object) -> str | None:
    text = str(value)
    return text if re.fullmatch(r"[0-9a-f]{7,64}", text) else None


def _built(info: Path) -> Built | None:
    text = read_text(info / "build.json", _BUILD_LIMIT)
    if text is None:
        return None
    try:
        return read_built(info, {"build.json": text.encode()})
    except VerifyError:
        return None
