import pytest

from kernforge.binary.findings import FindingLog
from kernforge.binary.record import Row, decode, field, header_fields, read_record


def test_header_fields_with_continued_lines_and_without_the_body():
    text = "Name: demo\nLicense: one\n  two\nname: again\nno colon here\n\nBody: not a field\n"
    fields = header_fields(text)
    assert fields == (("Name", "demo"), ("License", "one\ntwo"), ("name", "again"))
    assert field(fields, "NAME") == "demo"
    assert field(fields, "Version") is None


def test_a_line_of_blanks_does_not_end_the_header():
    """As in the metadata of a published wheel, whose licence text has such lines."""
    text = "License: one\n        two\n        \n        three\nRequires-Dist: torch\n\nbody\n"
    assert field(header_fields(text), "Requires-Dist") == "torch"


@pytest.mark.parametrize("text", ["", "\n", "   \n", "  begins continued", "\tx"])
def test_headers_of_nothing(text):
    assert header_fields(text) == ()


def test_text_that_is_not_utf8_is_escaped():
    assert decode(b"a\xffb") == "a\\xffb"


def rows(text):
    log = FindingLog()
    return read_record(text, log), [f.word for f in log.all]


def test_rows_of_a_record():
    text = '"a,b.py",sha256=AAAA,3\nd/RECORD,,\nc,md5=AAAA,x\n\n'
    assert rows(text) == (
        {
            "a,b.py": Row(sha256=b"\0\0\0", size=3),
            "d/RECORD": Row(sha256=None, size=None),
            "c": Row(sha256=None, size=None),
        },
        [],
    )


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("a,b\n", "record-garbled"),
        ("a,,\na,,\n", "record-duplicate"),
        ("a" * 200_000 + ",,\n", "record-garbled"),
    ],
)
def test_lines_that_are_no_rows(text, word):
    assert rows(text)[1] == [word]


@pytest.mark.parametrize(
    ("code", "digest"), [("sha256=A", b""), ("sha256=é", b""), ("sha256=", b"")]
)
def test_a_digest_that_is_none_matches_nothing(code, digest):
    assert rows(f"a,{code},1\n")[0]["a"].sha256 == digest


@pytest.mark.parametrize("size", ["9" * 30, "-1", "x", "٣"])
def test_a_size_that_is_no_number_is_left_out(size):
    assert rows(f"a,,{size}\n")[0]["a"].size is None
