"""Separable compilation: what the device link leaves decides, and the shim rules it."""

import json
import shutil
import zipfile
from pathlib import Path

import pytest
from projects import ROOT, fatbin_archs, share_toolchain

pytestmark = pytest.mark.build

RECIPE = """\
format: 1
name: rdc
distribution: {distribution}
version: "{version}"
sources: {{rdc: {{path: rdc, exclude: ["build/*"]}}}}
build: {{gencode: {{default: replace{more}}}}}
matrix: {{archs: ["12.0a"], cuda: ["13.0"], python: ["3.11"]}}
verify: {{require: code}}
"""


@pytest.fixture
def build(run, tmp_path, compiler_cache, toolkit):
    shutil.copytree(ROOT / "tests/fixtures/rdc", tmp_path / "rdc")
    shutil.copytree(ROOT / "recipes/locks/demo", tmp_path / "recipes/locks/rdc")
    import tomllib

    about = tomllib.loads((tmp_path / "rdc/pyproject.toml").read_text())["project"]
    cache = share_toolchain(tmp_path / "cache", compiler_cache)

    def call(more=""):
        text = RECIPE.format(distribution=about["name"], version=about["version"], more=more)
        (tmp_path / "recipes/rdc.yaml").write_text(text)
        words = ("--project", str(tmp_path), "--cache", str(cache), "build", "rdc", "--json")
        return run(*words)

    return call


def test_the_device_link_ends_with_a_linked_image(build, cuobjdump, tmp_path):
    done = build()
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)[0]
    (row,) = document["verdict"]["libraries"]
    assert row["service"] == "serves"
    assert row["archs"] == ["12.0a"]
    with zipfile.ZipFile(document["wheel"]) as archive:
        archive.extract(row["path"], tmp_path)
    assert fatbin_archs(cuobjdump, tmp_path / row["path"]) == {"sm_120a"}


def test_without_the_shim_on_that_call_the_verdict_fails(build):
    done = build(', "*cmake_device_link*": upstream')
    assert done.returncode == 7, done.stderr
    verdict = json.loads(done.stdout)[0]["verdict"]
    assert {fault["word"] for fault in verdict["faults"]} >= {"code-missing", "target-missing"}
    assert Path(json.loads(done.stdout)[0]["wheel"]).exists()
