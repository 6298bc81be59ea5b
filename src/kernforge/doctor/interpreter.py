"""The interpreter of an environment: where it looks for packages, asked without loading any.

Room `doctor`. The interpreter is started with ``-I -S``, so that no ``.pth`` file and nothing of a
package runs; the folders that ``.pth`` files add are read from their text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernforge.doctor.files import is_folder, listing, read_text
from kernforge.errors import KernforgeError, ToolchainError
from kernforge.process import KILLED_FOR_TIME, Command, Runner

PROBE = Path(__file__).parent.parent / "inside/env_probe.py"
_SECONDS = 30.0
_PTH_LIMIT = 1 << 20
_LINES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pth:
    """A ``.pth`` file: the folders it adds, and the lines that Python would execute."""

    path: Path
    folders: tuple[Path, ...]
    code: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """An interpreter and where it finds packages.

    Attributes:
        program: as it was named, absolute.
        real: the program behind it, links resolved.
        version: as ``3.11.7``.
        prefix: folder of the environment.
        venv: whether it is a virtual environment.
        stdlib: folders of the standard library.
        sites: folders of installed packages that exist, in the order in which Python looks.
        user_site: the user's own among them, or None.
        added: folders that ``.pth`` files add and that exist, in order, without those above.
        pths: the ``.pth`` files.
        suffixes: file name ends of extension modules, the first wins.
        unread: folders of packages that exist and could not be listed.
    """

    program: Path
    real: Path
    version: str
    prefix: Path
    venv: bool
    stdlib: tuple[Path, ...]
    sites: tuple[Path, ...]
    user_site: Path | None
    added: tuple[Path, ...]
    pths: tuple[Pth, ...]
    suffixes: tuple[str, ...]
    unread: tuple[Path, ...]

    @property
    def python(self) -> str:
        """Its minor version, as ``3.11``."""
        return ".".join(self.version.split(".")[:2])

    @property
    def path(self) -> tuple[Path, ...]:
        """Every folder in which packages are looked for, in order."""
        return (*self.sites, *self.added)


def ask(python: Path, *, env: tuple[tuple[str, str], ...], runner: Runner) -> Interpreter:
    """Start an interpreter and read where it looks for packages.

    Args:
        python: its program.
        env: what it may know of the user: PATH and HOME.
        runner: starts it.

    Raises:
        ToolchainError: ``interpreter-broken``.
    """
    answer = _answer(python, env, runner)
    try:
        return _read(answer)
    except (KeyError, TypeError, ValueError) as error:
        raise _broken(python, "its answer is not understood") from error


def _broken(python: Path, why: str, detail: tuple[str, ...] = ()) -> ToolchainError:
    return ToolchainError(
        "interpreter-broken",
        f"Python {str(python)!r} does not answer: {why}",
        hint=_advice(python),
        detail=detail,
    )


def _advice(python: Path) -> str:
    """What a person should look at; a virtual environment often outlives its base interpreter."""
    text = read_text(python.parent.parent / "pyvenv.cfg", 65536) or ""
    home = next((v.strip() for k, _, v in _pairs(text) if k.strip() == "home"), None)
    if home and not is_folder(Path(home)):
        return f"the environment was made from {home!r}, which is gone: make it anew"
    return "name another with --python"


def _pairs(text: str) -> list[tuple[str, str, str]]:
    return [line.partition("=") for line in text.splitlines()]


def _answer(python: Path, env: tuple[tuple[str, str], ...], runner: Runner) -> dict[str, Any]:
    argv = (str(python), "-I", "-S", str(PROBE))
    try:
        done = runner.run(Command(argv=argv, env=(*env, ("LC_ALL", "C.UTF-8"))), timeout=_SECONDS)
    except KernforgeError as error:
        raise _broken(python, error.message) from error
    if done.returncode == KILLED_FOR_TIME:
        raise _broken(python, f"it was silent for {_SECONDS:.0f} s")
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = None
    if done.returncode != 0 or not isinstance(answer, dict):
        how = f"it ends with status {done.returncode}"
        raise _broken(python, how, done.last_lines[-3:])
    if answer.get("implementation") != "cpython":
        raise _broken(python, f"it is {answer.get('implementation')!r}, not CPython")
    return answer


def _read(answer: dict[str, Any]) -> Interpreter:
    named = [Path(place) for place in answer["site"]]
    user = answer["user_site"]
    user_site = Path(user) if user and is_folder(Path(user)) else None
    sites = [folder for folder in (user_site, *named) if folder and is_folder(folder)]
    sites = list({folder.resolve(): folder for folder in reversed(sites)}.values())[::-1]
    pths, unread = _pth_files(sites)
    known = {folder.resolve() for folder in sites}
    added: dict[Path, Path] = {}
    for folder in (folder for pth in pths for folder in pth.folders):
        if folder.resolve() not in known:
            added.setdefault(folder.resolve(), folder)
    return Interpreter(
        program=Path(answer["executable"]),
        real=Path(answer["real"]),
        version=str(answer["version"]),
        prefix=Path(answer["prefix"]),
        venv=bool(answer["venv"]),
        stdlib=tuple(Path(place) for place in answer["stdlib"]),
        sites=tuple(sites),
        user_site=user_site,
        added=tuple(added.values()),
        pths=tuple(pths),
        suffixes=tuple(map(str, answer["suffixes"])),
        unread=tuple(unread),
    )


def _pth_files(sites: list[Path]) -> tuple[list[Pth], list[Path]]:
    found, unread = [], []
    for site in sites:
        names = listing(site)
        if names is None:
            unread.append(site)
        for one in names or ():
            name = one.path.name
            if name.endswith(".pth") and not name.startswith(".") and not one.folder:
                found.append(_pth(one.path))
    return found, unread


def _pth(path: Path) -> Pth:
    text = (read_text(path, _PTH_LIMIT) or "").removeprefix("\ufeff")
    folders, code = [], []
    for line in text.splitlines()[:_LINES]:
        if line.startswith(("import ", "import\t")):
            code.append(line)
        elif line.strip() and not line.startswith("#"):
            folder = path.parent / line.rstrip()
            folders += [folder] if is_folder(folder) else []
    return Pth(path=path, folders=tuple(folders), code=tuple(code))
