"""Build IDs follow from the bytes that are shipped."""

import shutil
import subprocess

import pytest

from kernforge.pack.buildid import settle_build_id


def library(folder, name, flags=()):
    source = folder / "same.c"
    source.write_text("static int hidden(void) { return 4; }\nint f(void) { return hidden(); }\n")
    made = folder / f"{name}.so"
    words = ["gcc", "-O0", "-shared", "-fPIC", *flags, str(source), "-o", str(made)]
    subprocess.run(words, check=True)
    subprocess.run(["strip", "-x", str(made)], check=True)
    return made


def build_id(path):
    done = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True)
    lines = [line.split()[-1] for line in done.stdout.splitlines() if "Build ID" in line]
    return lines[0] if lines else None


def test_libraries_that_differ_in_nothing_else_become_equal(tmp_path):
    one = library(tmp_path, "one")
    other = library(tmp_path, "other", ["-Wl,--build-id=0x" + "ab" * 20])
    assert one.read_bytes() != other.read_bytes()
    assert settle_build_id(one)
    assert settle_build_id(other)
    assert one.read_bytes() == other.read_bytes()
    assert build_id(one) == build_id(other) != "00" * 20


def test_libraries_that_differ_keep_different_ones(tmp_path):
    one, other = library(tmp_path, "one"), library(tmp_path, "other", ["-O2"])
    for path in (one, other):
        settle_build_id(path)
    assert build_id(one) != build_id(other)


@pytest.mark.parametrize("kind", ["md5", "sha1", "uuid"])
def test_its_length_stays_and_a_second_time_changes_nothing(kind, tmp_path):
    made = library(tmp_path, "x", [f"-Wl,--build-id={kind}"])
    before = build_id(made)
    settle_build_id(made)
    once = made.read_bytes()
    settle_build_id(made)
    assert made.read_bytes() == once
    assert len(build_id(made)) == len(before)
    assert subprocess.run(["readelf", "-aW", made], capture_output=True, check=True).stderr == b""


def test_a_library_without_one_is_left(tmp_path):
    made = library(tmp_path, "x", ["-Wl,--build-id=none"])
    before = made.read_bytes()
    assert not settle_build_id(made)
    assert made.read_bytes() == before


@pytest.mark.parametrize("cut", [64, 700, -200])
def test_a_broken_file_is_left(cut, tmp_path):
    made = library(tmp_path, "x")
    broken = tmp_path / "broken.so"
    broken.write_bytes(made.read_bytes()[:cut])
    before = broken.read_bytes()
    assert not settle_build_id(broken)
    assert broken.read_bytes() == before


def test_a_note_of_another_kind_is_left(tmp_path):
    made = library(tmp_path, "x")
    data = made.read_bytes()
    at = data.index(b"GNU\0", data.index(b"\x14\0\0\0\x03\0\0\0"))
    other = tmp_path / "other.so"
    shutil.copyfile(made, other)
    other.write_bytes(data[:at] + b"XYZ\0" + data[at + 4 :])
    assert not settle_build_id(other)
