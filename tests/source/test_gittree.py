"""Hashes of commits, trees and files, held against git's own."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from source.repositories import git

from kernforge.errors import SourceError
from kernforge.source.gittree import (
    Entry,
    check_files,
    commit_time,
    commit_tree,
    object_id,
    read_listing,
    root_hash,
    selected,
)

PARTS = st.text(st.sampled_from("ab.-0_é"), min_size=1, max_size=3).filter(
    lambda part: part.strip(".") and part.lower() != ".git"
)
PATHS = st.lists(PARTS, min_size=1, max_size=3).map("/".join)


def listing(repository):
    out = git(repository.folder, "ls-tree", "-r", "-z", "HEAD")
    return read_listing(out.encode("utf-8", "surrogateescape"))


@given(paths=st.sets(PATHS, min_size=1, max_size=8))
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_root_hash_is_gits(upstream, paths):
    kept = {p for p in paths if not any(q.startswith(f"{p}/") for q in paths)}
    upstream.history([dict.fromkeys(kept, "x")])
    assert root_hash(listing(upstream)) == git(upstream.folder, "rev-parse", "main^{tree}")


def test_order_of_files_and_folders_is_gits(upstream):
    """git sorts a folder as if its name ended in a slash."""
    upstream.commit({"a/x": "1", "a.b": "2", "a-b": "3", "a0": "4"})
    assert root_hash(listing(upstream)) == git(upstream.folder, "rev-parse", "HEAD^{tree}")


def test_commit_and_its_time(upstream):
    commit = upstream.commit({"a": "1"})
    data = git(upstream.folder, "cat-file", "commit", commit).encode() + b"\n"
    assert commit_tree(commit, data) == git(upstream.folder, "rev-parse", "HEAD^{tree}")
    assert commit_time(data) == int(git(upstream.folder, "log", "-1", "--format=%ct"))
    with pytest.raises(SourceError, match="own hash differs"):
        commit_tree(commit, data + b"x")


@pytest.mark.parametrize("data", [b"", b"tree x\n\nx", b"committer x y\n", b"committer\n"])
def test_commit_without_a_time(data):
    assert commit_time(data) is None


def entry(path, content=b"1", mode="100644"):
    return Entry(mode=mode, oid=object_id("blob", content), path=path)


class TestFiles:
    """What stands on disk against what is listed."""

    def check(self, tmp_path, *entries):
        check_files(tmp_path, "0" * 40, entries)

    def test_all_right(self, tmp_path):
        (tmp_path / "a").write_bytes(b"1")
        (tmp_path / "x").write_bytes(b"1")
        (tmp_path / "x").chmod(0o755)
        (tmp_path / "l").symlink_to("1")
        self.check(tmp_path, entry("a"), entry("x", mode="100755"), entry("l", mode="120000"))

    @pytest.mark.parametrize("mode", ["100644", "100755", "120000"])
    def test_missing(self, tmp_path, mode):
        with pytest.raises(SourceError, match="'a' has other bytes"):
            self.check(tmp_path, entry("a", mode=mode))

    @pytest.mark.parametrize(
        ("content", "mode"), [(b"2", "100644"), (b"1", "100755"), (b"1", "120000")]
    )
    def test_other(self, tmp_path, content, mode):
        (tmp_path / "a").write_bytes(content)
        with pytest.raises(SourceError, match="'a' has other bytes"):
            self.check(tmp_path, entry("a", mode=mode))

    def test_link_in_place_of_a_file(self, tmp_path):
        (tmp_path / "b").write_bytes(b"1")
        (tmp_path / "a").symlink_to("b")
        with pytest.raises(SourceError, match="'a' has other bytes"):
            self.check(tmp_path, entry("a"))


def test_listing_of_names_that_are_not_utf8():
    line = b"100644 blob " + b"1" * 40 + b"\t\xff\n\0"
    assert os.fsencode(read_listing(line)[0].path) == b"\xff\n"


def test_selected_folders_do_not_take_their_likes():
    entries = tuple(entry(path) for path in ("a/x", "ab/x", "a", "b/a"))
    assert [e.path for e in selected(entries, ("a",))] == ["a/x", "a"]
    assert selected(entries, ()) == entries
