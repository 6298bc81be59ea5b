"""`toolkit: host` by real builds. The root is made of the compiler's wheels, as an installer lays it out.

Roots that do not hold together stand in `tests/toolchain/test_hostcuda.py`; here they stop a build.
"""

import os
import shutil
from pathlib import Path

import pytest
from pipeline.trials import make_trial, recipe_with, setup_with

pytestmark = pytest.mark.build

RECIPE = recipe_with("toolkit: host")


def link_or_copy(source, target):
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@pytest.fixture(scope="module")
def root(toolkit, tmp_path_factory) -> Path:
    """A whole root of its own: no link leads out of it. Files may be hard links: replace, never edit."""
    made = (toolkit / "include").resolve().parent
    root = tmp_path_factory.mktemp("local") / "cuda-13.0"
    skip = shutil.ignore_patterns("nvcc", "nvcc.real", "stubs")
    for name in ("bin", "nvvm", "include", "lib"):
        shutil.copytree(
            made / name, root / name, symlinks=True, ignore=skip, copy_function=link_or_copy
        )
    shutil.copyfile(made / "bin/nvcc.real", root / "bin/nvcc")
    (root / "bin/nvcc").chmod(0o755)
    (root / "lib64").symlink_to("lib")
    return root


@pytest.fixture
def trial(run, tmp_path, compiler_cache):
    found = make_trial(tmp_path, compiler_cache, run)
    found.write({"recipes/plain.yaml": RECIPE})
    found.lock("plain", "rooted")
    return found


def at(root, **more):
    return {"CUDA_HOME": str(root), "CUDA_PATH": "", **more}


def test_a_build_and_a_hit_and_the_real_places(trial, root):
    first = trial.build(env=at(root))
    assert first.archs() == {"scale.cu": ["sm_120a"]}
    assert first.made["verdict"]["passed"]
    assert "CUDA_HOME is set and no build hears it" not in first.said
    compiled = [r for r in first.ledger() if r["tool"] == "nvcc"]
    assert {r["argv"][0] for r in compiled} == {"/kf/cuda/bin/nvcc.real"}
    second = trial.build(env=at(root))
    assert (second.made["cached"], second.made["key"]) == (True, first.made["key"])


def test_another_place_of_the_same_bytes_is_the_same_toolkit(trial, root, tmp_path):
    first = trial.build(env=at(root)).made
    other = tmp_path / "opt/cuda"
    shutil.copytree(root, other, symlinks=True, copy_function=link_or_copy)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nvcc").symlink_to(other / "bin/nvcc")
    path = f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}"
    found = trial.build(env={"CUDA_HOME": "", "CUDA_PATH": "", "PATH": path}).made
    assert (found["cached"], found["key"]) == (True, first["key"])


def test_one_changed_byte_is_another_key(trial, root, tmp_path):
    first = trial.build(env=at(root)).made
    other = tmp_path / "changed"
    shutil.copytree(root, other, symlinks=True, copy_function=link_or_copy)
    header = other / "include/cuda_fp16.h"
    text = header.read_bytes()
    header.unlink()
    header.write_bytes(text + b"\n")
    second = trial.build(env=at(other)).made
    assert second["cached"] is False
    assert second["key"] != first["key"]


def test_an_absolute_path_into_the_host_is_not_there(trial, root):
    """The build sees one root only: another one cannot be mixed in by its path."""
    trial.write({"project/setup.py": setup_with(NVCC=repr(f"{root}/bin/nvcc"))})
    answer = trial.build(env=at(root))
    assert answer.status == 6
    assert "No such file or directory" in answer.said


@pytest.mark.xdist_group("real")
@pytest.mark.parametrize("sandbox", [(), ("--no-sandbox",)], ids=["kf", "real"])
def test_both_layouts(trial, root, sandbox):
    answer = trial.build(*sandbox, env=at(root))
    assert answer.archs() == {"scale.cu": ["sm_120a"]}
    assert answer.made["sandbox"]["layout"] == ("real" if sandbox else "kf")


def test_a_mixed_root_stops_before_anything_compiles(trial, root, tmp_path):
    """Field case 39: headers of another release."""
    other = tmp_path / "mixed"
    shutil.copytree(root, other, symlinks=True, copy_function=link_or_copy)
    header = other / "include/cuda.h"
    text = header.read_text().replace("#define CUDA_VERSION 13000", "#define CUDA_VERSION 11050")
    header.unlink()
    header.write_text(text)
    answer = trial.build(env=at(other))
    assert answer.status == 5
    assert answer.fault["error"] == "toolkit-mixed"
    assert "nvcc is 13.0, cuda.h is 11.5" in answer.fault["message"]
    assert not (trial.cache / "work").exists()


def test_an_incomplete_root_stops(trial, root, tmp_path):
    other = tmp_path / "part"
    shutil.copytree(root, other, symlinks=True, copy_function=link_or_copy)
    (other / "nvvm/bin/cicc").unlink()
    answer = trial.build(env=at(other))
    assert answer.status == 5
    assert answer.fault["error"] == "toolkit-incomplete"
    assert "nvvm/bin/cicc is not there" in answer.fault["message"]


def test_two_names_stop(trial, root, tmp_path):
    """Field case 39: one root, or a stop."""
    answer = trial.build(env={"CUDA_HOME": str(root), "CUDA_PATH": str(tmp_path)})
    assert answer.status == 5
    assert answer.fault["error"] == "toolkit-ambiguous"


def test_the_release_that_is_asked_for_is_not_there(trial, root):
    trial.write(
        {"recipes/plain.yaml": RECIPE.replace('"13.0"', '"12.9"').replace("12.0a", "12.0f")}
    )
    lock = trial.root / "recipes/locks/plain/py311-cu130-linux_x86_64.lock"
    lock.rename(lock.with_name("py311-cu129-linux_x86_64.lock"))
    answer = trial.build(env=at(root))
    assert answer.status == 5
    assert answer.fault["error"] == "toolkit-missing"
    assert f"13.0 in {root}" in answer.fault["message"]
    assert "--cuda" in answer.fault["hint"]
