"""Whatever stands in a file's place, opening it ends."""

import os

import pytest

from kernforge.binary.library import read_library_file
from kernforge.binary.opening import open_file
from kernforge.verify.surroundings import read_dynamic


def test_a_file_and_a_link_to_one_are_read(tmp_path):
    (tmp_path / "a").write_bytes(b"text")
    (tmp_path / "b").symlink_to("a")
    for name in "ab":
        with open_file(tmp_path / name) as stream:
            assert stream.read() == b"text"


def test_a_pipe_a_device_and_a_folder_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.so")
    (tmp_path / "null.so").symlink_to("/dev/null")
    for path in (tmp_path / "pipe.so", tmp_path / "null.so", tmp_path):
        with pytest.raises(OSError, match="no regular file"):
            open_file(path)
        with pytest.raises(OSError, match="no regular file"):
            read_library_file(path, path.name)
        assert read_dynamic(path) is None
