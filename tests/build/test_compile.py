"""What is made of a backend's end: its wheel, or a fault with a class, the cause and the log.

The backend is a scripted runner here; real ones run in `tests/pipeline`.
"""

import itertools
import json
import os
from pathlib import Path

import pytest

from kernforge.build.compile import compile_wheel, tell_free
from kernforge.build.effort import Effort
from kernforge.build.memory import Budget
from kernforge.build.plan import Inputs, SourceInput, make_plan
from kernforge.build.workspace import Workspace, World
from kernforge.errors import CacheError, CompileError
from kernforge.process import KILLED_FOR_TIME, Sink
from kernforge.recipe.load import read_recipe
from kernforge.recipe.matrix import expand
from kernforge.toolchain.env import Environment
from kernforge.toolchain.host import Host
from kernforge.toolchain.lock import HEAD, read_lock
from kernforge.toolchain.sandbox import KF, Sandbox

OBJECT = b"\x7fELF\x02\x01" + bytes(10) + b"\x01\x00" + b"rest of an object"
RECORD = {
    "version": 1, "tool": "nvcc", "kind": "compile", "sources": ["demo/a.cu"], "output": "a.o",
    "outputs": [], "archs_before": None, "archs_after": ["sm_120a"], "policy": "replace",
    "rewritten": True, "note": "", "argv": ["nvcc"], "cwd": "/kf/build", "start": 1.0,
    "seconds": 1.0, "user_seconds": 1.0, "max_rss_kib": 1, "waited": 0.0, "peak_kib": None,
    "cache": None, "exit": 0, "nested": False,
}  # fmt: skip


class Backend:
    """A runner whose one call writes a log and files, and ends with a status."""

    def __init__(self, root, status=0, log=b"", files=(), records=()):
        self.root, self.status, self.log, self.files = root, status, log, dict(files)
        self.records, self.seen = records, []

    def run(self, command, *, timeout=None):
        raise AssertionError(command)

    def stream(self, command, sink):
        self.seen.append(command)
        order = self.root / "shim/order.json"
        self.order, self.mode = json.loads(order.read_text()), order.stat().st_mode & 0o777
        sink.log.write_bytes(self.log)
        for name, data in self.files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        lines = "".join(json.dumps({**RECORD, **record}) + "\n" for record in self.records)
        (self.root / "ledger/calls.jsonl").write_text(lines)
        return self.status


@pytest.fixture
def plan():
    recipe = {
        "format": 1,
        "name": "demo",
        "version": "1.2.3",
        "sources": {"demo": {"path": "demo"}},
        "matrix": {"archs": ["12.0a"], "cuda": ["13.0"], "python": ["3.11"]},
    }
    (job,) = expand(read_recipe(recipe, where="demo.yaml"))
    lock = read_lock(Path("demo.lock"), HEAD)
    source = SourceInput(name="demo", pins='["path","t"]', place="demo")
    return make_plan(job, Inputs(sources=(source,), lock=lock, epoch=1), KF)


@pytest.fixture
def space(tmp_path):
    for name in ("build", "src", "out", "ledger", "shim"):
        (tmp_path / name).mkdir()
    world = World(
        sandbox=Sandbox(layout=KF, bwrap="/usr/bin/bwrap", reason="bubblewrap"),
        host=Host(programs=(), python=Path("/usr/bin/python3"), identity=()),
        env=Environment(path=tmp_path / "env", cuda=None),
        cuda="cuda",
    )
    return Workspace(root=tmp_path, world=world)


@pytest.fixture
def compiled(plan, space, tmp_path):
    def call(jobs=3, **script):
        backend = Backend(tmp_path, **script)
        sink = Sink(log=tmp_path / "build.log", on_line=print, timeout=7)
        budget = Budget(size=3 << 30, named=True, hard=4 << 30)
        effort = Effort(jobs=jobs, threads=2, budget=budget, processors=2, default=1 << 30)
        built = compile_wheel(plan, space, sink, effort=effort, runner=backend)
        return built, backend

    return call


def fault(compiled, **script):
    with pytest.raises(CompileError, match=r"demo-cu130-cp311-sm120a: ") as caught:
        compiled(**script)
    return caught.value


WHEEL = {"out/demo-1.2.3-py3-none-any.whl": b"wheel"}


def test_the_wheel_and_the_ledger(compiled, tmp_path):
    built, backend = compiled(files=WHEEL, records=[{}])
    assert built.wheel == tmp_path / "out/demo-1.2.3-py3-none-any.whl"
    assert [record.sources for record in built.records] == [("demo/a.cu",)]
    (command,) = backend.seen
    assert command.argv[-1] == "/kf/src/demo"


def test_parallelism_is_told_at_the_last_moment(compiled):
    _, backend = compiled(jobs=5, files=WHEEL)
    words = backend.seen[0].argv
    at = words.index("MAX_JOBS")
    assert words[at - 1 : at + 2] == (
        "--setenv",
        "MAX_JOBS",
        "21",
    )  # those that wait can be chosen from
    assert ("CARGO_BUILD_JOBS", "5") in itertools.pairwise(words)
    assert ("NVCC_THREADS", "2") in itertools.pairwise(words)


def test_the_steward_runs_the_backend_by_its_order(compiled, tmp_path):
    _, backend = compiled(jobs=5, files=WHEEL)
    words = backend.seen[0].argv
    at = words.index("/kf/shim/steward.py")
    assert words[at + 1 : at + 3] == ("/kf/shim/order.json", "/kf/env/bin/python")
    order = backend.order
    assert backend.mode == 0o600  # a storage's secrets may stand in it
    assert not (tmp_path / "shim/order.json").exists()
    assert (order["slots"], order["budget"], order["watch"]) == (5, 3 << 30, False)
    assert order["cache"] is None


def test_a_full_disk_is_the_compiles_to_tell(space, tmp_path):
    tell_free(space, 5)
    assert (tmp_path / "shim/free").read_text() == "5"
    (tmp_path / "shim/free.draft").symlink_to("/dev/full")
    tell_free(space, 6)
    assert (tmp_path / "shim/free").read_text() == "5"


@pytest.mark.parametrize("files", [{}, {**WHEEL, "out/other-1-py3-none-any.whl": b""}])
def test_one_wheel_or_a_fault(compiled, files):
    """Field case 82: an output folder with another wheel in it never passes."""
    found = fault(compiled, files=files)
    assert found.word == "wheel-count"
    assert f"left {len(files)} wheels, not one" in found.message


def test_an_unknown_end_shows_the_log(compiled):
    found = fault(compiled, status=1, log=b"one\ntwo\n", records=[{}, {"exit": 1}])
    assert found.word == "compile-failed"
    assert (
        "nvcc on demo/a.cu for sm_120a ended with 1; 1 compiler calls had ended well; log: "
        in found.message
    )
    assert found.detail == ("one", "two")


def test_what_an_earlier_run_died_of_is_not_told_again(compiled, tmp_path):
    """A compile that goes on has its old records; only those of this run say why it has failed."""
    old = {**RECORD, "exit": 137, "sources": ["old.cu"], "start": 0.5}
    (tmp_path / "ledger/earlier.jsonl").write_text(json.dumps(old) + "\n")
    found = fault(compiled, status=1, records=[{"exit": 2, "sources": ["new.cu"]}])
    assert found.word == "compile-failed"
    assert "nvcc on new.cu for sm_120a ended with 2" in found.message


def test_a_build_that_takes_too_long_says_what_it_was_at(compiled):
    call = {"what": "slow.cu", "since": 1.0, "memory": 1, "archs": 1}
    live = {"version": 1, "time": 2.0, "budget": 1, "slots": 1, "admitted": 1, "running": [call]}
    files = {"ledger/live.json": json.dumps({**live, "waiting": []}).encode()}
    found = fault(compiled, status=KILLED_FOR_TIME, files=files, records=[{}])
    assert found.word == "timeout"
    assert (
        "stopped after 7 s while it made slow.cu; 1 compiler calls had ended well" in found.message
    )


@pytest.mark.parametrize(("status", "said"), [(-9, "signal 9"), (137, "signal 9"), (3, "3")])
def test_an_end_by_signal_is_told(compiled, status, said):
    assert f"the backend ended with {said};" in fault(compiled, status=status).message


def test_a_known_class_has_its_word_and_remedy(compiled):
    line = b"a.cu:1:10: fatal error: cutlass/cutlass.h: No such file or directory\n"
    found = fault(compiled, status=1, log=line, records=[{"exit": 1}])
    assert found.word == "header-missing"
    assert "[demo/a.cu for sm_120a]" in found.message
    assert found.hint


def test_the_cause_is_shown_and_not_the_end(compiled):
    """Field case 50: a failed step 194 of 430 under parallel noise."""
    before = "".join(f"[{n}/430] Building k{n}\n" for n in range(1, 194))
    after = "".join(f"[{n}/430] Building k{n}\n" for n in range(195, 431))
    told = "FAILED: k194.o\n/kf/bin/nvcc -c k194.cu\nk194.cu(3): error: nope\n"
    log = f"{before}{told}{after}ninja: build stopped.\nTraceback: noise\n"
    found = fault(compiled, status=1, log=log.encode(), records=[{}] * 193 + [{"exit": 2}])
    assert found.detail == ("FAILED: k194.o", "k194.cu(3): error: nope")
    assert "193 compiler calls had ended well" in found.message


def test_a_long_complaint_is_cut(compiled):
    log = "warning: one\nwarning: two\nwarning: three\n" + "a.cu(3): error: nope\n" * 100
    found = fault(compiled, status=1, log=log.encode(), records=[{"exit": 2}])
    assert found.detail[:3] == ("warning: two", "warning: three", "a.cu(3): error: nope")
    assert found.detail[-1] == "..."
    assert len(found.detail) < 50


@pytest.mark.parametrize(
    "noise",
    [b"\xb8\xfe\xd5\xd2\n", b"a\0b\n", b"x" * (50 << 20)],
    ids=["GBK", "NUL", "50 MB without a newline"],
)
def test_bytes_that_are_no_text_hide_nothing(compiled, tmp_path, noise):
    """Field case 76: logs stay bytes, are decoded for display only, and the status wins."""
    end = b"\nfatal error: cute/tensor.hpp: No such file or directory\n"
    found = fault(compiled, status=1, log=noise + end)
    assert found.word == "header-missing"
    assert max(map(len, found.detail)) < 600
    assert (tmp_path / "build.log").read_bytes() == noise + end


def test_a_word_in_a_line_without_end_is_shown_in_part(compiled):
    line = b"fatal error: a.h: No such file or directory; " + b"x" * (1 << 20)
    found = fault(compiled, status=1, log=line)
    assert found.word == "header-missing"
    assert len(found.message) < 1000


def test_a_full_disk_is_no_fault_of_the_project(compiled):
    log = b"/usr/bin/ld: final link failed: No space left on device\n"
    with pytest.raises(CacheError, match="ran out of disk space") as caught:
        compiled(status=1, log=log)
    assert caught.value.word == "disk-full"


def test_a_build_that_was_stopped_for_time(compiled):
    found = fault(compiled, status=KILLED_FOR_TIME)
    assert found.word == "timeout"
    assert "stopped after 7 s" in found.message


def test_an_object_that_no_call_explains(compiled):
    found = fault(compiled, files={**WHEEL, "build/x/past.o": OBJECT})
    assert found.word == "object-unexplained"
    assert "'x/past.o' was compiled past the shim (1 in all)" in found.message


def test_the_host_half_of_an_nvcc_that_was_not_seen(compiled):
    """The object itself is explained by the host compiler's record; its device code is not."""
    half = {"tool": "gcc", "policy": None, "sources": ["/kf/tmp/tmpxft_1-6_a.cudafe1.cpp"]}
    found = fault(compiled, files=WHEEL, records=[{**half, "output": "demo/build/a.o"}])
    assert found.word == "object-unexplained"
    assert "'demo/build/a.o'" in found.message


UNSUPPORTED = b"nvcc fatal   : Unsupported gpu architecture 'compute_70'\n"


def test_the_line_that_asks_for_an_arch_is_named(compiled):
    """Field case 8: file and line that add the flag."""
    setup = b'from setuptools import setup\nFLAGS = ["-gencode=arch=compute_70,code=sm_70"]\n'
    files = {"src/demo/setup.py": setup, "src/demo/a.cu": b"// sm_70\n"}
    found = fault(compiled, status=1, log=UNSUPPORTED, records=[{"exit": 1}], files=files)
    assert found.word == "toolkit-too-new"
    assert found.hint.endswith("it stands in demo/setup.py:2")


def test_a_flag_that_is_put_together_is_not_guessed(compiled):
    files = {
        "src/demo/setup.py": b"f'-gencode=arch=compute_{n},code=sm_{n}'\n# sm_700\n",
        "src/demo/CMakeLists.txt": b"#" * (2 << 20) + b"\nsm_70\n",
    }
    found = fault(compiled, status=1, log=UNSUPPORTED, files=files)
    assert "it stands in" not in found.hint


def test_three_places_are_enough(compiled):
    files = {f"src/demo/f{n}.cmake": b"compute_70\n" for n in range(9)}
    found = fault(compiled, status=1, log=UNSUPPORTED, files=files)
    assert found.hint.endswith("demo/f0.cmake:1, demo/f1.cmake:1, demo/f2.cmake:1")


def test_links_are_not_followed_when_looking(compiled, tmp_path):
    os.symlink("/etc", tmp_path / "src/etc")
    (tmp_path / "outside.py").write_text("compute_70")
    os.symlink(tmp_path / "outside.py", tmp_path / "src/setup.py")
    assert "it stands in" not in fault(compiled, status=1, log=UNSUPPORTED).hint
