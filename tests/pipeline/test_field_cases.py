"""Field cases 1 to 22 and 39 to 47 by real builds: what goes wrong is told, by class and with a way out.

What needs no compiler stands with its module: archs in `tests/test_arch.py`, torch's tables in
`tests/toolchain/test_torchfacts.py`, roots in `tests/toolchain/test_hostcuda.py`, words in
`tests/build/test_failures.py`.
"""

import json
from pathlib import Path

import pytest
from pipeline.trials import KERNEL, SETUP, recipe_with, setup_with

pytestmark = pytest.mark.build

UPSTREAM = "gencode: {default: upstream}"
FP4 = """\
__global__ void pack(unsigned short *out, float a, float b) {
    unsigned short r = 0;
#if !defined(FROM) || __CUDA_ARCH__ >= FROM
    asm volatile("{ .reg .b8 t; cvt.rn.satfinite.e2m1x2.f32 t, %1, %2; cvt.u16.u8 %0, t; }"
                 : "=h"(r) : "f"(a), "f"(b));
#endif
    out[0] = r;
}
"""
MOVED = "#include <thrust/complex.h>\nint host() { return 1; }\n"
STAND_IN = "import os\nos.chmod('crash.sh', 0o755)\n"


def failed(answer, word, *said):
    """The build failed in this class, and the message holds these words."""
    assert answer.status == 6, answer.said
    assert answer.fault["error"] == word, answer.fault["message"]
    for text in said:
        assert text in answer.fault["message"]
    return answer.fault


# 1 to 22: arch lists and what the suffixes mean


@pytest.mark.parametrize(
    "text", ["8.6;12.0", "8.6 12.0", "12.0,8.6", "8.6; 12.0;", "12.0;8.6;12.0"]
)
def test_separators_reach_nobody(trial, text):
    """Field case 4: one key for each spelling, and no shell ever splits the list again."""
    place = ("--project", str(trial.root), "plan", "plain", "--json", "--arch")
    one, other = (json.loads(trial.run(*place, t).stdout)[0] for t in (text, "8.6;12.0"))
    assert one["recipe_key"] == other["recipe_key"]
    assert one["job"] == "plain-cu130-cp311-sm86.120"


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        (("--arch", "Blackwell"), "arch-invalid", "10.0a;12.0a"),  # field case 3
        (("--arch", "Ada;Blackwell"), "arch-invalid", "8.9"),
        (("--arch", "120"), "arch-invalid", "write 12.0"),  # field case 6
        (("--arch", "sm_120"), "arch-invalid", "write 12.0"),
        (("--arch", "12.0A"), "arch-invalid", "write 12.0a"),
        (("--arch", "13.0"), "arch-unknown", "known: "),
        (("--cuda", "12.6", "--arch", "12.0a"), "cuda-too-old", "needs 12.8 or newer"),  # 19
        (("--cuda", "12.8", "--arch", "12.0f"), "cuda-too-old", "needs 12.9 or newer"),
        (("--cuda", "12.8", "--arch", "12.1"), "cuda-too-old", "needs 12.9 or newer"),
        (("--cuda", "12.9", "--arch", "11.0"), "cuda-too-old", "needs 13.0 or newer"),
        (("--arch", "7.0"), "cuda-too-new", "13.0 dropped it"),
        (("--cuda", "12.8", "--arch", "12.0a"), "recipe-toolkit", "begin with 13.0"),
    ],
)
def test_options_are_refused_before_anything_is_fetched(trial, words, error, said):
    """Field cases 3, 6 and 19: no name, no slip and no pair that cannot be reaches a compiler."""
    answer = trial.build(*words)
    assert answer.status == 2
    assert answer.fault["error"] == error
    assert said in answer.fault["message"] + answer.fault["hint"]
    assert not (trial.cache / "work").exists()


def test_the_compiler_itself_is_asked_for_every_arch_it_should_know(trial):
    """Field case 19: tables are confirmed by this very nvcc before a build starts."""
    words = "7.5;8.0;8.6;8.7;8.8;8.9;9.0a;10.0f;10.3a;11.0;12.0f;12.1a"
    place = ("--project", str(trial.root), "--cache", str(trial.cache))
    done = trial.run(*place, "plan", "plain", "--probe", "--json", "--arch", words)
    assert done.returncode == 0, done.stderr


def test_a_list_hard_coded_for_a_dropped_arch(trial):
    """Field case 8: told apart from a toolkit too old, with file and line; replaced, it builds."""
    setup = setup_with(FLAGS=["-gencode=arch=compute_70,code=sm_70"])
    trial.write({"recipes/plain.yaml": recipe_with(UPSTREAM), "project/setup.py": setup})
    line = 1 + setup.splitlines().index("FLAGS = ['-gencode=arch=compute_70,code=sm_70']")
    fault = failed(
        trial.build(), "toolkit-too-new", "Unsupported gpu architecture 'compute_70'",
        "[plain/csrc/scale.cu for", "CUDA 13.0 is too new for 7.0: 13.0 dropped it",
    )  # fmt: skip
    assert "set build.gencode to replace" in fault["hint"]
    assert fault["hint"].endswith(f"it stands in plain/setup.py:{line}")
    trial.write({"recipes/plain.yaml": recipe_with()})
    assert trial.build().archs() == {"scale.cu": ["sm_120a"]}


def test_a_setup_that_insists_on_a_gpu(trial):
    """Field case 9: classified; building needs none, and what a GPU must show is not passed."""
    query = "import glob\nif not glob.glob('/dev/nvidia[0-9]*'):\n    raise RuntimeError('No CUDA GPUs are available')\n"
    trial.write({"project/setup.py": query + SETUP})
    fault = failed(trial.build(), "gpu-wanted", "No CUDA GPUs are available")
    assert "building needs no GPU" in fault["hint"]


def test_the_driver_library_links_without_a_driver(trial):
    """Field case 9: the toolkit's stub is on the link path, and is not shipped."""
    host = 'extern "C" int cuInit(unsigned);\nint start() { return cuInit(0); }\n'
    setup = setup_with(LINK=["-lcuda", "-Xlinker", "-z,defs"])
    trial.write({"project/csrc/host.cpp": host, "project/setup.py": setup})
    made = trial.build().made
    levels = made["verdict"]["devices"][0]["levels"]
    assert levels["loads"] == levels["runs"] == "not verified"


def test_plain_12_0_lacks_the_instructions_of_12_0a(trial):
    """Field case 12: ptxas is understood; nothing switches by itself; the suffix builds."""
    trial.write({"project/csrc/scale.cu": f"#define FROM 1000\n{FP4}"})
    fault = failed(
        trial.build("--arch", "9.0a 12.0"),
        "suffix-needed",
        "not supported on .target 'sm_120'",
        "[plain/csrc/scale.cu for sm_90a, sm_120]",
    )
    assert "as 12.0a" in fault["hint"]
    assert trial.build("--arch", "9.0a 12.0a").archs() == {"scale.cu": ["sm_90a", "sm_120a"]}
    trial.write({"project/csrc/scale.cu": FP4})
    failed(trial.build("--arch", "9.0a"), "instruction-missing", "on .target 'sm_90a'")
    assert trial.build("--arch", "12.0a").archs() == {"scale.cu": ["sm_120a"]}
    assert trial.build("--arch", "12.0f").archs() == {"scale.cu": ["sm_120f"]}


def test_one_kernel_of_a_library_lacks_one_arch(trial):
    """Field case 14: by kernel, not by union over the file."""
    one = KERNEL.replace("tiny_scale", "one").replace("scale", "only_here")
    trial.write(
        {
            "recipes/plain.yaml": recipe_with('gencode: {default: replace, "*/old/*": upstream}'),
            "project/csrc/old/one.cu": one,
        }
    )
    answer = trial.build()
    assert answer.status == 7
    assert "only_here" in answer.fault["message"]
    (row,) = answer.objects[0]["verdict"]["libraries"]
    assert row["images"] == ["9.0", "12.0a"]
    assert (row["service"], row["kernels"], row["total"]) == ("partial", 1, 2)
    assert answer.objects[0]["verdict"]["passed"] is False


@pytest.mark.parametrize(
    ("arch", "service"), [("12.0", "expected"), ("12.0a", "none"), ("12.0f", "expected")]
)
def test_12_0_code_on_a_12_1_device(trial, arch, service):
    """Field case 22: expected by the rule is said as such, and a-code serves its own chip only."""
    wheel = trial.build("--arch", arch).made["wheel"]
    done = trial.run("verify", wheel, "--device", "12.1", "--json")
    (verdict,) = json.loads(done.stdout)
    levels = verdict["devices"][0]["levels"]
    assert levels["loads"] == levels["runs"] == "not verified"
    assert [row["service"] for row in verdict["libraries"]] == [service]
    assert done.returncode == (7 if service == "none" else 0)


# 39 to 47: host compilers, headers, environment


def test_a_clash_of_glibc_and_cuda(trial):
    """Field case 43: a function declared as a newer glibc does; another gcc would not help."""
    trial.write({"project/csrc/scale.cu": 'extern "C" double rsqrt(double) noexcept(true);\n'})
    fault = failed(trial.build(), "glibc-clash", "math_functions.h")
    assert "another compiler does not help" in fault["hint"]


def test_headers_that_cuda_13_moved(trial):
    """Field case 45: only files of the host compiler miss them; the recipe can add the folder."""
    trial.write({"project/csrc/host.cpp": MOVED})
    fault = failed(trial.build(), "header-moved", "thrust/complex.h", "[plain/csrc/host.cpp]")
    assert 'CPLUS_INCLUDE_PATH: "{cuda_root}/include/cccl"' in fault["hint"]
    option = 'env: {CPLUS_INCLUDE_PATH: "{cuda_root}/include/cccl"}'
    trial.write({"recipes/plain.yaml": recipe_with(option)})
    assert trial.build().made["verdict"]["passed"]


def test_the_same_header_from_nvcc_is_found(trial):
    """Field case 45: nvcc adds the folder by itself."""
    trial.write({"project/csrc/scale.cu": "#include <cuda/std/complex>\n" + KERNEL})
    assert trial.build().archs() == {"scale.cu": ["sm_120a"]}


def test_a_missing_header_is_told_apart_from_a_moved_one(trial):
    trial.write({"project/csrc/scale.cu": "#include <cutlass/cutlass.h>\n"})
    failed(trial.build(), "header-missing", "cutlass/cutlass.h", "[plain/csrc/scale.cu for")


def test_a_host_compiler_that_nvcc_does_not_take(trial):
    """The compiler says it is gcc 99, and CUDA's own header refuses it."""
    trial.write(
        {"project/setup.py": setup_with(FLAGS=["-arch=sm_90", "-Xcompiler", "-D__GNUC__=99"])}
    )
    fault = failed(trial.build(), "host-compiler-too-new", "unsupported GNU version!")
    assert "older g++ first on PATH" in fault["hint"]


# what else ends a build


@pytest.mark.parametrize(
    ("end", "word", "said"),
    [("SEGV", "compiler-crash", "died due to signal 11"),
     ("KILL", "out-of-memory", "died due to signal 9")],
)  # fmt: skip
def test_a_host_compiler_that_dies(trial, end, word, said):
    """A stand-in that ends itself by the signal."""
    setup = setup_with(FLAGS=["-arch=sm_90", "-ccbin", "./crash.sh"])
    files = {
        "project/crash.sh": f"#!/bin/sh\nkill -{end} $$\n",
        "project/setup.py": STAND_IN + setup,
    }
    trial.write(files)
    failed(trial.build(), word, said, "[plain/csrc/scale.cu for")


def test_too_little_memory(trial):
    """The compiler really runs out of it: its address space is limited to 120 MiB."""
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_AS, (120 << 20, 120 << 20))\n"
    trial.write(
        {
            "project/setup.py": limit + SETUP,
            "project/csrc/scale.cu": "#include <thrust/sort.h>\n#include <thrust/device_vector.h>\n",
        }
    )
    # the compile cache's server would compile beside this limit
    fault = failed(trial.build("--no-compile-cache"), "out-of-memory", "memory")
    assert "--memory" in fault["hint"]


@pytest.mark.parametrize("address", ["https://wheels.invalid/plain.whl", "http://192.0.2.1/plain"])
def test_a_build_that_downloads(trial, address):
    """Field case 95: a prebuilt wheel is not fetched behind the recipe's back."""
    fetch = f"import urllib.request\nurllib.request.urlopen('{address}')\n"
    trial.write({"project/setup.py": fetch + SETUP})
    fault = failed(trial.build(), "network-wanted")
    assert "make the download a source of the recipe" in fault["hint"]


def test_a_symbol_that_nothing_defines(trial):
    host = "int missing();\nint call() { return missing(); }\n"
    setup = setup_with(LINK=["-Xlinker", "-z,defs"])
    trial.write({"project/csrc/host.cpp": host, "project/setup.py": setup})
    failed(trial.build(), "symbol-undefined", "undefined reference to `missing()'")


CMAKE_PROJECT = """\
[build-system]
requires = ["scikit-build-core>=1.1"]
build-backend = "scikit_build_core.build"
[project]
name = "plain"
version = "1.2.3"
"""


def test_a_project_that_cmake_4_refuses(trial):
    """Field case 72: classified, with the recipe's opt-in, which then builds."""
    lock = Path(__file__).parents[2] / "recipes/locks/demo/py311-cu130-linux_x86_64.lock"
    trial.write(
        {
            "recipes/locks/plain/py311-cu130-linux_x86_64.lock": lock.read_bytes(),
            "recipes/plain.yaml": recipe_with().replace("backend: setuptools", "cmake: {}"),
            "project/pyproject.toml": CMAKE_PROJECT,
            "project/CMakeLists.txt": "cmake_minimum_required(VERSION 3.1)\nproject(plain NONE)\n",
        }
    )
    fault = failed(trial.build(), "cmake-policy", "Compatibility with CMake < 3.5")
    assert "CMAKE_POLICY_VERSION_MINIMUM" in fault["hint"]
    opted = recipe_with().replace(
        "backend: setuptools", 'cmake: {CMAKE_POLICY_VERSION_MINIMUM: "3.5"}'
    )
    trial.write({"recipes/plain.yaml": opted})
    answer = trial.build()
    assert "CMake < 3.5" not in answer.said
    assert not [o for o in answer.objects if o.get("error") == "cmake-policy"]


def test_words_of_a_compiler_that_are_no_utf_8(trial):
    """Field case 76: the log keeps its bytes, the error is shown, the class is found."""
    trial.write({"project/csrc/scale.cu": b"#include <cutlass/\xb8\xfe.h>\n#error \xb8\xfe\n"})
    answer = trial.build("--no-compile-cache", env={"LANG": "zh_CN.GBK", "LC_ALL": "zh_CN.GBK"})
    assert answer.status == 6
    assert "Traceback" not in answer.fault["message"]
    log = Path(answer.fault["message"].rpartition("log: ")[2])
    assert b"\xb8\xfe" in log.read_bytes()
    assert any("\ufffd" in line for line in answer.said.splitlines())
