"""Sessions: one a recipe, named without reading it, each a thin call of our command line."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def nox(*words: str, where: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nox", "-f", str(where / "noxfile.py"), *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=where,
    )


def sessions(where: Path = ROOT) -> set[str]:
    done = nox("--list", where=where)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith(("* ", "- "))]
    return {line.split()[1] for line in lines}


@pytest.fixture
def copy(tmp_path):
    shutil.copyfile(ROOT / "noxfile.py", tmp_path / "noxfile.py")
    (tmp_path / "recipes/locks").mkdir(parents=True)
    return tmp_path


def test_a_session_for_every_recipe():
    recipes = {f"build-{path.stem}" for path in (ROOT / "recipes").glob("*.yaml")}
    assert recipes
    assert {name for name in sessions() if name.startswith("build-")} == recipes


def test_recipes_are_named_without_being_read(copy):
    (copy / "recipes/broken-one.yaml").write_bytes(b"\xff: [")
    (copy / "recipes/unreadable.yaml").mkdir()
    assert {"build-broken-one", "build-unreadable"} <= sessions(copy)


def test_no_recipe_at_all(copy):
    shutil.rmtree(copy / "recipes")
    assert "tests" in sessions(copy)


def test_words_go_through_to_the_command():
    done = nox("-s", "build-demo", "--", "--help")
    assert done.returncode == 0, done.stderr
    assert "Usage: kernforge build" in done.stdout


def test_a_failing_build_fails_the_session():
    done = nox("-s", "build-demo", "--", "--arch", "sm_120")
    assert done.returncode != 0
    assert "error[arch-invalid]" in done.stdout + done.stderr
