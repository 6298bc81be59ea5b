"""The command `doctor` as a user meets it: on real environments, from the command line."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from cli.calls import answers, fault
from doctor.places import Place, checkout, module

SMI = """#!/bin/sh
case "$*" in
  *compute_cap*) printf '12.0\\n12.0\\n9.0\\n' ;;
  *) echo '| NVIDIA-SMI 580.1   Driver Version: 580.1   CUDA Version: 13.0 |' ;;
esac
"""


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.fixture
def doctor(run, place):
    return lambda *words, **more: run("doctor", "--python", str(place.python), *words, **more)


@pytest.fixture
def programs(tmp_path):
    """A PATH of the compilers alone: neither a sandbox nor nvidia-smi is on it."""
    links = tmp_path / "bin"
    links.mkdir()
    for name in ("gcc", "g++", "ld", "strip", "as", "git", "env"):
        (links / name).symlink_to(shutil.which(name))
    return str(links)


def only(done, status=0):
    (answer,) = answers(done, status)
    return answer


def test_a_healthy_environment(doctor, place):
    place.torch()
    place.kernels("good", "1.0", "12.0a")
    answer = only(doctor("--device", "12.0", "--json"))
    assert (answer["healthy"], answer["torch"], answer["cuda"]) == (True, "2.14.1", "13.0")
    assert answer["devices_note"] == "named with --device"
    (good, _torch) = answer["distributions"]
    assert good["devices"][0]["libraries"] == [
        {"path": "good/ops.abi3.so", "service": "serves", "kernels": 2, "total": 2}
    ]
    assert good["advice"] == {"action": "keep", "recipe": None, "exact": False, "commands": []}


def test_the_story(doctor, place, tmp_path):
    """An sglang checkout that says 0.0.0, and kernels for another card."""
    project = checkout(tmp_path / "sglang") / "python"
    place.torch()
    place.editable("sglang", "0.0.0.dev0", project, {"sglang": project / "sglang"})
    place.kernels("sglang-kernel", "0.4.7", "10.0f", package="sgl_kernel")
    done = doctor("--device", "12.0")
    assert done.returncode == 7
    text = done.stdout
    for line in (
        "sglang 0.0.0.dev0  reinstall",
        "branch main, no tags, clean",
        "metadata says 0.0.0.dev0; sglang has no __version__",
        "! version unknown ('0.0.0.dev0')",
        f"$ git -C {tmp_path}/sglang fetch --tags",
        "sglang-kernel 0.4.7  rebuild",
        "! holds nothing that device 12.0 can run (compiled for 10.0f)",
        "$ kernforge build sgl-kernel --arch 12.0a",
        "1 keep, 1 rebuild, 1 reinstall",
        "Nothing here has run on a GPU",
    ):
        assert line in text
    lines = [line for line in text.splitlines() if not line.startswith(("    $ ", "    # "))]
    assert max(map(len, lines)) <= 100


def test_the_gpus_of_the_machine_are_asked(doctor, place, tmp_path):
    program = tmp_path / "smi/nvidia-smi"
    program.parent.mkdir()
    program.write_text(SMI)
    program.chmod(0o755)
    place.kernels("old", "1.0", "9.0a")
    env = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    answer = only(doctor("--json", env=env), 7)
    assert answer["devices"] == ["12.0", "9.0"]
    assert answer["devices_note"] == "the GPUs of this machine, driver for CUDA 13.0"


def test_without_a_gpu_devices_are_not_judged(doctor, place, programs):
    place.kernels("old", "1.0", "9.0a")
    answer = only(doctor("--json", env={"PATH": programs}))
    assert answer["devices"] == []
    assert answer["devices_note"].startswith("not judged: nvidia-smi is not there")
    assert answer["distributions"][0]["archs"] == ["9.0a"]


@pytest.mark.parametrize("how", ["option", "missing"])
def test_without_a_sandbox_imports_are_not_verified(doctor, place, programs, how):
    place.kernels("good", "1.0", "12.0a")
    words = ("--no-sandbox",) if how == "option" else ()
    env = {} if how == "option" else {"PATH": programs}
    answer = only(doctor("--device", "12.0", "--json", *words, env=env))
    assert answer["sandbox"]["used"] is False
    assert answer["distributions"][0]["imports"]["answer"] == "not verified"


def test_without_a_compiler_imports_are_not_verified(doctor, place, tmp_path):
    place.kernels("good", "1.0", "12.0a")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/bwrap").symlink_to(shutil.which("bwrap") or "/bin/false")
    answer = only(doctor("--device", "12.0", "--json", env={"PATH": str(tmp_path / "bin")}))
    (remark,) = answer["distributions"][0]["remarks"]
    assert remark["word"] == "import-not-verified"


def test_the_active_environment_is_taken(run, place):
    env = {"VIRTUAL_ENV": str(place.root)}
    assert only(run("doctor", "--json", env=env))["python"]["path"] == str(place.python)
    answer = only(
        run("doctor", "--json", env={"VIRTUAL_ENV": "", "PATH": f"{place.root}/bin:/usr/bin"})
    )
    assert answer["python"]["prefix"] == str(place.root)


def test_a_folder_or_a_name_may_be_given(run, place):
    for words in ((str(place.root),), ("python",)):
        env = {"PATH": f"{place.root}/bin:{os.environ['PATH']}"}
        answer = only(run("doctor", "--python", *words, "--json", env=env))
        assert answer["python"]["prefix"] == str(place.root)


def test_a_path_that_comes_first_is_told(doctor, place, tmp_path):
    (note,) = only(doctor("--json", env={"PYTHONPATH": str(tmp_path)}))["notes"]
    assert note.startswith("PYTHONPATH is set")


def test_neither_home_nor_cache_is_needed(run, place):
    env = {"HOME": "", "XDG_CACHE_HOME": ""}
    assert only(run("doctor", "--python", str(place.python), "--json", env=env))["healthy"] is True


def test_it_changes_nothing(doctor, place, tmp_path):
    place.kernels("good", "1.0", "12.0a")

    def state():
        return {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")}

    before = state()
    doctor("--device", "12.0")
    assert state() == before


def test_a_broken_interpreter(run, tmp_path):
    told = fault(run("doctor", "--python", str(tmp_path / "none")), 5, "interpreter-broken")
    assert "name another with --python" in told
    (found,) = json.loads(run("doctor", "--python", "/bin/false", "--json").stdout)
    assert (found["error"], found["exit"]) == ("interpreter-broken", 5)


def test_a_device_that_is_none(doctor):
    assert "--device" in fault(doctor("--device", "sm_120"), 2, "device-invalid")


def test_names_of_hostile_files_do_not_reach_the_terminal(doctor, place):
    place.install("odd", "1.0\x1b[31m", {"odd/__init__.py": ""})
    module(place.site / "odd/ops.abi3.so", "9.0a").rename(place.site / "odd/\x1b[2Jops.abi3.so")
    done = doctor("--device", "12.0")
    assert "\x1b" not in done.stdout
    assert done.returncode == 7


@pytest.mark.skipif(os.getuid() == 0, reason="root reads every folder")
def test_a_folder_without_permission(doctor, place):
    place.kernels("good", "1.0", "12.0a")
    (place.site / "good").chmod(0)
    try:
        done = doctor("--device", "12.0", "--json")
    finally:
        (place.site / "good").chmod(0o755)
    assert only(done, 7)["healthy"] is False


def test_the_interpreter_may_be_our_own(run):
    answer = only(run("doctor", "--python", sys.executable, "--json"))
    assert answer["python"]["version"] == sys.version.split()[0]
    (own,) = [one for one in answer["distributions"] if one["name"] == "kernforge"]
    assert Path(own["editable"]["root"]).is_dir()
