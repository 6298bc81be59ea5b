"""`kernforge patch`: from a pristine tree to a patch that makes exactly what was edited."""

from pathlib import Path

import pytest
from projects import FILES, RECIPE, write_project

EXISTING = """\
--- a/tiny.cu
+++ b/tiny.cu
@@ -1,2 +1,2 @@
-namespace { __global__ void scale(float *x, float by) { x[threadIdx.x] *= by; } }
+namespace { __global__ void scale(float *x, float by) { x[threadIdx.x] += by; } }
 extern "C" void tiny_scale(float *x, float by) { scale<<<1, 32>>>(x, by); }
"""


@pytest.fixture
def project(tmp_path):
    recipe = RECIPE.replace("{path: project}", "{path: project, patches: [tiny/0007-add.patch]}")
    changes = {"recipes/tiny.yaml": recipe, "patches/tiny/0007-add.patch": EXISTING}
    return write_project(tmp_path / "mine", changes)


@pytest.fixture
def patch(run, project, tmp_path):
    def call(*words):
        cache = str(tmp_path / "cache")
        return run("--project", str(project), "--cache", cache, "patch", "tiny", *words)

    return call


def opened(done) -> Path:
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def test_an_edit_becomes_the_next_patch(patch, project):
    tree = opened(patch())
    kernel = tree / "tiny.cu"
    assert "+= by" in kernel.read_text()
    kernel.write_text(kernel.read_text().replace("+= by", "-= by"))
    (tree / "new.h").write_text("#pragma once\n")
    (tree / "tiny/__init__.py").unlink()
    done = patch("--continue", "--what", "subtract")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "patches/tiny/0008-subtract.patch"
    assert "sources.tiny.patches: [..., tiny/0008-subtract.patch]" in done.stderr
    text = (project / "patches/tiny/0008-subtract.patch").read_text()
    assert "new.h" in text
    assert not tree.exists()
    assert (project / "project/tiny.cu").read_text() == FILES["project/tiny.cu"]


def test_nothing_edited_is_told_and_nothing_is_lost(patch):
    tree = opened(patch())
    done = patch("--continue")
    assert done.returncode == 4
    assert "error[patch-empty]" in done.stderr
    assert tree.exists()


def test_a_second_start_keeps_the_first(patch):
    tree = opened(patch())
    (tree / "note").write_text("mine")
    done = patch()
    assert done.returncode == 3
    assert "error[edit-open]" in done.stderr
    assert (tree / "note").read_text() == "mine"


def test_abort_drops_it(patch):
    tree = opened(patch())
    assert patch("--abort").returncode == 0
    assert not tree.exists()
    assert "error[edit-none]" in patch("--abort").stderr


def test_a_series_that_changed_meanwhile_is_refused(patch, project):
    tree = opened(patch())
    (tree / "new.h").write_text("x\n")
    (project / "patches/tiny/0007-add.patch").write_text(EXISTING.replace("+= by", "/= by"))
    done = patch("--continue", "--what", "more")
    assert done.returncode == 4
    assert "error[patch-untrue]" in done.stderr
    assert not list((project / "patches/tiny").glob("0008*"))
    assert tree.exists()


@pytest.mark.parametrize("what", ["", "Two words", "../x", "a" * 80])
def test_a_name_that_is_none(patch, what):
    opened(patch())
    done = patch("--continue", "--what", what)
    assert done.returncode == 3
    assert "error[edit-name]" in done.stderr


def test_an_unknown_source(patch):
    done = patch("--source", "other")
    assert done.returncode == 3
    assert "there are: tiny" in done.stderr
