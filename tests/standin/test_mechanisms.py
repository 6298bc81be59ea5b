"""The stand-in builds, and each treatment of its recipe is needed: taken away, the build fails.

The recipe is made in `maker.py`; what each mechanism is stands in the fixture's README.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from projects import share_toolchain
from standin.maker import make_standin

from kernforge.binary.wheel import read_wheel
from kernforge.recipe.load import load_recipe

pytestmark = [pytest.mark.build, pytest.mark.xdist_group("standin")]

COMMON = "standin_kernel/sm100/common_ops.abi3.so"
LATENT = "standin_kernel/latent_ops.abi3.so"


@pytest.fixture(scope="module")
def standin(tmp_path_factory):
    return make_standin(tmp_path_factory.mktemp("standin"))


@pytest.fixture(scope="module")
def cache(standin, tmp_path_factory, compiler_cache, toolkit):
    return share_toolchain(tmp_path_factory.mktemp("cache") / "c", compiler_cache)


@pytest.fixture
def build(standin, cache, run):
    """Build with the recipe changed; offline where all was fetched before."""

    def call(*changes, words=("--arch", "12.0a")):
        standin.recipe(*changes)
        place = ("--project", str(standin.project), "--cache", str(cache))
        return run(*place, "build", "standin", "--json", *words)

    return call


@pytest.fixture(scope="module")
def plain(standin, cache, run):
    """The untouched recipe's answer for 12.0a, built offline after a fetch."""
    standin.recipe()
    place = ("--project", str(standin.project), "--cache", str(cache))
    fetched = run(*place, "fetch", "standin")
    assert fetched.returncode == 0, fetched.stderr
    done = run(*place, "build", "standin", "--arch", "12.0a", "--offline", "--json")
    assert done.returncode == 0, done.stderr
    (answer,) = json.loads(done.stdout)
    return answer


def libraries(document):
    return {library.path: library for library in read_wheel(Path(document["wheel"])).libraries}


def archs(library):
    return {image.label for image in library.images}


def failed(done, word, exit_code=6):
    assert done.returncode == exit_code, done.stderr
    assert f"error[{word}]" in done.stderr, done.stderr
    return done.stderr


def faults(done):
    assert done.returncode == 7, done.stderr
    return {
        (fault["word"], fault["text"]) for fault in json.loads(done.stdout)[0]["verdict"]["faults"]
    }


def test_it_builds_offline_for_12_0_whatever_its_gencode_lists_say(plain):
    found = libraries(plain)
    assert set(found) == {LATENT, COMMON, COMMON.replace("sm100", "sm90")}
    assert archs(found[COMMON]) == {"12.0a"}
    assert plain["verdict"]["passed"] is True


def test_it_builds_for_two_archs_from_sources_that_the_first_build_edited(plain, build):
    """The archive is edited in place at configure time, and an edit done twice is an error."""
    done = build(words=("--arch", "9.0;12.0a", "--offline"))
    assert done.returncode == 0, done.stderr
    (answer,) = json.loads(done.stdout)
    assert archs(libraries(answer)[COMMON]) == {"9.0", "12.0a"}


def test_left_alone_its_lists_rule(plain, build):
    done = build(("default: replace", "default: upstream"))
    (answer,) = json.loads(done.stdout)
    assert archs(libraries(answer)[COMMON]) == {"9.0", "10.0f", "12.0a"}


def test_an_empty_cuda_version_drops_a_kernel_that_the_recipe_requires(plain, build):
    done = build(('    CUDA_VERSION: "{cuda}"\n', ""))
    ((_word, text),) = {item for item in faults(done) if item[0] == "kernel-missing"}
    assert "standin_nvfp4_quant_kernel" in text


def test_without_the_patch_the_tree_kernel_is_missing(plain, build):
    done = build(("    patches: [standin/0001-build-the-tree.patch]\n", ""))
    words = {(word, "standin_build_tree_kernel" in text) for word, text in faults(done)}
    assert words == {("kernel-missing", True)}


def test_the_module_for_9_0_cannot_be_compiled_for_12_0(plain, build):
    done = build((', "*latent*": upstream', ""))
    assert done.returncode == 6
    assert "wgmma.fence" in done.stderr
    assert "sm_120a" in done.stderr


def test_upstreams_switch_keeps_flash_ops_out(plain, build):
    done = build(('    STANDIN_ENABLE_FA3: "OFF"\n', ""))
    assert done.returncode == 6
    assert "flash.cu" in done.stderr


def test_a_module_that_no_pattern_names_fails(plain, build):
    done = build(('    "standin_kernel/latent_ops*.so": ["9.0a", "10.0f"]\n', ""))
    assert {word for word, _ in faults(done)} == {"extension-unnamed"}


def test_a_module_that_claims_to_serve_12_0_fails(plain, build):
    done = build(('latent_ops*.so": ["9.0a", "10.0f"]', 'latent_ops*.so": target'))
    found = faults(done)
    assert ("target-missing", f"{LATENT}: the target 12.0a was asked for and is not in it") in found


@pytest.mark.parametrize("name", ["repo-tinytable", "repo-tilelib"])
def test_without_a_copy_cmake_wants_the_network(plain, build, name):
    done = build((f"    fetchcontent: {name}\n", ""))
    assert name in failed(done, "network-wanted")


def test_without_the_policy_minimum_cmake_refuses_the_third_party(plain, build):
    failed(build(('    CMAKE_POLICY_VERSION_MINIMUM: "3.5"\n', "")), "cmake-policy")


def test_without_the_submodule_a_header_is_missing(plain, build):
    done = build(("submodules: true", "submodules: false"))
    assert "rounding/rounding.cuh" in failed(done, "header-missing")


def test_without_the_sibling_folder_a_header_is_missing(plain, build):
    done = build(("sparse: [kernels/aot, kernels/jit]", "sparse: [kernels/aot]"))
    assert "standin/vec.cuh" in failed(done, "header-missing")


def test_the_wide_kernel_only_traps_on_12_0(plain):
    (image,) = [i for i in libraries(plain)[COMMON].images if "wide" in i.kernels[0].name]
    assert image.label == "12.0a"
    assert image.kernels[0].traps > 0
    assert {k.traps for i in libraries(plain)[COMMON].images for k in i.kernels if i != image} == {
        0
    }


def test_its_modules_are_stable_abi_and_want_the_driver(plain):
    found = libraries(plain)
    assert {path.rpartition("/")[2].split(".", 1)[1] for path in found} == {"abi3.so"}
    assert all("libcuda.so.1" in library.elf.needed for library in found.values())
    assert "-cp310-abi3-linux" in plain["wheel"]


def test_a_plan_needs_no_network_and_no_tool(plain, standin, cache):
    """After a fetch the plan is made of files alone; its key is that of the build."""
    standin.recipe()
    words = ["--project", str(standin.project), "--cache", str(cache), "plan", "standin", "--json"]
    done = subprocess.run(
        ["unshare", "-rn", sys.executable, "-m", "kernforge", *words, "--arch", "12.0a"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["recipe_key"] == plain["recipe_key"]


def test_a_layout_that_moved_is_told_before_the_environment_is_made(plain, build):
    said = failed(build(("subdir: kernels/aot", "subdir: standin-kernel")), "subdir-missing", 4)
    assert "build.subdir 'standin-kernel' of source 'standin' is not there" in said
    assert "projects lie in: kernels/aot" in said
    assert ": env " not in said


def test_an_option_that_upstream_renamed_stops_it_before_it_compiles(plain, build):
    change = ('STANDIN_ENABLE_FA3: "OFF"', 'STANDIN_ENABLE_FLASH: "OFF"')
    done = build(change)
    said = failed(done, "option-unused")
    assert "nothing reads build.cmake STANDIN_ENABLE_FLASH" in said
    assert ".cu" not in said


def test_the_recipe_says_what_it_pins(standin):
    recipe = load_recipe(standin.recipe())
    assert [source.KIND for _, source in recipe.sources] == ["git", "archive", "git"]
