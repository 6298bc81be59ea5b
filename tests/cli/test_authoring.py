"""`lint` and `bump` as a user calls them, on git repositories with tags."""

import pytest
from cli.calls import answers, fault
from source.crates import crate, lock
from source.repositories import Repository, git

CMAKE = """\
cmake_minimum_required(VERSION 3.26)
project(up)
option(UP_FAST "Fast" ON)
include(FetchContent)
FetchContent_Declare(repo-table URL https://example.org/table/archive/v1.0.tar.gz)
FetchContent_MakeAvailable(repo-table)
"""
FILES = {
    "kernels/CMakeLists.txt": CMAKE,
    "kernels/pyproject.toml": "",
    "kernels/setup.cfg": "x = 1\n",
}
RECIPE = """\
format: 1
name: up
version: "1.0.0"
sources:
  up:
    git: {url}
    commit: {commit}   # the release
    tag: v1.0.0
    edits: [{{file: kernels/setup.cfg, find: "x = 1", replace: "x = 2"}}]
build:
  subdir: kernels
  cmake: {{UP_FAST: "OFF"}}
matrix: {{archs: ["12.0a"], cuda: ["13.0"], python: ["3.11"]}}
verify: {{require: code, extensions: {{"up/ops*.so": target}}}}
unconfirmed: ["That it compiles for 12.0a alone"]
"""


@pytest.fixture
def upstream(tmp_path):
    """A repository with the tag of the recipe."""
    found = Repository(tmp_path / "served/up")
    found.commit(FILES)
    git(found.folder, "tag", "v1.0.0")
    return found


@pytest.fixture
def write(upstream, project):
    """Write the recipe, each ``(old, new)`` done once; answers its file."""

    def call(*changes):
        commit = git(upstream.folder, "rev-parse", "v1.0.0")
        text = RECIPE.format(url=upstream.url, commit=commit)
        for old, new in changes:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        path = project / "recipes/up.yaml"
        path.write_text(text)
        return path

    return call


def release(upstream, files, tag="v1.1.0"):
    commit = upstream.commit(files)
    git(upstream.folder, "tag", "-a", tag, "-m", tag)
    return commit


def words(done):
    (answer,) = answers(done)
    return {(remark["word"], remark["place"]) for remark in answer["remarks"]}


# lint


def test_lint_says_what_the_recipe_alone_shows(call, write):
    write()
    done = call("lint", "up")
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout
        == "up: 1 remark\nunconfirmed[0]: unconfirmed: That it compiles for 12.0a alone\n"
    )
    assert done.stderr == ""


def test_lint_with_sources_reads_what_the_build_files_would_fetch(call, write):
    write(("UP_FAST", "UP_FASTER"))
    assert words(call("lint", "up", "--sources", "--json")) == {
        ("unconfirmed", "unconfirmed[0]"),
        ("download-unanswered", "up/kernels/CMakeLists.txt:5"),
        ("option-unknown", "build.cmake.UP_FASTER"),
    }


def test_lint_with_sources_tries_edits(call, write):
    write(('find: "x = 1"', 'find: "x = 7"'))
    assert ("edit-unfit", "sources.up.edits") in words(call("lint", "up", "--sources", "--json"))


def test_lint_gives_the_pin_of_crates(call, write, upstream):
    upstream.commit({"rust/Cargo.lock": lock(crate("one"))})
    git(upstream.folder, "tag", "-f", "v1.0.0")
    write()
    done = call("lint", "up", "--sources")
    assert "up/rust/Cargo.lock: crates-unpinned: names 1 crate, and" in done.stdout
    assert "add crates: {cargo: up/rust/Cargo.lock, sha256: " in done.stdout


def test_lint_of_several_recipes_is_one_answer(call, write):
    write()
    found = answers(call("lint", "tiny", "up", "--json"))
    assert [(a["recipe"], len(a["remarks"])) for a in found] == [("tiny", 0), ("up", 1)]


def test_lint_of_a_source_that_cannot_be_had(call, write):
    write(("git: file://", "git: file:///nowhere"))
    done = call("lint", "up", "--sources")
    assert done.returncode == 4
    assert "error[" in done.stderr
    assert "Traceback" not in done.stderr


def test_lint_of_a_recipe_that_is_not_there(call):
    assert "there are: tiny" in fault(call("lint", "upp"), 3, "recipe-missing")


@pytest.mark.parametrize("name", ["demo", "torch-scatter", "causal-conv1d"])
def test_of_what_ships_and_was_run_nothing_is_open(swift, tmp_path, name):
    (answer,) = answers(swift("--cache", str(tmp_path), "lint", name, "--json"))
    assert answer["remarks"] == []


NEVER_RUN = ["sgl-kernel", "sgl-kernel-0.3", "sglang", "sglang-0.5.19", "vllm"]


@pytest.mark.parametrize("name", NEVER_RUN)
def test_of_what_was_never_run_the_unconfirmed_is_listed_and_nothing_else(swift, tmp_path, name):
    (answer,) = answers(swift("--cache", str(tmp_path), "lint", name, "--json"))
    assert {remark["word"] for remark in answer["remarks"]} == {"unconfirmed"}


# bump


def test_bump_moves_pins_and_version_and_nothing_else(call, write, upstream):
    path = write()
    before = path.read_text()
    old, new = git(upstream.folder, "rev-parse", "HEAD"), release(upstream, {"README": "more"})
    done = call("bump", "up", "--to", "v1.1.0")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"up: v1.0.0 ({old[:12]}) -> v1.1.0 ({new[:12]})\n"
    after = before.replace(old, new).replace("1.0.0", "1.1.0")
    assert path.read_text() == after
    assert call("show", "up").returncode == 0


def test_bump_says_what_changed_upstream_that_the_recipe_names(call, write, upstream):
    write()
    files = {
        "kernels/CMakeLists.txt": CMAKE.replace("UP_FAST", "UP_QUICK").replace("v1.0", "v2.0"),
        "kernels/setup.cfg": "y = 1\n",
    }
    release(upstream, files)
    assert words(call("bump", "up", "--to", "v1.1.0", "--json")) == {
        ("edit-unfit", "sources.up.edits[0]"),
        ("option-gone", "build.cmake.UP_FAST"),
        ("option-new", "build.cmake"),
    }


def test_bump_says_that_the_layout_moved(call, write, upstream):
    write()
    git(upstream.folder, "mv", "kernels", "aot")
    release(upstream, {})
    (answer,) = answers(call("bump", "up", "--to", "v1.1.0", "--json"))
    moved = [remark for remark in answer["remarks"] if remark["word"] == "layout-moved"]
    assert [remark["place"] for remark in moved] == ["build.subdir"]
    assert "aot" in f"{moved[0]['text']} {moved[0]['hint']}"


def test_bump_moves_the_pin_of_crates(call, write, upstream):
    old = lock(crate("one"))
    upstream.commit({"rust/Cargo.lock": old})
    git(upstream.folder, "tag", "-f", "v1.0.0")
    path = write()
    hint = next(
        line for line in call("lint", "up", "--sources").stdout.splitlines() if "add crates" in line
    )
    line = hint[hint.index("crates: {") :]
    path.write_text(path.read_text().replace("build:\n", f"  {line}\nbuild:\n  source: up\n"))
    release(upstream, {"rust/Cargo.lock": lock(crate("one"), crate("two"))})
    assert call("bump", "up", "--to", "v1.1.0").returncode == 0
    assert line not in path.read_text()
    assert ("crates-unfit", "sources.crates") not in words(
        call("lint", "up", "--sources", "--json")
    )


def test_a_dry_run_writes_nothing(call, write, upstream):
    path = write()
    before = path.read_bytes()
    release(upstream, {"README": "more"})
    assert "-> v1.1.0" in call("bump", "up", "--to", "v1.1.0", "--dry-run").stdout
    assert path.read_bytes() == before


def test_a_tag_that_is_not_there_leaves_the_recipe(call, write):
    path = write()
    before = path.read_bytes()
    said = fault(call("bump", "up", "--to", "v9"), 4, "tag-missing")
    assert "has no tag 'v9'" in said
    assert path.read_bytes() == before


def test_a_recipe_without_a_tag_cannot_be_bumped(call):
    fault(call("bump", "tiny", "--to", "v2"), 2, "bump-source")
