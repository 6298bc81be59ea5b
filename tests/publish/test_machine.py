"""What is asked of the machine: a real child stands in for nvidia-smi, real Pythons answer."""

import sys
import venv

import pytest
from packaging.tags import sys_tags

from kernforge.errors import PublishError
from kernforge.process import SystemRunner
from kernforge.publish.machine import Asked, look

SMI = """#!/bin/sh
case "$*" in
  *compute_cap*) printf '%b' '{gpus}' ;;
  *) echo '| NVIDIA-SMI 580.1   Driver Version: 580.1   {label}: 13.1 |' ;;
esac
"""


@pytest.fixture
def machine(tmp_path):
    def make(gpus="12.0\\n12.0\\n9.0\\n", label="CUDA Version", **asked):
        program = tmp_path / "bin/nvidia-smi"
        program.parent.mkdir(exist_ok=True)
        program.write_text(SMI.format(gpus=gpus, label=label))
        program.chmod(0o755)
        words = {"python": sys.executable, "devices": (), "path": f"{program.parent}:/usr/bin:/bin"}
        return look(Asked(**(words | asked)), runner=SystemRunner())

    return make


@pytest.mark.parametrize("label", ["CUDA Version", "CUDA UMD Version"])
def test_gpus_and_driver(machine, label):
    here = machine(label=label)
    assert (here.devices, here.driver) == (("12.0", "9.0"), "13.1")


def test_gpus_that_the_user_names_are_taken(machine):
    here = machine(devices=("10.3",))
    assert (here.devices, here.driver) == (("10.3",), None)


def test_no_gpu_at_all(machine, tmp_path):
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone/env").symlink_to("/usr/bin/env")  # no nvidia-smi of this machine's beside it
    with pytest.raises(PublishError, match="nvidia-smi is not there") as found:
        machine(path=str(tmp_path / "alone"))
    assert (found.value.word, found.value.hint[:8]) == ("gpu-unknown", "name the")
    with pytest.raises(PublishError, match="names no GPU"):
        machine(gpus="")


def test_the_tags_are_those_of_the_interpreter(machine):
    here = machine()
    assert here.python == sys.version.split()[0]
    assert here.tags == frozenset(sys_tags())


def test_the_torch_of_an_environment_is_read_and_not_imported(machine, tmp_path):
    venv.create(tmp_path / "venv")
    site = next((tmp_path / "venv/lib").glob("python3*/site-packages"))
    (site / "torch-2.14.1+cu130.dist-info").mkdir()
    (site / "torch-2.14.1+cu130.dist-info/METADATA").write_text(
        "Name: torch\nVersion: 2.14.1+cu130\n"
    )
    (site / "torch").mkdir()
    (site / "torch/__init__.py").write_text("raise SystemExit('imported')\n")
    (site / "torch/version.py").write_text("cuda: Optional[str] = '13.0'\n")
    here = machine(python=str(tmp_path / "venv/bin/python"))
    assert (here.torch, here.torch_cuda) == ("2.14.1", "13.0")


def test_a_torch_without_cuda_is_told_apart_from_one_that_says_nothing(machine, tmp_path):
    venv.create(tmp_path / "venv")
    site = next((tmp_path / "venv/lib").glob("python3*/site-packages"))
    (site / "torch-2.14.1+cpu.dist-info").mkdir()
    (site / "torch-2.14.1+cpu.dist-info/METADATA").write_text("Name: torch\nVersion: 2.14.1+cpu\n")
    (site / "torch").mkdir()
    for text, cuda in (("cuda: Optional[str] = None\n", "none"), ("hip = '6'\n", None)):
        (site / "torch/version.py").write_text(text)
        here = machine(python=str(tmp_path / "venv/bin/python"))
        assert (here.torch, here.torch_cuda) == ("2.14.1", cuda)


def test_no_torch(machine, tmp_path):
    venv.create(tmp_path / "venv")
    here = machine(python=str(tmp_path / "venv/bin/python"))
    assert (here.torch, here.torch_cuda) == (None, None)


def test_a_python_that_is_none(machine):
    with pytest.raises(PublishError, match="it does not answer") as found:
        machine(python="/bin/false")
    assert found.value.word == "python-broken"
