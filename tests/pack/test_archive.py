import base64
import csv
import hashlib
import io
import os
import stat
import zipfile

import pytest

from kernforge.errors import VerifyError
from kernforge.pack.archive import elf_files, unpack, write_wheel

INFO = "tiny-1.dist-info"
FILES = {
    "tiny/__init__.py": b"x = 1\n",
    "tiny/lib, odd \xfc.so": b"\x7fELFrest",
    "tiny/run.sh": b"#!/bin/sh\n",
    f"{INFO}/METADATA": b"Name: tiny\n",
    f"{INFO}/RECORD": b"an old one\n",
    "zzz.pth": b"",
}


def fill(root, files=None):
    for name, data in (files or FILES).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    if files is None:
        (root / "tiny/run.sh").chmod(0o700)
    return root


def write(tree, target, **options):
    write_wheel(tree, target, **({"info_dir": INFO, "epoch": 1577836800} | options))
    return target


@pytest.fixture
def wheel(tmp_path):
    return write(fill(tmp_path / "tree"), tmp_path / "tiny-1-py3-none-any.whl")


def test_order_modes_and_times(wheel):
    with zipfile.ZipFile(wheel) as archive:
        infos = archive.infolist()
    names = [info.filename for info in infos]
    assert names == [
        *sorted(name for name in FILES if not name.startswith(INFO)), f"{INFO}/METADATA",
        f"{INFO}/RECORD",
    ]  # fmt: skip
    assert {info.date_time for info in infos} == {(2020, 1, 1, 0, 0, 0)}
    modes = {info.filename: info.external_attr >> 16 for info in infos}
    assert modes.pop("tiny/run.sh") == stat.S_IFREG | 0o755
    assert set(modes.values()) == {stat.S_IFREG | 0o644}


def test_record_lists_every_file_with_its_hash(wheel):
    with zipfile.ZipFile(wheel) as archive:
        rows = list(csv.reader(io.StringIO(archive.read(f"{INFO}/RECORD").decode())))
        assert rows[-1] == [f"{INFO}/RECORD", "", ""]
        assert [row[0] for row in rows] == archive.namelist()
        for name, digest, size in rows[:-1]:
            data = archive.read(name)
            raw = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
            assert (digest, int(size)) == (f"sha256={raw.decode()}", len(data))


def test_equal_content_gives_equal_bytes(wheel, tmp_path):
    other = tmp_path / "elsewhere" / "deep"
    old = os.umask(0o077)
    try:
        fill(other, dict(reversed(FILES.items())))
    finally:
        os.umask(old)
    (other / "tiny/run.sh").chmod(0o711)
    (other / "tiny/empty").mkdir()
    os.utime(other / "tiny/__init__.py", (1, 1))
    assert write(other, tmp_path / "other.whl").read_bytes() == wheel.read_bytes()


@pytest.mark.parametrize(
    ("epoch", "moment"),
    [
        (0, (1980, 1, 1, 0, 0, 0)),
        (1 << 40, (2107, 12, 31, 23, 59, 58)),
        (1700000001, (2023, 11, 14, 22, 13, 20)),
    ],
)
def test_times_that_a_zip_cannot_hold(tmp_path, epoch, moment):
    path = write(fill(tmp_path / "tree"), tmp_path / "x.whl", epoch=epoch)
    with zipfile.ZipFile(path) as archive:
        assert {info.date_time for info in archive.infolist()} == {moment}


def test_stored_members(tmp_path):
    path = write(fill(tmp_path / "tree"), tmp_path / "x.whl", compress=False)
    with zipfile.ZipFile(path) as archive:
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}


def test_unpack_gives_back_what_was_written(wheel, tmp_path):
    unpack(wheel, tmp_path / "out")
    again = write(tmp_path / "out", tmp_path / "again.whl")
    assert again.read_bytes() == wheel.read_bytes()
    assert (tmp_path / "out/tiny/run.sh").stat().st_mode & 0o777 == 0o755


def test_elf_files(wheel, tmp_path):
    unpack(wheel, tmp_path / "out")
    assert [path.name for path in elf_files(tmp_path / "out")] == ["lib, odd \xfc.so"]


def pack_members(path, *members):
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in members:
            archive.writestr(member, data)
    return path


def linked(name, mode):
    info = zipfile.ZipInfo(name)
    info.external_attr = (mode | 0o777) << 16
    return info


@pytest.mark.parametrize(
    ("members", "rule"),
    [
        ([("../evil", "")], "it leads outside the wheel"),
        ([("a/../../evil", "")], "it leads outside the wheel"),
        ([("/etc/evil", "")], "it leads outside the wheel"),
        ([("a\\evil", "")], "it leads outside the wheel"),
        ([("a", "1"), ("./a", "2")], "it is there twice"),
        ([("a/b", "1"), ("a//b", "2")], "it is there twice"),
        ([("a/b", ""), ("a", "")], "'a' is a file, not a folder"),
        ([(linked("link", stat.S_IFLNK), "/etc/passwd")], "it is no plain file"),
        ([(linked("pipe", stat.S_IFIFO), "")], "it is no plain file"),
    ],
)
def test_members_that_are_refused(tmp_path, members, rule):
    path = pack_members(tmp_path / "bad.whl", *members)
    with pytest.raises(VerifyError, match=rule) as caught:
        unpack(path, tmp_path / "out")
    assert caught.value.word == "wheel-member"
    assert not (tmp_path / "evil").exists()
    assert list((tmp_path / "out").iterdir()) == []


def test_a_member_twice(tmp_path):
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = pack_members(tmp_path / "bad.whl", ("a", "1"), ("a", "2"))
    with pytest.raises(VerifyError, match="'a' is refused: it is there twice"):
        unpack(path, tmp_path / "out")


def test_a_wheel_that_claims_too_much(tmp_path):
    wide = pack_members(tmp_path / "wide.whl", *((f"{n}", "x") for n in range(9)))
    data = bytearray(wide.read_bytes())
    start = 0
    while (start := data.find(b"PK\x01\x02", start)) >= 0:
        data[start + 24 : start + 28] = (0xFFFFFFF0).to_bytes(4, "little")
        start += 4
    wide.write_bytes(data)
    with pytest.raises(VerifyError, match="too many, or they are too large"):
        unpack(wide, tmp_path / "out")


def break_stream(data):
    at = 30 + len("tiny/__init__.py")
    data[at : at + 4] = b"\xff" * 4


def break_end(data):
    del data[-30:]


def break_crc(data):
    at = data.index(b"PK\x01\x02") + 16
    data[at] ^= 1


def break_encryption(data):
    for magic, place in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        data[data.index(magic) + place] |= 1


def break_method(data):
    data[data.index(b"PK\x01\x02") + 10] = 99


@pytest.mark.parametrize(
    "damage", [break_stream, break_end, break_crc, break_encryption, break_method]
)
def test_a_damaged_wheel_is_one_fault(wheel, tmp_path, damage):
    data = bytearray(wheel.read_bytes())
    damage(data)
    wheel.write_bytes(data)
    with pytest.raises(VerifyError, match="is no whole wheel") as caught:
        unpack(wheel, tmp_path / "out")
    assert caught.value.word == "wheel-unreadable"
