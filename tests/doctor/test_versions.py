"""Versions in texts; why one is unknown."""

from pathlib import Path

import pytest
from doctor.places import case_of, checkout, git, said, words

from kernforge.doctor.checkout import GitFacts
from kernforge.doctor.installed import unknown_version
from kernforge.doctor.versions import Declared, declared, spoken, why_unknown


@pytest.mark.parametrize(
    "text", [None, "0.0.0", "0.0.0.dev0", "0.0.0.dev1+gabc1234", "0", "unknown"]
)
def test_versions_that_say_nothing(text):
    assert unknown_version(text)


@pytest.mark.parametrize("text", ["0.0.1", "0.5.9", "1.0+cu130", "0.0.0.1"])
def test_versions_that_say_something(text):
    assert not unknown_version(text)


def package(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / "pkg" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root / "pkg"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"__init__": "__version__ = '1.2'"}, [("pkg/__init__.py", "1.2")]),
        ({"__init__": "__version__: str = '1.2'"}, [("pkg/__init__.py", "1.2")]),
        ({"__init__": "import os"}, []),
        ({"__init__": "from pkg.version import __version__", "version": "__version__ = '3'"},
         [("pkg/version.py", "3")]),
        ({"__init__": "from .version import __version__", "version": "__version__ = f()"},
         [("pkg/version.py", None)]),
        ({"__init__": "from ._version import version as __version__",
          "_version": "__version__ = version = '4.0'"}, [("pkg/_version.py", "4.0")]),
        ({"__init__": "try:\n from .x import __version__\nexcept E:\n __version__ = '0.0.0'"},
         [("pkg/__init__.py", None)]),
        ({"__init__": "from importlib.metadata import version\n__version__ = version('pkg')"},
         [("pkg/__init__.py", None)]),
        ({"__init__": "from .a import __version__", "a": "from .b import __version__",
          "b": "from .a import __version__"}, [("pkg/b.py", None)]),
        ({"__init__": "from ....up import __version__"}, [("pkg/__init__.py", None)]),
        ({"__init__": "def ("}, []),
    ],
)  # fmt: skip
def test_the_version_that_a_package_states(tmp_path, files, said):
    found = spoken(package(tmp_path, **files))
    assert [(one.file, one.value) for one in found if one.exposed] == said


def test_a_package_without_a_version_has_a_file_that_has_one(tmp_path):
    (found,) = spoken(package(tmp_path, __init__="", _version="version = '0.5.9'"))
    assert (found.file, found.name, found.value) == ("pkg/_version.py", "version", "0.5.9")
    assert found.exposed is False


def test_the_file_that_setuptools_scm_writes(tmp_path):
    """Declared first, set later; the package itself need not take it up."""
    text = "version: str\n__version__: str\n__version__ = version = '0.0.0.dev1+g19'\n"
    (found,) = spoken(package(tmp_path, __init__="", _version=text))
    assert (found.name, found.value) == ("__version__", "0.0.0.dev1+g19")


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({"pyproject.toml": "[project]\nversion='1.0'"}, ("pyproject.toml", "1.0", None)),
        ({"pyproject.toml": "[tool.setuptools_scm]\nfallback_version='0.0.0.dev0'"},
         ("pyproject.toml", None, "setuptools-scm")),
        ({"pyproject.toml": "[tool.hatch.version]\nsource='vcs'"}, ("pyproject.toml", None, "hatch-vcs")),
        ({"pyproject.toml": "[tool.pdm.version]\nsource='scm'"}, ("pyproject.toml", None, "pdm")),
        ({"pyproject.toml": "[tool.scikit-build.metadata.version]\n"
          "provider='scikit_build_core.metadata.setuptools_scm'"},
         ("pyproject.toml", None, "setuptools-scm")),
        ({"pyproject.toml": "[build-system]\nrequires=[]", "setup.py": "setup(use_scm_version=True)"},
         ("setup.py", None, "setuptools-scm")),
        ({"pyproject.toml": "[tool]\nsetuptools_scm = 3"}, ("pyproject.toml", None, None)),
        ({"pyproject.toml": "= broken"}, ("pyproject.toml", None, None)),
        ({"setup.cfg": "[metadata]\n"}, ("setup.cfg", None, None)),
        ({}, (None, None, None)),
    ],
)  # fmt: skip
def test_what_a_project_declares(tmp_path, files, wanted):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found = declared(tmp_path)
    assert (found.file, found.static, found.scm) == wanted


SCM = Declared(file="pyproject.toml", scm="setuptools-scm", fallback="0.0.0.dev0")
HERE = GitFacts(folder=Path("/x"), commit="a" * 40)


@pytest.mark.parametrize(
    ("said", "git", "text"),
    [
        (Declared(file="pyproject.toml", static="0.0.0"), None, "pyproject.toml itself says '0.0.0'"),
        (Declared(file="setup.py"), None, "setup.py names no version"),
        (Declared(file=None), None, "the project, which has no build file, names no version"),
        (SCM, None, "there is no .git: an archive, or a copy of a folder; pyproject.toml falls back"),
        (SCM, HERE, "the clone has no tags"),
        (SCM, GitFacts(folder=Path("/x"), shallow=True), "a shallow clone without tags"),
        (SCM, GitFacts(folder=Path("/x"), tags=7), "none of its 7 tags is reachable"),
        (SCM, GitFacts(folder=Path("/x"), tags=7, tag="v1"), "v1 is reachable now"),
        (SCM, GitFacts(folder=Path("/x"), trouble="odd"), "git cannot read the checkout (odd)"),
        (Declared(file="p", scm="setuptools-scm", describe="python3 x.py"), HERE,
         "('python3 x.py' is asked for it)"),
    ],
)  # fmt: skip
def test_why_a_version_is_unknown(said, git, text):
    assert text in why_unknown("0.0.0.dev0", said, git)


def test_an_unpacked_archive_has_no_version_and_says_so(place, tmp_path):
    top = checkout(tmp_path / "sglang")
    import shutil

    shutil.rmtree(top / ".git")
    project = top / "python"
    place.editable("sglang", "0.0.0.dev0", project, {"sglang": project / "sglang"})
    case = case_of(place.look(sandbox=False), "sglang")
    assert "there is no .git" in said(case, "version-unknown")
    assert case.advice.commands[0] == "export SETUPTOOLS_SCM_PRETEND_VERSION_FOR_SGLANG=VERSION"


def test_metadata_and_file_disagree(place, tmp_path):
    """The checkout moved on after it was installed."""
    project = checkout(tmp_path / "sglang") / "python"
    (project / "sglang/_version.py").write_text("__version__ = version = '0.5.19'\n")
    place.editable("sglang", "0.5.9", project, {"sglang": project / "sglang"})
    text = said(case_of(place.look(sandbox=False), "sglang"), "version-differs")
    assert text == "metadata says version '0.5.9', sglang/_version.py says '0.5.19'"


@pytest.mark.parametrize("version", ["0.5.19", "0.5.19+cu130"])
def test_a_local_part_is_no_disagreement(place, tmp_path, version):
    project = checkout(tmp_path / "sglang") / "python"
    (project / "sglang/_version.py").write_text("__version__ = '0.5.19'\n")
    place.editable("sglang", version, project, {"sglang": project / "sglang"})
    assert "version-differs" not in words(case_of(place.look(sandbox=False), "sglang"))


def test_a_checkout_that_moved_on(place, tmp_path):
    top = checkout(tmp_path / "sglang")
    old = git(top, "rev-parse", "--short=9", "HEAD")
    git(top, "commit", "-q", "--allow-empty", "-m", "more")
    project = top / "python"
    place.editable("sglang", f"0.5.9.dev3+g{old}", project, {"sglang": project / "sglang"})
    text = said(case_of(place.look(sandbox=False), "sglang"), "commit-moved")
    assert f"installed at commit {old}" in text
