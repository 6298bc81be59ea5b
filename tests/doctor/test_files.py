"""A hostile file system is read to an end."""

import os

import pytest

from kernforge.doctor import files
from kernforge.doctor.files import Walk, is_folder, listing, read_bytes, read_text, regular


@pytest.fixture
def odd(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    (tmp_path / "up").symlink_to(tmp_path)
    (tmp_path / "nowhere").symlink_to("/no/such/file")
    (tmp_path / "plain").write_bytes(b"a\xffb")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/file").touch()
    return tmp_path


@pytest.mark.parametrize(
    "name", ["pipe", "loop", "one", "nowhere", "up", "deep", "x\0y", "n" * 300]
)
def test_what_is_no_regular_file_is_none(odd, name):
    assert read_bytes(odd / name) is None
    assert regular(odd / name) is None


def test_text_is_bounded_and_bad_bytes_are_spelled_out(odd):
    assert read_text(odd / "plain") == "a\\xffb"
    assert read_text(odd / "plain", 1) == "a"


def test_a_listing_leaves_out_what_is_neither_file_nor_folder(odd):
    assert [one.path.name for one in listing(odd)] == ["deep", "plain", "up"]
    assert listing(odd / "plain") is None
    assert listing(odd / "missing") is None
    assert is_folder(odd / "up")
    assert not is_folder(odd / "loop")


def test_a_walk_follows_no_link(odd):
    walk = Walk(odd)
    assert [one.path.name for one in walk] == ["plain", "file"]
    assert walk.whole


def test_a_walk_ends_and_says_that_it_did(odd, monkeypatch):
    monkeypatch.setattr(files, "WALK_LIMIT", 2)
    walk = Walk(odd)
    assert len(list(walk)) <= 2
    assert not walk.whole


def test_skipped_folders(odd):
    assert [one.path.name for one in Walk(odd, frozenset({"deep"}))] == ["plain"]
