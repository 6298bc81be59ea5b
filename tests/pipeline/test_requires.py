"""A recipe that needs another recipe's wheel: one links the headers that the other brings."""

import json

import pytest
from pipeline.trials import KERNEL, PYPROJECT, RECIPE, SETUP, make_trial

HEADER = "__device__ inline float twice(float x) { return 2 * x; }\n"
RECIPE_OF_HEADERS = RECIPE.replace("plain", "headers").replace("project", "headers")
HEADERS = {
    "recipes/headers.yaml": RECIPE_OF_HEADERS,
    "headers/pyproject.toml": PYPROJECT.replace("plain", "headers")
    + "[tool.setuptools.package-data]\nheaders = ['include/*.cuh']\n",
    "headers/setup.py": SETUP.replace("plain", "headers"),
    "headers/csrc/scale.cu": KERNEL,
    "headers/headers/__init__.py": (
        "from pathlib import Path\n\nINCLUDE = Path(__file__).parent / 'include'\n"
    ),
    "headers/headers/include/twice.cuh": HEADER,
}
USER = {
    "recipes/plain.yaml": RECIPE + "requires: [headers]\n",
    "project/csrc/scale.cu": """\
#include <twice.cuh>
__global__ void scale(float *x) { x[threadIdx.x] = twice(x[threadIdx.x]); }
extern "C" void tiny_scale(float *x) { scale<<<1, 32>>>(x); }
""",
}


@pytest.fixture
def trial(run, tmp_path, compiler_cache):
    found = make_trial(tmp_path, compiler_cache, run)
    found.write({**HEADERS, **USER})
    found.lock("headers", "plain")
    text = (found.root / "project/setup.py").read_text()
    text = text.replace("FLAGS = [", "import headers\n\nFLAGS = [f'-I{headers.INCLUDE}', ")
    found.write({"project/setup.py": text})
    return found


def plan(trial, *words, name="plain"):
    done = trial.run("--project", str(trial.root), "plan", name, "--json", *words)
    return done.returncode, json.loads(done.stdout)[0]


# plans: from files alone


def test_what_the_required_recipe_says_is_in_the_key(trial):
    """Its source, its options, its lock: whatever changes its wheel changes this key."""
    _, before = plan(trial)
    trial.write({"headers/headers/include/twice.cuh": HEADER.replace("2 *", "2.0f *")})
    _, after = plan(trial)
    recipe = RECIPE_OF_HEADERS.replace("  backend:", "  env: {A: b}\n  backend:")
    trial.write({"recipes/headers.yaml": recipe})
    _, third = plan(trial)
    assert len({p["recipe_key"] for p in (before, after, third)}) == 3
    names = [s["name"] for s in before["stages"]]
    differs = [
        n for n in names
        if len({s["key"] for p in (before, after) for s in p["stages"] if s["name"] == n}) == 2
    ]  # fmt: skip
    assert differs == names[names.index("env") :]


def test_what_only_judges_the_required_wheel_is_not(trial):
    _, before = plan(trial)
    recipe = RECIPE_OF_HEADERS.replace("{require: code}", "{require: runs}")
    trial.write({"recipes/headers.yaml": recipe})
    assert plan(trial)[1]["recipe_key"] == before["recipe_key"]


def test_the_target_is_handed_down(trial):
    _, one = plan(trial, "--arch", "12.0a")
    _, other = plan(trial, "--arch", "9.0")
    keys = [next(s["key"] for s in p["stages"] if s["name"] == "env") for p in (one, other)]
    assert keys[0] != keys[1]


def test_a_circle_is_told_with_its_way(trial):
    trial.write({"recipes/headers.yaml": RECIPE_OF_HEADERS + "requires: [plain]\n"})
    status, fault = plan(trial)
    assert status == 3
    assert fault["error"] == "requires-circle"
    assert "plain -> headers -> plain" in fault["message"]


def test_a_longer_circle_is_told_too(trial):
    head = RECIPE_OF_HEADERS
    trial.write(
        {
            "recipes/headers.yaml": head + "requires: [third]\n",
            "recipes/third.yaml": head.replace("name: headers", "name: third")
            + "requires: [headers]\n",
        }
    )
    status, fault = plan(trial)
    assert (status, fault["error"]) == (3, "requires-circle")
    assert "plain -> headers -> third -> headers" in fault["message"]


def test_a_recipe_that_is_not_there(trial):
    (trial.root / "recipes/headers.yaml").unlink()
    status, fault = plan(trial)
    assert status in {2, 3}
    assert fault["error"] in {"recipe-missing", "recipe-unreadable"}
    assert "headers.yaml" in fault["message"]


def test_a_required_recipe_with_torch_below_one_without(trial):
    recipe = RECIPE_OF_HEADERS.replace('python: ["3.11"]', 'python: ["3.11"], torch: ["2.14.1"]')
    trial.write({"recipes/headers.yaml": recipe})
    status, fault = plan(trial)
    assert (status, fault["error"]) == (2, "requires-torch")
    assert "plain is built without torch and requires 'headers'" in fault["message"]


def test_the_required_recipes_lock_is_missing(trial):
    (trial.root / "recipes/locks/headers/py311-cu130-linux_x86_64.lock").unlink()
    status, fault = plan(trial)
    assert (status, fault["error"]) == (5, "lock-missing")
    assert "kernforge lock headers" in fault["hint"]


# builds


@pytest.mark.build
def test_headers_of_the_required_wheel_are_compiled_against(trial):
    first = trial.build()
    assert first.archs() == {"scale.cu": ["sm_120a"]}
    assert first.made["verdict"]["passed"]
    again = trial.build()
    assert again.made["cached"] is True
    trial.write({"headers/headers/include/twice.cuh": HEADER.replace("2 *", "3 *")})
    other = trial.build().made
    assert other["cached"] is False
    assert other["key"] != first.made["key"]
    assert other["sha256"] != first.made["sha256"]


@pytest.mark.build
def test_a_required_wheel_that_falls_short_stops_the_build(trial):
    recipe = RECIPE_OF_HEADERS.replace("  backend:", "  gencode: {default: upstream}\n  backend:")
    trial.write({"recipes/headers.yaml": recipe})
    answer = trial.build()
    assert answer.status == 7
    assert answer.fault["error"] == "verdict-failed"
    assert "headers-cu130-cp311-sm120a: the wheel falls short" in answer.fault["message"]
    assert not [o for o in answer.objects if "wheel" in o]


@pytest.mark.build
def test_a_required_build_that_fails_is_told_as_its_own(trial):
    trial.write(
        {"headers/pyproject.toml": HEADERS["headers/pyproject.toml"].replace("1.2.3", "x y")}
    )
    answer = trial.build()
    assert answer.status == 6
    assert "headers-cu130-cp311-sm120a" in answer.fault["message"]
