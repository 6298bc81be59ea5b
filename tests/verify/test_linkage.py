"""Symbols resolved against a target of real libraries, and against the real torch on request."""

import dataclasses

import pytest

from kernforge.arch import parse_device
from kernforge.binary.library import read_library_file
from kernforge.binary.wheel import read_wheel
from kernforge.verify.linkage import judge_links, link, own_providers
from kernforge.verify.policy import Answer
from kernforge.verify.surroundings import Surroundings, read_dynamic, target_of

from .targets import Target, compile_library, compile_module, pack

NEW = parse_device("12.0")


@pytest.fixture
def target(tmp_path):
    return Target(tmp_path / "env")


def around(target):
    return Surroundings(target_of(target.root))


def linkage(path, target, own=()):
    return link(read_library_file(path, path.name), own_providers(own), around(target))


def faults(tmp_path, target, *, tree="tree"):
    found = judge_links(read_wheel(pack(tmp_path, tmp_path / tree)), [NEW], around(target))
    return [(fault.word, fault.text) for fault in found.faults]


def test_a_module_of_torch_and_python_resolves(tmp_path, target):
    before = "extern void c10_open(void);"
    path = compile_module(tmp_path / "ops.so", *target.linked(), before=before, body="c10_open();")
    found = linkage(path, target)
    assert (found.missing, found.unresolved, found.loose) == ((), (), ())
    assert found.resolved >= 2


def test_a_function_whose_parameters_changed_is_told_with_its_near_name(tmp_path, target):
    source = "extern void _ZN3c104lockEi(void); void f(void) { _ZN3c104lockEi(); }"
    compile_library(tmp_path / "tree/ops.so", source, *target.linked())
    ((word, text),) = faults(tmp_path, target)
    assert word == "abi-torch"
    assert text == (
        "ops.so: nothing defines 'c10::lock(int)', which libc10.so should define; the target has "
        "c10::lock(unsigned int) in libc10.so"
    )


def test_the_old_string_abi_is_told_apart(tmp_path, target):
    new = "void _ZN3c104failERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE(void) {}"
    target.library("torch/lib/libtorch.so", new, "-Wl,-soname,libtorch.so")
    old = "extern void _ZN3c104failERKSs(void); void f(void) { _ZN3c104failERKSs(); }"
    compile_library(tmp_path / "tree/ops.so", old, *target.linked())
    assert [word for word, _ in faults(tmp_path, target)] == ["abi-cxx11"]


def test_another_parameter_beside_the_same_string_is_no_abi_of_strings(tmp_path, target):
    fail = "_ZN3c104failERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
    target.library("torch/lib/libtorch.so", f"void {fail}(void) {{}}", "-Wl,-soname,libtorch.so")
    source = f"extern void {fail}i(void); void f(void) {{ {fail}i(); }}"
    compile_library(tmp_path / "tree/ops.so", source, *target.linked())
    assert [word for word, _ in faults(tmp_path, target)] == ["abi-torch"]


@pytest.mark.parametrize(
    ("symbol", "owner"),
    [
        ("cublasSgemm_v2", "libcublas"),
        ("cublasLtMatmul", "libcublasLt"),
        ("cudaMalloc", "libcudart"),
        ("_ZN2at4cuda3fooEv", "libtorch_cuda.so"),
        ("_ZN2at3fooEN3c103barE", "libtorch_cpu.so"),
        ("_ZN3c104cuda3fooEi", "libc10_cuda.so"),
        ("PyObject_Nonsense", "the interpreter"),
        ("nothing_known", None),
    ],
)
def test_the_library_that_should_have_had_it(tmp_path, target, symbol, owner):
    source = f"extern void {symbol}(void); void f(void) {{ {symbol}(); }}"
    found = linkage(compile_library(tmp_path / "ops.so", source), target)
    assert [one.owner for one in found.unresolved] == [owner]


def test_a_missing_library_is_named(tmp_path, target):
    gone = compile_library(
        tmp_path / "gone/libgone.so", "void gone(void) {}", "-Wl,-soname,libgone.so.7"
    )
    source = "extern void gone(void); void f(void) { gone(); }"
    compile_library(tmp_path / "tree/ops.so", source, str(gone))
    words = dict(faults(tmp_path, target))
    assert words["library-missing"] == (
        "ops.so: needs 'libgone.so.7', which neither the wheel nor the target has"
    )


def test_libraries_of_the_wheel_itself_count(tmp_path, target):
    own = compile_library(
        tmp_path / "tree/libs/libown.so", "void own(void) {}", "-Wl,-soname,libown.so"
    )
    source = "extern void own(void); void f(void) { own(); }"
    compile_library(tmp_path / "tree/ops.so", source, str(own))
    assert faults(tmp_path, target) == []


def test_weak_symbols_may_stay_open(tmp_path, target):
    source = "extern void maybe(void) __attribute__((weak)); void f(void) { if (maybe) maybe(); }"
    assert linkage(compile_library(tmp_path / "ops.so", source), target).unresolved == ()


def test_the_driver_is_taken_for_granted(tmp_path, target):
    driver = compile_library(
        tmp_path / "driver/libcuda.so.1", "void cuInit(void) {}", "-Wl,-soname,libcuda.so.1"
    )
    source = (
        "extern void cuInit(void), cuMemAlloc_v2(void); void f(void) { cuInit(); cuMemAlloc_v2(); }"
    )
    found = linkage(compile_library(tmp_path / "ops.so", source, str(driver)), target)
    assert (found.missing, found.unresolved) == ((), ())


def test_symbols_to_which_needed_does_not_lead_are_told_and_no_fault(tmp_path, target):
    source = "extern void c10_open(void); void f(void) { c10_open(); }"
    compile_library(tmp_path / "tree/ops.so", source)
    found = judge_links(read_wheel(pack(tmp_path, tmp_path / "tree")), [NEW], around(target))
    assert (found.faults, dict(found.answers)[NEW]) == ((), Answer.REACHED)
    assert found.notes == ("ops.so: NEEDED does not lead to 1 symbols, as 'c10_open' of libc10.so",)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("$ORIGIN/../lib", False),
        ("${ORIGIN}", False),
        ("/usr/lib/x86_64-linux-gnu", False),
        ("/usr/local/cuda-13.0/lib64", False),
        ("/kf/env/lib", True),
        ("/home/somebody/build", True),
        ("relative/lib", True),
    ],
)
def test_run_paths(tmp_path, target, path, told):
    compile_library(tmp_path / "tree/ops.so", "", f"-Wl,-rpath,{path}")
    assert [word for word, _ in faults(tmp_path, target)] == (["runpath-build"] if told else [])


def test_another_cuda_than_torch(tmp_path, target):
    target.library("nvidia/cu12/lib/libcudart.so.12", "", "-Wl,-soname,libcudart.so.12")
    runtime = target.site / "nvidia/cu12/lib/libcudart.so.12"
    compile_library(tmp_path / "tree/ops.so", "", "-Wl,--no-as-needed", str(runtime))
    assert faults(tmp_path, target) == [
        (
            "cuda-major",
            "ops.so: is linked with CUDA 12, the target's torch is built with CUDA 13.0",
        )
    ]


def test_without_a_target_nothing_is_verified(tmp_path):
    compile_library(tmp_path / "tree/ops.so", "")
    found = judge_links(read_wheel(pack(tmp_path, tmp_path / "tree")), [NEW], None)
    assert dict(found.answers)[NEW] is Answer.NOT_VERIFIED


def test_a_library_whose_symbols_cannot_be_read_is_a_fault(tmp_path, target):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/ops.so").write_bytes(b"\x7fELF torn")
    assert [word for word, _ in faults(tmp_path, target)] == ["links-unread"]


def test_an_environment_without_torch(tmp_path, target):
    (target.torch / "lib/libc10.so").unlink()
    (target.torch / "version.py").unlink()
    (target.torch / "__init__.py").unlink()
    (target.torch / "lib").rmdir()
    target.torch.rmdir()
    found = target_of(target.root)
    assert (found.torch, found.cuda, found.site) == (False, None, target.site)


def test_an_environment_without_interpreter(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        target_of(tmp_path)


def test_many_undefined_symbols_are_counted(tmp_path, target):
    names = [f"lost_{n}" for n in range(9)]
    source = f"extern void {', '.join(f'{n}(void)' for n in names)};"
    source += f"void f(void) {{ {' '.join(f'{n}();' for n in names)} }}"
    compile_library(tmp_path / "tree/ops.so", source)
    found = faults(tmp_path, target)
    assert len(found) == 6
    assert found[-1][1] == "ops.so: 4 more symbols are undefined"


def test_facts_are_hashable(target):
    found = around(target)
    assert len({found.target, dataclasses.replace(found.target)}) == 1
    assert hash(found.find("libc10.so")) == hash(found.find("libc10.so"))


@pytest.mark.parametrize("size", [0, 3, 40, 64, 500, 9000])
def test_a_torn_library_of_the_target_is_no_library(tmp_path, target, size):
    whole = (target.torch / "lib/libc10.so").read_bytes()
    (target.torch / "lib/libc10.so").write_bytes(whole[:size])
    assert read_dynamic(target.torch / "lib/libc10.so") is None
    assert around(target).find("libc10.so") is None


def test_each_library_is_found_where_the_loader_finds_it(target):
    found = around(target)
    assert found.find("libc10.so").origin == "torch"
    assert found.find("libc.so.6").origin == "system"
    assert found.find("nosuch.so.1") is None
    assert any("PyObject_Call" in one.defined for one in found.interpreter())
