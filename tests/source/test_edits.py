"""Exact replacements of text in a source."""

import os

import pytest

from kernforge.errors import SourceError
from kernforge.recipe.model import Edit
from kernforge.source.edits import apply_edits
from kernforge.source.tree import tree_hash

TEXT = "find_package(CUDA)\nset(ARCHS 90)\nset(OTHER 90)\n"


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/CMakeLists.txt").write_text(TEXT)
    return tmp_path / "tree"


def edit(find="ARCHS 90", replace="ARCHS 120", count=1, file="CMakeLists.txt"):
    return Edit(file=file, find=find, replace=replace, count=count)


def refused(tree, *edits, word, match):
    before = tree_hash(tree)
    with pytest.raises(SourceError, match=match) as caught:
        apply_edits(tree, edits)
    assert caught.value.word == word
    assert tree_hash(tree) == before
    return caught.value


def test_an_edit(tree):
    (touched,) = apply_edits(tree, (edit(),))
    assert (tree / "CMakeLists.txt").read_text() == TEXT.replace("ARCHS 90", "ARCHS 120")
    assert (touched.path, touched.before != touched.after) == ("CMakeLists.txt", True)


def test_an_edit_keeps_the_executable_bit(tree):
    (tree / "CMakeLists.txt").chmod(0o755)
    apply_edits(tree, (edit(),))
    assert os.access(tree / "CMakeLists.txt", os.X_OK)


def test_edits_see_those_before_them(tree):
    apply_edits(tree, (edit(), edit(find=" 120", replace=" 121"), edit(find="90)", replace="80)")))
    assert "ARCHS 121" in (tree / "CMakeLists.txt").read_text()
    assert "OTHER 80" in (tree / "CMakeLists.txt").read_text()


def test_bytes_that_are_no_text_are_kept(tree):
    (tree / "CMakeLists.txt").write_bytes(b"\xff\r\nARCHS 90\0")
    apply_edits(tree, (edit(),))
    assert (tree / "CMakeLists.txt").read_bytes() == b"\xff\r\nARCHS 120\0"


def test_the_count_must_be_right(tree):
    match = r"edit 1 of 'CMakeLists.txt': text found 2 times, 1 expected \(lines 2, 3\)"
    refused(tree, edit(find="90"), word="edit-count", match=match)
    refused(tree, edit(count=2), word="edit-count", match="found 1 times, 2 expected")
    apply_edits(tree, (edit(find="90", replace="120", count=2),))
    assert (tree / "CMakeLists.txt").read_text() == TEXT.replace("90", "120")


def test_places_that_overlap(tree):
    (tree / "CMakeLists.txt").write_text("aaa\n")
    refused(tree, edit(find="aa", replace="b"), word="edit-count", match="found 2 times")
    refused(tree, edit(find="aa", replace="b", count=2), word="edit-count", match="overlap")


def test_all_or_nothing(tree):
    refused(
        tree,
        edit(),
        edit(find="nowhere", replace="x"),
        word="edit-count",
        match="edit 2 .* found 0 times",
    )


def test_made_already(tree):
    apply_edits(tree, (edit(),))
    refused(tree, edit(), word="edit-applied", match="the new text is there already")


def test_a_line_end_too_many(tree):
    error = refused(tree, edit(find="ARCHS 90\n"), word="edit-count", match="found 0 times")
    assert "'|-'" in error.hint


def test_other_line_ends(tree):
    (tree / "CMakeLists.txt").write_bytes(TEXT.replace("\n", "\r\n").encode())
    both = edit(find="(CUDA)\nset", replace="x\ny")
    refused(tree, both, word="edit-line-ends", match="lines of the file end with CRLF")


@pytest.mark.parametrize("find", ["", "ARCHS 120"])
def test_no_change(tree, find):
    refused(tree, edit(find=find), word="edit-noop", match="edit 1 of .* changes nothing")


def test_no_such_file(tree):
    refused(tree, edit(file="x/y"), word="edit-missing", match="'x/y' is not a file of the tree")
    (tree / "d").mkdir()
    refused(tree, edit(file="d"), word="edit-missing", match="'d' is not a file of the tree")


def test_links(tree):
    (tree / "link").symlink_to("CMakeLists.txt")
    (tree / "here").symlink_to(".")
    refused_link = pytest.raises(SourceError, match="'link' is a link")
    with refused_link as caught:
        apply_edits(tree, (edit(file="link"),))
    assert caught.value.word == "edit-path"
    with pytest.raises(SourceError, match="leads through the link 'here'"):
        apply_edits(tree, (edit(file="here/CMakeLists.txt"),))


def test_a_repository_of_the_users_own(tree):
    refused(tree, edit(file=".git/config"), word="edit-path", match="repository's own folder")


def test_no_tree(tmp_path):
    with pytest.raises(SourceError, match="is not a folder"):
        apply_edits(tmp_path / "no", (edit(),))
