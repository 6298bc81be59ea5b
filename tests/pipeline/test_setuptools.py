"""The setuptools backend without torch: policies by path, every way to a compiler, the shell's words."""

import json
import shutil
import zipfile

import pytest
from pipeline.trials import FILES, KERNEL, SETUP, recipe_with, setup_with

pytestmark = pytest.mark.build

OTHER = KERNEL.replace("tiny_scale", "other_scale")
HOST = "int host() { return 1; }\n"
NINE = [f"-gencode=arch=compute_{n},code=sm_{n}" for n in (75, 80, 90)]
OWN = ["-gencode", "arch=compute_90,code=sm_90", "-gencode=arch=compute_120a,code=sm_120a"]


def test_a_hard_coded_list_is_replaced_and_the_second_time_found(trial):
    trial.write({"project/setup.py": setup_with(FLAGS=NINE)})
    first = trial.build()
    assert first.archs() == {"scale.cu": ["sm_120a"]}
    assert first.made["verdict"]["passed"]
    assert first.made["wheel"].endswith("-cp311-cp311-linux_x86_64.whl")
    second = trial.build()
    assert second.made["cached"] is True
    assert second.made["sha256"] == first.made["sha256"]


def test_policies_by_path(trial):
    trial.write(
        {
            "recipes/plain.yaml": recipe_with(
                'gencode: {default: replace, "*/own/*": filter, "*/theirs/*": upstream}',
                arch="12.0a",
            ),
            "project/setup.py": setup_with(FLAGS=OWN),
            "project/csrc/own/filtered.cu": OTHER,
            "project/csrc/theirs/kept.cu": OTHER.replace("other", "third"),
        }
    )
    answer = trial.build()
    assert answer.archs() == {
        "scale.cu": ["sm_120a"],
        "filtered.cu": ["sm_120a"],
        "kept.cu": ["sm_90", "sm_120a"],
    }


def test_a_filter_that_leaves_nothing_keeps_and_fails_the_verdict(trial):
    trial.write({"recipes/plain.yaml": recipe_with("gencode: {default: filter}")})
    answer = trial.build()
    assert answer.status == 7
    assert answer.fault["error"] == "verdict-failed"
    assert "device 12.0 gets no code" in answer.fault["message"]


@pytest.mark.parametrize(
    ("value", "policy"),
    [("native", "upstream"), ("all", "upstream"), ("all-major", "upstream"), ("native", "filter")],
)
def test_moving_targets_are_refused_where_they_would_be_left(trial, value, policy):
    """What they mean differs from machine to machine and toolkit to toolkit."""
    trial.write(
        {
            "recipes/plain.yaml": recipe_with(f"gencode: {{default: {policy}}}"),
            "project/setup.py": setup_with(FLAGS=[f"-arch={value}"]),
        }
    )
    answer = trial.build()
    assert answer.status == 6
    assert answer.fault["error"] == "gencode-refused"
    said = (
        f"nvcc on plain/csrc/scale.cu: -arch={value} under policy {policy!r} has no fixed targets"
    )
    assert said in answer.fault["message"]
    assert answer.fault["hint"] == "set build.gencode for that file"


def test_moving_targets_are_replaced(trial):
    trial.write({"project/setup.py": setup_with(FLAGS=["-arch=all-major"])})
    assert trial.build().archs() == {"scale.cu": ["sm_120a"]}


def test_nvcc_by_the_path_of_the_root_passes_the_shim(trial):
    trial.write({"project/setup.py": setup_with(NVCC='os.environ["CUDA_HOME"] + "/bin/nvcc"')})
    assert trial.build().archs() == {"scale.cu": ["sm_120a"]}


@pytest.mark.parametrize(
    "flags", [["-arch=sm_90"], ["-gencode=arch=compute_120a,code=sm_120a"]], ids=["other", "same"]
)
def test_the_real_nvcc_by_its_path_fails(trial, flags):
    """Even where it happens to compile what was asked: no record says so."""
    real = 'os.environ["CUDA_HOME"] + "/bin/nvcc.real"'
    trial.write({"project/setup.py": setup_with(NVCC=real, FLAGS=flags)})
    answer = trial.build()
    assert answer.status == 6
    assert answer.fault["error"] == "object-unexplained"
    assert "csrc/scale.cu.o' was compiled past the shim" in answer.fault["message"]


def test_the_real_nvcc_that_leaves_no_object_fails_too(trial):
    """Compiled and linked in one call, the object is gone when the build ends."""
    text = SETUP.replace(
        '["nvcc", "-shared", *FLAGS, *objects',
        '[f"{CUDA}/bin/nvcc.real", "-shared", "-Xcompiler", "-fPIC", *FLAGS, "direct.cu"',
    ).replace("LINK = []", 'LINK, CUDA = [], os.environ["CUDA_HOME"]')
    assert text.count("nvcc.real") == 1
    trial.write({"project/setup.py": text, "project/direct.cu": OTHER})
    (trial.root / "project/csrc/scale.cu").unlink()
    answer = trial.build()
    assert answer.status == 6
    assert answer.fault["error"] == "object-unexplained"


def test_a_host_compiler_by_its_path_fails(trial):
    files = {"project/setup.py": setup_with(CXX='"/usr/bin/g++"'), "project/csrc/host.cpp": HOST}
    trial.write(files)
    answer = trial.build()
    assert answer.status == 6
    assert answer.fault["error"] == "object-unexplained"
    assert "host.cpp.o" in answer.fault["message"]
    assert "patch that call out" in answer.fault["hint"]


def test_a_host_compiler_by_its_variable_is_recorded(trial):
    files = {"project/setup.py": setup_with(CXX='os.environ["CXX"]'), "project/csrc/host.cpp": HOST}
    trial.write(files)
    compiled = [r for r in trial.build().ledger() if r["tool"] == "g++"]
    assert [(r["kind"], r["sources"]) for r in compiled] == [("compile", ["plain/csrc/host.cpp"])]


def test_what_the_shell_says_is_named_once_and_not_heard(trial):
    """CFLAGS would break every host compile if a build heard it."""
    trial.write({"project/csrc/host.cpp": HOST})
    env = {"CFLAGS": "-nonsense", "CXXFLAGS": "-nonsense", "NVCC_APPEND_FLAGS": "-arch=sm_75",
           "TORCH_CUDA_ARCH_LIST": "7.5", "MAX_JOBS": "99"}  # fmt: skip
    answer = trial.build(env=env)
    assert answer.archs() == {"scale.cu": ["sm_120a"]}
    for name, carried_by in (("CFLAGS", "build.env"), ("NVCC_APPEND_FLAGS", "build.env"),
                             ("TORCH_CUDA_ARCH_LIST", "matrix.archs or --arch"),
                             ("MAX_JOBS", "--jobs")):  # fmt: skip
        line = f"note: {name} is set and no build hears it; what carries it: {carried_by}"
        assert answer.said.count(line) == 1
    quiet = trial.build()
    assert quiet.made["key"] == answer.made["key"]


def test_written_again_and_from_another_shell_it_is_found(trial):
    first = trial.build().made
    trial.write({name: text for name, text in FILES.items() if name.startswith("project/")})
    again = trial.build("--jobs", "1", env={"PYTHONPATH": "/nowhere", "TZ": "Asia/Tokyo"}).made
    assert (again["key"], again["cached"]) == (first["key"], True)


def test_two_archs_and_ptx(trial):
    answer = trial.build("--arch", "9.0 12.0a+PTX")
    assert answer.archs() == {"scale.cu": ["sm_90", "sm_120a", "compute_120a"]}
    devices = {d["device"]: d["levels"]["code"] for d in answer.made["verdict"]["devices"]}
    assert devices == {"9.0": "reached", "12.0": "reached"}


def test_json_of_a_fault_is_one_object(trial):
    trial.write({"project/setup.py": "raise SystemExit('no')\n"})
    answer = trial.build()
    assert json.loads(json.dumps(answer.objects)) == [answer.fault]
    assert answer.fault["exit"] == 6


def test_an_nvcc_that_is_given_the_shims_compiler_is_no_stranger(trial):
    """torch hands its CC to nvcc as -ccbin."""
    nvcc = 'os.environ["CUDA_HOME"] + "/bin/nvcc"'
    text = setup_with(NVCC=nvcc).replace("FLAGS = [", 'FLAGS = ["-ccbin", os.environ["CC"], ')
    assert text.count("-ccbin") == 1
    trial.write({"project/setup.py": text})
    assert trial.build().archs() == {"scale.cu": ["sm_120a"]}


def test_no_name_of_a_temporary_file_is_left(trial):
    """A compile cache's objects spell them otherwise, so that one key gave other bytes."""
    trial.write({"project/csrc/shift.cu": OTHER})
    first = trial.build()
    assert first.status == 0, first.said
    with zipfile.ZipFile(first.made["wheel"]) as wheel:
        (library,) = (wheel.read(name) for name in wheel.namelist() if name.endswith(".so"))
    assert b"cudafe1" not in library
    for kind in ("artifact", "compiled"):
        shutil.rmtree(trial.cache / "store" / kind)
    second = trial.build("--no-compile-cache")
    assert second.status == 0, second.said
    assert first.made["sha256"] == second.made["sha256"]
