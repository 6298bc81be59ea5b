import json
import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernforge.build.history import Took
from kernforge.build.live import Watch, expected_of, read_state, read_unit, steps_of, time_left
from kernforge.events import Compiling, Output, UnitEnded

CALL = {
    "call": "1", "tool": "nvcc", "what": "csrc/a.cu", "archs": 1, "since": 100.0,
    "memory": 5 << 20, "estimate": 1 << 30, "expected": None, "alone": False,
}  # fmt: skip
STATE = {
    "version": 1, "time": 110.0, "budget": 8 << 30, "slots": 4, "admitted": 1 << 30,
    "running": [CALL], "waiting": [], "done": 0, "failed": 0, "retried": 0,
}  # fmt: skip
RECORD = {
    "kind": "compile", "sources": ["csrc/a.cu"], "output": "a.o", "archs_after": ["sm_120a"],
    "start": 1e10, "seconds": 12.3, "peak_kib": 1024, "cache": "miss", "exit": 0,
    "nested": False, "cwd": "build", "tool": "nvcc",
}  # fmt: skip


def state(**changes):
    return read_state(json.dumps(STATE | changes).encode())


def unit(**changes):
    return read_unit(json.dumps(RECORD | changes).encode())


@pytest.mark.parametrize(
    ("line", "steps"),
    [
        ("[12/143] Building CUDA object a.o", (12, 143)),
        ("[1/1] x", (1, 1)),
        ("[0/2] Re-checking globbed directories...", (0, 2)),
        ("[3/2] more than all", None),
        ("[0/0] none", None),
        ("  [1/2] indented", None),
        ("[1/2]", None),
        ("[info] text", None),
        ("[99999999999999999999/99999999999999999999] x", None),
        ("", None),
    ],
)
def test_steps_of_a_line(line, steps):
    assert steps_of(line) == steps


def test_a_state():
    found = state(running=[CALL, CALL | {"what": "b.cu", "since": 90}], waiting=[CALL])
    assert [call.what for call in found.running] == ["b.cu", "csrc/a.cu"]
    assert (found.time, found.budget, found.admitted, found.slots) == (110, 8 << 30, 1 << 30, 4)
    assert len(found.waiting) == 1


def test_questions_of_the_build_system_are_no_units():
    probe = CALL | {"what": "CMakeFiles/CMakeScratch/TryCompile-x/CMakeCUDACompilerABI.cu"}
    assert state(running=[CALL, probe]).running == state().running
    assert unit(cwd="build/CMakeFiles/CMakeScratch/TryCompile-x") is None
    assert unit(sources=["__cmake_determine_cuda"], exit=1) is None


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"null", b'{"budget": true, "time": 1}', b"[" * 100_000, b"\xff"]
)
def test_what_is_no_state(text):
    assert read_state(text) is None
    assert read_unit(text) is None


def test_a_state_with_nonsense_in_it_is_read_as_far_as_it_goes():
    odd = CALL | {"memory": -1, "archs": "x", "expected": 1e300, "since": None, "alone": 1}
    (call,) = state(running=[odd, 3, None], waiting="no", slots=0).running
    assert (call.memory, call.archs, call.expected, call.since, call.alone) == (
        0,
        0,
        None,
        0,
        False,
    )
    assert state(slots=0).slots == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from([*STATE, *CALL, *RECORD]), inner)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*STATE, *RECORD]), JSON))
def test_no_document_is_a_fault(document):
    text = json.dumps({**STATE, **RECORD, **document}).encode()
    found = read_state(text)
    assert found is None or time_left(found, {}, 1.0) is None or found.running or found.waiting
    read_unit(text)


def test_a_unit():
    found = unit()
    assert (found.what, found.archs, found.seconds) == ("csrc/a.cu", ("sm_120a",), 12.3)
    assert (found.peak, found.cache, found.failed) == (1 << 20, "miss", False)
    assert unit(sources=[], archs_after=None, peak_kib=None).what == "a.o"
    assert unit(exit=1).failed
    assert unit(exit=None).failed


@pytest.mark.parametrize("change", [{"kind": "query"}, {"nested": True}, {"seconds": "x"}])
def test_other_calls_are_no_units(change):
    assert unit(**change) is None


def test_the_time_left_is_shared_by_all_slots():
    expected = {"csrc/a.cu": 40.0, "b.cu": 30.0, "c.cu": 20.0}
    assert time_left(state(slots=2), expected, 110.0) == (30 + 30 + 20) / 2


def test_the_time_left_is_no_shorter_than_the_longest_call():
    assert time_left(state(slots=100), {"csrc/a.cu": 5.0, "b.cu": 30.0}, 110.0) == 30


def test_what_waits_for_memory_leaves_slots_idle():
    busy = state(slots=4, waiting=[CALL | {"what": "b.cu", "expected": 30.0}])
    assert time_left(busy, {"csrc/a.cu": 40.0}, 110.0) == 60


def test_the_steward_may_know_what_we_do_not():
    known = state(slots=1, running=[CALL | {"expected": 15.0}])
    assert time_left(known, {}, 110.0) == 5


def test_the_time_left_is_unknown():
    assert time_left(state(), {"b.cu": 3.0}, 110.0) is None, "nobody knows what runs"
    assert time_left(state(), {"csrc/a.cu": 3.0}, 110.0) is None, "it should have ended"
    assert time_left(state(running=[]), {}, 110.0) is None, "nothing is left"


def test_earlier_builds_of_as_many_archs_count():
    history = {
        "nvcc csrc/a b.cu 1": Took(memory=1, seconds=10.0),
        "nvcc csrc/a b.cu 2": Took(memory=1, seconds=18.0),
        "nvcc csrc/a b.cu 7": Took(memory=1, seconds=70.0),
        "g++ main.cpp 0": Took(memory=1, seconds=2.0),
        "odd": Took(memory=1, seconds=3.0),
    }
    assert expected_of(history, 2) == {"csrc/a b.cu": 18.0, "main.cpp": 2.0}
    assert expected_of(history, 1)["csrc/a b.cu"] == 10
    assert expected_of(history, 9)["csrc/a b.cu"] == 70
    assert expected_of({}, 2) == {}


class Ear:
    """Hears events, and a ledger to write to."""

    def __init__(self, folder, **options):
        self.folder = folder
        self.events = []
        self.watch = Watch(folder, "demo", self.events.append, **{"jobs": 2, **options})

    def ended(self, name, **changes):
        with (self.folder / "calls.jsonl").open("a") as file:
            file.write(json.dumps(RECORD | {"sources": [name]} | changes) + "\n")

    def publish(self, **changes):
        text = json.dumps(STATE | {"time": time.time()} | changes)
        (self.folder / "live.json").write_text(text)

    def units(self):
        return [(e.what, e.done, e.total) for e in self.events if isinstance(e, UnitEnded)]

    def tick(self):
        self.watch.tick()
        assert isinstance(self.events[-1], Compiling)
        return self.events[-1]


@pytest.fixture
def ear(tmp_path):
    return Ear(tmp_path)


def test_an_empty_folder_is_a_compile_that_has_not_begun(ear):
    assert ear.tick() == Compiling(job="demo", done=0)


def test_every_line_is_passed_on(ear):
    ear.watch.line("hello")
    assert ear.events == [Output(job="demo", line="hello")]


def test_units_have_ninjas_numbers(ear):
    ear.watch.line("[1/5] Generating table.h")
    ear.ended("a.cu")
    ear.watch.line("[2/5] Building a.o")
    ear.ended("b.cu")
    ear.ended("c.cu")
    ear.watch.line("[3/5] Building b.o")
    ear.watch.line("[4/5] Building c.o")
    assert ear.units() == [("a.cu", 2, 5), ("b.cu", 3, 5), ("c.cu", 4, 5)]
    assert (ear.tick().done, ear.tick().total) == (4, 5)


def test_units_that_come_before_ninja_speaks_are_counted(ear):
    for name in "abc":
        ear.ended(f"{name}.cu")
        ear.tick()
    assert ear.units() == [("a.cu", 1, None), ("b.cu", 2, None), ("c.cu", 3, None)]


def test_a_step_of_many_calls_does_not_run_ahead_for_ever(ear):
    for step in range(1, 11):
        for part in range(3):
            ear.ended(f"{step}{part}.cu")
        ear.watch.line(f"[{step}/99] Linking")
    assert ear.tick().done <= 10 + 2


def test_a_second_run_of_ninja_begins_anew(ear):
    for _ in range(2):
        for name in "ab":
            ear.ended(f"{name}.cu")
            ear.watch.line(f"[{'ab'.index(name) + 1}/2] Building")
    assert [done for _, done, _ in ear.units()] == [1, 2, 3, 2]
    assert (ear.tick().done, ear.tick().total) == (2, 2)


def test_a_second_run_of_as_many_steps_begins_anew_too(ear):
    for line in ("[1/2] a", "[2/2] b", "[1/2] c"):
        ear.watch.line(line)
    assert (ear.tick().done, ear.tick().total) == (1, 2)


def test_what_comes_after_ninja_is_no_step_of_its(ear):
    ear.ended("a.cu")
    ear.watch.line("[1/1] Building")
    ear.ended("lib.so")
    assert (ear.tick().done, ear.tick().total) == (2, None)


def test_a_record_is_told_once_and_only_whole(ear):
    whole = json.dumps(RECORD).encode() + b"\n"
    path = ear.folder / "calls.jsonl"
    path.write_bytes(whole + whole[:40])
    ear.tick()
    ear.tick()
    assert len(ear.units()) == 1
    path.write_bytes(whole + whole)
    ear.tick()
    assert len(ear.units()) == 2


def test_garbage_between_records_is_passed_over(ear):
    ear.ended("a.cu")
    with (ear.folder / "calls.jsonl").open("ab") as file:
        file.write(b'{"kind": "compile", "sour\n\xff\xfe\n[1]\n\n')
    ear.ended("b.cu")
    ear.tick()
    assert [name for name, _, _ in ear.units()] == ["a.cu", "b.cu"]


def test_a_line_too_long_does_not_stop_the_view(ear):
    (ear.folder / "calls.jsonl").write_bytes(b"x" * (5 << 20) + b"\n")
    ear.ended("a.cu")
    ear.tick()
    ear.tick()
    assert [name for name, _, _ in ear.units()] == ["a.cu"]


def test_records_of_the_run_before_are_not_told_again(tmp_path):
    ear = Ear(tmp_path, expected={"a.cu": 30.0, "b.cu": 30.0})
    ear.ended("a.cu", start=1000.0)
    ear.publish(running=[CALL | {"what": "b.cu", "since": time.time()}], slots=1)
    now = ear.tick()
    assert (ear.units(), now.done) == ([], 0)
    assert now.left == pytest.approx(30, abs=5), "and a.cu is no work that is left"


def test_who_joins_late_counts_what_has_ended_and_is_told_the_rest(tmp_path):
    """What ran when the second process came had begun before it."""
    ear = Ear(tmp_path, jobs=None)
    ear.ended("a.cu", start=1000.0, cache="hit")
    ear.ended("b.cu", start=1000.0)
    now = ear.tick()
    assert (ear.units(), now.done, now.hits) == ([], 2, 1)
    ear.ended("c.cu", start=1000.0)
    assert ear.tick().done == 3
    assert ear.units() == [("c.cu", 3, None)]


def test_what_runs_is_told(ear):
    ear.publish(running=[CALL | {"since": time.time() - 7, "alone": True}], waiting=[CALL, CALL])
    now = ear.tick()
    (call,) = now.running
    assert call.seconds == pytest.approx(7, abs=5)
    assert (call.what, call.archs, call.memory, call.alone) == ("csrc/a.cu", 1, 5 << 20, True)
    assert (now.waiting, now.admitted, now.budget) == (2, 1 << 30, 8 << 30)


def test_a_state_that_nobody_renews_is_not_shown(ear):
    ear.publish(time=time.time() - 60)
    assert ear.tick() == Compiling(job="demo", done=0)


def test_cache_hits_are_counted(ear):
    for number, said in enumerate(("whole", "hit", "part", "miss", None)):
        ear.ended(f"{number}.cu", cache=said)
    now = ear.tick()
    assert (now.hits, now.misses) == (2, 2)


@pytest.mark.parametrize(("steps", "known"), [(2, True), (9, False)])
def test_the_time_left_needs_a_history_of_these_units(tmp_path, steps, known):
    """Nine steps are left and earlier builds knew two units: they were of something else."""
    probe = "CMakeFiles/CMakeScratch/TryCompile-x/cmTC_1"
    times = {"csrc/a.cu": 60.0, "b.cu": 60.0, **{f"{probe}{n}": 1.0 for n in range(9)}}
    ear = Ear(tmp_path, expected=times)
    ear.watch.line(f"[0/{steps}] Re-running CMake...")
    ear.publish(running=[CALL | {"since": time.time()}])
    assert (ear.tick().left is not None) is known


@pytest.mark.parametrize(("took", "left"), [(60.0, 103), (10.0, 20), (0.1, 3.5)])
def test_this_run_corrects_what_earlier_ones_took(tmp_path, took, left):
    """Of eight units at 10 s each four have ended, at six times that, as expected, from a cache."""
    ear = Ear(tmp_path, expected={f"{n}.cu": 10.0 for n in range(8)})
    for number in range(4):
        ear.ended(f"{number}.cu", seconds=took)
    ear.publish(running=[], slots=2)
    assert ear.tick().left == pytest.approx(left, rel=0.05)


def test_a_failed_unit_is_still_work(tmp_path):
    ear = Ear(tmp_path, expected={"csrc/a.cu": 60.0})
    ear.ended("csrc/a.cu", exit=2)
    ear.publish(running=[], slots=1)
    assert ear.tick().left == 60
    assert [e.failed for e in ear.events if isinstance(e, UnitEnded)] == [True]


def make_pipe(path):
    os.mkfifo(path)


def make_link(path):
    outside = path.parent / "outside"
    outside.write_text(json.dumps(STATE | {"time": time.time()}))
    path.symlink_to(outside)


@pytest.mark.parametrize("make", [make_pipe, make_link, os.mkdir])
@pytest.mark.parametrize("name", ["live.json", "calls.jsonl"])
def test_a_build_may_put_anything_in_their_place(ear, name, make):
    """A pipe would be waited for, a link leads out of the sandbox."""
    make(ear.folder / name)
    assert ear.tick() == Compiling(job="demo", done=0)
