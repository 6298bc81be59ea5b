"""Targets, jobs, their names, and the choice of jobs."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernforge.arch import format_archs, parse_archs
from kernforge.errors import RecipeError
from kernforge.recipe.matrix import (
    Job,
    Target,
    cuda_error,
    expand,
    expand_local,
    expand_text,
    lock_name,
    matrix_faults,
    retarget,
    targets,
)
from kernforge.recipe.model import Matrix, Recipe


def target(**changes: object) -> Target:
    plain = {"archs": "9.0;12.0a", "python": "3.11", "torch": "2.14.1", "cuda": "13.0"}
    plain |= {"platform": "linux_x86_64"} | changes
    return Target(**plain | {"archs": parse_archs(plain["archs"])})


def matrix(**changes: object) -> Matrix:
    plain = {"archs": ["12.0a"], "cuda": ["13.0"], "python": ["3.11"]}
    return Matrix.model_validate(plain | changes)


def short(found: Target) -> tuple[str, ...]:
    return format_archs(found.archs), found.cuda, found.torch or "", found.python


@pytest.mark.parametrize(
    ("changes", "expected", "lock"),
    [
        ({}, "demo-cu130-torch2.14.1-cp311-sm90.120a", "py311-torch2.14.1-cu130-linux_x86_64.lock"),
        ({"torch": None}, "demo-cu130-cp311-sm90.120a", "py311-cu130-linux_x86_64.lock"),
        (
            {"archs": "12.0a+PTX", "torch": None, "python": "3.9", "cuda": "12.8"},
            "demo-cu128-cp39-sm120aptx",
            "py39-cu128-linux_x86_64.lock",
        ),
        (
            {"platform": "linux_aarch64", "torch": None},
            "demo-cu130-cp311-sm90.120a-linux_aarch64",
            "py311-cu130-linux_aarch64.lock",
        ),
    ],
)
def test_names(make_recipe, changes, expected, lock):
    job = Job(recipe=make_recipe(), target=target(**changes))
    assert job.id == expected
    assert lock_name(job.target) == lock


def test_combinations_in_the_order_written():
    found = targets(
        matrix(archs=["12.0a", "9.0"], cuda=["13.0", "12.8"], torch=["2.14.1"], python=["3.12"])
    )
    assert [short(t) for t in found] == [
        ("12.0a", "13.0", "2.14.1", "3.12"),
        ("12.0a", "12.8", "2.14.1", "3.12"),
        ("9.0", "13.0", "2.14.1", "3.12"),
        ("9.0", "12.8", "2.14.1", "3.12"),
    ]


def test_exclude_then_include():
    found = targets(
        matrix(
            archs=["12.0a", "9.0"],
            python=["3.11", "3.12"],
            exclude=[{"archs": "9.0", "python": "3.11"}],
            include=[{"archs": "9.0,12.0a", "cuda": "13.0", "python": "3.13", "torch": "2.14.1"}],
        )
    )
    assert [short(t) for t in found] == [
        ("12.0a", "13.0", "", "3.11"),
        ("12.0a", "13.0", "", "3.12"),
        ("9.0", "13.0", "", "3.12"),
        ("9.0;12.0a", "13.0", "2.14.1", "3.13"),
    ]


def test_exclude_compares_archs_as_lists():
    kept = targets(matrix(archs=["9.0;12.0a", "9.0"], exclude=[{"archs": "12.0a 9.0"}]))
    assert [short(t)[0] for t in kept] == ["9.0"]


def test_include_alone_is_a_matrix():
    alone = Matrix.model_validate({"include": [{"archs": "9.0", "cuda": "13.0", "python": "3.11"}]})
    assert matrix_faults(alone) == ()
    assert [short(t) for t in targets(alone)] == [("9.0", "13.0", "", "3.11")]


@pytest.mark.parametrize(
    ("changes", "word", "loc"),
    [
        ({"archs": []}, "recipe-missing-key", ("archs",)),
        ({"platform": []}, "recipe-matrix", ("platform",)),
        ({"archs": ["9.0;12.0a", "12.0a 9.0"]}, "recipe-matrix", ("archs", 1)),
        ({"cuda": ["13.0", "13.0"]}, "recipe-matrix", ("cuda", 1)),
        ({"exclude": [{"cuda": "12.9"}]}, "recipe-matrix", ("exclude", 0)),
        ({"exclude": [{}]}, "recipe-matrix", ("exclude", 0)),
        ({"exclude": [{"cuda": "13.0"}]}, "recipe-matrix", ("exclude",)),
        (
            {"include": [{"archs": "12.0a", "cuda": "13.0", "python": "3.11"}]},
            "recipe-matrix",
            ("include", 0),
        ),
        (
            {"include": [{"archs": "9.0", "cuda": "13.0", "python": "3.11"}] * 2},
            "recipe-matrix",
            ("include", 1),
        ),
        ({"archs": ["9.0", "7.0;9.0"]}, "cuda-too-new", ("archs", 1)),
        ({"cuda": ["13.0", "12.0"]}, "cuda-too-old", ("archs", 0)),
        (
            {"include": [{"archs": "12.1", "cuda": "12.8", "python": "3.11"}]},
            "cuda-too-old",
            ("include", 0),
        ),
    ],
)
def test_faults(changes, word, loc):
    (fault,) = matrix_faults(matrix(**changes))
    assert (fault.error.word, fault.loc) == (word, loc)
    assert fault.error.hint


def test_one_arch_and_cuda_is_one_fault():
    found = matrix_faults(matrix(archs=["7.0"], python=["3.11", "3.12"], torch=["2.14.1"]))
    assert [fault.error.word for fault in found] == ["cuda-too-new"]


def test_a_recipe_that_was_not_checked_does_not_expand(make_recipe):
    plain = make_recipe().to_dict()
    plain["matrix"] = {"archs": ["7.0"], "cuda": ["13.0"], "python": ["3.11"]}
    with pytest.raises(RecipeError, match=r"CUDA 13\.0 is too new for 7\.0"):
        expand(Recipe.from_dict(plain))


@pytest.mark.parametrize(
    ("arch", "cuda", "word"),
    [
        ("12.0a", "12.6", "cuda-too-old"),
        ("12.0f", "12.8", "cuda-too-old"),
        ("6.1", "13.0", "cuda-too-new"),
        ("10.1", "13.0", "cuda-too-new"),
    ],
)
def test_cuda_error(arch, cuda, word):
    error = cuda_error(parse_archs(arch)[0], cuda)
    assert error is not None
    assert error.word == word
    assert f"CUDA {cuda} is too {word.removeprefix('cuda-too-')} for {arch}" in error.message


def test_cuda_error_is_none_where_they_go_together():
    assert cuda_error(parse_archs("12.0a")[0], "12.8") is None


def test_expand_text():
    text = "{cuda} {cuda_major} {torch} {torch_minor} {python} {archs} {cmake_archs} {{x}}"
    assert expand_text(text, target(archs="12.0a+PTX 9.0"), cuda_root="/kf/cuda") == (
        "13.0 13 2.14.1 2.14 3.11 9.0;12.0a+PTX 90-real;120a {x}"
    )


def test_expand_text_without_torch():
    assert expand_text("cu{cuda}", target(torch=None), cuda_root="") == "cu13.0"


def test_expand_local():
    text = "cu{cuda}.torch{torch_minor}.{torch}.py{python}.sm{archs}"
    assert expand_local(text, target()) == "cu130.torch2.14.2.14.1.py311.sm90.120a"


@pytest.fixture
def jobs(make_recipe):
    wide = {"archs": ["12.0a", "9.0;12.0a"], "cuda": ["13.0"], "python": ["3.11", "3.12"]}
    return expand(make_recipe(matrix=wide))


def ids(found: tuple[Job, ...]) -> list[str]:
    return [job.id for job in found]


@pytest.mark.parametrize(
    ("archs", "python", "expected"),
    [
        (None, None, ["cp311-sm120a", "cp312-sm120a", "cp311-sm90.120a", "cp312-sm90.120a"]),
        ("12.0a", None, ["cp311-sm120a", "cp312-sm120a"]),
        ("12.0a 9.0", "3.12", ["cp312-sm90.120a"]),
        ("8.9", None, ["cp311-sm89", "cp312-sm89"]),
        ("12.0a", "3.13", ["cp313-sm120a"]),
    ],
)
def test_retarget(jobs, archs, python, expected):
    found = retarget(jobs, archs=parse_archs(archs) if archs else None, python=python)
    assert ids(found) == [f"demo-cu130-{tail}" for tail in expected]


def test_retarget_goes_recipe_by_recipe(jobs, make_recipe):
    other = expand(make_recipe(name="other"))
    found = retarget((*jobs, *other), archs=parse_archs("9.0;12.0a"), python="3.11")
    assert ids(found) == ["demo-cu130-cp311-sm90.120a", "other-cu130-cp311-sm90.120a"]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"cuda": "12.0"}, "cuda-too-old"),
        ({"archs": parse_archs("7.0")}, "cuda-too-new"),
        ({"torch": "2.14.1"}, "torch-unused"),
        ({"torch": "2.14"}, "recipe-value"),
        ({"python": "py3"}, "recipe-value"),
        ({"cuda": "cu130"}, "cuda-invalid"),
    ],
)
def test_retarget_refuses(jobs, change, word):
    with pytest.raises(RecipeError, match=r"[a-z]") as caught:
        retarget(jobs, **change)
    assert caught.value.word == word


def test_retarget_changes_torch_where_there_is_one(make_recipe):
    wide = {"archs": ["12.0a"], "cuda": ["13.0"], "python": ["3.11"], "torch": ["2.14.1"]}
    found = retarget(expand(make_recipe(matrix=wide)), torch="2.15.0", cuda="13.1")
    assert ids(found) == ["demo-cu131-torch2.15.0-cp311-sm120a"]


LISTS = st.sampled_from(["9.0", "12.0a", "9.0 12.0a", "12.0a;9.0", "12.0a+PTX", "8.9"])
EXCLUDED = st.fixed_dictionaries(
    {}, optional={"archs": LISTS, "python": st.sampled_from(["3.11", "3.12"])}
)


@settings(deadline=None)
@given(
    st.lists(LISTS, min_size=1),
    st.lists(st.sampled_from(["3.11", "3.12", "3.13"]), min_size=1),
    st.lists(EXCLUDED, max_size=2),
)
def test_targets_are_distinct_and_none_is_excluded(archs, python, exclude):
    parsed = matrix(archs=archs, python=python, exclude=exclude)
    found = targets(parsed)
    assert len(set(found)) == len(found)
    for part in parsed.exclude:
        assert not any(
            (part.archs is None or t.archs == part.archs)
            and (part.python is None or t.python == part.python)
            for t in found
        )


@settings(deadline=None)
@given(st.lists(LISTS, min_size=1), st.lists(st.sampled_from(["3.11", "3.12"]), min_size=1))
def test_ids_are_distinct_and_fit_for_file_names(archs, python):
    recipe = Recipe.from_dict(
        {
            "format": 1,
            "name": "demo",
            "version": "1",
            "sources": {"demo": {"path": "a"}},
            "matrix": {"archs": archs, "cuda": ["13.0", "12.8"], "python": python},
        }
    )
    found = [Job(recipe=recipe, target=t).id for t in targets(recipe.matrix)]
    assert len(set(found)) == len(found)
    assert all(re.fullmatch(r"[a-z0-9._-]+", name) for name in found)
