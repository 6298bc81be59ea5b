"""A first recipe: from a repository's address, or from a checkout of unknown origin on disk.

Answers text and never writes by itself. What could not be found out is said in a comment at its
place. Comments and keys follow the nearest shipped recipe where one is near.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernforge.authoring.cmakescan import Download, downloads
from kernforge.errors import SelectionError, SourceError
from kernforge.process import Command, Runner
from kernforge.source.gitfilters import ASK_FILTERS, NO_PROGRAMS, without_filters

_SKIPPED = {"build", "dist", ".git", "node_modules", "__pycache__", ".venv", "_skbuild"}
_MAX_FILES = 20_000
_MAX_TEXT = 1 << 20
_SSH = re.compile(r"(?:ssh://)?git@([\w.-]+)[:/](.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """What a checkout on disk says of itself.

    Attributes:
        folder: its top folder.
        remote: address without user and password; empty where there is none.
        commit: the commit that is checked out, 40 digits.
        tag: a tag at that commit, or empty.
        submodules: whether there are any.
        dirty: the changes against the commit as a patch in git's format; empty where none.
        untracked: names of files that git does not know and does not ignore.
    """

    folder: Path
    remote: str
    commit: str
    tag: str
    submodules: bool
    dirty: bytes
    untracked: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A Python project in a tree.

    Attributes:
        subdir: its folder in the tree, ``.`` for the top.
        distribution: name in pyproject.toml, or the folder's.
        version: version in pyproject.toml, or empty where it is dynamic or missing.
        backend: ``scikit-build-core``, ``setuptools``, or what the file says.
        uses_torch: whether the build requires torch.
        downloads: what its CMake files would download.
    """

    subdir: str
    distribution: str
    version: str
    backend: str
    uses_torch: bool
    downloads: tuple[Download, ...]


def _git(folder: Path, env: tuple[tuple[str, str], ...], runner: Runner, *words: str) -> bytes:
    names = runner.run(Command(argv=("git", *NO_PROGRAMS, *ASK_FILTERS), env=env, cwd=folder)).text
    safe = (*NO_PROGRAMS, *without_filters(names.split("\0")))
    result = runner.run(Command(argv=("git", *safe, *words), env=env, cwd=folder), timeout=300)
    if result.returncode != 0:
        raise SourceError(
            "checkout-unreadable",
            f"git {words[0]} fails in {str(folder)!r}: {result.complaint}",
            hint="is it a git checkout, and yours? (git config safe.directory)",
        )
    return result.stdout


def public_address(remote: str) -> str:
    """An address without user and password, ssh written as https."""
    if match := _SSH.fullmatch(remote):
        return f"https://{match[1]}/{match[2]}"
    return re.sub(r"^(\w+://)[^@/]*@", r"\1", remote)


def read_checkout(folder: Path, *, env: tuple[tuple[str, str], ...], runner: Runner) -> Checkout:
    """Ask git about a checkout; nothing in it is run or changed.

    Raises:
        SourceError: ``checkout-unreadable``.
    """
    quiet = (*env, ("GIT_TERMINAL_PROMPT", "0"), ("GIT_OPTIONAL_LOCKS", "0"))

    def ask(*words: str) -> str:
        return _git(folder, quiet, runner, *words).decode("utf-8", "replace").strip()

    top = Path(ask("rev-parse", "--show-toplevel"))
    remotes = ask("remote").split()
    name = "origin" if "origin" in remotes else (remotes[0] if remotes else "")
    diff = ("diff", "--binary", "--no-ext-diff", "--no-textconv", "--no-color", "HEAD", "--")
    return Checkout(
        folder=top,
        remote=public_address(ask("remote", "get-url", name)) if name else "",
        commit=ask("rev-parse", "HEAD"),
        tag=next(iter(ask("tag", "--points-at", "HEAD").splitlines()), ""),
        submodules=(top / ".gitmodules").exists(),
        dirty=_git(top, quiet, runner, *diff),
        untracked=tuple(ask("ls-files", "--others", "--exclude-standard").splitlines()),
    )


def _text(path: Path) -> str:
    try:
        if path.is_symlink() or path.stat().st_size > _MAX_TEXT:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _interesting(root: Path) -> Iterable[Path]:
    waiting, seen = [root], 0
    while waiting and seen < _MAX_FILES:
        for path in sorted(waiting.pop().iterdir()):
            seen += 1
            if path.is_dir() and not path.is_symlink() and path.name not in _SKIPPED:
                waiting.append(path)
            elif path.name in {"pyproject.toml", "setup.py", "CMakeLists.txt"} or (
                path.suffix == ".cmake"
            ):
                yield path


def _pyproject(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError:
        return {}


def _backend(build: dict[str, Any]) -> str:
    named = str(build.get("build-backend", "setuptools.build_meta"))
    if named.startswith("scikit_build_core"):
        return "scikit-build-core"
    return "setuptools" if named.startswith("setuptools") else named


def find_projects(root: Path) -> tuple[Project, ...]:
    """The Python projects of a tree that have something to compile, most CMake or CUDA first."""
    files = list(_interesting(root))
    folders = sorted({path.parent for path in files if path.name in {"pyproject.toml", "setup.py"}})
    found = [_project(root, folder, files, folders) for folder in folders]
    return tuple(sorted(found, key=lambda p: (not p.downloads, not p.uses_torch, len(p.subdir))))


def _project(root: Path, folder: Path, files: list[Path], folders: list[Path]) -> Project:
    data = _pyproject(folder / "pyproject.toml")
    about, build = data.get("project", {}), data.get("build-system", {})
    inner = [other for other in folders if folder in other.parents]
    own = [f for f in files if folder in f.parents and not any(i in f.parents for i in inner)]
    cmake = [path for path in own if path.suffix == ".cmake" or path.name == "CMakeLists.txt"]
    setup = _text(folder / "setup.py")
    requires = [str(item) for item in build.get("requires", [])]
    torch = any(re.match(r"torch\b", item) for item in requires) or "cpp_extension" in setup
    return Project(
        subdir=str(folder.relative_to(root)),
        distribution=str(about.get("name", "")) or folder.name,
        version=str(about.get("version", "")),
        backend=_backend(build),
        uses_torch=torch,
        downloads=tuple(
            item for path in cmake for item in downloads(_text(path), str(path.relative_to(root)))
        ),
    )


def choose_project(projects: tuple[Project, ...], subdir: str | None) -> Project:
    """The project that is meant.

    Raises:
        SelectionError: ``project-none``, ``project-ambiguous`` or ``project-unknown``.
    """
    names = ", ".join(project.subdir for project in projects)
    if not projects:
        raise SelectionError("project-none", "The tree holds no pyproject.toml and no setup.py")
    if subdir is not None:
        for project in projects:
            if project.subdir == subdir:
                return project
        raise SelectionError(
            "project-unknown", f"No Python project lies in {subdir!r}", hint=f"there are: {names}"
        )
    top = [project for project in projects if project.subdir == "."]
    chosen = top or list(projects)
    if len(chosen) > 1:
        raise SelectionError(
            "project-ambiguous",
            f"The tree holds {len(projects)} Python projects: {names}",
            hint="name one with --subdir",
        )
    return chosen[0]


def nearest(distribution: str, shipped: tuple[str, ...]) -> str | None:
    """The shipped recipe whose name is near a distribution's, or None."""
    plain = re.sub(r"[-_.]+", "-", distribution).lower()
    near = difflib.get_close_matches(plain, shipped, n=1, cutoff=0.7)
    return near[0] if near else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a first recipe is written from.

    Attributes:
        name: the recipe's name.
        project: the Python project.
        git: address of the repository.
        commit: 40 digits.
        tag: or empty.
        patches: patch files, relative to ``patches``.
        archs: the targets.
        near: a shipped recipe of a near name, or None.
    """

    name: str
    project: Project
    git: str
    commit: str
    tag: str
    patches: tuple[str, ...]
    archs: str
    near: str | None


def recipe_name(distribution: str) -> str:
    """A recipe's name for a distribution."""
    return re.sub(r"[^a-z0-9]+", "-", distribution.lower()).strip("-") or "recipe"


def _scalar(text: str) -> str:
    plain = re.fullmatch(r"[A-Za-z][\w./:+-]*", text) and not text.endswith(":")
    return text if plain else json.dumps(text, ensure_ascii=False)


def _third_party(items: tuple[Download, ...]) -> list[str]:
    lines = []
    for item in items:
        where, url = f"{item.file}:{item.line}", _scalar(public_address(item.url))
        head = [f"  {_scalar(item.name)}:  # {where}"]
        if not item.pinned or "$" in item.url:
            pin = item.pin or "nothing"
            lines.append(
                f"  # {item.name} ({where}): {url} at {pin}: pin it, or build offline fails"
            )
        elif item.kind == "git":
            lines += [*head, f"    git: {url}", f"    commit: {item.pin}"]
            lines.append(f"    fetchcontent: {_scalar(item.name)}")
        else:
            sha256 = item.pin.split("=", 1)[1].lower()
            lines += [*head, f"    archive: {url}", f"    sha256: {sha256}", "    strip: 1"]
            lines.append(f"    fetchcontent: {_scalar(item.name)}")
    return lines


def _main_source(draft: Draft, name: str) -> list[str]:
    lines = [f"  {name}:", f"    git: {_scalar(draft.git)}", f"    commit: {draft.commit}"]
    lines += [f"    tag: {_scalar(draft.tag)}"] if draft.tag else []
    lines += [f"    patches: [{', '.join(draft.patches)}]"] if draft.patches else []
    return lines


def _version(draft: Draft) -> str:
    if draft.project.version:
        return f"version: {json.dumps(draft.project.version)}"
    guess = re.sub(r"^[^0-9]*", "", draft.tag) or "0.1"
    return f"version: {json.dumps(guess)}  # the project does not say it: check"


def recipe_text(draft: Draft) -> str:
    """The text of a first recipe, from nothing but the project."""
    project = draft.project
    lines = [f"# Made by `kernforge new`; read it, then `kernforge lock {draft.name}`."]
    lines += ["format: 1", f"name: {draft.name}", f"distribution: {_scalar(project.distribution)}"]
    lines += [_version(draft), "sources:", *_main_source(draft, draft.name)]
    lines += _third_party(project.downloads)
    lines += ["build:", f"  source: {draft.name}"]
    lines += [f"  subdir: {_scalar(project.subdir)}"] if project.subdir != "." else []
    if project.backend in {"scikit-build-core", "setuptools"}:
        lines.append(f"  backend: {project.backend}")
    else:
        lines.append(f"  # backend {project.backend!r} is not supported yet")
    lines += ["matrix:", f'  archs: ["{draft.archs}"]', '  cuda: ["13.0"]']
    lines += ['  torch: ["2.14.1"]'] if project.uses_torch else []
    lines += ['  python: ["3.11"]', "verify:", "  require: code"]
    suffix = ".torch{torch_minor}" if project.uses_torch else ""
    lines += [f'publish: {{local_version: "cu{{cuda}}{suffix}.sm{{archs}}"}}']
    return "\n".join(lines) + "\n"


def adapted_text(shipped: str, main: str, draft: Draft) -> str:
    """A shipped recipe with its main source replaced by ours; all else, comments too, stays.

    Args:
        shipped: text of the shipped recipe.
        main: the name of its main source.
        draft: what was found.
    """
    lines = shipped.splitlines()
    start = lines.index(f"  {main}:") if f"  {main}:" in lines else None
    if start is None:
        return recipe_text(draft)
    stop = start + 1
    while stop < len(lines) and (not lines[stop].strip() or lines[stop].startswith("    ")):
        stop += 1
    head = f"# Made by `kernforge new` from the shipped {draft.near}; read it, then lock it."
    text = [head, *lines[:start], *_main_source(draft, main), *lines[stop:]]
    return "\n".join(text) + "\n"
