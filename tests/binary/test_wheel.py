import pytest

from kernforge.binary.facts import State
from kernforge.binary.wheel import read_wheel
from kernforge.errors import VerifyError

from .forge import EXIT, make_container, make_cubin, make_entry, make_library, make_wheel

IMAGE = make_entry(make_cubin({"k": EXIT}), 120, suffix="a")
LIBRARY = make_library(fatbin=make_container(IMAGE))
MEMBERS = {
    "demo/__init__.py": b"",
    "demo/ops.abi3.so": LIBRARY,
    "demo/run": make_library(),
    "demo/data.bin": b"\0" * 50,
}
TAG = "demo-1.0-cp311-cp311-linux_x86_64.whl"


def words(facts):
    return [f.word for f in facts.findings]


@pytest.mark.parametrize("method", [0, 8])
def test_an_honest_wheel(tmp_path, method):
    facts = read_wheel(make_wheel(tmp_path, MEMBERS, method=method))
    assert facts.findings == ()
    assert (facts.name, facts.version, facts.build) == ("demo", "1.0", "")
    assert facts.tags == ("cp311-cp311-linux_x86_64",)
    assert facts.members == len(MEMBERS) + 3
    assert ("Name", "demo") in facts.metadata
    assert ("Root-Is-Purelib", "false") in facts.wheel
    assert [(lib.path, lib.state) for lib in facts.libraries] == [
        ("demo/ops.abi3.so", State.DEVICE_CODE),
        ("demo/run", State.HOST_ONLY),
    ]


@pytest.mark.parametrize("workers", [1, 2, 7, None])
def test_the_number_of_workers_changes_nothing(tmp_path, workers):
    members = MEMBERS | {f"demo/l{n}.so": LIBRARY[: len(LIBRARY) - n] for n in range(30)}
    path = make_wheel(tmp_path, members)
    assert read_wheel(path, workers=workers) == read_wheel(path, workers=1)


def test_the_build_tag_of_the_file_name(tmp_path):
    file = "demo-1.0-7abc-cp311-cp311-linux_x86_64.whl"
    facts = read_wheel(make_wheel(tmp_path, MEMBERS, file=file))
    assert (facts.build, facts.findings) == ("7abc", ())


def test_without_kernels(tmp_path):
    facts = read_wheel(make_wheel(tmp_path, MEMBERS), kernels=False)
    assert facts.libraries[0].images[0].kernels is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"METADATA": None}, ["text-missing", "name-differs", "version-differs"]),
        ({"WHEEL": None}, ["text-missing", "tags-differ"]),
        ({"RECORD": None}, ["text-missing"]),
        ({"METADATA": "Name: other\nVersion: 1.0\n"}, ["name-differs"]),
        ({"RECORD": "gone.py,,\n"}, ["record-unlisted"] * 6 + ["record-ghost"]),
    ],
)
def test_texts_that_are_missing_or_wrong(tmp_path, changes, expected):
    assert words(read_wheel(make_wheel(tmp_path, MEMBERS, **changes))) == expected


@pytest.mark.parametrize(
    ("row", "word"),
    [
        ("a.py,sha256=AAAA,1", "record-mismatch"),
        ("a.py,,1", "record-undigested"),
        ("a.py,sha256=ypeBEsobvcr6wjGzmiPcTaeG7_gUfE5yuYB3ha_uSLs,2", "record-mismatch"),
        ("a.py,sha256=ypeBEsobvcr6wjGzmiPcTaeG7_gUfE5yuYB3ha_uSLs,1", None),
    ],
)
def test_record_is_checked_by_digest_and_size(tmp_path, row, word):
    path = make_wheel(tmp_path, {"a.py": b"a"}, METADATA=None, WHEEL=None, RECORD=row + "\n")
    found = [w for w in words(read_wheel(path)) if w.startswith("record")]
    assert found == ([] if word is None else [word])


@pytest.mark.parametrize("name", ["/abs.py", "../up.py", "a\\b.py"])
def test_unsafe_names_are_told(tmp_path, name):
    assert "member-unsafe" in words(read_wheel(make_wheel(tmp_path, {name: b"1"})))


def test_a_member_without_a_name_is_told(tmp_path):
    path = make_wheel(tmp_path, {"q": b"1"})
    path.write_bytes(path.read_bytes().replace(b"q", b"\0"))  # names end at a zero byte
    assert "member-unsafe" in words(read_wheel(path))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_occurs_twice_is_told(tmp_path):
    import zipfile

    path = make_wheel(tmp_path, MEMBERS)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("demo/data.bin", b"other")
    assert words(read_wheel(path)) == ["member-duplicate", "record-mismatch"]


@pytest.mark.parametrize("file", ["nonsense.whl", "demo-1.0.whl", "demo-x!-cp311-cp311-any.whl"])
def test_a_file_name_that_says_nothing_is_a_finding(tmp_path, file):
    facts = read_wheel(make_wheel(tmp_path, MEMBERS, file=file))
    assert words(facts) == ["wheel-name-invalid"]
    assert (facts.name, facts.tags, len(facts.libraries)) == ("", (), 2)


def test_no_dist_info_or_two_of_them(tmp_path):
    two = make_wheel(tmp_path, {"b.dist-info/METADATA": b"", "x.py": b""})
    assert words(read_wheel(two))[0] == "dist-info"
    path = make_wheel(tmp_path, {"x.py": b""}, METADATA=None, WHEEL=None, RECORD=None)
    assert words(read_wheel(path))[0] == "dist-info"


def test_a_library_that_does_not_unpack_is_a_finding_of_that_library(tmp_path):
    path = make_wheel(tmp_path, {"a.so": LIBRARY, "b.so": LIBRARY}, method=0)
    data = bytearray(path.read_bytes())
    data[data.index(b"\x7fELF") + 100] ^= 0xFF
    path.write_bytes(data)
    facts = read_wheel(path)
    bad, good = facts.libraries
    assert [f.word for f in bad.findings] == ["member-garbled"]
    assert (bad.path, bad.state, bad.size) == ("a.so", State.UNREADABLE, len(LIBRARY))
    assert good.state is State.DEVICE_CODE
    assert words(facts) == []


def test_a_text_that_does_not_unpack_is_a_finding(tmp_path):
    path = make_wheel(tmp_path, {"notes.bin": b"spoil me"}, method=0)
    data = bytearray(path.read_bytes())
    data[data.index(b"spoil me")] ^= 0xFF
    at = data.index(b"Metadata-Version")
    data[at] ^= 0xFF
    path.write_bytes(data)
    assert words(read_wheel(path))[:2] == ["member-garbled", "member-garbled"]


def test_what_is_no_archive_is_a_finding(tmp_path):
    path = tmp_path / TAG
    path.write_bytes(b"no zip at all")
    assert words(read_wheel(path))[:2] == ["archive-garbled", "dist-info"]


@pytest.mark.parametrize("exists", [True, False])
def test_a_file_that_cannot_be_opened_is_an_error(tmp_path, exists):
    path = tmp_path / TAG
    if exists:
        path.write_bytes(b"")
    with pytest.raises(VerifyError, match="cannot be read") as caught:
        read_wheel(path)
    assert caught.value.word == "wheel-unreadable"


def test_members_of_impossible_size_are_told_and_the_rest_is_read(tmp_path):
    import struct

    path = make_wheel(tmp_path, MEMBERS)
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02")
    struct.pack_into("<I", data, at + 24, 0xFFFFFFF0)
    path.write_bytes(data)
    facts = read_wheel(path)
    assert words(facts) == ["member-bomb", "record-ghost"]
    assert len(facts.libraries) == 2


def test_members_that_share_bytes_are_refused(tmp_path):
    import struct

    path = make_wheel(tmp_path, {"a": b"1" * 999, "b": b"2" * 999})
    data = bytearray(path.read_bytes())
    first = data.index(b"PK\x01\x02")
    second = data.index(b"PK\x01\x02", first + 4)
    start = struct.unpack_from("<I", data, first + 42)[0]
    struct.pack_into("<I", data, second + 42, start)
    path.write_bytes(data)
    assert words(read_wheel(path))[0] == "member-bomb"
