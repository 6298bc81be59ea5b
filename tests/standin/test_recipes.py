"""The flagship's recipes as they are shipped: planned from files alone, every byte pinned."""

import ast
import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from projects import ROOT

from kernforge.recipe.load import load_recipe
from kernforge.recipe.matrix import expand, expand_local

NAMES = ("sgl-kernel", "sgl-kernel-0.3", "sglang", "sglang-0.5.19", "sglang-sdist", "vllm")
PLANNED = tuple(name for name in NAMES if name != "sgl-kernel-0.3")


def recipe(name):
    return load_recipe(ROOT / f"recipes/{name}.yaml")


def offline(tmp_path, *words):
    """The command line without any network, with an empty cache."""
    call = ["unshare", "-rn", sys.executable, "-m", "kernforge", "--cache", str(tmp_path / "none")]
    return subprocess.run([*call, *words], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", PLANNED)
def test_it_plans_without_network_from_an_empty_cache(name, tmp_path):
    done = offline(tmp_path, "plan", name, "--json")
    assert done.returncode == 0, done.stderr
    (plan,) = json.loads(done.stdout)
    assert re.fullmatch("[0-9a-f]{64}", plan["recipe_key"])


def test_the_kernels_plan_for_the_torch_that_sglang_0_5_19_requires(tmp_path):
    done = offline(tmp_path, "plan", "sgl-kernel", "--torch", "2.13.0", "--json")
    assert done.returncode == 0, done.stderr
    (plan,) = json.loads(done.stdout)
    assert plan["job"] == "sgl-kernel-cu130-torch2.13.0-cp311-sm120a"


def test_the_edit_asks_for_the_kernels_that_the_other_recipe_names():
    """The local version in sglang's requirement is that of the wheel which sgl-kernel makes."""
    (edit,) = dict(recipe("sglang-0.5.19").sources)["sglang"].edits
    job = replace(
        expand(recipe("sgl-kernel"))[0].target, torch=recipe("sglang-0.5.19").matrix.torch[0]
    )
    local = expand_local(recipe("sgl-kernel").publish.local_version, job)
    assert edit.replace == f'"sglang-kernel==0.4.6.post1+{local}"'


def test_where_no_lock_can_be_made_the_plan_names_the_command(tmp_path):
    done = offline(tmp_path, "plan", "sgl-kernel-0.3")
    assert done.returncode == 5
    assert "error[lock-missing]" in done.stderr
    assert "kernforge lock sgl-kernel-0.3" in done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_every_source_is_pinned_to_bytes(name):
    for source in dict(recipe(name).sources).values():
        pin = source.commit if source.KIND == "git" else source.sha256
        assert re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", pin)


def test_the_third_party_code_of_v0_5_19_is_answered_by_name():
    named = {s.fetchcontent for _, s in recipe("sgl-kernel").sources if s.fetchcontent}
    assert named == {
        "repo-cutlass", "repo-fmt", "repo-triton", "repo-flashinfer", "repo-flash-attention",
        "repo-flashmla", "repo-flashmla-cutlass",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["sgl-kernel", "sgl-kernel-0.3"])
def test_the_flagship_passes_what_upstream_reads_in_silence(name):
    cmake = dict(recipe(name).build.cmake)
    assert cmake["CUDA_VERSION"] == "{cuda}"
    assert cmake["SGL_KERNEL_COMPILE_THREADS"] == "1"
    assert cmake["ENABLE_BELOW_SM90"] == "OFF"


@pytest.mark.parametrize(
    "name", ["sgl-kernel", "sgl-kernel-0.3", "sglang", "sglang-0.5.19", "vllm"]
)
def test_what_was_never_run_says_so(name):
    assert "never run" in recipe(name).summary
    assert recipe(name).unconfirmed


@pytest.mark.parametrize("name", NAMES)
def test_the_files_that_a_recipe_names_are_there(name):
    verify = recipe(name).verify
    for path in (verify.smoke, verify.kernels and verify.kernels.accepted_gaps):
        assert path is None or (ROOT / path).is_file()


def test_the_smoke_test_cannot_be_taken_for_the_package():
    """A program is first in its own search path: named `sgl_kernel.py` it would import itself."""
    path = ROOT / recipe("sgl-kernel").verify.smoke
    assert not path.stem.isidentifier()
    ast.parse(path.read_text(encoding="utf-8"))
