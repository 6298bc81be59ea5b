"""Classes of failed builds by the words of compilers and build tools.

Wordings marked "recorded" were printed by nvcc 13.0.88, ptxas, gcc 12, CMake 4.4 or Python 3.11 here;
`tests/pipeline/test_field_cases.py` provokes most of them anew. The others are quoted in field cases.
"""

import pytest

from kernforge.build.failures import (
    classify,
    first_complaint,
    first_failed,
    own_words,
    progress,
)
from kernforge.build.ledger import Record

CALL = Record(
    tool="nvcc", kind="compile", sources=("a/scale.cu",), output="scale.o", outputs=(),
    archs_before=None, archs_after=("sm_120a",), policy="replace", rewritten=True, note="",
    argv=("nvcc",), cwd="/kf/build", start=1.0, seconds=1.0, user_seconds=1.0, max_rss_kib=1,
    waited=0.0, peak_kib=None, cache=None,
    exit=0, nested=False,
)  # fmt: skip


def call(**changes):
    values = {name: getattr(CALL, name) for name in Record.__slots__}
    return Record(**{**values, **changes})


def word(*lines, cuda="13.0", records=()):
    found = classify(lines, records, cuda=cuda)
    return found and found.word


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # recorded
        ("ptxas a.ptx, line 30; error   : Instruction 'cvt with .e2m1x2' not supported on .target 'sm_120'", "suffix-needed"),
        ("host_config.h:137:2: error: #error -- unsupported GNU version! gcc versions later than 15 are not supported!", "host-compiler-too-new"),
        ('a.cu(1): error: exception specification is incompatible with that of previous function "rsqrt(double)" (declared at line 629 of crt/math_functions.h)', "glibc-clash"),
        ("host.cpp:1:10: fatal error: thrust/complex.h: No such file or directory", "header-moved"),
        ("host.cpp:1:10: fatal error: cuda/std/complex: No such file or directory", "header-moved"),
        ("a.cu:1:10: fatal error: cutlass/cutlass.h: No such file or directory", "header-missing"),
        ("a.cu:1:10: fatal error: cuda_fancy.h: No such file or directory", "header-missing"),
        ("RuntimeError: No CUDA GPUs are available", "gpu-wanted"),
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution", "network-wanted"),
        ("OSError: [Errno 101] Network is unreachable", "network-wanted"),
        ("host.cpp:(.text+0x5): undefined reference to `missing()'", "symbol-undefined"),
        ("nvcc error   : './cc' died due to signal 11 (Invalid memory reference)", "compiler-crash"),
        ("g++: internal compiler error: Segmentation fault signal terminated program cc1plus",
         "compiler-crash"),
        ("nvcc error   : './cc' died due to signal 9 (Kill signal)", "out-of-memory"),
        ("virtual memory exhausted: Cannot allocate memory", "out-of-memory"),
        ("cc1plus: out of memory allocating 8032 bytes after a total of 286720 bytes",
         "out-of-memory"),
        ("reference.h(71): catastrophic error: out of memory", "out-of-memory"),
        ("  Compatibility with CMake < 3.5 has been removed from CMake.", "cmake-policy"),
        # quoted
        ("ptxas fatal   : Memory allocation failure", "out-of-memory"),
        ("RuntimeError: Found no NVIDIA driver on your system.", "gpu-wanted"),
        ("error: No GPU found. Please specify the target GPU architectures", "gpu-wanted"),
        ("fatal: unable to access 'https://git.invalid/': Could not resolve host: git.invalid",
         "network-wanted"),
        ("wget: unable to resolve host address 'files.invalid'", "network-wanted"),
        ("g++: fatal error: Killed signal terminated program cc1plus", "out-of-memory"),
        ("sh: line 1: 4242 Killed  cicc --c++17 a.ii", "out-of-memory"),
        ("ValueError: Unknown CUDA arch (12.0+PTX) or GPU not supported", "torch-arch-unknown"),
    ],
)  # fmt: skip
def test_words_of_tools(line, expected):
    found = classify(["-- a harmless line", line], [], cuda="13.0")
    assert found is not None
    assert found.word == expected
    assert found.text == line.strip()
    assert found.hint


@pytest.mark.parametrize(
    ("function", "header"),
    [("cospi(double)", "mathcalls.h(79)"), ("sinpif(float)", "mathcalls.h(90)"),
     ("rsqrt(double)", "mathcalls.h(206)")],
)  # fmt: skip
def test_glibc_and_cuda_clash_and_another_gcc_is_not_the_cure(function, header):
    """Field case 43: glibc 2.41 with CUDA 12.8 and 12.9, glibc 2.42 with CUDA 13.0."""
    line = (
        f"/usr/include/x86_64-linux-gnu/bits/{header}: error: exception specification is "
        f'incompatible with that of previous function "{function}" (declared at line 2595 of '
        "/usr/local/cuda/include/crt/math_functions.h)"
    )
    found = classify([line], [], cuda="12.9")
    assert found is not None
    assert found.word == "glibc-clash"
    assert "newer CUDA release or an older image" in found.hint
    assert "another compiler does not help" in found.hint


@pytest.mark.parametrize(
    ("code", "cuda", "expected", "said"),
    [
        ("compute_70", "13.0", "toolkit-too-new", "CUDA 13.0 is too new for 7.0: 13.0 dropped it"),
        ("sm_60", "13.0", "toolkit-too-new", "CUDA 13.0 is too new for 6.0: 13.0 dropped it"),
        ("compute_120", "12.6", "toolkit-too-old", "too old for 12.0: it needs 12.8 or newer"),
        ("compute_120f", "12.8", "toolkit-too-old", "too old for 12.0f: it needs 12.9 or newer"),
        ("compute_103a", "12.8", "toolkit-too-old", "too old for 10.3a: it needs 12.9 or newer"),
        ("sm_110", "12.9", "toolkit-too-old", "too old for 11.0: it needs 13.0 or newer"),
        ("compute_130", "13.0", "arch-refused", "compute_130"),
    ],
)
def test_a_toolkit_too_old_and_one_too_new_are_told_apart(code, cuda, expected, said):
    """Field cases 8 and 19."""
    found = classify([f"nvcc fatal   : Unsupported gpu architecture '{code}'"], [], cuda=cuda)
    assert found is not None
    assert found.word == expected
    assert said in found.text


def test_too_new_names_the_source_and_says_what_the_project_asks_for():
    """Field case 8: the remedy is about the project's own flag, not about the toolkit."""
    line = "nvcc fatal   : Unsupported gpu architecture 'compute_70'"
    found = classify([line], [call(exit=1)], cuda="13.0")
    assert "[a/scale.cu for sm_120a]" in found.text
    assert "set build.gencode to replace" in found.hint
    assert found.named == "70"


def test_a_suffix_is_advised_and_never_chosen():
    """Field case 12: the source is named; a narrower target is the user's choice."""
    line = "ptxas a.ptx, line 9; error   : Feature '.kind::mxf4' not supported on .target 'sm_120'"
    found = classify([line], [call(exit=1)], cuda="12.8")
    assert found.word == "suffix-needed"
    assert found.text.endswith("[a/scale.cu for sm_120a]")
    assert "as 12.0a" in found.hint
    assert "does not switch by itself" in found.hint


def test_archs_of_one_call_complain_in_any_order():
    """Field case 12: nvcc compiles them side by side; the same fault gets the same words."""
    line = "ptxas {}.ptx, line 9; error   : Feature 'x' not supported on .target '{}'"
    plain, older = line.format("scale", "sm_120"), line.format("scale", "sm_90a")
    one, other = (
        classify(lines, [call(exit=1)], cuda="13.0") for lines in ([plain, older], [older, plain])
    )
    assert one == other
    assert (one.word, one.text) == ("instruction-missing", f"{older} [a/scale.cu for sm_120a]")
    assert "leave its file out" in one.hint
    assert "as 12.0a" in one.hint


def test_another_file_that_lacks_an_instruction_changes_no_words():
    calls = [call(exit=1), call(exit=1, sources=("a/cast.cu",))]
    plain = "scale.cu, line 9; error   : Feature 'x' not supported on .target 'sm_120'"
    older = "cast.cu, line 9; error   : Feature 'x' not supported on .target 'sm_90a'"
    assert classify([plain, older], calls, cuda="13.0").word == "suffix-needed"


def test_the_first_complaint_decides():
    """Field case 50: what follows from a fault is not its cause."""
    lines = [
        "csrc/a.cu:1:10: fatal error: cute/tensor.hpp: No such file or directory",
        "ninja: build stopped: subcommand failed.",
        "x.o: undefined reference to `later'",
    ]
    assert word(*lines) == "header-missing"


def test_a_compilers_words_come_before_a_projects_warnings():
    lines = [
        "UserWarning: No CUDA GPUs are available, building for all of them",
        "warning: Could not resolve host: wheels.invalid; building from source",
        "a.cu:1:10: fatal error: cute/tensor.hpp: No such file or directory",
    ]
    assert word(*lines, records=[call(exit=1)]) == "header-missing"
    assert word(*lines) == "gpu-wanted"
    assert classify(lines[:2], [call(exit=1)], cuda="13.0") is None
    after = ["a/scale.cu(3): error: nope", *lines[:2]]  # it tries, and goes on without
    assert word(*after, records=[call(exit=1)]) == "gpu-wanted"
    asks = call(exit=1, sources=("/tmp/conftest.cu",))
    assert word(*lines[:2], records=[asks]) == "gpu-wanted"


def test_nothing_known_is_said_of_unknown_words():
    assert classify(["error: expected ';'", "make: *** [all] Error 2"], [], cuda="13.0") is None


def test_bad_alloc_is_memory_although_abort_follows():
    lines = [
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "nvcc error   : 'cicc' died due to signal 6",
    ]
    assert word(*lines) == "out-of-memory"


@pytest.mark.parametrize(
    ("status", "expected"),
    [(137, "out-of-memory"), (139, "compiler-crash"), (134, "compiler-crash"),
     (132, "compiler-crash"), (136, "compiler-crash"), (96, "gencode-refused")],
)  # fmt: skip
def test_a_compilers_own_end_comes_before_words(status, expected):
    """Field case 48: 137 means memory; 139 is a crash."""
    found = classify(
        ["a.c:1:10: fatal error: x.h: No such file"],
        [call(exit=status, note="-arch=native under policy 'upstream' has no fixed targets")],
        cuda="13.0",
    )
    assert found.word == expected
    assert "a/scale.cu" in found.text


def test_a_refused_call_gives_the_shims_reason():
    note = "-arch=all under policy 'upstream' has no fixed targets"
    found = classify([], [call(exit=96, note=note)], cuda="13.0")
    assert found.text == f"nvcc on a/scale.cu: {note}"


def test_a_message_is_told_of_the_call_that_said_it():
    """Two fail side by side; the first to start is not the first to complain."""
    one = call(exit=2, sources=("csrc/b.cu.cu", "csrc/cub.cu"))
    two = call(exit=1, sources=("csrc/b.cu",), archs_after=("sm_90", "sm_120a"), start=2.0)
    line = "b.cu:1:10: fatal error: cute/tensor.hpp: No such file or directory"
    found = classify([line], [one, two], cuda="13.0")
    assert found.text == f"{line} [csrc/b.cu for sm_90, sm_120a]"
    nobody = "fatal error: x.h: No such file"
    assert classify([nobody], [one, two], cuda="13.0").text == nobody
    assert "cub.cu for sm_120a]" in classify([nobody], [one], cuda="13.0").text


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("/kf/src/b/utils.cu:3:10: fatal error: x.h: No such file", " [b/utils.cu for sm_120a]"),
        ("b/utils.cu:3:10: fatal error: x.h: No such file", " [b/utils.cu for sm_120a]"),
        ("utils.cu:3:10: fatal error: x.h: No such file", ""),  # either may be meant
        ("ptxas kernel.compute_120.ptx, line 1; fatal error: x.h: No such file",
         " [c/kernel.cu for sm_120a]"),
    ],
)  # fmt: skip
def test_a_file_is_told_by_as_much_of_its_path_as_is_said(line, place):
    calls = [call(exit=1, sources=(s,)) for s in ("a/utils.cu", "b/utils.cu", "c/kernel.cu")]
    assert classify([line], calls, cuda="13.0").text == f"{line}{place}"


def test_ninja_says_whose_words_they_are():
    """ptxas names files that two units may have alike; the step that failed is known."""
    said = "ptxas b.ptx, line 35; error   : Feature 'x' not supported on .target 'sm_120'"
    log = [
        "a.cu(3): fatal error: asked.h: No such file",  # a check's, printed by the project
        "[1/9] Building CUDA object a.o",
        "FAILED: [code=1] build/b.o ",
        "nvcc -c b.cu -o build/b.o",
        said,
        "[2/9] Building CUDA object c.o",
        "FAILED: [code=1] build/d.o ",
    ]
    one = call(exit=1, sources=("csrc/a.cu",), output="build/a.o")
    two = call(exit=1, sources=("csrc/bb.cu",), output="x/build/b.o", start=2.0)
    found = classify(log, [one, two], cuda="13.0")
    assert (found.word, found.text) == ("suffix-needed", f"{said} [csrc/bb.cu for sm_120a]")
    assert first_complaint(log, [one, two]) == 2


def test_a_projects_harmless_words_are_not_what_it_died_of():
    """Field case 50: an error that has no class, below lines that look like one."""
    log = [
        "-- FileNotFoundError: no nvidia-smi, No CUDA GPUs are available, using defaults",
        *["-- configured"] * 40,
        "FAILED: [code=2] CMakeFiles/p.dir/a/scale.o ",
        "/kf/shim/nvcc -c /kf/src/a/scale.cu",
        '/kf/src/a/deep.cuh(3): error: identifier "undefined_thing" is undefined',
        "ninja: build stopped: subcommand failed.",
    ]
    record = call(exit=2, output="CMakeFiles/p.dir/a/scale.o")
    assert classify(log, [record], cuda="13.0") is None
    assert first_complaint(log, [record]) == 41
    assert own_words([record], log) == f"nvcc on a/scale.cu for sm_120a: {log[43]}"


def test_without_ninja_the_line_that_names_the_failed_file_is_shown_first():
    log = ["-- Error: none", "a/scale.cu(3): error: nope", "Traceback", "RuntimeError: died"]
    assert first_complaint(log, [call(exit=1)]) == 1
    assert first_complaint(log, []) == 0


def test_a_file_is_no_part_of_anothers_name():
    log = ["csrc/kvcache.cu(7): error: nope", "csrc/cache.cu(9): error: no"]
    record = call(exit=1, sources=("csrc/cache.cu",))
    assert own_words([record], log) == "nvcc on csrc/cache.cu(9): error: no"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("collect2: fatal error: ld terminated with signal 9 [Killed]", "out-of-memory"),
        ("nvcc error   : 'ptxas' died due to signal 7", "compiler-crash"),
        ("nvlink error   : Undefined reference to 'twice' in 'a.o'", "symbol-undefined"),
        ("ptxas fatal   : Unresolved extern function '_Z5twicef'", "symbol-undefined"),
        ("a.cpp:1:10: fatal error: cuda/pipeline: No such file or directory", "header-moved"),
        ("a.cpp:1:10: fatal error: cuda/std/array: No such file or directory", "header-moved"),
        ("a.cpp:1:10: fatal error: cub/cub.cuh: No such file or directory", "header-moved"),
        ("a.cpp:1:10: fatal error: cuda/own.cuh: No such file or directory", "header-missing"),
        ("error : Instruction 'cvt' not supported on .target 'sm_90a'", "instruction-missing"),
        ("error : Instruction 'cvt' not supported on .target 'sm_80'", "instruction-missing"),
        ("error : Instruction 'cvt' not supported on .target 'sm_90'", "suffix-needed"),
        ("error : Instruction 'cvt' not supported on .target 'sm_100'", "suffix-needed"),
    ],
)
def test_classes_by_wordings_that_are_easily_missed(line, expected):
    assert classify([line], [call(exit=1)], cuda="13.0").word == expected


def test_a_bus_error_is_a_crash():
    assert classify([], [call(exit=135)], cuda="13.0").word == "compiler-crash"


def test_probes_and_nested_calls_are_no_failures():
    probe = call(exit=139, sources=("build/CMakeFiles/CMakeScratch/TryCompile-x/t.cu",))
    ident = call(exit=1, cwd="/kf/build/CMakeFiles/4.4.5/CompilerIdCUDA")
    nested = call(exit=137, nested=True)
    good = call()
    assert first_failed([probe, ident, nested, good]) is None
    bad = call(exit=1, sources=("b.cu",))
    assert first_failed([probe, bad]) == bad
    assert word("all is well", records=[probe]) is None


def test_a_link_without_sources_is_named_by_its_output():
    found = classify([], [call(exit=137, kind="link", sources=(), output="lib.so")], cuda="13.0")
    assert found.text == "nvcc on lib.so for sm_120a was killed (signal 9)"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["b.cu(1): error: other", '/kf/src/a/scale.cu(4): error: no "x"'],
         'nvcc on a/scale.cu(4): error: no "x"'),
        (["FAILED: a/scale.cu.o error: x", "a/scale.cu:4:1: fatal error: nope"],
         "nvcc on a/scale.cu:4:1: fatal error: nope"),
        (["b.cu(1): error: other", "a/scale.cu(4): warning: w"], "nvcc on a/scale.cu for sm_120a ended with 2"),
    ],
)  # fmt: skip
def test_a_call_of_no_class_is_told_in_its_own_words(lines, told):
    asks = call(exit=1, sources=("/kf/tmp/flag.cpp",))
    assert own_words([asks, call(), call(exit=2), call(exit=3)], lines) == told


def test_where_no_call_of_the_build_failed_there_are_no_words():
    assert own_words([call(), call(exit=1, sources=("/kf/tmp/flag.cpp",))], ["error: x"]) is None


def test_the_first_complaint_is_found_above_the_noise():
    """Field case 50: step 194 of 430 failed, hundreds of lines before the end."""
    log = [f"[{n}/430] Building CUDA object k{n}.o" for n in range(1, 194)]
    log += ["FAILED: k194.o", 'k194.cu(3): error: identifier "nope" is undefined']
    log += [f"[{n}/430] Building CUDA object k{n}.o" for n in range(195, 430)]
    log += ["ninja: build stopped: subcommand failed.", "ERROR Backend subprocess exited"]
    assert first_complaint(log, []) == 193


@pytest.mark.parametrize("line", ["-- error handling: on", "0 errors", "errors.cpp", "terror"])
def test_harmless_words_are_no_complaint(line):
    assert first_complaint([line], []) is None


def test_progress_counts_what_ended_well():
    records = [call(), call(kind="link"), call(exit=1), call(nested=True), call(kind="query")]
    records.append(call(sources=("build/CMakeFiles/CMakeScratch/TryCompile-x/t.cu",)))
    assert progress(records) == "2 compiler calls had ended well"
