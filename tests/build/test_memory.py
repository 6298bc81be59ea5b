"""The budget, the control groups that bound it, and a group that really kills."""

import subprocess
import sys
from pathlib import Path

import pytest

from kernforge.build.groups import Group
from kernforge.build.memory import choose_budget, free_memory, hold, limited

GIB = 1 << 30
HOG = "import time; data = bytearray({size}); time.sleep(0.2)"


@pytest.mark.parametrize(
    ("free", "size"),
    [
        (64 * GIB, 60 * GIB),  # never more than 4 GiB in reserve
        (10 * GIB, 9 * GIB),
        (1 * GIB, GIB - (256 << 20)),
        (256 << 20, 128 << 20),  # a small machine still builds
    ],
)
def test_what_is_free_less_a_reserve(free, size):
    budget = choose_budget(free, None)
    assert (budget.size, budget.named, budget.hard) == (size, False, free)


def test_the_users_own_budget_is_taken_as_it_is():
    budget = choose_budget(2 * GIB, 64 * GIB)
    assert budget.size == 64 * GIB
    assert budget.named
    assert budget.hard > budget.size  # build tools are no compiles


def test_what_is_free_here_is_no_more_than_the_machine_has():
    total = int(Path("/proc/meminfo").read_text().split()[1]) << 10
    assert 0 < free_memory() <= total


@pytest.mark.parametrize(
    ("version", "files", "held"),
    [
        (1, {"memory.memsw.limit_in_bytes"},
         {"memory.limit_in_bytes": "7", "memory.memsw.limit_in_bytes": "7"}),
        (1, set(), {"memory.limit_in_bytes": "7"}),
        (2, {"memory.swap.max"}, {"memory.max": "7", "memory.swap.max": "0"}),
        (2, set(), {"memory.max": "7"}),
    ],
)  # fmt: skip
def test_a_group_is_held_to_memory_and_where_it_counts_swap_to_none(tmp_path, version, files, held):
    for name in files:
        (tmp_path / name).write_text("max")
    hold(Group(folder=tmp_path, version=version), 7)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == held


@pytest.mark.parametrize(
    ("version", "swap"), [(1, "memory.memsw.limit_in_bytes"), (2, "memory.swap.max")]
)
def test_swap_that_cannot_be_limited_is_no_fault(tmp_path, version, swap):
    (tmp_path / swap).mkdir()  # nobody can write it, the superuser included
    hold(Group(folder=tmp_path, version=version), 7)
    assert (tmp_path / swap).is_dir()


def run_in(group, code):
    enter = 'echo $$ > "$0" && exec "$@"'
    argv = ["/bin/sh", "-c", enter, str(group / "cgroup.procs"), sys.executable, "-c", code]
    return subprocess.run(argv, check=False).returncode


def test_a_group_kills_what_passes_its_limit_and_leaves_nothing():
    with limited(200 << 20) as group:
        if group is None:
            pytest.skip("no memory control group can be made here")
        assert run_in(group, HOG.format(size=20 << 20)) == 0
        assert run_in(group, HOG.format(size=600 << 20)) == -9
    assert not group.exists()
