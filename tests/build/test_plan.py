"""Plans: keys that cover what decides a result, and nothing else. No file is read."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernforge.build.plan import Inputs, SourceInput, cuda_place, make_plan
from kernforge.recipe.load import read_recipe
from kernforge.recipe.matrix import expand
from kernforge.toolchain.lock import HEAD, read_lock
from kernforge.toolchain.sandbox import KF, real_layout

PLAIN = {
    "format": 1,
    "name": "demo",
    "version": "1.2.3",
    "sources": {"demo": {"path": "examples/demo"}},
    "matrix": {"archs": ["12.0a"], "cuda": ["13.0"], "python": ["3.11"]},
}
LOCK = f"{HEAD}\nninja==1.13.2 --hash=sha256:{'a' * 64}\n"
SOURCE = SourceInput(name="demo", pins='["path","t1"]', place="demo")


def inputs(**changes):
    lock = read_lock(Path("demo.lock"), changes.pop("lock", LOCK))
    values = {"sources": (SOURCE,), "lock": lock, "epoch": 1, **changes}
    return Inputs(**values)


def plan(given_inputs=None, layout=KF, **recipe):
    (job,) = expand(read_recipe({**PLAIN, **recipe}, where="demo.yaml"))
    return make_plan(job, given_inputs or inputs(), layout)


def matrix(**changes):
    return {"matrix": {**PLAIN["matrix"], **changes}}


SAME = plan()


def test_stages_are_chained_and_the_last_key_is_the_recipes():
    names = [stage.name for stage in SAME.stages]
    assert names == ["fetch", "patch", "env", "build", "pack"]
    assert SAME.recipe_key == SAME.stage("pack").key
    assert len({stage.key for stage in SAME.stages}) == len(names)
    assert [stage.name for stage in SAME.stages if stage.command] == ["build"]


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({"build": {"env": {"CPLUS_INCLUDE_PATH": "/kf/cuda/include/cccl"}}}, "build"),
        ({"build": {"cmake": {"A": "1"}}}, "build"),
        ({"build": {"config_settings": {"a": "1"}}}, "build"),
        ({"build": {"gencode": {"default": "upstream"}}}, "build"),
        ({"build": {"gencode": {"default": "replace", "*/x/*": "filter"}}}, "build"),
        ({"build": {"backend": "setuptools"}}, "build"),
        ({"build": {"toolkit": "host"}}, "build"),
        ({"build": {"subdir": "python"}}, "build"),
        ({"version": "1.2.4"}, "build"),
        (matrix(archs=["12.0"]), "build"),
        (matrix(archs=["12.0a+PTX"]), "build"),
        (matrix(torch=["2.14.1"]), "build"),
        (matrix(python=["3.12"]), "env"),
        ({"distribution": "other"}, "pack"),
        ({"publish": {"local_version": "cu{cuda}"}}, "pack"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_decides_a_result_is_in_its_key(changes, first):
    """Field case 45 among them: the recipe's way to the moved headers changes the key."""
    other = plan(**changes)
    differs = [s.name for s in SAME.stages if other.stage(s.name).key != s.key]
    names = [stage.name for stage in SAME.stages]
    assert differs == names[names.index(first) :]


@pytest.mark.parametrize(
    "changes",
    [
        {"verify": {"require": "code"}},
        {"summary": "other words"},
        {"build": {"memory": "8 GiB"}},
    ],
)
def test_what_decides_nothing_is_not(changes):
    assert plan(**changes).recipe_key == SAME.recipe_key


@pytest.mark.parametrize(
    "text", ["8.6;12.0", "8.6 12.0", "12.0,8.6", "8.6; 12.0;", "12.0 8.6 12.0"]
)
def test_every_spelling_of_a_list_has_one_key(text):
    """Field case 4: separators, order and repetition mean nothing."""
    assert plan(**matrix(archs=[text])).recipe_key == plan(**matrix(archs=["8.6;12.0"])).recipe_key


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({"sources": (replace(SOURCE, pins='["path","t2"]'),)}, "fetch"),
        ({"sources": (replace(SOURCE, patches=(("a.patch", "0" * 64),)),)}, "patch"),
        ({"sources": (replace(SOURCE, edits='[{"file":"a"}]'),)}, "patch"),
        ({"lock": LOCK.replace("a" * 64, "b" * 64)}, "env"),
        ({"lock": LOCK.replace("1.13.2", "1.13.1")}, "env"),
        ({"requires": (("other", "k1"),)}, "env"),
    ],
)
def test_inputs_that_were_read_are_in_keys(changes, first):
    other = plan(inputs(**changes))
    differs = [s.name for s in SAME.stages if other.stage(s.name).key != s.key]
    assert differs[0] == first
    assert differs[-1] == "pack"


def test_another_wheel_of_a_required_recipe_is_another_key():
    first, second = (plan(inputs(requires=(("other", key),))) for key in ("k1", "k2"))
    assert first.stage("fetch").key == second.stage("fetch").key
    assert first.stage("env").key != second.stage("env").key


@pytest.mark.parametrize(
    "other",
    [
        lambda: plan(layout=real_layout(1000)),
        lambda: plan(inputs(epoch=2)),
        lambda: plan(inputs(epoch=None)),
        lambda: plan(inputs(lock=LOCK.replace(HEAD, f"{HEAD}\n# for: another title"))),
    ],
    ids=["layout", "epoch", "no epoch", "title of the lock"],
)
def test_no_key_depends_on_places_or_dates(other):
    assert other().recipe_key == SAME.recipe_key


@given(st.permutations([("*/a/*", "filter"), ("*/b/*", "upstream"), ("default", "replace")]))
def test_the_order_of_policies_means_nothing(policies):
    first = plan(build={"gencode": dict(policies)})
    second = plan(build={"gencode": dict(reversed(policies))})
    assert first.recipe_key == second.recipe_key


def test_the_root_of_wheels_and_of_the_host():
    assert cuda_place(SAME.job) == "env/lib/python3.11/site-packages/nvidia/cu13"
    assert cuda_place(plan(build={"toolkit": "host"}).job) == "cuda"


def test_parts_are_readable():
    parts = json.loads(SAME.stage("build").parts)
    assert parts["archs"] == ["12.0a"]
    assert parts["gencode"]["archs"] == [{"code": "120a", "ptx": False}]
