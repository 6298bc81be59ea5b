"""Kills, interruptions, races, full and read-only disks: nothing half made ever counts."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from projects import share_toolchain, write_project

pytestmark = pytest.mark.build
KILLS = int(os.environ.get("KERNFORGE_KILLS", "6"))


@pytest.fixture
def words(tmp_path, compiler_cache, toolkit):
    """The call that builds a tiny project in a cache of its own."""
    project = write_project(tmp_path / "project")
    cache = share_toolchain(tmp_path / "cache", compiler_cache)
    return ["--project", str(project), "--cache", str(cache), "build", "tiny", "--json"]


def start(words, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "kernforge", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def finish(child):
    out, err = child.communicate(timeout=120)
    assert child.returncode == 0, err
    return json.loads(out)[0], err


def builders(cache: Path, *, real: bool) -> list[str]:
    """Command lines of all that could be left of a build of ours.

    In a sandbox they are known by what is mounted there; in the ``real`` folder, which all builds
    of this user share, by its path.
    """
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            mounts = (folder / "mountinfo").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        boxed = " /kf/src " in mounts and str(cache) in mounts
        if boxed or (real and "/var/tmp/kernforge-" in line):
            found.append(line)
    return found


def settled(cache: Path, *, real: bool = False) -> list[str]:
    deadline = time.monotonic() + 10
    while (left := builders(cache, real=real)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def check_clean(cache: Path):
    done = subprocess.run(
        [sys.executable, "-m", "kernforge", "--cache", str(cache), "cache", "check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert not list((cache / "tmp").iterdir())
    assert not list(cache.glob("work/*"))
    assert not list((cache / "locks").glob("*.owner"))


def empty_store(cache: Path):
    for path in (cache / "store").glob("*/*/*"):
        subprocess.run(["rm", "-rf", str(path)], check=True)


def kill_and_build_again(words: list[str], cache: Path, *, times: int):
    began = time.monotonic()
    finish(start(words))
    whole = time.monotonic() - began
    dice = random.Random(7)
    for _ in range(times):
        empty_store(cache)
        child = start(words)
        time.sleep(dice.uniform(0.05, whole))
        child.kill()
        child.communicate()
        assert not settled(cache, real="--no-sandbox" in words)
        document, _ = finish(start(words))
        assert document["verdict"]["passed"]
        check_clean(cache)


@pytest.mark.xdist_group("real")
def test_kill_9_at_any_moment(words, tmp_path):
    kill_and_build_again(words, tmp_path / "cache", times=KILLS)


@pytest.mark.xdist_group("real")
def test_kill_9_without_a_sandbox(words, tmp_path):
    kill_and_build_again([*words, "--no-sandbox"], tmp_path / "cache", times=max(2, KILLS // 5))
    real = Path(f"/var/tmp/kernforge-{os.getuid()}")
    assert {path.name for path in real.glob("*")} <= {"locks", "CACHEDIR.TAG"}


@pytest.mark.xdist_group("real")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_build_ends_at_once_and_says_so(words, tmp_path, number):
    child = start(words)
    while not list((tmp_path / "cache").glob("work/*/build.log")):
        assert child.poll() is None, child.communicate()
        time.sleep(0.02)
    time.sleep(0.3)
    child.send_signal(number)
    began = time.monotonic()
    _, err = child.communicate(timeout=30)
    assert child.returncode == 130
    assert "error[interrupted]" in err
    assert "Traceback" not in err
    assert time.monotonic() - began < 10
    assert not settled(tmp_path / "cache")
    finish(start(words))
    check_clean(tmp_path / "cache")


def test_two_builds_of_one_key_compile_once(words):
    first, second = start(words), start(words)
    (one, err1), (two, err2) = finish(first), finish(second)
    assert sorted((one["cached"], two["cached"])) == [False, True]
    assert one["build_id"] == two["build_id"]
    waited = err1 if one["cached"] else err2
    assert "Waiting for the build of tiny-cu130-cp311-sm120a: process " in waited


def in_mounts(script: str, words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run kernforge where a script has changed the mounts, for that process alone."""
    call = ["unshare", "-rm", "sh", "-ec", f'{script}; exec "$@"', "sh"]
    return subprocess.run(
        [*call, sys.executable, "-m", "kernforge", *words],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("size", ["16k", "300k", "1200k"])
def test_a_full_disk_is_one_clear_error_and_the_next_build_is_fine(words, tmp_path, size):
    cache = tmp_path / "cache"
    full = cache / "full"
    full.mkdir()
    links = " ".join(f"{cache}/full/{name}" for name in ("envs", "uv", "host"))
    script = (
        f"mount -t tmpfs -o size={size} none {full}; "
        f"for link in {links}; do ln -s ../$(basename $link) $link || true; done"
    )
    inside = [word if word != str(cache) else str(full) for word in words]
    done = in_mounts(script, inside)
    assert done.returncode == 9, done.stderr
    assert json.loads(done.stdout)[0]["error"] == "disk-full"
    assert "Traceback" not in done.stderr
    finish(start(words))


def test_a_read_only_cache_serves_hits_and_refuses_builds(words, tmp_path):
    document, _ = finish(start(words))
    cache = tmp_path / "cache"
    script = f"mount --bind {cache} {cache}; mount -o remount,bind,ro {cache}"
    hit = in_mounts(script, words)
    assert hit.returncode == 0, hit.stderr
    assert json.loads(hit.stdout)[0]["sha256"] == document["sha256"]
    miss = in_mounts(script, [*words, "--arch", "9.0"])
    assert miss.returncode == 9
    assert json.loads(miss.stdout)[0]["error"] == "cache-unwritable"
    assert "--cache" in json.loads(miss.stdout)[0]["hint"]
