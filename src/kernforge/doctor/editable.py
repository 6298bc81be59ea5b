"""Where an editable distribution's code really lies, read from the files that make it importable.

Room `doctor`. Python would execute the finder that an editable install leaves; here its text is
parsed and the tables in it are read. Forms known: folders in a ``.pth`` file, the finder of
setuptools (``MAPPING``), the redirect of scikit-build-core (``install(...)``), and ``egg-link``.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from kernforge.doctor.files import is_folder, listing, read_text, regular
from kernforge.doctor.installed import Installed
from kernforge.doctor.interpreter import Interpreter, Pth

_NAMES = 100
_SOURCE_LIMIT = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Editable:
    """An editable distribution's place.

    Attributes:
        root: folder of the project.
        modules: import names, each with its folder or file.
        how: ``path``, ``finder``, ``redirect``, ``egg-link`` or ``unknown``.
    """

    root: Path
    modules: tuple[tuple[str, Path], ...]
    how: str

    @property
    def yields(self) -> bool | None:
        """Whether a copy in site-packages is imported instead; None where that is not known.

        The finder of setuptools and folders of ``.pth`` files come after site-packages,
        scikit-build-core's redirect before it.
        """
        known = {"path": True, "finder": True, "egg-link": True, "redirect": False}
        return known.get(self.how)


def parse(text: str) -> ast.Module | None:
    """A syntax tree, or None where there is none to be had."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def editable_of(one: Installed, interpreter: Interpreter) -> Editable | None:
    """Where the code of an editable distribution lies; None for a copied one."""
    if one.info.name.endswith(".egg-info"):
        return _linked(one, interpreter)
    own = [pth for pth in interpreter.pths if _owns(one, pth)]
    direct = one.direct
    if not (direct and direct.editable) and not any(_is_editable(pth) for pth in own):
        return None
    root = direct.folder if direct and direct.editable else None
    folders = [folder for pth in own for folder in pth.folders]
    modules, how = _by_code(one, own)
    if not modules and folders:
        modules, how = _by_folders(one, folders), "path"
    if root is None:
        root = folders[0] if folders else next((path for _, path in modules), one.site)
    return Editable(root=root, modules=tuple(modules), how=how)


def _owns(one: Installed, pth: Pth) -> bool:
    return pth.path.parent == one.site and pth.path.name in one.files


def _is_editable(pth: Pth) -> bool:
    return "editable" in pth.path.name


def _linked(one: Installed, interpreter: Interpreter) -> Editable | None:
    """An ``egg-info`` folder outside site-packages: ``setup.py develop``."""
    if one.site in interpreter.sites:
        return None
    return Editable(root=one.site, modules=tuple(_by_folders(one, [one.site])), how="egg-link")


def _by_code(one: Installed, pths: list[Pth]) -> tuple[list[tuple[str, Path]], str]:
    for line in (line for pth in pths for line in pth.code):
        name = line.split(None, 1)[1].split(";")[0].split(",")[0].strip()
        if not name.isidentifier() or f"{name}.py" not in one.files:
            continue
        tree = parse(read_text(one.site / f"{name}.py", _SOURCE_LIMIT) or "")
        if tree is None:
            continue
        if found := _mapping(tree):
            return found, "finder"
        if found := _redirect(tree, one.site):
            return found, "redirect"
    return [], "unknown"


def _pairs(node: ast.expr | None) -> list[tuple[str, str]]:
    """The text pairs of a dict that is written out."""
    try:
        value = ast.literal_eval(node) if node is not None else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return []
    if not isinstance(value, dict):
        return []
    return [(k, v) for k, v in value.items() if isinstance(k, str) and isinstance(v, str)]


def _mapping(tree: ast.Module) -> list[tuple[str, Path]]:
    """Setuptools: ``MAPPING: dict[str, str] = {'pkg': '/folder/pkg'}``."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
        if any(isinstance(t, ast.Name) and t.id == "MAPPING" for t in targets):
            value = getattr(node, "value", None)
            return [(k, Path(v)) for k, v in _pairs(value)[:_NAMES] if Path(v).is_absolute()]
    return []


def _redirect(tree: ast.Module, site: Path) -> list[tuple[str, Path]]:
    """scikit-build-core: ``install({'pkg': '/folder/pkg/__init__.py', ...}, {...}, ...)``."""
    for node in tree.body:
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "install" and call.args:
            tops: dict[str, Path] = {}
            for name, place in (pair for arg in call.args[:2] for pair in _pairs(arg)):
                path = site / place
                if "." not in name:
                    tops.setdefault(name, path.parent if path.stem == "__init__" else path)
            return list(tops.items())[:_NAMES]
    return []


def _by_folders(one: Installed, folders: list[Path]) -> list[tuple[str, Path]]:
    """Packages and modules that lie in folders of the path; by top_level.txt where there is one."""
    text = read_text(one.info / "top_level.txt", 1 << 16) if is_folder(one.info) else None
    named = {line.strip() for line in (text or "").splitlines() if line.strip()}
    found: dict[str, Path] = {}
    for folder in folders:
        for entry in listing(folder) or ():
            name = entry.path.name.split(".")[0]
            package = entry.folder and regular(entry.path / "__init__.py") is not None
            module = not entry.folder and entry.path.suffix in {".py", ".so"}
            wanted = name in named if named else (package or (module and name != "setup"))
            if wanted and name.isidentifier() and (package or module or entry.folder):
                found.setdefault(name, entry.path)
    return list(found.items())[:_NAMES]
