"""Every form of an editable install, read from its text."""

import os
import subprocess
import sys

import pytest
from doctor.places import case_of

from kernforge.doctor.editable import editable_of, parse
from kernforge.doctor.installed import find_installed
from kernforge.doctor.interpreter import ask
from kernforge.process import SystemRunner

DIRECT = {"dir_info": {"editable": True}}


@pytest.fixture
def project(tmp_path):
    (tmp_path / "proj/src/pkg").mkdir(parents=True)
    (tmp_path / "proj/src/pkg/__init__.py").write_text("")
    (tmp_path / "proj/src/data").mkdir()
    (tmp_path / "proj/src/setup.py").write_text("")
    return tmp_path / "proj"


def editables(place):
    interpreter = ask(place.python, env=(("PATH", os.environ["PATH"]),), runner=SystemRunner())
    found = find_installed(interpreter.path)
    return {one.name: editable_of(one, interpreter) for one in reversed(found)}


def install(place, project, **files):
    for name, text in files.items():
        place.write(name, text)
    direct = {"url": project.as_uri(), **DIRECT}
    place.record("pkg", "1.0", list(files), direct=direct)
    return editables(place)["pkg"]


def test_a_folder_in_a_pth_file(place, project):
    found = install(place, project, **{"__editable__.pkg-1.0.pth": f"{project / 'src'}\n"})
    assert (found.root, found.how, found.yields) == (project, "path", True)
    assert found.modules == (("pkg", project / "src/pkg"),)


def test_the_finder_of_setuptools(place, project):
    place.editable("pkg", "1.0", project, {"pkg": project / "src/pkg"})
    found = editables(place)["pkg"]
    assert (found.how, found.yields) == ("finder", True)
    assert found.modules == (("pkg", project / "src/pkg"),)


REDIRECT = """\
class Finder: pass
def install(known_source_files, known_wheel_files, path, **more): pass
install({source!r}, {wheel!r}, None, False, True, [], [])
"""


def test_the_redirect_of_scikit_build_core(place, project):
    source = {"pkg": str(project / "src/pkg/__init__.py"), "pkg.sub": str(project / "x.py")}
    wheel = {"pkg.ops": "pkg/ops.abi3.so", "solo": "solo.abi3.so"}
    text = REDIRECT.format(source=source, wheel=wheel)
    found = install(place, project, **{"_pkg_editable.py": text,
                                       "_pkg_editable.pth": "import _pkg_editable\n"})  # fmt: skip
    assert (found.how, found.yields) == ("redirect", False)
    assert dict(found.modules) == {"pkg": project / "src/pkg", "solo": place.site / "solo.abi3.so"}


def test_setup_py_develop(place, project):
    info = project / "src/pkg.egg-info"
    info.mkdir()
    (info / "PKG-INFO").write_text("Name: pkg\nVersion: 0.0.0\n")
    (info / "top_level.txt").write_text("pkg\n")
    place.write("easy-install.pth", f"{project / 'src'}\n")
    place.write("pkg.egg-link", f"{project / 'src'}\n.")
    found = editables(place)["pkg"]
    assert (found.root, found.how) == (project / "src", "egg-link")
    assert found.modules == (("pkg", project / "src/pkg"),)


def test_a_copy_is_none(place):
    place.install(
        "pkg", "1.0", {"pkg/__init__.py": ""}, direct={"url": "file:///x", "dir_info": {}}
    )
    assert editables(place) == {"pkg": None}


@pytest.mark.parametrize(
    "text", ["MAPPING = {'pkg': open('x')}", "MAPPING = [1]", "(" * 5000, "x = \0", "install()", ""]
)
def test_a_finder_that_is_not_understood(place, project, text):
    found = install(place, project, **{"__editable___pkg_1_0_finder.py": text,
        "__editable__.pkg-1.0.pth": "import __editable___pkg_1_0_finder\n"})  # fmt: skip
    assert (found.root, found.modules, found.how, found.yields) == (project, (), "unknown", None)


def test_a_folder_that_is_gone(place, project, tmp_path):
    place.editable("pkg", "1.0", tmp_path / "gone", {"pkg": tmp_path / "gone/pkg"})
    case = case_of(place.look(sandbox=False), "pkg")
    assert case.git is None
    assert "is gone" in case.remarks[0].text
    assert case.advice.commands[1] == "# its checkout is gone: install another"


def test_texts_that_are_no_python():
    assert parse("def f(:") is None
    assert parse("[" * 100_000) is None


@pytest.mark.network
@pytest.mark.parametrize("backend", ["setuptools", "scikit-build-core"])
def test_what_installers_really_leave(place, project, backend):
    """The backends themselves are the oracle."""
    module = {"setuptools": "setuptools.build_meta", "scikit-build-core": "scikit_build_core.build"}
    extra = '[tool.scikit-build]\nwheel.packages = ["src/pkg"]\n' if backend != "setuptools" else ""
    text = (
        f'[build-system]\nrequires = ["{backend}"]\nbuild-backend = "{module[backend]}"\n'
        f'[project]\nname = "pkg"\nversion = "1.0"\n{extra}'
    )
    (project / "pyproject.toml").write_text(text)
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.26)\nproject(p NONE)\n"
    )
    (project / "src/setup.py").unlink()
    call = [sys.executable, "-m", "uv", "pip", "install", "-q", "--python", str(place.python)]
    subprocess.run([*call, "-e", str(project)], check=True)
    found = editables(place)["pkg"]
    assert dict(found.modules)["pkg"] == project / "src/pkg"
    assert found.how in {"path", "finder", "redirect"}
    case = case_of(place.look(), "pkg")
    assert (case.remarks, case.imports.answer) == ((), "reached")
