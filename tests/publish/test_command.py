"""The command on real builds: what reaches its level is published, what was changed is not."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from projects import RECIPE, share_toolchain, write_project
from publish.servers_of_index import serving


@pytest.mark.parametrize(
    "words",
    [("demo",), ("--upload", "http://127.0.0.1:9/"),
     ("demo", "--to", "x", "--upload", "http://127.0.0.1:9/"),
     ("demo", "--to", "x", "--max-size", "many")],
)  # fmt: skip
def test_a_call_that_says_too_little_or_too_much(run, tmp_path, words):
    done = run("--cache", str(tmp_path), "publish", *words)
    assert done.returncode in {2, 3}
    assert done.stderr.startswith("error[")


def test_a_wheel_that_is_not_there(run, tmp_path):
    done = run("--cache", str(tmp_path), "publish", "x.whl", "--to", str(tmp_path / "i"), "--json")
    assert done.returncode == 7
    assert json.loads(done.stdout)[0]["error"] == "wheel-missing"
    assert not (tmp_path / "i").exists()


@pytest.fixture
def tiny(run, tmp_path, compiler_cache, toolkit):
    project = write_project(tmp_path / "project")
    cache = share_toolchain(tmp_path / "cache", compiler_cache)

    def call(*words, where=cache, **options):
        return run("--project", str(project), "--cache", str(where), *words, **options)

    call.project, call.index = project, tmp_path / "index"
    return call


def published(tiny, *words, **options):
    done = tiny("publish", *words, "--to", str(tiny.index), "--json", **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)[0]


@pytest.mark.build
def test_each_leaf_gives_its_own_wheel(tiny, tmp_path):
    """From the source to pip, over HTTP, with hashes required."""
    recipe = tiny.project / "recipes/tiny.yaml"
    recipe.write_text(RECIPE.replace('["12.0a"]', '["12.0a", "9.0;12.0a"]'))
    shown = published(tiny, "tiny")
    assert {wheel["leaf"] for wheel in shown["wheels"]} == {"cu130/sm120a", "cu130/sm90.120a"}
    assert published(tiny, "tiny")["new"] == []
    page = (tiny.index / "current/index.html").read_text()
    assert page.index('id="gpu-9.0"') < page.index('id="gpu-12.0"')
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-cache-dir", "--require-hashes"]
    env = {"PATH": os.environ["PATH"], "PIP_CONFIG_FILE": os.devnull,
           "PIP_DISABLE_PIP_VERSION_CHECK": "1"}  # fmt: skip
    with serving(tiny.index / "current") as (address, _):
        for wheel in shown["wheels"]:
            into = tmp_path / wheel["sha256"][:8]
            (tmp_path / "wanted.txt").write_text(
                f"tiny=={wheel['version']} --hash=sha256:{wheel['sha256']}\n"
            )
            words = ["--target", str(into), "-r", str(tmp_path / "wanted.txt"), "--index-url"]
            subprocess.run([*pip, *words, f"{address}/{wheel['leaf']}/"], env=env, check=True)
            with zipfile.ZipFile(
                tiny.index / "current" / wheel["leaf"] / "tiny" / wheel["file"]
            ) as z:
                assert (into / "tiny/libtiny.so").read_bytes() == z.read("tiny/libtiny.so")


@pytest.mark.build
def test_what_does_not_reach_its_level_is_not_published(tiny):
    (tiny.project / "recipes/tiny.yaml").write_text(
        RECIPE.replace("require: code", "require: runs")
    )
    done = tiny("publish", "tiny", "--to", str(tiny.index))
    assert done.returncode == 8
    assert "error[wheel-short]" in done.stderr
    assert not tiny.index.exists()


@pytest.mark.build
def test_wheels_by_path_from_this_store_and_from_elsewhere(tiny, tmp_path):
    first = json.loads(tiny("build", "tiny", "--json").stdout)[0]
    wheel = Path(shutil.copy(first["wheel"], tmp_path))
    assert published(tiny, str(wheel))["new"] == [wheel.name]
    elsewhere = tmp_path / "other cache"
    assert published(tiny, str(wheel), where=elsewhere)["new"] == []
    changed = tmp_path / "changed" / wheel.name
    changed.parent.mkdir()
    repack(wheel, changed)
    done = tiny("publish", str(changed), "--to", str(tiny.index))
    assert (done.returncode, "error[wheel-differs]" in done.stderr) == (8, True)
    done = tiny("publish", str(changed), "--to", str(tiny.index), where=elsewhere)
    assert (done.returncode, "error[file-name-taken]" in done.stderr) == (8, True)
    torn = tmp_path / "torn" / wheel.name
    torn.parent.mkdir()
    torn.write_bytes(wheel.read_bytes()[:-30])
    done = tiny("publish", str(torn), "--to", str(tiny.index), where=elsewhere)
    assert done.returncode in {7, 8}
    (tiny.project / "recipes/tiny.yaml").unlink()
    done = tiny("publish", str(wheel), "--to", str(tiny.index), where=elsewhere)
    assert "error[recipe-missing]" in done.stderr


def repack(wheel: Path, target: Path) -> None:
    """The same members, stored: another file of the same name, sound in itself."""
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(target, "w") as new:
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))
