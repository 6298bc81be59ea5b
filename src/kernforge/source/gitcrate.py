"""Takes a crate out of a git repository: its folder, and a manifest that stands by itself.

A crate of a workspace inherits fields and dependencies from the workspace's manifest, and names its
neighbours by path; out of it, it can do neither. The rules are those of Cargo's book, "Workspaces".
"""

from __future__ import annotations

import datetime as dt
import json
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernforge.errors import SourceError
from kernforge.source.cratelock import GitCrate

_DROPPED = ("workspace", "lints", "patch", "replace", "profile", "badges", "dev-dependencies")
_DEPENDENCIES = ("dependencies", "build-dependencies")

_Table = dict[str, Any]


def place_git_crate(crate: GitCrate, checkout: Path, into: Path) -> None:
    """Copy a crate out of its repository's tree, with a manifest of its own.

    Args:
        crate: which.
        checkout: the repository at the crate's commit, as plain files.
        into: the new folder.

    Raises:
        SourceError: ``crate-missing-in-git``: the repository holds no such crate.
    """
    folder, manifest, workspace = _find(crate, checkout)
    shutil.copytree(folder, into, symlinks=True)
    for path in into.rglob("*"):
        if path.is_symlink():
            _settle_link(path, folder / path.relative_to(into), folder)
    text = _toml(_alone(manifest, workspace, crate))
    (into / "Cargo.toml").write_text(text, encoding="utf-8")


def _settle_link(copy: Path, original: Path, folder: Path) -> None:
    """A link that leaves the crate, as to the repository's licence, becomes what it points to."""
    target = original.resolve()
    if folder.resolve() in target.parents:
        return
    copy.unlink()
    if target.is_file():
        shutil.copyfile(target, copy)


def _read(path: Path) -> _Table | None:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return None  # a fixture of somebody's tests, as far as we know


def _find(crate: GitCrate, checkout: Path) -> tuple[Path, _Table, _Table]:
    """The crate's folder, its manifest, and the table ``workspace`` that it inherits from."""
    for path in sorted(checkout.rglob("Cargo.toml")):
        manifest = _read(path)
        package = manifest.get("package") if manifest is not None else None
        if manifest is None or not isinstance(package, dict) or package.get("name") != crate.name:
            continue
        workspace = _workspace(path.parent, checkout)
        version = package.get("version", "0.0.0")
        if _is_inherited(version):
            version = workspace.get("package", {}).get("version")
        if version == crate.version:
            return path.parent, manifest, workspace
    raise SourceError(
        "crate-missing-in-git",
        f"crate '{crate.name} {crate.version}' is not in {crate.origin.url!r} at "
        f"{crate.origin.commit[:12]}",
        hint="does the Cargo.lock belong to this source?",
    )


def _workspace(folder: Path, checkout: Path) -> _Table:
    for parent in (folder, *folder.parents):
        found = (_read(parent / "Cargo.toml") or {}).get("workspace")
        if isinstance(found, dict):
            return found
        if parent == checkout:
            break
    return {}


def _is_inherited(value: object) -> bool:
    return isinstance(value, dict) and value.get("workspace") is True


def _alone(manifest: _Table, workspace: _Table, crate: GitCrate) -> _Table:
    found = {key: value for key, value in manifest.items() if key not in _DROPPED}
    shared = workspace.get("package", {})
    package = {
        key: shared.get(key) if _is_inherited(value) else value
        for key, value in manifest["package"].items()
        if key != "workspace" and not (key in {"readme", "license-file"} and _is_inherited(value))
    }
    found["package"] = {key: value for key, value in package.items() if value is not None}
    for table in _dependency_tables(found):
        for name, value in table.items():
            table[name] = _dependency(name, value, workspace, crate)
    return found


def _dependency_tables(manifest: _Table) -> Iterator[_Table]:
    targets = manifest.get("target", {})
    for part in (manifest, *targets.values()):
        part.pop("dev-dependencies", None)
        yield from (part[key] for key in _DEPENDENCIES if key in part)


def _dependency(name: str, value: Any, workspace: _Table, crate: GitCrate) -> Any:
    if isinstance(value, dict) and value.get("workspace") is True:
        shared = workspace.get("dependencies", {}).get(name, {})
        own = {key: item for key, item in value.items() if key != "workspace"}
        base = {"version": shared} if isinstance(shared, str) else shared
        features = [*base.get("features", []), *own.get("features", [])]
        value = {**base, **own, **({"features": features} if features else {})}
    if not isinstance(value, dict) or "path" not in value:
        return value
    kept = {key: item for key, item in value.items() if key != "path"}
    return {**kept, "git": crate.origin.url, **dict(crate.origin.asked)}


def _toml(document: _Table) -> str:
    """A document in which every table of the top is written inline."""
    return "".join(f"{json.dumps(key)} = {_value(item)}\n" for key, item in document.items())


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case dict():
            return f"{{ {', '.join(f'{json.dumps(k)} = {_value(v)}' for k, v in value.items())} }}"
        case list():
            return f"[{', '.join(_value(item) for item in value)}]"
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case _:
            return repr(value)
