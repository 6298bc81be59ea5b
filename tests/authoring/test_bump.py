"""Moving a recipe to another tag, and what is said of changes upstream."""

import pytest
from authoring.recipes import OLD, OTHER, TEXT, recipe

from kernforge.authoring.bump import bump, read_upstream, upstream_changes, upstream_of
from kernforge.errors import RecipeError, SourceError
from kernforge.recipe.load import load_recipe


class Table:
    """Tags by name, of one repository."""

    def __init__(self, **tags):
        self.tags = tags

    def commit(self, url, tag):
        assert url == "https://example.org/up"
        return self.tags.get(tag.replace(".", "_"))


TAGS = Table(v0_4_3=OTHER)


def test_pins_and_version_move_and_comments_stay(tmp_path):
    bumped = bump(TEXT, recipe(), "v0.4.3", TAGS)
    assert (bumped.old, bumped.new) == (("v0.4.2", OLD), ("v0.4.3", OTHER))
    assert f"    commit: {OTHER}   # the release\n    tag: v0.4.3\n" in bumped.text
    assert 'version: "0.4.3"   # also in version.py\n' in bumped.text
    assert bumped.remarks == ()
    (tmp_path / "shape.yaml").write_text(bumped.text)
    assert load_recipe(tmp_path / "shape.yaml").version == "0.4.3"


def test_lines_that_still_name_the_old_version_are_told():
    text = TEXT + "summary: Release 0.4.2 and not 0.4.20\n"
    (remark,) = bump(text, recipe(text), "v0.4.3", TAGS).remarks
    assert (remark.word, remark.place) == ("version-left", f"line {len(text.splitlines())}")


def test_a_version_that_is_not_the_tags_stays():
    text = TEXT.replace('version: "0.4.2"', "version: {from: upstream, expect: '0.*'}")
    assert "expect: '0.*'" in bump(text, recipe(text), "v0.4.3", TAGS).text


def test_a_tag_that_is_not_there_is_refused():
    with pytest.raises(SourceError, match=r"'https://example\.org/up' has no tag 'v9'") as error:
        bump(TEXT, recipe(), "v9", TAGS)
    assert error.value.word == "tag-missing"


def test_a_source_without_a_tag_cannot_be_moved():
    text = TEXT.replace("    tag: v0.4.2\n", "")
    with pytest.raises(RecipeError, match="source 'up' has no tag that could be moved") as error:
        bump(text, recipe(text), "v0.4.3", TAGS)
    assert error.value.word == "bump-source"


def test_a_pin_that_stands_twice_is_not_guessed_at():
    text = TEXT.replace("  repo-table:", f"  # commit: {OLD}\n  repo-table:")
    with pytest.raises(RecipeError, match="stands 2 times in the file, not once") as error:
        bump(text, recipe(text), "v0.4.3", TAGS)
    assert error.value.word == "bump-ambiguous"


CMAKE = """\
option(UP_FAST "x" ON)
FetchContent_Declare(repo-table URL https://example.org/table/archive/1.0.tar.gz
  URL_HASH SHA256={pin})
"""
CFG, LISTS = "kernels/aot/setup.cfg", "kernels/aot/CMakeLists.txt"


def tree(cmake=CMAKE, cfg="x = 1\n", folder="kernels/aot", **more):
    texts = {
        f"{folder}/CMakeLists.txt": cmake.replace("{pin}", "1" * 64),
        f"{folder}/setup.cfg": cfg,
        f"{folder}/pyproject.toml": "",
        **more,
    }
    folders = {path.rpartition("/")[0] for path in texts}
    return upstream_of(frozenset({*texts, *folders}), texts)


def changes(new, old=None, patches=None):
    found = upstream_changes(recipe(), old or tree(), new, patches or {})
    return {(remark.word, remark.place): remark for remark in found}


def test_nothing_is_said_where_nothing_changed():
    assert changes(tree(more="x")) == {}


def test_a_layout_that_moved_is_told_with_the_new_place():
    found = changes(tree(folder="python/kernels/aot"))
    assert {place for word, place in found if word == "layout-moved"} == {
        "build.subdir",
        "sources.up.sparse",
    }
    assert found["layout-moved", "build.subdir"].hint == "is it 'python/kernels/aot' now?"


def test_an_edit_whose_text_is_gone_is_told():
    found = changes(tree(cfg="x = 3\n"))
    assert (
        found["edit-unfit", "sources.up.edits[0]"].text
        == f"its text stands 0 times in {CFG!r}, not 1"
    )


def test_a_file_that_a_patch_touches_and_that_changed_is_told():
    patch = {"0001.patch": f"--- a/{LISTS}\n+++ b/{LISTS}\n@@ -1 +1 @@\n-x\n+y\n"}
    assert changes(tree(), patches=patch) == {}
    found = changes(tree(CMAKE + "# more\n"), patches=patch)
    assert found["patched-changed", "0001.patch"].text == f"{LISTS!r} changed"


def test_an_option_that_was_renamed_is_told():
    found = changes(tree(CMAKE.replace("UP_FAST", "UP_FASTER")))
    assert found["option-gone", "build.cmake.UP_FAST"].hint == "is it 'UP_FASTER' now?"
    assert found["option-new", "build.cmake"].text == "'UP_FASTER' is a new option"


def test_third_party_pins_that_moved_came_or_went_are_told():
    new = CMAKE.replace("1.0", "2.0").replace("{pin}", "2" * 64)
    found = changes(tree(new))
    assert found["pin-moved", "sources.repo-table"].text == (
        f"upstream pins https://example.org/table/archive/2.0.tar.gz 2.0 SHA256={'2' * 64}, "
        f"the recipe SHA256={'1' * 64}"
    )
    more = "FetchContent_Declare(repo-more GIT_REPOSITORY https://example.org/more GIT_TAG main)\n"
    assert (
        changes(tree(CMAKE + more))["pin-new", f"{LISTS}:4"].hint == "add fetchcontent: repo-more"
    )
    assert set(changes(tree('option(UP_FAST "x" ON)\n'))) == {("pin-gone", "sources.repo-table")}


def test_a_tree_on_disk_reads_as_its_texts(tmp_path):
    texts = {LISTS: CMAKE, CFG: "x = 1\n", "README.md": "long", "kernels/aot/pyproject.toml": ""}
    for path, text in texts.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    patch = {"0001.patch": "--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-long\n+short\n"}
    found = read_upstream(recipe(), tmp_path, patch)
    assert found.named == {CFG: "x = 1\n", "README.md": "long"}
    assert set(found.build_files) == {LISTS, "kernels/aot/pyproject.toml"}
    assert {"kernels/aot", "README.md"} <= found.paths
    assert upstream_changes(recipe(), found, found, patch) == ()
