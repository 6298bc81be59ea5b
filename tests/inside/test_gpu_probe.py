"""The GPU probe run as the program it is, on a driver made here that knows one card.

The stand-in reads the arch of the first entry of a fat binary and takes it where it is its own; on
a real card the same program is run by hand (see docs/verify.md).
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from binary.forge import make_library, make_wheel
from inside.cards import driver, fat, no_driver

import kernforge.inside.gpu_probe as probe


def run(tmp_path, members, *words, folder=None):
    wheel = make_wheel(tmp_path, members)
    report = tmp_path / "R.json"
    argv = [sys.executable, "-I", probe.__file__, str(wheel), "--report", str(report), *words]
    env = {**os.environ, "LD_LIBRARY_PATH": str(folder or no_driver(tmp_path))}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    return done, json.loads(report.read_bytes())


def libraries(report):
    (result,) = report["results"]
    return {one["path"]: one for one in result["libraries"]}


def test_every_fat_binary_is_loaded_and_its_kernels_are_resolved(tmp_path):
    done, report = run(tmp_path, {"a.so": fat(90, 90)}, folder=driver(tmp_path))
    one = libraries(report)["a.so"]
    assert done.returncode == 0
    assert (one["outcome"], one["containers"]) == ("done", 2)
    assert one["kernels"] == ["_Z1av", "_Z1bv"]
    assert "2 kernels of 2 fat binaries resolve, errors none" in done.stdout


def test_code_for_another_card_is_error_209(tmp_path):
    done, report = run(tmp_path, {"a.so": fat(90, 120)}, folder=driver(tmp_path))
    assert libraries(report)["a.so"]["errors"] == [
        {
            "module": 1,
            "call": "cuLibraryLoadData",
            "code": 209,
            "name": "CUDA_ERROR_NO_BINARY_FOR_GPU",
        }
    ]
    assert "errors [209]" in done.stdout


def test_a_kernel_that_does_not_load_is_named(tmp_path):
    _, report = run(tmp_path, {"a.so": fat(90)}, folder=driver(tmp_path, broken=719))
    one = libraries(report)["a.so"]
    assert one["kernels"] == ["_Z1av"]
    assert [(e["kernel"], e["code"]) for e in one["errors"]] == [("_Z1bv", 719)]


def test_a_crash_of_the_driver_is_an_answer_and_the_next_library_is_tried(tmp_path):
    members = {"a.so": fat(666), "b.so": fat(90)}
    _, report = run(tmp_path, members, folder=driver(tmp_path))
    found = libraries(report)
    assert (found["a.so"]["outcome"], found["a.so"]["status"]) == ("crashed", -11)
    assert found["b.so"]["outcome"] == "done"


def test_libraries_without_device_code_are_left_out(tmp_path):
    members = {"a.so": fat(90), "host.so": make_library(), "x.py": b"1"}
    _, report = run(tmp_path, members, folder=driver(tmp_path))
    assert set(libraries(report)) == {"a.so"}


def test_one_card_of_each_capability_is_tried(tmp_path):
    _, report = run(tmp_path, {"a.so": fat(90)}, folder=driver(tmp_path, cards=4))
    assert [d["index"] for d in report["devices"]] == [0, 1, 2, 3]
    assert [r["device"]["index"] for r in report["results"]] == [0]


@pytest.mark.parametrize("cards", [None, 0])
def test_no_driver_or_no_card_is_told(tmp_path, cards):
    folder = None if cards is None else driver(tmp_path, cards=cards)
    done, report = run(tmp_path, {"a.so": fat(90)}, folder=folder)
    assert done.returncode == 1
    assert "no GPU was reached" in done.stdout
    assert (report["results"], report["trouble"]["outcome"]) == ([], "failed")


@pytest.mark.parametrize(
    ("text", "outcome", "output"),
    [
        ("import pkg; print('x is', pkg.x)", "passed", "x is 1\n"),
        ("raise SystemExit('not equal')", "failed", "not equal\n"),
        ("import os; os.abort()", "failed", ""),
        ("import os; print(os.environ['CUDA_VISIBLE_DEVICES'])", "passed", "0\n"),
    ],
)
def test_the_smoke_program_sees_the_wheel(tmp_path, text, outcome, output):
    smoke = tmp_path / "smoke.py"
    smoke.write_text(text)
    members = {"a.so": fat(90), "pkg.py": b"x = 1"}
    words = ("--smoke", str(smoke))
    _, report = run(tmp_path, members, *words, folder=driver(tmp_path))
    ran = report["results"][0]["smoke"]
    assert (ran["outcome"], ran["output"]) == (outcome, output)
    assert ran["sha256"] == probe.digest(str(smoke))


def test_without_smoke_nothing_of_the_wheel_is_executed(tmp_path):
    mark = tmp_path / "executed"
    members = {"a.so": fat(90), "sitecustomize.py": f"open({str(mark)!r}, 'w')".encode()}
    run(tmp_path, members, folder=driver(tmp_path))
    assert not mark.exists()


def test_the_report_is_sealed_and_names_wheel_and_probe(tmp_path):
    _, report = run(tmp_path, {"a.so": fat(90)}, folder=driver(tmp_path))
    (wheel,) = tmp_path.glob("*.whl")
    assert report["seal"] == probe.seal(report)
    assert report["wheel"] == {"file": wheel.name, "sha256": probe.digest(str(wheel))}
    assert report["probe"] == probe.digest(probe.__file__)
    assert report["driver"] == 13000


def test_a_member_that_leads_outside_is_refused(tmp_path):
    wheel = make_wheel(tmp_path, {"../evil.so": b"x"})
    argv = [sys.executable, "-I", probe.__file__, str(wheel), "--report", str(tmp_path / "R")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "'../evil.so' leads outside" in done.stderr
    assert not Path(tmp_path.parent / "evil.so").exists()


def test_a_stopped_program_is_none(tmp_path):
    argv = [sys.executable, "-c", "import time; time.sleep(60)"]
    assert probe.finish(argv, {}, 1, None) is None
