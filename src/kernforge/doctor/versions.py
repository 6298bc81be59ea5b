"""Versions as texts say them: pyproject.toml, a package's files; and why one is unknown.

Room `doctor`. No module is imported: ``__version__`` is found in the syntax tree.
"""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernforge.doctor.checkout import GitFacts
from kernforge.doctor.editable import parse
from kernforge.doctor.files import read_text, regular
from kernforge.doctor.installed import unknown_version

_SOURCE_LIMIT = 1 << 20
_HOPS = 4
_FILES = ("_version.py", "version.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What a project's build files say of its version.

    Attributes:
        file: the file that was read, relative to the project; None where there is none.
        static: a version that is written out.
        scm: the tool that takes it from git, as ``setuptools-scm``; None where none does.
        fallback: the version that tool gives without git.
        describe: the command that it asks instead of ``git describe``, or None.
    """

    file: str | None
    static: str | None = None
    scm: str | None = None
    fallback: str | None = None
    describe: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """A version that a file of the package states.

    Attributes:
        file: relative to the package's parent folder.
        name: ``__version__`` or ``version``.
        exposed: whether it is what the package itself has as ``__version__``.
        value: the text; None where it is computed when the module is imported.
    """

    file: str
    name: str
    value: str | None
    exposed: bool = False


def declared(project: Path) -> Declared:
    """Read how a project says its version."""
    text = read_text(project / "pyproject.toml", _SOURCE_LIMIT)
    if text is None:
        return _from_setup(project)
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return Declared(file="pyproject.toml")
    static = _table(document, "project").get("version")
    tool, options = _scm(document)
    if tool is None and not isinstance(static, str):
        other = _from_setup(project)
        return other if other.file else Declared(file="pyproject.toml")
    return Declared(
        file="pyproject.toml",
        static=static if isinstance(static, str) else None,
        scm=tool,
        fallback=_text(options.get("fallback_version", options.get("fallback-version"))),
        describe=_text(options.get("git_describe_command")),
    )


def _table(document: dict[str, Any], *keys: str) -> dict[str, Any]:
    here: Any = document
    for key in keys:
        here = here.get(key) if isinstance(here, dict) else None
    return here if isinstance(here, dict) else {}


def _text(value: object) -> str | None:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return value if isinstance(value, str) else None


def _scm(document: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    tools = document.get("tool")
    if not isinstance(tools, dict):
        return None, {}
    for key in ("setuptools_scm", "setuptools-scm", "vcs-versioning"):
        if isinstance(tools.get(key), dict):
            return "setuptools-scm", tools[key]
    hatch = _table(document, "tool", "hatch", "version")
    if hatch.get("source") == "vcs":
        return "hatch-vcs", _table(hatch, "raw-options") or hatch
    skbuild = _table(document, "tool", "scikit-build", "metadata", "version")
    if "setuptools_scm" in str(skbuild.get("provider", "")):
        return "setuptools-scm", {}
    if _table(document, "tool", "pdm", "version").get("source") == "scm":
        return "pdm", _table(document, "tool", "pdm", "version")
    return None, {}


def _from_setup(project: Path) -> Declared:
    for name in ("setup.py", "setup.cfg"):
        text = read_text(project / name, _SOURCE_LIMIT)
        if text is not None:
            scm = "setuptools-scm" if "use_scm_version" in text else None
            return Declared(file=name, scm=scm)
    return Declared(file=None)


def spoken(package: Path) -> tuple[Spoken, ...]:
    """The versions that a package (a folder) or module (a file) states, ``__version__`` first."""
    parent = package.parent
    if regular(package) is not None:
        one = _find(package, parent, "__version__", _HOPS) if package.suffix == ".py" else None
        return (replace(one, exposed=True),) if one else ()
    own = _find(package / "__init__.py", parent, "__version__", _HOPS)
    found = [replace(own, exposed=True)] if own else []
    for file in _FILES:
        said = [_find(package / file, parent, name, 0) for name in ("__version__", "version")]
        found += [one for one in said if one is not None and not _same_place(one, own)][:1]
    return tuple(found)


def _same_place(one: Spoken, other: Spoken | None) -> bool:
    return other is not None and one.file == other.file


def _find(file: Path, parent: Path, name: str, hops: int) -> Spoken | None:
    """Where a module-level name gets its text, following imports inside the package."""
    text = read_text(file, _SOURCE_LIMIT)
    tree = parse(text) if text is not None else None
    if tree is None:
        return None
    where, found = str(file.relative_to(parent)), None
    for node in _statements(tree):
        if isinstance(node, ast.AnnAssign) and node.value is None:
            continue
        if isinstance(node, ast.Assign | ast.AnnAssign) and name in _targets(node):
            value = node.value.value if isinstance(node.value, ast.Constant) else None
            text_value = value if isinstance(value, str) else None
            if found is None or text_value is None or found.value is not None:
                found = Spoken(file=where, name=name, value=text_value)
        elif isinstance(node, ast.ImportFrom):
            origin = next((a.name for a in node.names if (a.asname or a.name) == name), None)
            target = _module_file(node, file, parent) if origin and hops else None
            if target is not None and origin is not None:
                found = _find(target, parent, origin, hops - 1) or found
            elif origin:
                found = Spoken(file=where, name=name, value=None)
    return found


def _statements(tree: ast.Module) -> list[ast.stmt]:
    """Statements at module level, those inside ``try``, ``if`` and ``with`` too."""
    waiting, found = list(tree.body), []
    while waiting:
        node = waiting.pop(0)
        found.append(node)
        if isinstance(node, ast.Try | ast.If | ast.With):
            inner = [*node.body, *getattr(node, "orelse", []), *getattr(node, "finalbody", [])]
            inner += [s for handler in getattr(node, "handlers", []) for s in handler.body]
            waiting = inner + waiting
    return found


def _targets(node: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _module_file(node: ast.ImportFrom, file: Path, parent: Path) -> Path | None:
    base = parent
    if node.level:
        base = file.parent
        for _ in range(min(node.level, 8) - 1):
            base = base.parent
    place = base.joinpath(*(node.module or "").split("."))
    for candidate in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
        if candidate.is_relative_to(parent) and regular(candidate) is not None:
            return candidate
    return None


def why_unknown(version: str | None, said: Declared, git: GitFacts | None) -> str:
    """Why a distribution has no version that says anything. Pure.

    Args:
        version: what its metadata has.
        said: what its project says.
        git: its checkout, or None where it is none.
    """
    shown = repr(version) if version else "no version"
    if said.static is not None and unknown_version(said.static):
        return f"{said.file} itself says {said.static!r}"
    if said.scm is None:
        where = said.file or "the project, which has no build file,"
        return f"{where} names no version, and its build backend then writes {shown}"
    fallback = f"; {said.file} falls back to {said.fallback!r}" if said.fallback else ""
    if git is None:
        return (
            f"{said.scm} takes it from git and there is no .git: an archive, or a copy of a folder"
            f"{fallback}"
        )
    return f"{said.scm} takes it from git's tags: {_tag_trouble(said, git)}{fallback}"


def _tag_trouble(said: Declared, git: GitFacts) -> str:
    if git.trouble is not None:
        return f"git cannot read the checkout ({git.trouble})"
    asks = f" ({said.describe!r} is asked for it)" if said.describe else ""
    if git.tag is not None:
        return (
            f"{git.tag} is reachable now, and was not when it was installed, or was refused{asks}"
        )
    if git.tags:
        return f"none of its {git.tags} tags is reachable from this commit{asks}"
    clone = "a shallow clone without tags" if git.shallow else "the clone has no tags"
    return clone + asks
