"""What calls took last time."""

import json
from dataclasses import replace

import pytest

from kernforge.build.history import Took, learned, name_of, read_history, write_history
from kernforge.build.ledger import Record

GOOD = Record(
    tool="nvcc", kind="compile", sources=("csrc/a.cu",), output="a.o", outputs=(),
    archs_before=None, archs_after=("sm_120a",), policy="replace", rewritten=True, note="",
    argv=("nvcc",), cwd="/kf/build", start=1.0, seconds=12.0, user_seconds=1.0, max_rss_kib=1,
    waited=0.0, peak_kib=None, cache=None, exit=0, nested=False,
)  # fmt: skip


def test_a_call_is_named_by_tool_file_and_number_of_archs():
    record = replace(GOOD, archs_after=("sm_90", "sm_120a"))
    assert name_of(record) == "nvcc csrc/a.cu 2"
    link = replace(GOOD, tool="g++", kind="link", sources=(), output="lib.so", archs_after=None)
    assert name_of(link) == "g++ lib.so 0"


def test_memory_is_of_all_processes_together_where_somebody_looked():
    seen = replace(GOOD, peak_kib=2048, max_rss_kib=1024)
    assert learned({}, [seen])[name_of(seen)] == Took(memory=2048 << 10, seconds=12.0)
    short = replace(GOOD, peak_kib=0, max_rss_kib=1024)  # over before the first look
    assert learned({}, [short])[name_of(short)].memory == 1024 << 10


@pytest.mark.parametrize(
    "change",
    [
        {"cache": "whole"},
        {"cache": "hit"},
        {"cache": "part"},
        {"exit": 1},
        {"nested": True},
        {"kind": "query"},
        {"sources": ("/kf/build/CMakeFiles/CMakeScratch/TryCompile-x1/a.cu",)},
    ],
)
def test_what_teaches_nothing(change):
    before = {name_of(GOOD): Took(memory=7, seconds=3.0)}
    assert learned(before, [replace(GOOD, **change)]) == before


def test_a_history_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "history/demo.json"
    history = learned({}, [GOOD])
    write_history(path, history)
    assert read_history(path) == history
    assert [file.name for file in path.parent.iterdir()] == ["demo.json"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 2, "calls": {}}', '{"version": 1, "calls": {"a": [1]}}',
             '{"version": 1, "calls": []}', "\x00"],
)  # fmt: skip
def test_a_history_that_is_none_counts_as_empty(text, tmp_path):
    path = tmp_path / "demo.json"
    path.write_text(text)
    assert read_history(path) == {}
    assert read_history(tmp_path / "nothing.json") == {}


def test_it_does_not_grow_for_ever(tmp_path):
    old = {f"nvcc {n}.cu 1": Took(memory=1, seconds=1.0) for n in range(20_000)}
    new = learned(old, [GOOD])
    assert len(new) == 20_000
    assert name_of(GOOD) in new
    write_history(tmp_path / "h.json", new)
    assert len(json.loads((tmp_path / "h.json").read_text())["calls"]) == 20_000
