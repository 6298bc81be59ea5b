"""What lint says of recipes and of the sources' build files."""

import pytest
from authoring.recipes import TEXT, recipe
from images import image, library
from projects import ROOT

from kernforge.authoring.buildfiles import read_build_files
from kernforge.authoring.lint import (
    lint_changes,
    lint_libraries,
    lint_options,
    lint_recipe,
    lint_sources,
    lint_tree,
)
from kernforge.recipe.load import load_recipe

STANDIN = ROOT / "tests/fixtures/standin/upstream"


def words(remarks):
    return {remark.word for remark in remarks}


def one(remarks):
    (remark,) = remarks
    return remark


def test_a_recipe_that_leaves_nothing_open_gets_no_remark():
    assert lint_recipe(recipe()) == ()


@pytest.mark.parametrize("name", ["sgl-kernel", "sgl-kernel-0.3"])
def test_of_the_flagship_only_the_unconfirmed_is_said(name):
    found = load_recipe(ROOT / f"recipes/{name}.yaml")
    remarks = lint_recipe(found)
    assert words(remarks) == {"unconfirmed"}
    assert [remark.text for remark in remarks] == list(found.unconfirmed)


@pytest.mark.parametrize(
    "address",
    [
        "https://example.org/t/archive/main.tar.gz",
        "https://example.org/t/archive/refs/heads/sgl.zip",
        "https://example.org/t/releases/latest/t.tar.gz",
        "https://example.org/nightly/t.tar.gz",
    ],
)
def test_an_archive_that_moves_is_told(address):
    found = recipe().to_dict()
    found["sources"]["repo-table"]["archive"] = address
    remark = one(lint_recipe(recipe().from_dict(found)))
    assert (remark.word, remark.place) == ("ref-moving", "sources.repo-table.archive")


def test_a_library_that_claims_less_without_a_reason_is_told():
    found = recipe().to_dict()
    found["verify"]["extensions"]["up/flash*.so"] = ["9.0a"]
    remark = one(lint_recipe(recipe().from_dict(found)))
    assert remark.word == "verify-less"
    assert remark.text == "claims 9.0a, less than the target's 12.0a"
    found["build"]["gencode"] = {"default": "replace", "*flash*": "upstream"}
    assert lint_recipe(recipe().from_dict(found)) == ()


def test_when_no_library_serves_the_target_that_is_told():
    found = recipe().to_dict()
    found["build"]["gencode"] = {"default": "upstream"}
    found["verify"]["extensions"] = {"up/ops*.so": ["9.0a"]}
    assert one(lint_recipe(recipe().from_dict(found))).text == (
        "no library is claimed to hold code for the target"
    )


@pytest.mark.parametrize(
    ("loader", "said"),
    [
        ({"default": "up/other*.so"}, "gives device 12.0 the file 'up/other*.so'"),
        ({"9.0": "up/ops*.so"}, "says nothing of device 12.0"),
    ],
)
def test_a_loader_that_gives_the_target_an_unclaimed_file_is_told(loader, said):
    found = recipe().to_dict()
    found["verify"]["loaders"] = [loader]
    remark = one(lint_recipe(recipe().from_dict(found)))
    assert remark.word == "loader-less"
    assert said in remark.text


@pytest.mark.parametrize(
    ("patch", "told"),
    [
        ("up/0.3.21/0001-x.patch", True),
        ("up/0001-v0.5.9-x.patch", True),
        ("up/0.4.2/0001-x.patch", False),
        ("up/0001-build-the-tree.patch", False),
    ],
)
def test_a_patch_named_after_another_version_is_told(patch, told):
    found = recipe().to_dict()
    found["sources"]["up"]["patches"] = [patch]
    assert words(lint_recipe(recipe().from_dict(found))) == ({"patch-version"} if told else set())


def test_the_stand_ins_downloads_are_found_until_sources_answer_them():
    files = {f"up/{path}": text for path, text in read_build_files(STANDIN).items()}
    remarks = lint_tree(recipe(), files)
    place = "up/kernels/aot/cmake/third_party.cmake"
    assert {(r.word, r.place, "moves" in r.text) for r in remarks} == {
        ("download-unanswered", f"{place}:6", False),
        ("download-unanswered", f"{place}:11", True),
    }
    found = recipe().to_dict()
    for name in ("repo-tinytable", "repo-tilelib"):
        source = {**found["sources"]["repo-table"], "fetchcontent": name.upper()}
        found["sources"][name] = source
    assert lint_tree(recipe().from_dict(found), files) == ()


def test_a_populate_with_details_of_its_own_cannot_be_answered():
    text = """\
    FetchContent_Populate(repo-table)
    FetchContent_Populate(inner  # with details
      URL https://example.org/inner.zip)
    """
    remark = one(lint_tree(recipe(), {"up/CMakeLists.txt": text}))
    assert (remark.word, remark.place) == ("populate-direct", "up/CMakeLists.txt:2")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.cmake", "ExternalProject_Add(z PREFIX z URL https://example.org/z.tgz)"),
        ("a.cmake", "file(DOWNLOAD https://example.org/z z)"),
        ("a.cmake", 'execute_process(COMMAND git clone https://example.org/z "z dir")'),
        ("a.cmake", "add_custom_target(z COMMAND curl -LO https://example.org/z)"),
        ("setup.py", "    urllib.request.urlretrieve(url, name)"),
        ("setup.py", 'subprocess.check_call(["git", "submodule", "update", "--init"])'),
    ],
)
def test_what_a_build_fetches_by_itself_is_told(path, text):
    remark = one(lint_tree(recipe(), {f"up/{path}": f"# curl -O x\n{text}\n"}))
    assert (remark.word, remark.place) == ("download-nested", f"up/{path}:2")


@pytest.mark.parametrize(
    "text",
    ["ExternalProject_Add(z SOURCE_DIR z)", "file(READ x y)", "execute_process(COMMAND git log)",
     "#[[ file(DOWNLOAD https://example.org/z z) ]]"],
)  # fmt: skip
def test_what_fetches_nothing_is_left_alone(text):
    assert lint_tree(recipe(), {"up/a.cmake": text}) == ()


@pytest.mark.parametrize(
    ("cmake", "told"),
    [
        ("if(CUDA_VERSION VERSION_GREATER_EQUAL 12.8)\nendif()\n", True),
        ('if(FALSE)\nelseif("${CUDA_VERSION}" STREQUAL "13.0")\nendif()\n', True),
        ("set(CUDA_VERSION 13.0)\nif(CUDA_VERSION)\nendif()\n", False),
        ("if(MY_CUDA_VERSION)\nendif()\nmessage(${CUDA_VERSION})\n", False),
    ],
)
def test_a_cuda_version_that_nothing_sets_is_told(cmake, told):
    """What is compared to an empty text is false, and upstream drops code for it in silence."""
    files = {"up/CMakeLists.txt": cmake, "table/CMakeLists.txt": "if(CUDA_VERSION)\nendif()\n"}
    set_there = recipe()
    left_out = recipe(TEXT, (', CUDA_VERSION: "{cuda}"', ""))
    empty = recipe(TEXT, ('CUDA_VERSION: "{cuda}"', 'CUDA_VERSION: ""'))
    assert lint_tree(set_there, files) == ()
    for text in (left_out, empty):
        found = [(r.word, r.place) for r in lint_tree(text, files)]
        assert found == (
            [("cuda-version-unset", f"up/CMakeLists.txt:{1 + cmake.startswith('if(F')}")]
            if told
            else []
        )


def test_submodules_that_a_recipe_leaves_out_are_named():
    found = recipe().to_dict()
    found["sources"]["up"]["submodules"] = False
    files = {"up/.gitmodules": '[submodule "x"]\n\tpath = extern/x\n\turl = ../x\n'}
    remark = one(lint_tree(recipe().from_dict(found), files))
    assert (remark.word, remark.text) == (
        "submodule-left-out",
        "leaves out the submodules extern/x",
    )
    assert lint_tree(recipe(), files) == ()


FILES = {"CMakeLists.txt": 'option(UP_FASTER "x" ON)\nif("${CUDA_VERSION}" GREATER 12)\nendif()\n'}


def test_an_option_that_nothing_reads_is_told_with_the_nearest():
    remark = one(lint_options(recipe(), FILES))
    assert (remark.word, remark.place) == ("option-unknown", "build.cmake.UP_FAST")
    assert remark.hint == "did you mean 'UP_FASTER'?"


def test_an_option_is_known_by_the_cache_of_a_configure_too():
    declared = "UP_FAST:BOOL=ON\n//a comment\nCUDA_VERSION:UNINITIALIZED=13.0\n"
    assert lint_options(recipe(), FILES, declared) == ()
    given = "UP_FAST:UNINITIALIZED=ON\n"
    assert one(lint_options(recipe(), FILES, given)).place == "build.cmake.UP_FAST"


def test_every_option_of_the_stand_ins_recipe_is_known():
    found = recipe().to_dict()
    found["build"]["cmake"] = dict.fromkeys(
        ("CUDA_VERSION", "STANDIN_COMPILE_THREADS", "STANDIN_ENABLE_FA3",
         "CMAKE_POLICY_VERSION_MINIMUM", "STANDIN_ENABLE_FP4"), "1")  # fmt: skip
    assert lint_options(recipe().from_dict(found), read_build_files(STANDIN)) == ()


def test_a_library_that_serves_the_target_while_less_is_claimed_is_told():
    found = recipe().to_dict()
    found["verify"]["extensions"]["up/more*.so"] = []
    known = recipe().from_dict(found)
    serving = library(image("12.0a", "k"), path="up/more.so")
    assert one(lint_libraries(known, (serving,))).place == "verify.extensions.up/more*.so"
    empty = library(image("12.0a"), path="up/more.so")
    assert lint_libraries(known, (empty,)) == ()


PATCH = b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-one\n+two\n"


def test_a_patch_or_edit_that_no_longer_fits_is_told(tmp_path):
    (tmp_path / "x").write_text("other\n")
    remark = one(lint_changes(recipe(), "up", tmp_path, (("0001.patch", PATCH),)))
    assert (remark.word, remark.place) == ("patch-unfit", "sources.up.patches")
    (tmp_path / "x").write_text("one\n")
    remark = one(lint_changes(recipe(), "up", tmp_path, (("0001.patch", PATCH),)))
    assert (remark.word, remark.place) == ("edit-unfit", "sources.up.edits")
    (tmp_path / "x").write_text("one\n")
    (tmp_path / "kernels/aot").mkdir(parents=True)
    (tmp_path / "kernels/aot/setup.cfg").write_text("x = 1\n")
    assert lint_changes(recipe(), "up", tmp_path, (("0001.patch", PATCH),)) == ()


def test_options_are_asked_about_only_where_every_source_was_read(tmp_path):
    (tmp_path / "CMakeLists.txt").write_text("project(x)\n")
    assert lint_sources(recipe(), {"up": tmp_path}) == ()
    empty = tmp_path / "table"
    empty.mkdir()
    remarks = lint_sources(recipe(), {"up": tmp_path, "repo-table": empty})
    assert {remark.place for remark in remarks} == {
        "build.cmake.UP_FAST",
        "build.cmake.CUDA_VERSION",
    }
