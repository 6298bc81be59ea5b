"""What sccache's counts say, and what its server is told."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kernforge.build.compilecache import CompileCache, Counts, host_salt, read_counts, works
from kernforge.toolchain.sandbox import KF

CALLS = Path("/calls")
CACHE = CompileCache(program=Path("/opt/sccache"), folder=Path("/cache"), calls=CALLS, salt="s")


def statistics(hits, misses):
    """As `sccache --show-stats --stats-format=json` of 0.16 says it."""
    return json.dumps(
        {
            "stats": {
                "cache_hits": {"counts": hits, "adv_counts": {}},
                "cache_misses": {"counts": misses, "adv_counts": {}},
                "cache_errors": {"counts": {}, "adv_counts": {}},
            }
        }
    ).encode()


def test_every_language_is_counted_and_nvcc_as_a_whole_is_not():
    hits = {"CUBIN": 3, "PTX": 3, "CUDA": 2, "CUDA (Device code)": 9}
    counts = read_counts(statistics(hits, {"CUDA": 1, "C/C++": 4}))
    assert counts.hit_count == 8
    assert counts.miss_count == 5
    assert counts.text == "8 of 13 steps (C/C++ 0/4, CUBIN 3/3, CUDA 2/3, PTX 3/3)"


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"stats": 1}', b'{"stats": {}}'])
def test_statistics_that_are_none(text):
    assert read_counts(text) == Counts()
    assert not read_counts(text).text


@pytest.mark.parametrize(
    ("hits", "misses", "good"),
    [
        ({"PTX": 1, "CUBIN": 1}, {"CUDA": 1}, True),
        ({"PTX": 1}, {"CUBIN": 1}, False),
        ({"PTX": 1, "CUBIN": 1}, {"CUBIN": 1}, False),
        ({"C/C++": 5}, {}, False),
        ({}, {}, False),
    ],
)
def test_a_cache_works_where_device_code_comes_from_it(hits, misses, good):
    assert works(read_counts(statistics(hits, misses))) is good


def test_the_server_has_its_own_name_and_sees_no_shim():
    order = CACHE.order(KF, bound=True)
    assert order["program"].endswith("/sccache")  # by another name it plays a compiler
    assert "/kf/shim" not in order["server"]["PATH"].split(":")
    places = {m.place: m.writable for m in CACHE.mounts() if m.source != CALLS}
    assert order["program"] == KF.at(next(p for p, writable in places.items() if not writable))
    assert order["server"]["SCCACHE_DIR"] == KF.at(next(p for p, w in places.items() if w))


def test_without_a_sandbox_it_is_used_where_it_lies():
    order = CACHE.order(KF, bound=False)
    assert (order["program"], order["server"]["SCCACHE_DIR"]) == ("/opt/sccache", "/cache")


def test_a_storage_elsewhere_is_told_to_the_server_alone():
    storage = (("SCCACHE_REDIS_ENDPOINT", "redis://user:secret@cache"),)
    shared = replace(CACHE, storage=storage)
    order = shared.order(KF, bound=True)
    assert order["server"]["SCCACHE_REDIS_ENDPOINT"] == storage[0][1]
    assert "secret" not in json.dumps(order["client"])
    assert (shared.kind, CACHE.kind) == ("network", "local")


def test_another_host_has_other_entries():
    one = host_salt((("gcc", "a"), ("version", "12")))
    assert one == host_salt((("version", "12"), ("gcc", "a")))
    assert one != host_salt((("gcc", "b"), ("version", "12")))


def test_without_sccache_whole_calls_are_kept_alone():
    bare = replace(
        CACHE, program=None, storage=(("SCCACHE_REDIS_ENDPOINT", "redis://x"),), world="w"
    )
    assert bare.order(KF, bound=True) is None
    assert not bare.network
    (mount,) = bare.mounts()
    assert (mount.source, mount.writable) == (CALLS, True)
    order = bare.calls_order(KF, bound=True)
    assert order["folder"] == KF.at(mount.place)
    assert order["salt"] == "w"


def test_whole_calls_are_named_only_where_all_that_can_be_read_is_known():
    assert CACHE.calls_order(KF, bound=True) is None  # nobody said in which world
    assert replace(CACHE, world="w").calls_order(KF, bound=False) is None
