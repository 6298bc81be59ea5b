"""What an import means, case by case; and real wheels imported in a real sandbox."""

import shutil
import sys
from pathlib import Path

import pytest

from kernforge.arch import parse_device
from kernforge.binary.wheel import read_wheel
from kernforge.process import SystemRunner
from kernforge.toolchain.host import Memory, probe_host
from kernforge.toolchain.sandbox import KF, Sandbox, probe_sandbox
from kernforge.verify.loading import (
    ImportOrder,
    ImportWorld,
    driver_needs,
    install,
    judge_imports,
    probe_imports,
)
from kernforge.verify.policy import Answer
from kernforge.verify.surroundings import Surroundings, target_of

from .targets import SUFFIX, Target, compile_library, compile_module, pack

NEW = parse_device("12.0")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def order(wheel, *modules, python=PYTHON):
    facts = read_wheel(wheel, kernels=False)
    return ImportOrder(wheel=wheel, facts=facts, modules=modules, python=python, torch=True)


@pytest.fixture
def wheel(tmp_path):
    compile_library(tmp_path / "tree/pkg/libown.so", "")
    return pack(tmp_path, tmp_path / "tree")


def judged(wheel, *items):
    document = {"format": 1, "root": "/kf/wheel", "items": items}
    return judge_imports(document, order(wheel), [NEW])


def item(kind="extension", outcome="raised", **more):
    return {"kind": kind, "name": "pkg/ops.so", "outcome": outcome, **more}


def raised(message, error="ImportError", **more):
    return item(type=error, message=message, **more)


@pytest.mark.parametrize(
    ("found", "word", "text"),
    [
        (
            raised("libfoo.so.12: cannot open shared object file: No such file or directory"),
            "library-missing",
            "needs 'libfoo.so.12'",
        ),
        (
            raised("/kf/wheel/ops.so: undefined symbol: _ZN3c104lockEj"),
            "symbol-undefined",
            "'c10::lock(unsigned int)'",
        ),
        (
            raised("libm.so.6: version `GLIBC_2.38' not found (required by x.so)"),
            "symbol-undefined",
            "version 'GLIBC_2.38'",
        ),
        (
            raised("CUDA error: no kernel image is available for execution", "RuntimeError"),
            "image-missing",
            "no code for the GPU",
        ),
        (raised("boom\nmore", "ValueError"), "import-failed", "initialise: ValueError: boom"),
        (
            raised("No module named 'x'", "ModuleNotFoundError", missing="x"),
            "module-missing",
            "imports 'x'",
        ),
        (item(outcome="signal", signal=11), "import-crashed", "crashes with SIGSEGV"),
        (item(outcome="signal", signal=99), "import-crashed", "crashes with 99"),
        (item(outcome="exited", status=3), "import-crashed", "status 3"),
        (item(outcome="hung"), "import-hung", "does not come back"),
    ],
)
def test_each_fault_has_its_class(wheel, found, word, text):
    found = judged(wheel, found)
    assert [fault.word for fault in found.faults] == [word]
    assert text in found.faults[0].text
    assert dict(found.answers)[NEW] is Answer.FAILED


def test_a_missing_library_tells_more_than_the_symbol_behind_it(wheel):
    both = "liba.so: cannot open shared object file; undefined symbol: b"
    assert judged(wheel, raised(both)).faults[0].word == "library-missing"


@pytest.mark.parametrize("items", [(), (item("torch", "loaded"),)])
def test_where_nothing_was_tried_nothing_is_reached(wheel, items):
    found = judged(wheel, *items)
    assert dict(found.answers)[NEW] is Answer.NOT_VERIFIED
    assert "there is nothing to load, nor to import" in found.notes[0]


def test_all_that_loads_is_reached(wheel):
    found = judged(wheel, item(outcome="loaded", maps=[]))
    assert dict(found.answers)[NEW] is Answer.REACHED


@pytest.mark.parametrize(
    "message",
    [
        "Found no NVIDIA driver on your system.",
        "CUDA error: no CUDA-capable device is detected",
        "No CUDA GPUs are available",
    ],
)
def test_a_package_that_asks_for_a_gpu_leaves_the_level_open(wheel, message):
    found = judged(wheel, raised(message, "RuntimeError", kind="import"))
    assert (dict(found.answers)[NEW], found.faults) == (Answer.NOT_VERIFIED, ())
    assert "asks for a GPU" in found.notes[0]


def test_a_broken_torch_says_nothing_about_the_wheel(wheel):
    found = judged(wheel, item(kind="torch", type="OSError", message="broken"))
    assert dict(found.answers)[NEW] is Answer.NOT_VERIFIED


def test_the_module_of_another_installation_is_a_fault(wheel):
    file = "/kf/env/lib/python3.11/site-packages/pkg/__init__.py"
    found = judged(wheel, item(kind="import", outcome="loaded", file=file, maps=[]))
    assert [fault.word for fault in found.faults] == ["import-foreign"]


def test_a_library_of_another_installation_is_a_fault(wheel):
    found = judged(wheel, item(outcome="loaded", maps=["/kf/env/lib/pkg/libown.so"]))
    assert [fault.word for fault in found.faults] == ["import-foreign"]


def test_a_library_of_the_wheel_in_the_wheel_is_none(wheel):
    maps = ["/kf/wheel/pkg/libown.so", "/usr/lib/libc.so.6"]
    assert judged(wheel, item(outcome="loaded", maps=maps)).faults == ()


def test_a_module_for_another_python_never_imports(tmp_path):
    compile_library(tmp_path / "tree/ops.cpython-310-x86_64-linux-gnu.so", "")
    found = judge_imports(
        {"format": 1, "items": []},
        order(pack(tmp_path, tmp_path / "tree"), python="3.11"),
        [NEW],
    )
    assert [fault.word for fault in found.faults] == ["module-other-python"]


def test_files_of_data_folders_are_installed_where_they_import(tmp_path):
    place = tmp_path / "tree/demo-1.0.data/purelib/pkg.py"
    place.parent.mkdir(parents=True)
    place.write_text("x = 1")
    install(pack(tmp_path, tmp_path / "tree"), tmp_path / "installed")
    assert (tmp_path / "installed/pkg.py").read_text() == "x = 1"


DRIVER = "extern void {0}(void); void f(void) {{ {0}(); }}"


def test_the_driver_has_what_wheel_and_target_ask_for(tmp_path):
    target = Target(tmp_path / "env")
    target.library("torch/lib/libx.so", DRIVER.format("cuMemAlloc_v2"))
    target.library("torch/lib/liby.so", DRIVER.format("cudaMalloc"))
    compile_library(tmp_path / "tree/ops.so", DRIVER.format("cuLaunchKernelEx"))
    facts = read_wheel(pack(tmp_path, tmp_path / "tree"), kernels=False)
    needs = driver_needs(facts.libraries, Surroundings(target_of(target.root)))
    assert needs["libcuda.so.1"] == ("cuLaunchKernelEx", "cuMemAlloc_v2")


# In the sandbox.


@pytest.fixture(scope="module")
def sandbox():
    found = probe_sandbox(bwrap=shutil.which("bwrap"), uid=0, wanted=True, runner=SystemRunner())
    if found.bwrap is None:
        pytest.skip(found.reason)
    return found


def imported(tmp_path, sandbox, *modules):
    """Pack the tree, import it in the target, judge it."""
    target = Target(tmp_path / "env")
    python = Path(sys.executable).resolve()
    host = probe_host(
        python=python,
        path="/usr/bin:/bin",
        memory=Memory(tmp_path / "memory"),
        runner=SystemRunner(),
    )
    world = ImportWorld(
        environment=target.root,
        sandbox=sandbox,
        host=host,
        runner=SystemRunner(),
        scratch=tmp_path / "scratch",
    )
    world.scratch.mkdir()
    what = order(pack(tmp_path, tmp_path / "tree"), *modules)
    document = probe_imports(what, world, Surroundings(target_of(target.root)))
    return document, judge_imports(document, what, [NEW])


def test_a_good_wheel_imports_with_driver_and_torch(tmp_path, sandbox):
    target = Target(tmp_path / "reference")
    driver = compile_library(
        tmp_path / "driver/libcuda.so.1", "int cuInit(int x) {}", "-Wl,-soname,libcuda.so.1"
    )
    before = "extern int cuInit(int); extern void c10_open(void);"
    body = "c10_open(); if (cuInit(0) != 100) return 0;"
    options = (*target.linked(), str(driver))
    compile_module(tmp_path / f"tree/pkg/ops{SUFFIX}", *options, before=before, body=body)
    (tmp_path / "tree/pkg/__init__.py").write_text("import torch\nfrom pkg import ops\n")
    document, found = imported(tmp_path, sandbox, "pkg")
    assert [i["outcome"] for i in document["items"]] == ["loaded", "loaded", "loaded"]
    assert (found.faults, dict(found.answers)[NEW]) == ((), Answer.REACHED)


def test_a_wheel_that_is_broken_in_four_ways(tmp_path, sandbox):
    compile_module(tmp_path / "tree/crash.so", body="*(volatile int *)0 = 1;")
    compile_module(tmp_path / "tree/open.so", before="extern void no(void); void f() { no(); }")
    gone = compile_library(tmp_path / "gone/libgone.so", "", "-Wl,-soname,libgone.so.1")
    compile_library(tmp_path / "tree/lacks.so", "", "-Wl,--no-as-needed", str(gone))
    (tmp_path / "tree/bad.py").write_text("1 / 0")
    _, found = imported(tmp_path, sandbox, "bad")
    assert sorted(fault.word for fault in found.faults) == [
        "import-crashed",
        "import-failed",
        "library-missing",
        "symbol-undefined",
    ]


def test_the_sandbox_has_no_network_and_no_home(tmp_path, sandbox):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/looks.py").write_text(
        "import os, socket\n"
        "assert os.listdir('/home') == [] if os.path.exists('/home') else True\n"
        "assert not os.path.exists('/root/.ssh')\n"
        "assert [n for _, n in socket.if_nameindex()] == ['lo']\n"
    )
    _, found = imported(tmp_path, sandbox, "looks")
    assert found.faults == ()


def test_without_a_sandbox_nothing_is_executed(tmp_path):
    none = Sandbox(layout=KF, bwrap=None, reason="bubblewrap (bwrap) is not installed")
    mark = tmp_path / "executed"
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/pkg.py").write_text(f"open({str(mark)!r}, 'w')")
    document, found = imported(tmp_path, none, "pkg")
    assert "bubblewrap (bwrap) is not installed" in document["unknown"]
    assert dict(found.answers)[NEW] is Answer.NOT_VERIFIED
    assert not mark.exists()


def test_a_wheel_that_cannot_be_unpacked_leaves_the_level_open(tmp_path, sandbox):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/pkg.py").write_text("")
    target = Target(tmp_path / "env")
    what = order(pack(tmp_path, tmp_path / "tree"), "pkg")
    what.wheel.write_bytes(b"PK torn")
    host = probe_host(
        python=Path(sys.executable).resolve(),
        path="/usr/bin:/bin",
        memory=Memory(tmp_path / "memory"),
        runner=SystemRunner(),
    )
    (tmp_path / "scratch").mkdir()
    world = ImportWorld(
        environment=target.root,
        sandbox=sandbox,
        host=host,
        runner=SystemRunner(),
        scratch=tmp_path / "scratch",
    )
    document = probe_imports(what, world, Surroundings(target_of(target.root)))
    assert document["items"] == []
