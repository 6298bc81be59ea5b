"""The probe that says where an interpreter looks; the interpreter itself is the oracle."""

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

PROBE = Path(__file__).parents[2] / "src/kernforge/inside/env_probe.py"


def probed(python) -> dict:
    done = subprocess.run([python, "-I", "-S", PROBE], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def own(python, ask: str) -> str:
    done = subprocess.run([python, "-I", "-c", ask], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture(params=[True, False], ids=["links", "copies"])
def python(tmp_path, request):
    venv.create(tmp_path / "env", with_pip=False, symlinks=request.param)
    return tmp_path / "env/bin/python"


def test_prefix_and_folders_are_those_of_a_usual_start(python):
    found = probed(python)
    assert found["prefix"] == own(python, "import sys; print(sys.prefix)")
    assert found["base_prefix"] == own(python, "import sys; print(sys.base_prefix)")
    folders = own(python, "import sys; print([p for p in sys.path if p.endswith('-packages')])")
    assert str(found["site"]) == folders
    assert found["user_site"] is None


def test_outside_an_environment_the_user_site_counts():
    found = probed(Path(sys.executable).resolve())
    assert (found["venv"], found["user_site"] is None) == (False, False)


@pytest.mark.parametrize(
    "text", ["home = /x\ninclude-system-site-packages = TRUE\n", "garbled", "\udcff"]
)
def test_settings_of_any_kind(python, text):
    (python.parent.parent / "pyvenv.cfg").write_text(text, errors="surrogateescape")
    found = probed(python)
    assert found["venv"] is True
    assert found["user_site"] is not None


def test_nothing_of_the_environment_is_run(python, tmp_path):
    (site,) = python.parent.parent.glob("lib/python3*/site-packages")
    mark = tmp_path / "mark"
    (site / "a.pth").write_text(f"import os; open({str(mark)!r}, 'w')\n")
    (site / "sitecustomize.py").write_text(f"open({str(mark)!r}, 'w')\n")
    (site / "json.py").write_text(f"open({str(mark)!r}, 'w')\n")
    probed(python)
    assert not mark.exists()
    own(python, "pass")
    assert mark.exists()
