"""A real folder at /kf: what is built there has the key and the bytes of a sandbox."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pipeline.ways import ELSEWHERE, PLAIN, Bench, check_equal, templates_project
from standin.maker import make_standin

from kernforge.toolchain.sandbox import KF, interpreter_parts, unmasked

pytestmark = [pytest.mark.build, pytest.mark.xdist_group("real")]
REAL = replace(
    ELSEWHERE, name="real folder", words=("--no-sandbox", "--no-compile-cache"), user=None
)


@pytest.fixture
def kf():
    """The folder, of our own, removed at the end."""
    folder = Path(KF.root)
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        pytest.skip(f"{folder} cannot be made here: {error.strerror}")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def nothing_unmasked():
    """/usr/local holds nothing that compilers read, so that the keys are one."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    python = Path(sys.base_prefix) / f"bin/python{version}"
    if unmasked(interpreter_parts(python)):
        pytest.skip("/usr/local holds headers or libraries here, and the keys differ by them")


def test_units_with_internal_kernels(kf, nothing_unmasked, tmp_path, compiler_cache, toolkit):
    project = templates_project(tmp_path / "project")
    bench = Bench(root=tmp_path, project=project, shared=compiler_cache, recipe="tiny",
                  local="cu{cuda}.sm{archs}")  # fmt: skip
    check_equal(bench, REAL)


def test_the_standin(kf, nothing_unmasked, tmp_path, compiler_cache, toolkit):
    standin = make_standin(tmp_path / "made")
    bench = Bench(root=tmp_path, project=standin.project, shared=compiler_cache, recipe="standin",
                  local="cu{cuda}.sm{archs}")  # fmt: skip
    check_equal(bench, REAL)
    left = {path.name for path in kf.iterdir()}
    assert left <= {"locks", "CACHEDIR.TAG"}


def test_it_is_told_what_held(kf, tmp_path, compiler_cache, toolkit):
    project = templates_project(tmp_path / "project")
    bench = Bench(root=tmp_path, project=project, shared=compiler_cache, recipe="tiny",
                  local="cu{cuda}.sm{archs}")  # fmt: skip
    answer = bench.build(replace(PLAIN, words=("--no-sandbox",)))
    assert answer["sandbox"] == {"layout": "kf", "reason": "switched off by --no-sandbox"}
    statement = json.loads((Path(answer["wheel"]).parent / "provenance.json").read_text())
    assert '"network_cut":false' in json.dumps(statement, separators=(",", ":"))
