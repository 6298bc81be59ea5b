import hashlib
import io
import mmap
import struct
import zipfile

import pytest

from kernforge.binary.archive import list_members, locate, overlapping, peek, read_member
from kernforge.binary.findings import GarbledError

BIG = bytes(range(256)) * (40 << 12)  # 40 MiB: unpacked in blocks, digests beside


def archive(tmp_path, files, method=zipfile.ZIP_DEFLATED):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", method) as out:
        for name, data in files.items():
            out.writestr(name, data)
    return path


def mapped(path):
    with path.open("rb") as stream:
        return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)


def members(path):
    data = mapped(path)
    return data, {i.filename: locate(data, i) for i in list_members(path)}


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("content", [b"", b"x", b"\x7fELFabc" * 999, BIG])
def test_members_come_out_as_they_went_in(tmp_path, method, content):
    data, found = members(archive(tmp_path, {"d/f": content}, method))
    read = read_member(data, found["d/f"])
    assert bytes(read.data) == content
    assert read.sha256 == hashlib.sha256(content).digest()
    assert peek(data, found["d/f"]) == content[:4]


def test_folders_are_left_out(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as out:
        out.mkdir("d")
        out.writestr("d/f", b"1")
    assert [i.filename for i in list_members(path)] == ["d/f"]


@pytest.mark.parametrize("data", [b"", b"not a zip", b"PK\x05\x06" + bytes(18) + b"x" * 9])
def test_what_is_no_archive_is_refused_or_empty(tmp_path, data):
    path = tmp_path / "a.zip"
    path.write_bytes(data)
    if data.startswith(b"PK"):
        assert list_members(path) == ()
        return
    with pytest.raises(GarbledError, match="no readable zip directory"):
        list_members(path)


def _spoil(path, offset, value):
    data = bytearray(path.read_bytes())
    data[offset : offset + len(value)] = value
    path.write_bytes(data)


@pytest.mark.parametrize("content", [b"abcd" * 999, BIG])
def test_a_member_that_does_not_unpack_is_refused(tmp_path, content):
    path = archive(tmp_path, {"f": content})
    _spoil(path, 32, b"\xff" * 9)
    data, found = members(path)
    with pytest.raises(GarbledError, match="'f'") as caught:
        read_member(data, found["f"])
    assert caught.value.word == "member-garbled"


def _directory_field(path, offset, form, value):
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02")
    struct.pack_into(form, data, at + offset, value)
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("offset", "form", "value", "word"),
    [
        (8, "<H", 1, "member-unsupported"),
        (10, "<H", 12, "member-unsupported"),
        (24, "<I", 0xFFFFFFF0, "member-bomb"),
        (20, "<I", 0x0FFFFFFF, "member-garbled"),
        (42, "<I", 5, "member-garbled"),
        (42, "<I", 0x0FFFFFFF, "member-garbled"),
    ],
)
def test_a_directory_that_lies_is_refused(tmp_path, offset, form, value, word):
    path = archive(tmp_path, {"f": b"abcd" * 999})
    _directory_field(path, offset, form, value)
    with pytest.raises(GarbledError, match=r"'f'|no readable zip") as caught:
        members(path)
    assert caught.value.word in {word, "archive-garbled"}


@pytest.mark.parametrize("size", [100, 3995, 3997, 9000])
def test_a_member_of_another_size_than_it_declares_is_refused(tmp_path, size):
    path = archive(tmp_path, {"f": b"abcd" * 999})
    _directory_field(path, 24, "<I", size)
    data, found = members(path)
    with pytest.raises(GarbledError, match="bytes unpacked") as caught:
        read_member(data, found["f"])
    assert caught.value.word == "member-garbled"


def test_a_wrong_checksum_is_refused(tmp_path):
    path = archive(tmp_path, {"f": b"abcd"}, zipfile.ZIP_STORED)
    _directory_field(path, 16, "<I", 7)
    data, found = members(path)
    with pytest.raises(GarbledError, match="'f' does not have the CRC"):
        read_member(data, found["f"])


def test_a_bomb_is_refused_before_memory_is_taken(tmp_path):
    """A gigabyte of zeros deflates to a megabyte."""
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out, out.open("f", "w") as member:
        for _ in range(256):
            member.write(bytes(1 << 20))
    with pytest.raises(GarbledError, match="bytes claim to hold 268435456") as caught:
        members(path)
    assert caught.value.word == "member-bomb"


def test_members_that_share_bytes_are_found(tmp_path):
    data, found = members(archive(tmp_path, {"a": b"abcd" * 99, "b": b"x" * 99}))
    assert overlapping(tuple(found.values())) == ()
    double = dict.fromkeys(("a",), found["a"]) | {"c": found["a"]}
    assert overlapping(tuple(double.values())) == ("a",)
    del data


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_peek_at_garbage_is_empty_or_garbage(tmp_path, method):
    path = archive(tmp_path, {"f": b"\x7fELF" * 99}, method)
    _spoil(path, 31, b"\xff" * 8)
    data, found = members(path)
    assert peek(data, found["f"]) in {b"", b"\xff" * 4}


def test_cut_archives_never_end_in_another_error(tmp_path):
    whole = archive(tmp_path, {"f": b"abcd" * 99, "g": b"1"}).read_bytes()
    path = tmp_path / "cut.zip"
    for size in range(0, len(whole), 3):
        path.write_bytes(whole[size:])
        try:
            data, found = members(path) if size < len(whole) - 1 else (None, {})
            for member in found.values():
                read_member(data, member)
        except GarbledError:
            continue
    assert zipfile.is_zipfile(io.BytesIO(whole))
