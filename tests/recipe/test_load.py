"""Recipe files: what is read from them, and what is wrong with the file itself."""

import pytest

from kernforge.arch import parse_archs
from kernforge.errors import ManyErrors, RecipeError
from kernforge.recipe.load import find_recipes, load_recipe, read_recipe
from kernforge.recipe.model import (
    ArchiveSource,
    Edit,
    GitSource,
    PathSource,
    PypiSource,
    UpstreamVersion,
)

EXAMPLE = """\
# A recipe with every block.
format: 1
name: sgl-kernel
distribution: sglang-kernel
summary: Kernels of sglang
version: {from: upstream, expect: "0.4.*"}
sources:
  sglang:
    git: https://github.com/sgl-project/sglang
    commit: 0bcd822377da7b5718e674eaf9c870d349424dd1
    tag: v0.5.19
    sparse: [python/sglang/kernels]
    patches: [sgl-kernel/0001-what.patch]
    edits:
      - {file: a.cu, find: "x = 1", replace: ""}
    submodules: false
  repo-flashmla:
    archive: https://host.example/FlashMLA.tar.gz
    sha256: 77d3f1714b5903dc8f7a99fbc3a5d9a2b886e449f994b6c4b1d2feeacb467b1e
    strip: 1
    fetchcontent: repo-flashmla
  cutlass:
    pypi: cutlass-headers
    version: 4.2
    sha256: 77d3f1714b5903dc8f7a99fbc3a5d9a2b886e449f994b6c4b1d2feeacb467b1e
    into: repo-flashmla/csrc/cutlass
  extra: {path: examples/extra, exclude: ["*.md"]}
build:
  source: sglang
  subdir: python/sglang/kernels/aot
  backend: scikit-build-core
  requires: [torch, ninja>=1.11]
  toolkit: wheels
  cmake: {B_FLAG: OFF, CUDA_VERSION: "{cuda}"}
  config_settings: {build-dir: out}
  env: {MAX: 1}
  gencode: {default: replace, "*/flashmla/*": upstream}
  memory: 4 GiB
  timeout: 3600
matrix:
  archs: [12.0a, "9.0 12.0a"]
  cuda: [13.0]
  torch: [2.14.1]
  python: [3.11, 3.10]
verify:
  require: loads
  extensions: {"sgl_kernel/a*.so": target, "sgl_kernel/b*.so": [10.0f, 9.0a], "c.so": []}
  loaders: [{9.0: "sgl_kernel/sm90/*.so", default: "sgl_kernel/sm100/*.so"}]
  kernels: {required: ["*tree*"], accepted_gaps: baselines/sgl-kernel.txt}
  import: [sgl_kernel]
  smoke: smoke/sgl_kernel.py
  allow_jit: true
publish: {local_version: "cu{cuda}.torch{torch_minor}.sm{archs}"}
requires: [other]
"""


def test_the_head_of_a_recipe(write):
    recipe = load_recipe(write(EXAMPLE, "sgl-kernel.yaml"))
    assert (recipe.format, recipe.name, recipe.distribution) == (1, "sgl-kernel", "sglang-kernel")
    assert recipe.version == UpstreamVersion.model_validate({"from": "upstream", "expect": "0.4.*"})
    assert recipe.requires == ("other",)
    assert recipe.main_source == "sglang"


def test_the_sources_of_a_recipe(write):
    sources = dict(load_recipe(write(EXAMPLE, "sgl-kernel.yaml")).sources)
    kinds = {name: type(source) for name, source in sources.items()}
    assert kinds == {
        "sglang": GitSource,
        "repo-flashmla": ArchiveSource,
        "cutlass": PypiSource,
        "extra": PathSource,
    }
    assert not sources["sglang"].submodules
    assert sources["sglang"].edits == (
        Edit.model_validate({"file": "a.cu", "find": "x = 1", "replace": ""}),
    )
    assert sources["cutlass"].version == "4.2"


def test_the_blocks_of_a_recipe(write):
    recipe = load_recipe(write(EXAMPLE, "sgl-kernel.yaml"))
    assert recipe.build.cmake == (("B_FLAG", "OFF"), ("CUDA_VERSION", "{cuda}"))
    assert recipe.build.gencode == (("*/flashmla/*", "upstream"), ("default", "replace"))
    assert (recipe.build.memory, recipe.build.timeout) == (4 * 2**30, 3600)
    assert recipe.matrix.archs == (parse_archs("12.0a"), parse_archs("9.0;12.0a"))
    assert (recipe.matrix.cuda, recipe.matrix.python) == (("13.0",), ("3.11", "3.10"))
    assert dict(recipe.verify.extensions)["sgl_kernel/b*.so"] == parse_archs("9.0a 10.0f")
    assert dict(recipe.verify.extensions)["c.so"] == ()
    assert (recipe.verify.require, recipe.verify.allow_jit) == ("loads", True)
    assert recipe.verify.imports == ("sgl_kernel",)


def test_defaults(write, demo):
    recipe = load_recipe(write(demo))
    assert (recipe.distribution, recipe.summary, recipe.requires) == ("demo", None, ())
    assert (recipe.build.backend, recipe.build.toolkit) == ("scikit-build-core", "wheels")
    assert recipe.build.gencode == (("default", "replace"),)
    assert recipe.verify.require == "imports"
    assert recipe.matrix.platform == ("linux_x86_64",)
    assert recipe.main_source == "demo"


def test_a_recipe_is_hashable_and_knows_no_order_of_keys(write, demo):
    head, _, rest = demo.partition("sources:")
    lines = head.splitlines()
    other = "# comment\nsources:" + rest + "\n".join(reversed(lines)) + "\n"
    one, two = load_recipe(write(demo)), load_recipe(write(other))
    assert one == two
    assert hash(one) == hash(two)


def test_what_a_recipe_says_of_itself_reads_back(write):
    recipe = load_recipe(write(EXAMPLE, "sgl-kernel.yaml"))
    assert read_recipe(recipe.to_dict(), where="x") == recipe


def test_find_recipes_reads_nothing(write, tmp_path):
    for name in ("b.yaml", "a.yaml", ".hidden.yaml", "c.yml", "d.txt"):
        write("not: [yaml", name)
    assert find_recipes(tmp_path) == (tmp_path / "a.yaml", tmp_path / "b.yaml")
    assert find_recipes(tmp_path / "missing") == ()


@pytest.mark.parametrize("name", ["a..b.yaml", "Demo.yaml", "de mo.yaml", "-x.yaml"])
def test_the_file_name_is_a_recipe_name(faults, demo, name):
    (found,) = faults(demo, name)
    assert found[0] == "recipe-name"
    assert found[1].startswith(f"{name}: ")


def test_another_ending(write, demo):
    with pytest.raises(RecipeError, match=r"ends in \.yaml") as caught:
        load_recipe(write(demo, "demo.yml"))
    assert (caught.value.word, caught.value.hint) == ("recipe-name", "rename it to demo.yaml")


def test_a_missing_file(tmp_path):
    with pytest.raises(RecipeError, match="no such recipe") as caught:
        load_recipe(tmp_path / "demo.yaml")
    assert caught.value.word == "recipe-missing"


def test_a_folder_is_no_recipe(tmp_path):
    (tmp_path / "demo.yaml").mkdir()
    with pytest.raises(RecipeError, match="cannot be read: Is a directory") as caught:
        load_recipe(tmp_path / "demo.yaml")
    assert caught.value.word == "recipe-unreadable"


def test_plain_data_has_no_lines(demo):
    with pytest.raises(ManyErrors, match=r"^x: name: is missing\nx: ") as caught:
        read_recipe({"format": "1", "version": "1", "sources": {}, "matrix": {}}, where="x")
    assert caught.value.exit_code == 2
    assert all(error.hint for error in caught.value.errors)
