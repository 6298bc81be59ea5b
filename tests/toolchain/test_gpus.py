"""What nvidia-smi says; a real child stands in for it."""

import pytest

from kernforge.process import SystemRunner
from kernforge.toolchain.gpus import ask_gpus

SMI = """#!/bin/sh
case "$*" in
  *compute_cap*) printf '%b' '{gpus}'; exit {status} ;;
  *) echo '| {label}: 13.1 |' ;;
esac
"""


def asked(folder, gpus="12.0\\n9.0\\n", status=0, label="CUDA Version"):
    program = folder / "nvidia-smi"
    program.write_text(SMI.format(gpus=gpus, status=status, label=label))
    program.chmod(0o755)
    return ask_gpus(path=f"{folder}:/usr/bin:/bin", runner=SystemRunner())


@pytest.mark.parametrize("label", ["CUDA Version", "CUDA UMD Version"])
def test_gpus_and_driver(tmp_path, label):
    found = asked(tmp_path, label=label)
    assert (found.devices, found.driver, found.trouble) == (("12.0", "9.0"), "13.1", None)


def test_a_driver_that_does_not_say_its_release(tmp_path):
    assert asked(tmp_path, label="Driver").driver is None


@pytest.mark.parametrize(
    ("gpus", "status", "trouble"),
    [
        ("", 0, "names no GPU"),
        ("[N/A]\\n", 0, "names no GPU"),
        ("no devices\\n", 9, "does not answer"),
    ],
)
def test_no_gpu(tmp_path, gpus, status, trouble):
    found = asked(tmp_path, gpus, status)
    assert (found.devices, found.driver) == ((), None)
    assert trouble in found.trouble


def test_no_program(tmp_path):
    found = ask_gpus(path=str(tmp_path), runner=SystemRunner())
    assert "cannot be started" in found.trouble or "is not there" in found.trouble
