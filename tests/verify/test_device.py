import copy
import json
import re
from dataclasses import replace

import pytest
from images import device, image, library

import kernforge.inside.gpu_probe as probe
from kernforge.errors import VerifyError
from kernforge.verify.device import Subject, judge_report, read_report
from kernforge.verify.policy import Answer

HOPPER, BLACKWELL = device("9.0"), device("12.0")
BOTH = library(image("9.0", "_Z1av", "_Z1bv"), image("12.0", "_Z1av", "_Z1bv"), path="a.so")
ONLY_BLACKWELL = library(image("12.0", "_Z1av"), path="a.so")
ONLY_PTX = library(image("9.0+PTX", "_Z1av"), path="a.so")
NO_BINARY = {
    "module": 0,
    "call": "cuLibraryLoadData",
    "code": 209,
    "name": "CUDA_ERROR_NO_BINARY_FOR_GPU",
}
SMOKE = {
    "file": "smoke.py",
    "sha256": "5" * 64,
    "outcome": "passed",
    "status": 0,
    "seconds": 1.0,
    "output": "ok\n",
}


def document(*, kernels=("_Z1av", "_Z1bv"), errors=(), outcome="done", smoke=SMOKE, **more):
    card = {"index": 0, "name": "Card", "capability": "9.0"}
    one = {"path": "a.so", "outcome": outcome, "containers": 1, "seconds": 1}
    one |= {"kernels": list(kernels), "errors": list(errors)}
    report = {
        "format": 1,
        "wheel": {"file": "x.whl", "sha256": "a" * 64},
        "probe": "b" * 64,
        "python": "3.11.7",
        "finished": "2026-11-30T00:00:00Z",
        "driver": 13000,
        "devices": [card],
        "trouble": None,
        "results": [{"device": card, "libraries": [one], "smoke": smoke}],
    } | more
    return {**report, "seal": probe.seal(report)}


def judged(report, *, devices=(HOPPER,), **changes):
    data = read_report(json.dumps(report).encode()) if report is not None else None
    about = {"sha256": "a" * 64, "libraries": (BOTH,), "smoke": "5" * 64} | changes
    return judge_report(data, Subject(**about), devices)


def answers(rungs, one=HOPPER):
    return tuple(dict(r.answers).get(one, Answer.NOT_VERIFIED) for r in rungs)


def words(rungs):
    return [fault.word for rung in rungs for fault in rung.faults]


def test_a_card_that_loads_all_and_passes_reaches_both():
    rungs = judged(document())
    assert (answers(rungs), words(rungs)) == (("reached", "reached"), [])


def test_a_device_without_a_card_is_not_verified():
    rungs = judged(document(), devices=(HOPPER, BLACKWELL))
    assert answers(rungs, BLACKWELL) == ("not verified", "not verified")
    assert rungs[0].notes == ("loads: 12.0: not verified: no such GPU",)


def test_no_code_for_the_gpu_is_told_as_such():
    rungs = judged(document(kernels=(), errors=[NO_BINARY]), libraries=(ONLY_BLACKWELL,))
    (fault,) = rungs[0].faults
    assert fault.word == "load-nothing"
    assert "no code for this GPU (error 209, CUDA_ERROR_NO_BINARY_FOR_GPU)" in fault.text
    assert answers(rungs)[0] is Answer.FAILED


@pytest.mark.parametrize(
    ("code", "name", "said"),
    [
        (209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no code for this GPU"),
        (221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "the driver's compiler is not installed"),
        (222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "PTX of a newer toolkit than the driver"),
        (
            223,
            "CUDA_ERROR_JIT_COMPILATION_DISABLED",
            "PTX alone, and the driver's compiler is switched off",
        ),
        (999, "CUDA_ERROR_UNKNOWN", "CUDA_ERROR_UNKNOWN"),
    ],
)
def test_what_hides_behind_the_same_symptom_is_told_apart(code, name, said):
    """Field cases 22 and 25: no image, no compiler for PTX, PTX of a newer toolkit."""
    error = NO_BINARY | {"code": code, "name": name}
    (fault,) = judged(document(kernels=["_Z1av"], errors=[error]))[0].faults
    assert f"{said} (error {code}, {name})" in fault.text


@pytest.mark.parametrize(
    ("found", "said"),
    [(ONLY_PTX, "only PTX that the driver would have to compile"),
     (ONLY_BLACKWELL, "no code for this GPU .* 209")],
)  # fmt: skip
def test_a_container_that_loads_with_no_kernel_is_no_pass(found, said):
    """Measured on a 9.0 card: the load of a container without code for it "succeeds"."""
    rungs = judged(document(kernels=()), libraries=(found,))
    assert words(rungs)[:1] == ["load-nothing"]
    assert re.search(said, rungs[0].faults[0].text)


def test_a_kernel_of_the_facts_that_does_not_load_is_named():
    (fault,) = judged(document(kernels=["_Z1av"], errors=[NO_BINARY]))[0].faults
    assert fault.word == "load-missing"
    assert "1 of 2 kernels do not load, among them '_Z1bv'" in fault.text


def test_a_library_that_the_report_lacks_is_a_fault():
    other = library(image("9.0", "_Z1cv"), path="other.so")
    assert words(judged(document(), libraries=(BOTH, other))) == ["load-missing"]


def test_a_library_for_other_devices_that_the_report_lacks_is_none():
    other = library(image("12.0", "_Z1cv"), path="other.so")
    assert words(judged(document(), libraries=(BOTH, other))) == []


def ptx(isa, *names, arch="9.0"):
    made = replace(image(f"{arch}+PTX", *names), isa=isa)
    return library(made, path="a.so")


def test_ptx_that_may_be_compiled_is_neither_reached_nor_failed():
    """The probe has the driver's compiler off; that the driver would do is not seen."""
    rungs = judged(document(kernels=()), libraries=(ptx("9.0", "_Z1av"),), allow_jit=True)
    assert (answers(rungs)[0], words(rungs)) == ("not verified", [])
    assert rungs[0].notes == ("loads: 9.0: not verified: its PTX was not compiled",)


def test_ptx_newer_than_the_driver_is_told_with_both_releases():
    """Field case 25: the report says which driver the GPU has."""
    rungs = judged(document(kernels=()), libraries=(ptx("9.2", "_Z1av"),), allow_jit=True)
    (fault,) = rungs[0].faults
    assert fault.word == "ptx-newer"
    assert "PTX of ISA 9.2 (CUDA 13.2) only, the driver is for CUDA 13.0" in fault.text
    assert answers(rungs)[0] is Answer.FAILED


def test_some_kernels_that_wait_keep_the_level_open():
    both = library(image("9.0", "_Z1av"), image("9.0+PTX", "_Z1bv"), path="a.so")
    rungs = judged(document(kernels=["_Z1av"]), libraries=(both,), allow_jit=True)
    assert answers(rungs)[0] == "not verified"


@pytest.mark.parametrize("outcome", ["crashed", "hung", "failed"])
def test_what_did_not_come_to_an_end(outcome):
    assert words(judged(document(outcome=outcome))) == ["load-failed"]


@pytest.mark.parametrize(
    ("smoke", "answer", "found"),
    [
        (SMOKE | {"outcome": "failed", "output": "off by 3\n"}, "failed", ["smoke-failed"]),
        (SMOKE | {"outcome": "hung"}, "failed", ["smoke-failed"]),
        (SMOKE | {"sha256": "6" * 64}, "not verified", []),
        (None, "not verified", []),
    ],
)
def test_the_smoke_program(smoke, answer, found):
    rungs = judged(document(smoke=smoke))
    assert (answers(rungs)[1], words(rungs)) == (answer, found)


def test_loads_and_does_not_run_are_two_facts():
    """Field case 17: the op has code, its kernels load, and it raises when it is called."""
    smoke = SMOKE | {"outcome": "failed", "output": "NotImplementedError: no op for 9.0\n"}
    rungs = judged(document(smoke=smoke))
    assert answers(rungs) == ("reached", "failed")
    assert "NotImplementedError" in rungs[1].faults[0].text


def test_the_last_line_of_a_failed_smoke_is_told():
    smoke = SMOKE | {"outcome": "failed", "output": "a\noff by 3\n\n"}
    (fault,) = judged(document(smoke=smoke))[1].faults
    assert fault.text == "The smoke program failed on Card (9.0): off by 3"


def test_a_recipe_without_smoke_never_runs():
    assert answers(judged(document(), smoke=None)) == ("reached", "not verified")


def test_a_report_of_another_wheel_proves_nothing():
    rungs = judged(document(), sha256="c" * 64)
    assert answers(rungs) == ("not verified", "not verified")
    assert "another wheel" in rungs[0].notes[0]


EDITS = [
    lambda d: d["results"][0]["libraries"][0]["kernels"].append("_Z1cv"),
    lambda d: d["results"][0]["device"].update(capability="12.0"),
    lambda d: d["results"][0]["smoke"].update(outcome="failed"),
    lambda d: d.update(driver=12040),
    lambda d: d.update(seal="0" * 64),
    lambda d: d["wheel"].update(file="other.whl"),
]


@pytest.mark.parametrize("edit", EDITS)
def test_a_report_that_was_edited_proves_nothing(edit):
    report = copy.deepcopy(document())
    edit(report)
    rungs = judged(report, devices=(HOPPER, BLACKWELL))
    assert answers(rungs) == answers(rungs, BLACKWELL) == ("not verified", "not verified")
    assert "changed after it was made" in rungs[0].notes[0]


def test_a_report_without_a_gpu_proves_nothing():
    trouble = {"outcome": "failed", "failed": {"call": "cuInit", "code": 100, "name": "NO_DEVICE"}}
    rungs = judged(document(trouble=trouble, results=[], devices=[], driver=None))
    assert "no GPU was reached (cuInit: NO_DEVICE)" in rungs[0].notes[0]


def test_no_report_leaves_both_open():
    assert answers(judged(None)) == ("not verified", "not verified")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b'{"format": 2}',
        b"[" * 100_000,
        json.dumps(document() | {"results": [{}]}).encode(),
        json.dumps(document() | {"results": 3}).encode(),
        json.dumps(document() | {"wheel": None}).encode(),
        json.dumps(document() | {"driver": "new"}).encode(),
    ],
)
def test_what_is_no_report_is_refused(data):
    with pytest.raises(VerifyError, match="is no GPU report of format 1"):
        read_report(data)


def test_the_driver_is_told_as_cuda_release():
    assert read_report(json.dumps(document()).encode()).driver == "13.0"
