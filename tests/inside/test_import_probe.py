"""The probe run as the program it is, by this interpreter, on modules compiled here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from verify.targets import compile_library, compile_module

import kernforge.inside.import_probe as probe


@pytest.fixture
def root(tmp_path):
    (tmp_path / "wheel").mkdir()
    return tmp_path / "wheel"


def run(root, *extensions, imports=(), torch=False, seconds=20):
    request = {
        "root": str(root),
        "torch": torch,
        "extensions": [{"path": path, "module": module} for path, module in extensions],
        "imports": list(imports),
        "seconds": seconds,
    }
    asked, answer = root.parent / "request.json", root.parent / "answer.json"
    asked.write_text(json.dumps(request))
    argv = [sys.executable, "-I", "-B", probe.__file__, str(asked), str(answer)]
    subprocess.run(argv, check=True, cwd=root.parent, capture_output=True)
    document = json.loads(answer.read_bytes())
    assert document["format"] == 1
    return document["items"]


def test_a_module_is_loaded_by_its_path(root):
    path = compile_module(root / "pkg/ops.so")
    (item,) = run(root, ("pkg/ops.so", "ops"))
    assert (item["kind"], item["outcome"], item["file"]) == ("extension", "loaded", str(path))
    assert str(path) in item["maps"]


def test_a_library_that_is_no_module_is_loaded_too(root):
    compile_library(root / "libown.so", "int own(void) { return 1; }")
    assert run(root, ("libown.so", None))[0]["outcome"] == "loaded"


@pytest.mark.parametrize("module", ["ops", None])
def test_every_symbol_is_bound_at_once(root, module):
    """Lazy binding would load this: the function is never called."""
    before = "extern void nowhere(void); void never(void) { nowhere(); }"
    compile_module(root / "ops.so", "-Wl,-z,lazy", before=before)
    (item,) = run(root, ("ops.so", module))
    assert item["outcome"] == "raised"
    assert "undefined symbol: nowhere" in item["message"]


@pytest.mark.parametrize(
    ("body", "outcome", "detail"),
    [
        ("*(volatile int *)0 = 1;", "signal", ("signal", 11)),
        ("exit(7);", "exited", ("status", 7)),
        ("while (1) {}", "hung", ("kind", "extension")),
        (
            'PyErr_SetString(PyExc_RuntimeError, "no luck"); return 0;',
            "raised",
            ("message", "no luck"),
        ),
    ],
)
def test_what_goes_wrong_is_an_answer_and_the_next_is_tried(root, body, outcome, detail):
    compile_module(root / "bad.so", body=body, before="#include <stdlib.h>")
    compile_module(root / "good.so")
    bad, good = run(root, ("bad.so", "bad"), ("good.so", "good"), seconds=3)
    assert (bad["outcome"], bad[detail[0]]) == (outcome, detail[1])
    assert good["outcome"] == "loaded"


def test_torch_is_imported_before_the_extensions(root):
    (root / "torch").mkdir()
    (root / "torch/__init__.py").write_text("import builtins; builtins.torch_came_first = 1")
    body = 'if (!PyDict_GetItemString(PyEval_GetBuiltins(), "torch_came_first")) abort();'
    compile_module(root / "ops.so", before="#include <stdlib.h>", body=body)
    torch, item = run(root, ("ops.so", "ops"), torch=True)
    assert (torch["kind"], torch["outcome"], item["outcome"]) == ("torch", "loaded", "loaded")


def test_a_torch_that_does_not_import_is_told_and_imports_are_tried(root):
    (root / "torch.py").write_text("raise OSError('libcudart.so.13: cannot open')")
    (root / "other.py").write_text("__version__ = '2'")
    torch, other = run(root, imports=["other"], torch=True)
    assert (torch["outcome"], torch["message"]) == ("raised", "libcudart.so.13: cannot open")
    assert (other["outcome"], other["version"]) == ("loaded", "2")


def test_imports_happen_without_torch_loaded_before(root):
    (root / "torch.py").write_text("")
    (root / "other.py").write_text("import sys; assert 'torch' not in sys.modules")
    assert run(root, imports=["other"], torch=True)[1]["outcome"] == "loaded"


def test_imports_do_not_see_each_other(root):
    (root / "first.py").write_text("import builtins; builtins.seen = 1")
    (root / "second.py").write_text("import builtins; assert not hasattr(builtins, 'seen')")
    assert [i["outcome"] for i in run(root, imports=["first", "second"])] == ["loaded"] * 2


def test_a_missing_module_is_named(root):
    (root / "needs.py").write_text("import nosuch_module")
    (item,) = run(root, imports=["needs"])
    assert (item["type"], item["missing"]) == ("ModuleNotFoundError", "nosuch_module")


def test_a_module_that_ends_the_interpreter(root):
    (root / "quits.py").write_text("import sys; sys.exit(3)")
    (item,) = run(root, imports=["quits"])
    assert (item["outcome"], item["type"]) == ("raised", "SystemExit")


def test_mapped_names_libraries_only():
    assert all(".so" in Path(path).name for path in probe.mapped())
