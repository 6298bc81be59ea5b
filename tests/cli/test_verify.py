"""`kernforge verify` as a user meets it: on forged wheels, under recipes, with reports of a GPU."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from binary.forge import (
    EXIT,
    TRAP,
    make_container,
    make_cubin,
    make_entry,
    make_library,
    make_wheel,
)
from cli.calls import answers, fault
from inside.cards import driver, fat, no_driver
from projects import RECIPE
from verify.targets import SUFFIX, Target, compile_module, pack

import kernforge.inside.gpu_probe as probe

LEVELS = ("code", "links", "imports", "loads", "runs")
OPS = f"demo/ops{SUFFIX}"
CP = f"cp{sys.version_info.major}{sys.version_info.minor}"


def gpu_library(*numbers: int, suffix: str = "", kernels=("k",), code=EXIT) -> bytes:
    cubin = make_cubin(dict.fromkeys(kernels, code))
    images = [make_entry(cubin, number, suffix=suffix) for number in numbers]
    return make_library(fatbin=make_container(*images))


@pytest.fixture
def wheel(tmp_path):
    return make_wheel(tmp_path, {"demo/ops.so": gpu_library(120, suffix="a")})


def levels(document, number=0) -> list[str]:
    told = document["devices"][number]["levels"]
    return [told[level] for level in LEVELS]


# ---- by its bytes alone


def test_verify_a_wheel_that_serves(swift, wheel):
    (document,) = answers(swift("verify", str(wheel), "--device", "12.0", "--json"))
    assert document["wheel"] == str(wheel)
    assert document["passed"] is True
    assert document["libraries"][0]["service"] == "serves"
    text = swift("verify", str(wheel), "--device", "12.0").stdout
    assert "reaches code" in text
    assert "works" not in text


def test_verify_for_devices_it_does_not_serve(swift, wheel):
    done = swift("verify", str(wheel), "--device", "12.0", "--device", "12.1", "--json")
    (document,) = answers(done, 7)
    assert [device["reached"] for device in document["devices"]] == ["code", None]


@pytest.mark.parametrize("text", ["12.0a", "120", "sm_120", "", "12"])
def test_verify_for_what_is_no_device(swift, wheel, text):
    said = fault(swift("verify", str(wheel), "--device", text), 2, "device-invalid")
    assert "error[device-invalid]: --device: " in said
    assert "hint: " in said


def test_verify_what_is_not_there(swift):
    fault(swift("verify", "/no/such.whl", "--device", "12.0"), 7, "wheel-missing")
    fault(swift("verify", "/", "--device", "12.0"), 7, "wheel-missing")


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04" + bytes(100)])
def test_verify_what_is_no_wheel(swift, tmp_path, content):
    path = tmp_path / "demo-1.0-py3-none-any.whl"
    path.write_bytes(content)
    fault(swift("verify", str(path), "--device", "12.0"), 7, "wheel-unreadable")


def test_verify_a_wheel_with_a_broken_member(swift, wheel):
    """Whatever the rest of it serves: what is broken may be a library too."""
    data = wheel.read_bytes()
    spoiled = data.replace(b"demo/ops.so", b"demo/ops.so", 1)
    start = spoiled.index(b"demo/ops.so") + 40
    wheel.write_bytes(spoiled[:start] + b"\xff" * 8 + spoiled[start + 8 :])
    (document,) = answers(swift("verify", str(wheel), "--device", "12.0", "--json"), 7)
    assert document["passed"] is False
    assert {one["word"] for one in document["faults"]} & {"code-unread", "wheel-damaged"}


def test_verify_several_wheels_loses_none(swift, wheel, tmp_path):
    (tmp_path / "bad.whl").write_bytes(b"")
    call = ("verify", "/no.whl", str(wheel), str(tmp_path / "bad.whl"), "--device", "12.0")
    first, second, third = answers(swift(*call, "--json"), 7)
    assert (first["error"], third["error"]) == ("wheel-missing", "wheel-unreadable")
    assert first["wheel"] == "/no.whl"
    assert second["passed"] is True
    assert "reaches code" in swift(*call).stdout


def test_verify_writes_nothing_and_needs_no_project(wheel, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    unset = ("HOME", "XDG_CACHE_HOME", "KERNFORGE_CACHE", "KERNFORGE_PROJECT")
    env = {key: value for key, value in os.environ.items() if key not in unset}
    call = [sys.executable, "-m", "kernforge", "verify", str(wheel), "--device", "12.0"]
    done = subprocess.run(call, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "No device is named"),
        (("--gpu",), "--gpu and --report R.json go together"),
        (("--report", "R.json", "--device", "12.0"), "--gpu and --report R.json go together"),
        (("other.whl", "--gpu", "--report", "R.json"), "--gpu takes one wheel, and no --add"),
        (("--gpu", "--report", "R.json", "--add", "S.json"), "--gpu takes one wheel, and no --add"),
        (("--device", "12.0", "--job", "x"), "--job names a job of --recipe NAME"),
        (("--device", "12.0", "--require", "works"), "'works' is not one of 'code', 'links'"),
    ],
)
def test_options_that_do_not_go_together(swift, wheel, words, said):
    assert said in fault(swift("verify", str(wheel), *words), 2, "usage")


def test_a_kernel_that_only_traps_is_told_with_the_evidence(swift, tmp_path):
    good = gpu_library(120, suffix="a")
    name = "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalI21MainloopSm90TmaGmmaEEEvv"
    bad = gpu_library(120, suffix="a", kernels=(name,), code=TRAP + EXIT)
    wheel = make_wheel(tmp_path, {"demo/good.so": good, "demo/bad.so": bad})
    done = swift("verify", str(wheel), "--device", "12.0")
    assert done.returncode == 7
    assert "demo/bad.so   refuses    0 of 1 kernels" in done.stdout
    assert "no tensor core instruction in a kernel named for them" in done.stdout
    (document,) = answers(swift("verify", str(wheel), "--device", "12.0", "--json"), 7)
    (row,) = [row for row in document["libraries"] if row["path"] == "demo/bad.so"]
    assert row["answers"]["refuses"] == 1
    assert [f["word"] for f in document["faults"]] == ["kernel-refuses"]


@pytest.mark.parametrize("level", LEVELS[1:])
def test_a_level_that_nobody_could_judge_is_not_reached(swift, wheel, level):
    done = swift("verify", str(wheel), "--device", "12.0", "--require", level, "--json")
    (document,) = answers(done, 7)
    assert levels(document) == ["reached", *["not verified"] * 4]
    assert document["faults"] == []
    missing = "no target was given" if level in LEVELS[:3] else "no report of a GPU was added"
    assert any(missing in note for note in document["notes"])


# ---- under a recipe


def judged(call, wheel, *words, status=0):
    (document,) = answers(call("verify", str(wheel), "--recipe", "tiny", "--json", *words), status)
    return document


def words_of(document) -> list[str]:
    return [fault["word"] for fault in document["faults"]]


def rewrite(project, verify: str) -> None:
    text = RECIPE.replace("verify: {require: code}", f"verify: {verify}")
    assert text != RECIPE
    (project / "recipes/tiny.yaml").write_text(text)


def test_the_recipe_says_which_devices_and_what_must_be_there(call, project, wheel):
    assert judged(call, wheel)["devices"][0]["device"] == "12.0"
    rewrite(project, '{require: code, extensions: {"gone/*.so": target, "demo/*.so": target}}')
    assert words_of(judged(call, wheel, status=7)) == ["extension-missing"]
    rewrite(project, '{require: code, loaders: [{default: "demo/none*.so"}]}')
    assert words_of(judged(call, wheel, status=7)) == ["loader-missing"]
    rewrite(project, '{require: code, kernels: {required: ["k", "*tree*"]}}')
    assert words_of(judged(call, wheel, status=7)) == ["kernel-missing"]


def test_a_wheel_of_others_need_not_hold_the_very_archs_of_a_job(call, tmp_path):
    """The recipe's job is for 12.0a; what a stranger's wheel must do is serve."""
    wheel = make_wheel(tmp_path, {"demo/ops.so": gpu_library(90, 120)})
    assert judged(call, wheel)["passed"] is True
    assert judged(call, wheel, "--device", "9.0")["devices"][0]["device"] == "9.0"
    assert words_of(judged(call, wheel, "--device", "8.0", status=7)) == ["code-missing"]


def test_accepted_gaps_are_read_and_lines_without_effect_told(call, project, tmp_path):
    half = make_container(
        make_entry(make_cubin({"k": EXIT, "old": EXIT}), 90),
        make_entry(make_cubin({"k": EXIT}), 120),
    )
    wheel = make_wheel(tmp_path, {"demo/ops.so": make_library(fatbin=half)})
    assert words_of(judged(call, wheel, status=7)) == ["code-missing"]
    rewrite(project, "{require: code, kernels: {accepted_gaps: gaps.txt}}")
    (project / "gaps.txt").write_text("# known\n12.0 old\nclosed*\n")
    document = judged(call, wheel)
    assert document["notes"] == [
        "the wheel is of demo, recipe tiny builds tiny",
        "accepted_gaps: no gap is like 'closed*'",
    ]
    assert document["libraries"][0]["accepted"] == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, ("baseline-missing", "'gaps.txt' cannot be read: No such file")),
        (b"\xff\n", ("baseline-missing", "it is no UTF-8 text")),
        (b"k\n12.0\n", ("baseline-invalid", "gaps.txt:2: '12.0' has no pattern")),
    ],
)
def test_a_baseline_that_cannot_be_read_stops_before_anything(call, project, wheel, text, told):
    word, said = told
    rewrite(project, "{require: code, kernels: {accepted_gaps: gaps.txt}}")
    if text is not None:
        (project / "gaps.txt").write_bytes(text)
    assert said in fault(call("verify", str(wheel), "--recipe", "tiny"), 7, word)
    assert said in fault(call("build", "tiny"), 7, word)


def test_a_wheel_without_device_code(call, project, tmp_path):
    plain = make_wheel(tmp_path, {"demo/__init__.py": b""})
    assert words_of(judged(call, plain, status=7)) == ["code-missing"]
    rewrite(project, "{require: code, device_code: false}")
    document = judged(call, plain)
    assert levels(document)[0] == "not needed"
    coded = make_wheel(tmp_path, {"demo/ops.so": gpu_library(120)})
    assert words_of(judged(call, coded, status=7)) == ["code-unexpected"]


def test_what_a_recipe_cannot_be_chosen_for(call, project, wheel):
    text = RECIPE.replace('python: ["3.11"]', 'python: ["3.11", "3.12"]')
    (project / "recipes/tiny.yaml").write_text(text)
    said = fault(call("verify", str(wheel), "--recipe", "tiny"), 3, "job-ambiguous")
    assert "tiny-cu130-cp311-sm120a, tiny-cu130-cp312-sm120a" in said
    assert judged(call, wheel, "--job", "tiny-cu130-cp311-sm120a")["passed"] is True
    fault(call("verify", str(wheel), "--recipe", "tiny", "--job", "x"), 3, "job-missing")
    fault(call("verify", str(wheel), "--recipe", "tini"), 3, "recipe-missing")


def test_an_environment_that_is_not_to_be_had_leaves_the_levels_open(call, project, wheel):
    """No lock: the target cannot be made, so nothing is known of it, and nothing passes."""
    for lock in (project / "recipes/locks/tiny").iterdir():
        lock.unlink()
    document = judged(call, wheel, "--require", "imports", status=7)
    assert levels(document)[:3] == ["reached", "not verified", "not verified"]
    assert "links: not verified: the recipe's environment is not to be had" in document["notes"][1]


def test_nothing_is_built_to_judge_a_wheel(call, project, wheel, tmp_path):
    """What the recipe requires is hours of compiling: it is there, or the levels stay open."""
    text = RECIPE.replace("name: tiny", "name: over").replace("{require: code}", "{require: links}")
    (project / "recipes/over.yaml").write_text(text + "requires: [tiny]\n")
    shutil.copytree(project / "recipes/locks/tiny", project / "recipes/locks/over")
    (document,) = answers(call("verify", str(wheel), "--recipe", "over", "--json"), 7)
    assert levels(document)[:2] == ["reached", "not verified"]
    assert "over requires tiny, which the store does not hold" in str(document["notes"])
    assert not (tmp_path / "cache/envs").exists()


# ---- in the environment of an interpreter


@pytest.fixture
def target(tmp_path):
    return Target(tmp_path / "target")


@pytest.fixture
def linked(tmp_path, target):
    """A wheel with a module that is linked with the target's torch and holds code for 9.0."""
    tree, code = tmp_path / "tree", tmp_path / "code"
    entry = make_entry(make_cubin(dict.fromkeys(("_Z1av", "_Z1bv"), EXIT)), 90)
    code.write_bytes(make_container(entry))
    before = f"""
        void _ZN3c104lockEj(void); void *keep = _ZN3c104lockEj;
        __asm__(".section .nv_fatbin, \\"a\\"\\n.balign 8\\n.incbin \\"{code}\\"\\n.text");
    """
    compile_module(tree / OPS, *target.linked(), before=before)
    (tree / "demo/__init__.py").write_text("import torch\nfrom demo import ops\n")
    return pack(tmp_path, tree, file=f"demo-1.0-{CP}-{CP}-linux_x86_64.whl")


def in_target(call, wheel, target, *words, status=0):
    python = ("--python", str(target.root / "bin/python"))
    found = call("verify", str(wheel), "--device", "9.0", "--json", *python, *words)
    (document,) = answers(found, status)
    return document


def test_links_and_imports_in_the_environment_of_a_given_python(call, linked, target):
    document = in_target(call, linked, target, "--require", "imports")
    assert levels(document)[:3] == ["reached", "reached", "reached"], document


def test_an_interpreter_that_is_a_link_to_a_link(call, linked, target, tmp_path):
    """As `python -m venv` makes it: each hop may lie where the sandbox shows nothing by itself."""
    python = target.root / "bin/python"
    hop = tmp_path / "elsewhere/bin/python3"
    hop.parent.mkdir(parents=True)
    python.rename(hop)
    python.symlink_to(hop)
    document = in_target(call, linked, target, "--require", "imports")
    assert levels(document)[2] == "reached"


def test_without_what_it_is_linked_with_it_does_not_import(call, linked, target):
    (target.torch / "lib/libc10.so").unlink()
    document = in_target(call, linked, target, "--require", "imports", status=7)
    assert levels(document)[1] == "failed"
    assert "library-missing" in words_of(document)


def test_a_python_that_does_not_start(call, linked, tmp_path):
    words = ("--device", "9.0", "--python", str(tmp_path / "none/bin/python"))
    fault(call("verify", str(linked), *words), 7, "python-broken")


# ---- loads and runs


CARD = {"index": 0, "name": "Card", "capability": "9.0"}


def write_report(held, place, *, smoke=None, kernels=("_Z1av", "_Z1bv"), **changes) -> Path:
    """What the GPU probe writes of a wheel; that it writes so is tested with the probe."""
    one = {"path": OPS, "outcome": "done", "containers": 1, "seconds": 1}
    one |= {"kernels": list(kernels), "errors": []}
    report = {
        "format": 1,
        "wheel": {"file": held.name, "sha256": probe.digest(str(held))},
        "probe": "b" * 64, "python": "3.11.7", "finished": "2026-11-30T00:00:00Z",
        "driver": 13000, "devices": [CARD], "trouble": None,
        "results": [{"device": CARD, "libraries": [one], "smoke": smoke}],
    } | changes  # fmt: skip
    place.write_text(json.dumps({**report, "seal": probe.seal(report)}))
    return place


def test_a_report_raises_the_level_and_is_kept(call, linked, target, tmp_path):
    report = write_report(linked, tmp_path / "R.json")
    before = in_target(call, linked, target, "--require", "loads", status=7)
    assert "loads: not verified: no report of a GPU was added" in before["notes"]
    added = in_target(call, linked, target, "--require", "loads", "--add", str(report))
    assert levels(added) == [*["reached"] * 4, "not verified"]
    assert in_target(call, linked, target, "--require", "loads") == added


def test_the_last_report_of_a_device_counts(call, linked, target, tmp_path):
    good = write_report(linked, tmp_path / "good.json")
    bad = write_report(linked, tmp_path / "bad.json", kernels=["_Z1av"])
    in_target(call, linked, target, "--add", str(good))
    document = in_target(call, linked, target, "--add", str(bad), status=7)
    assert levels(document)[3] == "failed"
    assert words_of(document) == ["load-missing"]  # though `code` alone is demanded: a GPU said so
    assert levels(in_target(call, linked, target, "--add", str(good)))[3] == "reached"


def test_a_gpu_loads_and_nobody_knows_whether_it_links(call, linked, tmp_path):
    """A level stands on those below it."""
    report = write_report(linked, tmp_path / "R.json")
    (document,) = answers(call("verify", str(linked), "--add", str(report), "--json"))
    assert [d["device"] for d in document["devices"]] == ["9.0"]
    assert levels(document) == ["reached", *["not verified"] * 4]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"wheel": {"file": "x.whl", "sha256": "c" * 64}}, "the report is of another wheel"),
        ({"trouble": {"outcome": "hung"}, "results": []}, "no GPU was reached (hung)"),
    ],
)
def test_a_report_that_says_nothing_of_the_wheel_is_not_added(
    call, linked, tmp_path, changes, said
):
    report = write_report(linked, tmp_path / "R.json", **changes)
    text = fault(
        call("verify", str(linked), "--add", str(report), "--device", "9.0"), 7, "report-unfit"
    )
    assert said in text
    assert "hint: make it again" in text
    assert not list((tmp_path / "cache").glob("store/report/*"))


def test_a_report_that_was_edited_is_not_added(call, linked, tmp_path):
    report = write_report(linked, tmp_path / "R.json")
    report.write_text(report.read_text().replace('"_Z1av"', '"_Z1cv"'))
    said = fault(call("verify", str(linked), "--add", str(report)), 7, "report-unfit")
    assert "the report was changed after it was made" in said


def test_reports_that_are_none(call, linked, tmp_path):
    fault(call("verify", str(linked), "--add", "/none.json"), 7, "report-missing")
    (tmp_path / "R.json").write_text("{}")
    fault(call("verify", str(linked), "--add", str(tmp_path / "R.json")), 7, "report-invalid")


def test_runs_is_reached_by_the_recipes_smoke_program_alone(
    call, project, linked, target, tmp_path
):
    rewrite(project, "{require: runs, import: [demo], smoke: smoke.py}")
    (project / "smoke.py").write_text("import demo\n")
    smoke = {"sha256": probe.digest(str(project / "smoke.py")), "outcome": "passed", "output": ""}
    words = ("--recipe", "tiny")
    first = in_target(call, linked, target, *words, status=7)
    assert "runs: not verified: no report of a GPU was added" in first["notes"]
    other = write_report(linked, tmp_path / "R.json", smoke=smoke | {"sha256": "0" * 64})
    document = in_target(call, linked, target, *words, "--add", str(other), status=7)
    assert "the report is of another smoke program" in str(document["notes"])
    report = write_report(linked, tmp_path / "R.json", smoke=smoke)
    document = in_target(call, linked, target, *words, "--add", str(report))
    assert levels(document) == ["reached"] * 5
    (project / "smoke.py").write_text("import demo  # more\n")
    assert levels(in_target(call, linked, target, *words, status=7))[4] == "not verified"


def gpu(program, wheel, report, folder, *words):
    env = {"LD_LIBRARY_PATH": str(folder)}
    return program(
        "verify", str(wheel), "--gpu", "--report", str(report), "--json", *words, env=env
    )


@pytest.fixture
def program(run, fixed):
    """A call in the project, as a user makes it."""
    return lambda *words, **options: run(*fixed, *words, **options)


def test_the_gpu_of_this_machine_is_asked_and_its_report_kept(program, tmp_path):
    wheel = make_wheel(tmp_path, {"demo/ops.so": fat(90)})
    report = tmp_path / "R.json"
    done = gpu(program, wheel, report, driver(tmp_path))
    (document,) = answers(done)
    assert [d["device"] for d in document["devices"]] == ["9.0"]
    assert "Stand-in (9.0)" in done.stderr
    assert "2 kernels of 1 fat binaries resolve" in done.stderr
    assert "kernforge verify WHEEL --add R.json" in done.stderr
    again = program("verify", str(wheel), "--add", str(report), "--json")
    assert answers(again) == [document]


def test_a_wheel_that_the_gpu_refuses_fails(program, tmp_path):
    wheel = make_wheel(tmp_path, {"demo/ops.so": fat(120)})
    (document,) = answers(gpu(program, wheel, tmp_path / "R.json", driver(tmp_path)), 7)
    assert words_of(document) == ["code-missing", "load-nothing"]
    assert "no code for this GPU (error 209" in document["faults"][1]["text"]


def test_smoke_is_run_by_the_python_that_is_named_and_by_no_other(program, project, tmp_path):
    rewrite(project, "{require: code, smoke: smoke.py}")
    mark = tmp_path / "ran"
    (project / "smoke.py").write_text(f"import demo\nopen({str(mark)!r}, 'w')\n")
    wheel = make_wheel(tmp_path, {"demo/ops.so": fat(90), "demo/__init__.py": b""})
    words = ("--recipe", "tiny", "--device", "9.0")
    report = tmp_path / "R.json"
    answers(gpu(program, wheel, report, driver(tmp_path), *words))
    assert not mark.exists()
    answers(gpu(program, wheel, report, driver(tmp_path), *words, "--python", sys.executable))
    assert mark.exists()
    assert json.loads(report.read_text())["results"][0]["smoke"]["outcome"] == "passed"


def test_where_the_gpu_is_no_environment_is_made(program, project, tmp_path):
    """Gigabytes that only the machine that built the wheel needs; it judges links and imports."""
    rewrite(project, "{require: imports, import: [demo]}")
    wheel = make_wheel(tmp_path, {"demo/ops.so": fat(90), "demo/__init__.py": b""})
    words = ("--recipe", "tiny", "--device", "9.0")
    done = gpu(program, wheel, tmp_path / "R.json", driver(tmp_path), *words)
    (document,) = answers(done)
    assert (document["require"], document["passed"]) == ("code", True)
    assert levels(document)[1:3] == ["not verified"] * 2
    assert ": env " not in done.stderr
    assert not (tmp_path / "cache/envs").exists()


def test_without_a_gpu_it_says_so_and_writes_no_report(program, wheel, tmp_path):
    done = gpu(program, wheel, tmp_path / "R.json", no_driver(tmp_path))
    assert done.returncode == 7
    (told,) = json.loads(done.stdout)
    assert told["error"] == "gpu-missing"
    assert "loads and runs are not verified" in told["message"]
    assert not (tmp_path / "R.json").exists()


def test_a_report_that_cannot_be_written(program, tmp_path):
    wheel = make_wheel(tmp_path, {"demo/ops.so": fat(90)})
    done = gpu(program, wheel, tmp_path / "no/R.json", driver(tmp_path))
    assert json.loads(done.stdout)[0]["error"] == "report-unwritable"


def test_a_wheel_that_the_probe_refuses(program, tmp_path):
    wheel = make_wheel(tmp_path, {"../evil.so": fat(90)})
    done = gpu(program, wheel, tmp_path / "R.json", driver(tmp_path))
    assert json.loads(done.stdout)[0]["error"] == "probe-failed"
    assert "leads outside" in done.stderr
