"""Control groups of both versions, and the processors that they leave."""

import os
from pathlib import Path

import pytest

from kernforge.build.groups import own_groups
from kernforge.build.processors import usable_processors, within_quota


def tree(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_groups_of_version_1(tmp_path):
    tree(tmp_path, {"memory/a/b/memory.limit_in_bytes": "5", "memory/memory.limit_in_bytes": "9"})
    groups = own_groups("memory", "5:cpu:/x\n4:memory:/a/b\n0::/\n", tmp_path)
    assert [g.folder.name for g in groups] == ["b", "a", "memory"]
    assert {g.version for g in groups} == {1}


def test_groups_of_version_2(tmp_path):
    tree(tmp_path, {"cgroup.controllers": "cpu memory", "user/job/memory.max": "max"})
    groups = own_groups("memory", "0::/user/job\n", tmp_path)
    assert [g.folder.relative_to(tmp_path) for g in groups][:2] == [Path("user/job"), Path("user")]
    assert {g.version for g in groups} == {2}


def test_a_path_that_only_the_host_knows(tmp_path):
    tree(tmp_path, {"memory/memory.limit_in_bytes": "7"})
    groups = own_groups("memory", "4:memory:/docker/0123\n", tmp_path)
    assert [g.folder.name for g in groups] == ["memory"]


@pytest.mark.parametrize("text", ["", "garbage", "1:name=systemd:/\n"])
def test_no_memory_group(text, tmp_path):
    assert own_groups("memory", text, tmp_path) == ()


def test_controllers_that_share_a_mount(tmp_path):
    tree(tmp_path, {"cpu,cpuacct/a/cpu.cfs_quota_us": "-1"})
    groups = own_groups("cpu", "2:cpu,cpuacct:/a\n", tmp_path)
    assert [g.folder.name for g in groups] == ["a", "cpu,cpuacct"]


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({"cpu.max": "max 100000"}, 64),
        ({"cpu.max": "400000 100000"}, 4),
        ({"cpu.max": "150000 100000"}, 2),  # what is begun counts
        ({"cpu.max": "10000 100000"}, 1),
        ({"cpu.max": "25600000 100000"}, 64),  # more than there are
        ({"cpu.max": "max 100000", "../cpu.max": "300000 100000"}, 3),  # the group above
        ({"cpu.max": ""}, 64),
        ({"cpu.max": "4 0"}, 64),
        ({}, 64),
    ],
)
def test_a_quota_of_time_is_a_number_of_processors(files, left, tmp_path):
    tree(
        tmp_path, {"cgroup.controllers": "cpu memory"} | {f"job/x/{k}": v for k, v in files.items()}
    )
    (tmp_path / "job/x").mkdir(parents=True, exist_ok=True)
    assert within_quota(64, own_groups("cpu", "0::/job/x\n", tmp_path)) == left


@pytest.mark.parametrize(("quota", "left"), [("-1", 64), ("400000", 8), ("1", 1)])
def test_a_quota_of_version_1(quota, left, tmp_path):
    tree(tmp_path, {"cpu/x/cpu.cfs_quota_us": quota, "cpu/x/cpu.cfs_period_us": "50000"})
    assert within_quota(64, own_groups("cpu", "1:cpu:/x\n", tmp_path)) == left


def test_what_may_be_used_here():
    assert 1 <= usable_processors() <= len(os.sched_getaffinity(0))
