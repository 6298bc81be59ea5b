"""The steward with real shims and stand-in compilers that really take memory and time."""

import contextlib
import importlib.util
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

INSIDE = Path(__file__).parents[2] / "src/kernforge/inside"
MIB = 1 << 20
COMPILER = """\
#!{python}
import json, os, signal, sys, time
out = sys.argv[sys.argv.index("-o") + 1]
source = next(word for word in sys.argv[1:] if word.endswith((".c", ".cu")))
do = json.load(open(source))
tries = source + ".tries"
count = int(open(tries).read()) if os.path.exists(tries) else 0
open(tries, "w").write(str(count + 1))
with open(out + ".times", "a") as log:
    log.write("%f start\\n" % time.time())
    log.flush()
    held = []
    for step in range(do.get("steps", 1)):
        held.append(bytearray(os.urandom(1)) * (do.get("mib", 1) << 20))
        time.sleep(do.get("seconds", 0.2) / do.get("steps", 1))
    log.write("%f end\\n" % time.time())
if count < do.get("dies", 0):
    print(do.get("says", ""), file=sys.stderr, flush=True)
    if do.get("signal"):
        os.kill(os.getpid(), do["signal"])
    sys.exit(do.get("exit", 1))
print("a warning", file=sys.stderr)
if do.get("calls"):
    os.execv("/bin/sh", ["/bin/sh", "-c", do["calls"]])
open(out, "w").write("object")
"""


def load(name):
    spec = importlib.util.spec_from_file_location(name, INSIDE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


steward = load("steward")


class Site:
    """A folder with a shim, a stand-in compiler and an order."""

    def __init__(self, root):
        self.root = root
        (root / "ledger").mkdir()
        compiler = root / "compiler"
        compiler.write_text(COMPILER.format(python=sys.executable))
        compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
        tools = dict.fromkeys(("gcc", "g++", "nvcc"), str(compiler))
        self.config = root / "config.json"
        self.config.write_text(
            json.dumps(
                {
                    "version": 1,
                    "tools": tools,
                    "path": os.environ["PATH"],
                    "ledger": str(root / "ledger"),
                    "roots": [str(root)],
                    "gencode": {"default": "upstream", "by_path": [], "archs": []},
                    "steward": str(root / "ledger/steward"),
                }
            )
        )
        self.env = {"PATH": os.environ["PATH"], "KERNFORGE_SHIM_CONFIG": str(self.config)}
        self.order = {
            "socket": str(root / "ledger/steward"),
            "live": str(root / "ledger/live.json"),
            "free": str(root / "free"),
            "stats": str(root / "ledger/stats.json"),
            "budget": 1000 * MIB,
            "watch": False,
            "slots": 4,
            "threads": 1,
            "processors": len(os.sched_getaffinity(0)),
            "default": 200 * MIB,
            "known": {},
            "cache": None,
            "cut": False,
            "calls": None,
        }

    def call(self, name, tool="gcc", words="", **do):
        """A shell command that compiles one source."""
        source = self.root / f"{name}.{'cu' if tool == 'nvcc' else 'c'}"
        source.write_text(json.dumps(do))
        shim = f"{sys.executable} -I -S {INSIDE / 'shim.py'}"
        return f"{shim} {tool} -c {words} -o {self.root / name}.o {source}"

    def words(self, script):
        """A steward that runs a shell's line."""
        path = self.root / "order.json"
        path.write_text(json.dumps(self.order))
        return [sys.executable, "-I", "-S", INSIDE / "steward.py", path, "/bin/sh", "-c", script]

    def start(self, script):
        return subprocess.Popen(
            self.words(script),
            env=self.env,
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *calls, after=""):
        """All calls at once; answers status and standard error."""
        child = self.start(" & ".join(calls) + " & wait" + after)
        _, err = child.communicate(timeout=60)
        return child.returncode, err

    def records(self):
        lines = (self.root / "ledger/calls.jsonl").read_text().splitlines()
        return {Path(r["sources"][0]).stem: r for r in map(json.loads, lines)}

    def spans(self, *names):
        """Start and end of the last run of each call that ended, by the compiler's own clock."""
        found = []
        for name in names:
            words = (self.root / f"{name}.o.times").read_text().split()
            found.append((float(words[-4]), float(words[-2])))
        return found

    def live(self):
        return json.loads((self.root / "ledger/live.json").read_text())


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def most_at_once(spans):
    moments = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    count = most = 0
    for _, change in moments:
        count += change
        most = max(most, count)
    return most


def test_memory_decides_how_many_run_at_once(site):
    site.order["budget"] = 450 * MIB  # two of 200
    names = [f"u{n}" for n in range(5)]
    status, _ = site.run(*(site.call(name) for name in names))
    assert status == 0
    assert most_at_once(site.spans(*names)) == 2
    assert all(record["exit"] == 0 for record in site.records().values())


def test_slots_decide_too(site):
    site.order["slots"] = 1
    names = ["a", "b", "c"]
    site.run(*(site.call(name) for name in names))
    assert most_at_once(site.spans(*names)) == 1


def test_what_was_seen_last_time_counts(site):
    site.order["budget"] = 450 * MIB
    names = [f"u{n}" for n in range(4)]
    site.order["known"] = {f"gcc {name}.c 0": [10 * MIB, 1.0] for name in names}
    site.run(*(site.call(name, seconds=0.6) for name in names))
    assert most_at_once(site.spans(*names)) == 4


def test_the_longest_starts_first(site):
    site.order["slots"] = 1
    names = ["short", "long", "middle"]
    site.order["known"] = {
        f"gcc {name}.c 0": [MIB, seconds]
        for name, seconds in (("short", 1.0), ("long", 9.0), ("middle", 5.0), ("first", 1.0))
    }
    later = " & ".join(site.call(name) for name in names)
    first = site.call("first", seconds=1.5)
    site.run(first, f"sleep 0.3; {later}")
    order = sorted(names, key=lambda name: site.spans(name)[0])
    assert order == ["long", "middle", "short"]


def test_a_call_larger_than_the_budget_runs_alone(site):
    site.order["budget"] = 300 * MIB
    site.order["known"] = {"gcc big.c 0": [900 * MIB, 1.0]}
    assert site.run(site.call("big"), site.call("small"))[0] == 0
    assert most_at_once(site.spans("big", "small")) == 1


@pytest.mark.parametrize(
    "death", [{"signal": 9}, {"exit": 1, "says": "nvcc error : 'cicc' died due to signal 9"},
              {"exit": 1, "says": "gcc: fatal error: Killed signal terminated program cc1plus"}],
)  # fmt: skip
def test_what_was_killed_for_memory_is_tried_once_more_alone(site, death):
    calls = [site.call("u", dies=1, **death), site.call("other", seconds=1.0)]
    status, err = site.run(*calls)
    assert status == 0
    assert site.records()["u"]["exit"] == 0
    assert (site.root / "u.c.tries").read_text() == "2"
    assert most_at_once(site.spans("u", "other")) == 1
    assert "ended for want of memory" in err
    assert "died due to" not in err
    assert "Killed" not in err
    assert site.live()["retried"] == 1


def test_what_is_killed_twice_has_failed(site):
    site.run(site.call("u", dies=5, signal=9))
    assert site.records()["u"]["exit"] == 137
    assert (site.root / "u.c.tries").read_text() == "2"


@pytest.mark.parametrize(
    "death", [{"signal": 11}, {"exit": 1, "says": "error: no such type"},
              {"exit": 1, "says": 'u.cu(3): error: identifier "Killed" is undefined'}],
)  # fmt: skip
def test_a_crash_and_an_error_are_no_kills(site, death):
    _, err = site.run(site.call("u", dies=1, **death))
    assert site.records()["u"]["exit"] == (139 if "signal" in death else 1)
    assert (site.root / "u.c.tries").read_text() == "1"
    assert death.get("says", "") in err


def test_complaints_come_through(site):
    _, err = site.run(site.call("u"))
    assert "a warning" in err


def test_an_estimate_that_proves_low_is_raised_and_nothing_new_starts(site):
    site.order.update(budget=400 * MIB, default=20 * MIB)
    hungry = site.call("hungry", mib=300, seconds=1.5)
    later = site.call("later", mib=1)
    site.order["known"] = {"gcc later.c 0": [200 * MIB, 0.1]}
    site.run(hungry, f"sleep 0.7; {later}")
    assert most_at_once(site.spans("hungry", "later")) == 1
    assert site.records()["hungry"]["peak_kib"] > 300 << 10


def test_the_youngest_makes_room_before_the_budget_is_passed(site):
    known = {f"gcc {name}.c 0": [20 * MIB, 1.0] for name in ("old", "young")}
    site.order.update(budget=500 * MIB, known=known)
    grow = {"mib": 40, "steps": 10, "seconds": 3.0}  # both want 400 MiB in the end
    old, young = site.call("old", **grow), site.call("young", **grow)
    status, err = site.run(old, f"sleep 0.5; {young}")
    assert status == 0
    assert {name: r["exit"] for name, r in site.records().items()} == {"old": 0, "young": 0}
    assert (site.root / "old.c.tries").read_text() == "1"
    assert (site.root / "young.c.tries").read_text() == "2"
    assert "young.c: ended for want of memory" in err


def test_shares_never_pass_the_budget_while_they_are_raised(site):
    known = {f"gcc c{n}.c 0": [60 * MIB, 1.0] for n in range(5)}
    site.order.update(budget=400 * MIB, known=known)
    calls = [site.call(f"c{n}", mib=20, steps=10, seconds=1.0) for n in range(5)]
    child = site.start(" & ".join(calls) + " & wait")
    most = set()
    while child.poll() is None:
        with contextlib.suppress(OSError, ValueError):
            most.add(site.live()["admitted"])
        time.sleep(0.005)
    child.communicate()
    assert 300 * MIB < max(most) <= 400 * MIB
    records = site.records().values()
    assert [r["exit"] for r in records] == [0] * 5


def wait_for(condition, seconds=10):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with contextlib.suppress(OSError, ValueError, StopIteration):
            if condition():
                return
        time.sleep(0.02)
    raise AssertionError(condition)


def running(source):
    """Process and its parent of each shim, guard and compiler that works on a source."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().split(b"\0")[-2:-1] == [os.fsencode(source)]:
                parent = int((path.parent / "stat").read_text().rpartition(")")[2].split()[1])
                yield int(path.parent.name), parent


def test_a_killed_shim_frees_its_memory_and_its_compiler_dies(site):
    site.order["budget"] = 250 * MIB
    source = site.root / "stuck.c"
    child = site.start(f"{site.call('stuck', seconds=60)} & sleep 1; {site.call('next')}")
    wait_for((site.root / "stuck.o.times").exists)
    found = dict(running(source))
    (shim,) = (pid for pid, parent in found.items() if parent not in found)
    os.kill(shim, signal.SIGKILL)
    wait_for(lambda: not dict(running(source)))
    child.communicate(timeout=20)
    assert site.records()["next"]["exit"] == 0


def test_a_compiler_called_by_a_compiler_asks_nobody(site):
    site.order["slots"] = 1
    inner = site.call("inner")
    outer = site.call("outer", calls=inner)
    assert site.run(outer)[0] == 0
    assert site.records()["inner"]["nested"]
    assert site.records()["inner"]["waited"] == 0


def test_time_spent_waiting_is_no_time_of_the_call(site):
    site.order["slots"] = 1
    site.run(site.call("a", seconds=1.0), site.call("b", seconds=1.0))
    records = sorted(site.records().values(), key=lambda record: record["waited"])
    assert records[1]["waited"] > 0.8
    assert all(record["seconds"] < 3.0 for record in records)


def test_nvcc_gets_no_more_threads_than_there_are_slots(site):
    site.order["slots"] = 2
    gencode = " ".join(f"-gencode=arch=compute_{n},code=sm_{n}" for n in (80, 90, 120))
    site.run(site.call("u", "nvcc", f"--threads 8 {gencode}"), site.call("v", "nvcc", gencode))
    assert most_at_once(site.spans("u", "v")) == 1  # two threads are two slots
    assert "--threads=2" in site.records()["u"]["argv"]
    assert not [w for w in site.records()["v"]["argv"] if w.startswith("--threads")]


def test_nvcc_gets_the_threads_that_the_project_does_not_name(site):
    site.order.update(slots=4, threads=3)
    gencode = [f"-gencode=arch=compute_{n},code=sm_{n}" for n in (80, 90)]
    site.run(
        site.call("one", "nvcc", gencode[0]),
        site.call("two", "nvcc", " ".join(gencode)),
        site.call("own", "nvcc", " ".join(("-t1", *gencode))),
        site.call("host"),
    )
    told = {
        name: [word for word in record["argv"] if word.startswith("--threads")]
        for name, record in site.records().items()
    }
    assert told == {"one": [], "two": ["--threads=2"], "own": ["--threads=1"], "host": []}


@pytest.mark.parametrize(("watch", "together"), [(True, 1), (False, 2)])
def test_the_machines_free_memory_bounds_what_nobody_named(site, watch, together):
    free = int(re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())[1]) << 10
    site.order.update(budget=4 * free, default=free * 9 // 10, watch=watch, processors=2)
    site.run(*(site.call(name, seconds=1.0) for name in "ab"))
    assert most_at_once(site.spans("a", "b")) == together


def test_what_a_control_group_leaves_bounds_it_too(site):
    """No sandbox shows control groups: it is told from outside."""
    (site.root / "free").write_text(str(300 * MIB))
    site.order.update(watch=True, processors=2)
    site.run(*(site.call(name, seconds=1.0) for name in "ab"))
    assert most_at_once(site.spans("a", "b")) == 1


def test_more_shims_than_files_may_be_open_wait_with_the_kernel(site):
    site.order.update(slots=4, budget=4000 * MIB, known={"gcc c 0": [MIB, 0.1]})
    calls = " & ".join(site.call(f"c{n}") for n in range(40))
    words = ["bash", "-c", 'ulimit -n 20; exec "$@"', "x", *site.words(f"{calls} & wait")]
    done = subprocess.run(
        words, check=False, env=site.env, cwd=site.root, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert len(site.records()) == 40


@pytest.mark.parametrize("script", ["exit 7", "kill -9 $$"])
def test_the_backends_end_is_the_stewards(site, script):
    child = site.start(script)
    child.communicate(timeout=20)
    assert child.returncode == (7 if "exit" in script else 137)


@pytest.mark.parametrize("data", [b"", b"{\n", b"no json\n", b'{"tool": 3}\n', b"[]\n", b"7\n"])
def test_a_stranger_on_the_socket_harms_nobody(site, data):
    child = site.start(f"sleep 1; {site.call('u')}")
    wait_for(lambda: Path(site.order["socket"]).exists())
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(site.order["socket"])
        stranger.sendall(data)
    child.communicate(timeout=20)
    assert child.returncode == 0
    assert site.records()["u"]["exit"] == 0


def test_the_state_for_the_live_view(site):
    site.order["slots"] = 1
    child = site.start(f"{site.call('a', seconds=2, mib=50)} & {site.call('b', seconds=2)} & wait")
    wait_for(lambda: site.live()["running"] and site.live()["waiting"])
    wait_for(lambda: site.live()["running"][0]["memory"] > 0)
    state = site.live()
    assert {state["running"][0]["what"], state["waiting"][0]["what"]} == {"a.c", "b.c"}
    assert state["admitted"] >= state["running"][0]["estimate"]
    assert (state["budget"], state["slots"]) == (1000 * MIB, 1)
    child.communicate(timeout=20)
    assert site.live()["running"] == []
    assert site.live()["done"] == 2


# what to start next, without processes


def order(**changes):
    made = object.__new__(steward.Order)
    values = {"budget": 1000, "slots": 4, "default": 100, "known": {}, "watch": False}
    values |= {"threads": 1, "processors": 1}
    for name, value in {**values, **changes}.items():
        setattr(made, name, value)
    return made


def call(number, memory, seconds, *, running=None, **changes):
    known = {f"gcc {number} 0": [memory, seconds]}
    made = steward.Call(number, 0, {"tool": "gcc", "what": number, "archs": 0}, order(known=known))
    made.estimate, made.expected = memory, seconds
    if running is not None:
        made.state, made.since = "running", time.time() - running
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_a_short_call_may_overtake_where_it_is_over_in_time():
    running = call(1, 600, 100.0, running=10)
    large, short, long = call(2, 500, 300.0), call(3, 300, 20.0), call(4, 300, 200.0)
    assert steward.choose([running, large, short, long], order(), 400) is short
    assert steward.choose([running, large, long], order(), 400) is None
    unknown = call(5, 500, None)  # may be the longest of all, and is waited for
    assert steward.choose([running, large, short, unknown], order(), 400) is short
    endless = call(6, 600, None, running=10)  # nobody knows when there will be room
    assert steward.choose([endless, large, short], order(), 400) is None


def test_the_large_call_starts_as_soon_as_it_fits():
    running = call(1, 400, 100.0, running=10)
    large, short = call(2, 500, 300.0), call(3, 300, 20.0)
    assert steward.choose([running, large, short], order(), 600) is large


def test_nothing_starts_beside_a_retry():
    assert (
        steward.choose([call(1, 10, 1.0, running=0, alone=True), call(2, 1, 1.0)], order(), 900)
        is None
    )
    waiting = call(1, 10, 1.0, alone=True)
    assert (
        steward.choose([call(2, 1, 1.0, running=0), waiting, call(3, 1, 1.0)], order(), 900) is None
    )
    assert steward.choose([waiting, call(3, 1, 9.0)], order(), 900) is waiting


def test_what_nobody_knows_waits_for_a_processor():
    running, waiting = call(1, 10, 1.0, running=0, blind=True), call(2, 10, None)
    assert steward.choose([running, waiting], order(), 900) is waiting
    waiting.blind = True
    assert steward.choose([running, waiting], order(), 900) is None
    assert steward.choose([running, waiting], order(processors=2), 900) is waiting
    known = call(3, 10, 1.0)
    assert steward.choose([running, waiting, known], order(), 900) is known
    assert steward.choose([running, waiting, known], order(slots=2), 900) is None
    assert steward.choose([running, waiting, known], order(), 15) is None
    known.state = "running"
    assert steward.choose([known, waiting], order(), 900) is waiting
    assert steward.choose([waiting], order(processors=0), 900) is waiting


def test_something_always_starts():
    assert steward.choose([call(1, 5000, 1.0)], order(), -100) is not None


def test_other_numbers_of_archs_tell_something():
    known = {"nvcc a.cu 2": [500, 20.0], "nvcc a.cu 9": [700, 90.0]}
    asked = {"tool": "nvcc", "what": "a.cu", "archs": 1}
    assert steward.known_of(known, asked) == [500, 10.0]
    assert steward.known_of(known, {**asked, "archs": 9}) == [700, 90.0]
    assert steward.known_of(known, {**asked, "what": "b.cu"}) is None
    assert steward.known_of(known, {**asked, "archs": "x"}) is None


def keep_calls(site):
    """Let the steward keep whole calls of the folder `tree`; answers a call and its source."""
    for name in ("tree", "env"):
        (site.root / name).mkdir()
    site.order["calls"] = {
        "folder": str(site.root / "calls"), "limit": 1 << 30, "roots": [str(site.root / "tree")],
        "fixed": [], "packages": [], "outside": [], "salt": "s",
    }  # fmt: skip
    source = site.root / "tree/unit.c"
    source.write_text(json.dumps({"seconds": 0.01}))
    out = site.root / "tree/unit.o"
    shim = f"{sys.executable} -I -S {INSIDE / 'shim.py'}"
    return f"cd {site.root / 'tree'} && {shim} gcc -c -o {out} {source}", source, out


def test_a_call_that_was_made_before_is_answered_without_a_compiler(site):
    call, source, out = keep_calls(site)
    (site.root / "compiler").write_text(
        "#!/bin/sh\necho called >> ../calls.log\necho a warning >&2\n"
        'while [ "$1" != -o ]; do shift; done; echo object > "$2"\n'
    )
    for number in range(3):
        code, err = site.run(call)
        assert code == 0
        assert "a warning" in err
        assert out.read_text() == "object\n"
        out.unlink()
        assert site.records()["unit"]["cache"] == (None if number == 0 else "whole")
    assert (site.root / "calls.log").read_text() == "called\n"
    assert site.live()["done"] == 1
    source.write_text("{}")
    site.run(call)
    assert (site.root / "calls.log").read_text() == "called\ncalled\n"


@pytest.mark.parametrize("ends", ["exit 1", "kill -9 $$", "echo x > ../tree/late.h"])
def test_a_call_that_fails_or_whose_files_change_meanwhile_is_not_kept(site, ends):
    call, _, out = keep_calls(site)
    (site.root / "compiler").write_text(
        "#!/bin/sh\necho called >> ../calls.log\n"
        f'while [ "$1" != -o ]; do shift; done; echo object > "$2"; {ends}\n'
    )
    site.run(call)
    before = (site.root / "calls.log").read_text()
    (site.root / "tree/late.h").unlink(missing_ok=True)
    site.run(call)
    assert len((site.root / "calls.log").read_text()) > len(before)
    assert out.exists()


@pytest.mark.parametrize(("lines", "kept"), [(10_000, True), (100_000, False)])
def test_long_complaints_are_kept_whole_or_not_at_all(site, lines, kept):
    """ptxas -v of a large file says hundreds of kilobytes; beyond a megabyte they are passed on."""
    call, _, _ = keep_calls(site)
    (site.root / "compiler").write_text(
        "#!/bin/sh\necho called >> ../calls.log\n"
        f'i=0; while [ $i -lt {lines} ]; do echo "$i registers are used" >&2; i=$((i+1)); done\n'
        'while [ "$1" != -o ]; do shift; done; echo object > "$2"\n'
    )
    said = [site.run(call)[1] for _ in range(2)]
    assert said[0] == said[1]
    assert said[0].count("\n") == lines
    assert (site.root / "calls.log").read_text().count("called") == 2 - kept


def test_what_was_never_seen_takes_what_others_of_the_build_took(site):
    """The first two show that 20 MiB was too little; the later ones are not let in by it."""
    site.order.update(budget=500 * MIB, default=20 * MIB, slots=2)
    calls = [site.call(f"c{n}", mib=300, seconds=0.4) for n in range(4)]
    status, err = site.run(f"{calls[0]}; {' & '.join(calls[1:])}")
    assert status == 0
    assert most_at_once(site.spans("c1", "c2", "c3")) == 1
    assert "ended for want of memory" not in err


def test_a_guess_that_proves_high_is_given_up_after_a_few(site):
    """So that the first build of a recipe that names much does not leave the machine idle."""
    site.order.update(budget=500 * MIB, default=400 * MIB, slots=4, processors=4)
    calls = [site.call(f"c{n}", mib=20, seconds=1.0 if n > 3 else 0) for n in range(8)]
    assert site.run(f"{'; '.join(calls[:4])}; {' & '.join(calls[4:])}")[0] == 0
    assert most_at_once(site.spans("c4", "c5", "c6", "c7")) == 4


@pytest.mark.parametrize("changes", [{"hits": 1}, {"guessed": False}])
def test_a_call_that_tells_nothing_leaves_the_others_unknown(site, changes):
    """Its steps came from the compile cache, or it was known before."""
    path = site.root / "order.json"
    path.write_text(json.dumps(site.order))
    made = steward.Steward(steward.Order(str(path)), None, None)
    made.learn(call(1, 10, 1.0, **{"guessed": True, **changes}))
    assert made.took == {}
    made.learn(call(2, 10, 1.0, guessed=True, peak=7))
    assert made.took == {"gcc": [7]}
    made.listener.close()


@pytest.mark.parametrize(
    ("options", "line", "left"),
    [
        ("", "{bad}", 0),
        ("", "cd . && {bad} && :", 0),
        ("-k 0", "{bad}", 2),
        ("", "{bad} || {bad}", 2),  # such a step may go on: what waits is made meanwhile
        ("", "{bad} | cat", 2),
        ("", "{bad}; true", 2),
        ("", "{python} asks.py; true", 2),
        ("", "{python} asks.py", 2),
    ],
)
def test_what_waits_when_a_step_of_ninja_fails_is_not_made(site, toolkit, options, line, left):
    """ninja would not have started it; where it or the step may go on, all is made."""
    site.order["slots"] = 1
    bad = site.call("bad", seconds=1.5, dies=9)
    (site.root / "asks.py").write_text(f"import subprocess\nsubprocess.run({bad.split()})\n")
    units = {n: f"sleep 0.5 && {site.call(n)}" for n in ("a", "b")}
    steps = {"bad": line.format(bad=bad, python=sys.executable), **units}
    (site.root / "build.ninja").write_text(
        "rule run\n  command = $line\n"
        + "".join(f"build {name}.made: run\n  line = {text}\n" for name, text in steps.items())
    )
    ninja = (toolkit / "include").resolve().parents[5] / "bin/ninja"  # of its environment
    site.run(f"{ninja} -j 3 {options}")
    made = {record for record in site.records() if record != "bad"}
    assert len(made) == left


def test_the_first_of_their_kind_are_as_many_as_processors(site):
    """What CMake compiles for its checks is of another kind."""
    site.order["processors"] = 1
    check = "build/CMakeFiles/CMakeScratch/TryCompile-aaaaaa"
    (site.root / check).mkdir(parents=True)
    names = [f"c{n}" for n in range(4)]
    units = " & ".join(site.call(name, seconds=0.5) for name in names)
    assert site.run(f"(cd {check} && {site.call('check')}); {units}")[0] == 0
    spans = sorted(site.spans(*names))
    assert all(start >= spans[0][1] for start, _ in spans[1:])
    assert most_at_once(spans) == 3


def test_what_cmakes_checks_take_tells_nothing_of_units(site):
    site.order.update(budget=500 * MIB, default=200 * MIB, slots=8)
    check = "build/CMakeFiles/CMakeScratch/TryCompile-aaaaaa"
    (site.root / check).mkdir(parents=True)
    names = ["c0", "c1"]
    units = " & ".join(site.call(name, seconds=0.5) for name in names)
    assert site.run(f"(cd {check} && {site.call('check', mib=400)}); {units}")[0] == 0
    assert most_at_once(site.spans(*names)) == min(2, len(os.sched_getaffinity(0)))
