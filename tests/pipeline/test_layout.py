"""Whether sources lie as a recipe says: the folder of the project, told before the environment."""

import pytest
from pipeline.trials import FILES, recipe_with

from kernforge.errors import SourceError
from kernforge.pipeline.layout import check_layout, nearest_projects
from kernforge.recipe.load import read_recipe
from kernforge.recipe.matrix import expand


def job(subdir):
    data = {
        "format": "1",
        "name": "p",
        "version": "1.0",
        "sources": {"up": {"path": "project"}},
        "build": {"subdir": subdir},
        "matrix": {"archs": ["12.0a"], "cuda": ["13.0"], "python": ["3.11"]},
    }
    return expand(read_recipe(data, where="p.yaml"))[0]


@pytest.fixture
def tree(tmp_path):
    """A tree whose one source holds these files."""

    def make(*names):
        for name in names:
            path = tmp_path / "up" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
        return tmp_path

    return make


@pytest.mark.parametrize("mark", ["pyproject.toml", "setup.py"])
@pytest.mark.parametrize("subdir", [".", "python/kernels"])
def test_a_folder_with_a_project_is_right(tree, subdir, mark):
    check_layout(job(subdir), tree(f"{subdir}/{mark}"))


def test_a_moved_project_is_named(tree):
    root = tree(
        "python/sglang/kernels/aot/pyproject.toml", "python/pyproject.toml", "sgl-router/x.py"
    )
    with pytest.raises(SourceError, match="'sgl-kernel' of source 'up' is not there") as caught:
        check_layout(job("sgl-kernel"), root)
    assert caught.value.word == "subdir-missing"
    assert caught.value.hint == "projects lie in: python/sglang/kernels/aot, python"


def test_a_folder_without_a_project(tree):
    with pytest.raises(SourceError, match=r"'src' of source 'up' holds no pyproject\.toml"):
        check_layout(job("src"), tree("src/a.cu", "pyproject.toml"))


def test_a_source_without_any_project(tree):
    with pytest.raises(SourceError, match="is not there") as caught:
        check_layout(job("aot"), tree("README"))
    assert "sparse" in caught.value.hint


def test_the_folder_of_the_same_name_comes_first(tree):
    root = tree("kernels/aot/pyproject.toml", "aut/pyproject.toml", "new/place/aot/pyproject.toml")
    assert nearest_projects(root / "up", "old/aot") == ("kernels/aot", "new/place/aot", "aut")


@pytest.mark.build
@pytest.mark.parametrize("command", ["build", "fetch"])
def test_it_is_told_before_the_environment_is_made(trial, run, command):
    moved = {name.replace("project/", "project/kernels/"): text for name, text in FILES.items()}
    trial.write({**moved, "recipes/plain.yaml": recipe_with("subdir: sgl-kernel")})
    (trial.root / "project/pyproject.toml").unlink()
    (trial.root / "project/setup.py").unlink()
    place = ("--project", str(trial.root), "--cache", str(trial.cache))
    done = run(*place, command, "plain")
    assert done.returncode == 4
    assert "error[subdir-missing]" in done.stderr
    assert "projects lie in: kernels" in done.stderr
    assert ": env " not in done.stderr


@pytest.mark.build
def test_an_edit_that_no_longer_fits_is_told_before_the_environment_is_made(trial, run):
    edits = 'sources: {plain: {path: project, edits: [{file: setup.py, find: "xyz", replace: ""}]}}'
    trial.write(
        {"recipes/plain.yaml": recipe_with().replace("sources: {plain: {path: project}}", edits)}
    )
    answer = trial.build()
    assert answer.status == 4
    assert answer.fault["error"] == "edit-count"
    assert ": env " not in answer.said
