import hashlib
import json
import os
import shutil

import pytest

from kernforge.build.ledger import (
    Output,
    Record,
    read_ledger,
    summarise,
    unexplained_objects,
    unseen_nvcc,
)
from kernforge.errors import CompileError

OBJECT = b"\x7fELF\x02\x01" + bytes(10) + b"\x01\x00" + b"rest of an object"
BIG_ENDIAN = b"\x7fELF\x02\x02" + bytes(10) + b"\x00\x01" + b"another"
SHARED = b"\x7fELF\x02\x01" + bytes(10) + b"\x03\x00" + b"rest of a library"


def line(**changes):
    record = {
        "version": 1,
        "tool": "nvcc",
        "kind": "compile",
        "sources": ["a.cu"],
        "output": "a.o",
        "outputs": [],
        "archs_before": ["sm_90"],
        "archs_after": ["sm_120a"],
        "policy": "replace",
        "rewritten": True,
        "note": "",
        "argv": ["/kf/env/nvcc", "-c", "a.cu"],
        "cwd": "/kf/build",
        "start": 100.0,
        "seconds": 2.5,
        "user_seconds": 2.0,
        "max_rss_kib": 180000,
        "waited": 0.25,
        "peak_kib": 190000,
        "cache": "miss",
        "exit": 0,
        "nested": False,
    }
    return {**record, **changes}


def output(path, data, **changes):
    digest = hashlib.sha256(data).hexdigest()
    return {"path": path, "sha256": digest, "size": len(data), "mtime_ns": 1, **changes}


@pytest.fixture
def ledger(tmp_path):
    folder = tmp_path / "ledger"
    folder.mkdir()

    def write(*records, name="calls.jsonl", tail=""):
        text = "".join(json.dumps(record) + "\n" for record in records)
        (folder / name).write_text(text + tail)
        return read_ledger(folder)

    return write


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "build"
    (folder / "x.dir").mkdir(parents=True)
    return folder


def host(**changes):
    nothing = {"policy": None, "archs_before": None, "archs_after": None, "rewritten": False}
    return line(tool="g++", **nothing, **changes)


def test_record_has_every_field(ledger):
    (record,) = ledger(line(outputs=[output("a.o", OBJECT)]))
    digest = hashlib.sha256(OBJECT).hexdigest()
    assert record.outputs == (Output(path="a.o", sha256=digest, size=len(OBJECT), mtime_ns=1),)
    assert (record.archs_before, record.archs_after) == (("sm_90",), ("sm_120a",))
    assert (record.argv[0], record.sources, record.seconds) == ("/kf/env/nvcc", ("a.cu",), 2.5)
    assert isinstance(record, Record)
    assert len({record, record}) == 1


def test_records_of_all_files_come_by_time(ledger):
    ledger(line(start=3.0), line(start=1.0), name="1.jsonl")
    assert [r.start for r in ledger(line(start=2.0), name="2.jsonl")] == [1.0, 2.0, 3.0]


def test_empty_folder_and_other_files(ledger, tmp_path):
    (tmp_path / "ledger/options.txt").write_text("-arch=sm_90")
    assert read_ledger(tmp_path / "ledger") == ()


@pytest.mark.parametrize("tail", ['{"version":1,"tool":"nv', "\x00\x00", '{"a": "\\ud8'])
def test_torn_line_is_passed_over(tail, ledger):
    assert len(ledger(line(), tail=tail)) == 1
    assert len(ledger(line(), tail=tail + "\n" + json.dumps(line()) + "\n")) == 2


@pytest.mark.parametrize("text", ["[]", "1", "{}", '{"tool": "nvcc"}', "null"])
def test_whole_line_that_is_no_record(text, ledger):
    with pytest.raises(CompileError, match=r"calls\.jsonl:2 is no record") as caught:
        ledger(line(), tail=text)
    assert caught.value.word == "ledger-invalid"


def test_object_of_the_ledger_is_explained(ledger, tree):
    (tree / "x.dir/a.cu.o").write_bytes(OBJECT)
    (tree / "b.obj").write_bytes(BIG_ENDIAN)
    assert unexplained_objects(tree, ledger()) == ("b.obj", "x.dir/a.cu.o")
    one = ledger(line(outputs=[output("x.dir/a.cu.o", OBJECT)]))
    assert unexplained_objects(tree, one) == ("b.obj",)
    both = ledger(line(outputs=[output("x.dir/a.cu.o", OBJECT), output("b.obj", BIG_ENDIAN)]))
    assert unexplained_objects(tree, both) == ()


def test_object_that_changed_after_its_call_is_not(ledger, tree):
    """A compiler by its own path may write over what the shim saw."""
    (tree / "a.o").write_bytes(OBJECT + b"changed")
    assert unexplained_objects(tree, ledger(line(outputs=[output("a.o", OBJECT)]))) == ("a.o",)


def test_copied_object_is_explained(ledger, tree):
    (tree / "a.o").write_bytes(OBJECT)
    shutil.copy(tree / "a.o", tree / "x.dir/copy.o")
    assert unexplained_objects(tree, ledger(host(outputs=[output("a.o", OBJECT)]))) == ()


def test_failed_call_explains_nothing(ledger, tree):
    (tree / "a.o").write_bytes(OBJECT)
    assert unexplained_objects(tree, ledger(line(exit=1, outputs=[output("a.o", OBJECT)]))) == (
        "a.o",
    )


def test_large_object_goes_by_path_size_and_time(ledger, tree):
    (tree / "a.o").write_bytes(OBJECT)
    os.utime(tree / "a.o", ns=(7, 7))
    facts = output("a.o", OBJECT, sha256=None, mtime_ns=7)
    assert unexplained_objects(tree, ledger(line(outputs=[facts]))) == ()
    for change in ({"size": 1}, {"mtime_ns": 8}, {"path": "b.o"}):
        assert unexplained_objects(tree, ledger(line(outputs=[{**facts, **change}]))) == ("a.o",)


def test_only_relocatable_elf_counts(ledger, tree):
    (tree / "text.o").write_text("no object")
    (tree / "empty.o").write_bytes(b"")
    (tree / "lib.o").write_bytes(SHARED)
    (tree / "object.bin").write_bytes(OBJECT)
    (tree / "folder.o").mkdir()
    (tree / "gone.o").symlink_to(tree / "nowhere")
    assert unexplained_objects(tree, ledger()) == ()


def test_summary_counts_and_says_it(ledger):
    records = ledger(
        line(archs_after=["sm_120a", "compute_120a"], seconds=10.0),
        line(archs_after=["sm_90"], kind="device-link", seconds=1.0),
        line(archs_after=["sm_80"], exit=1),
        line(archs_after=["sm_75"], kind="query"),
        host(seconds=3.0),
        host(nested=True, seconds=50.0),
    )
    summary = summarise(records)
    assert (summary.calls, summary.device_calls) == (5, 2)
    assert summary.archs == ("compute_120a", "sm_90", "sm_120a")
    assert summary.seconds == 19.0
    assert summary.text == "5 compiler calls, 2 of nvcc for compute_120a sm_90 sm_120a, 19 s"


def test_summary_of_host_calls_only(ledger):
    assert summarise(ledger(host())).text == "1 compiler call, 2 s"


def test_each_note_is_said_once_with_its_first_file(ledger):
    said = "names none of the requested targets; its own are kept"
    records = ledger(
        line(note=said, sources=["b.cu"], start=2.0),
        line(note=said, sources=["a.cu"], start=1.0),
        line(note="other", sources=[], output="d.o", start=3.0),
    )
    assert summarise(records).notes == (f"a.cu: {said}", "d.o: other")


@pytest.mark.parametrize(
    ("nested", "found"),
    [(False, ("a.o",)), (True, ())],
    ids=["an nvcc past the shim", "an nvcc that got the shim's compiler by -ccbin, as torch does"],
)
def test_the_host_half_of_an_nvcc_that_nobody_saw(ledger, nested, found):
    half = line(tool="g++", sources=["a.o.cudafe1.cpp"], policy=None, nested=nested)
    assert unseen_nvcc(ledger(half)) == found
