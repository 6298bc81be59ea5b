"""YAML as text with lines; everything clever refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernforge.errors import RecipeError
from kernforge.recipe.yamltext import MAX_BYTES, MAX_DEPTH, parse_document


def parse(text: str | bytes):
    return parse_document(text.encode() if isinstance(text, str) else text, "f.yaml")


def test_every_scalar_stays_text():
    text = "a: yes\nb: 12.10\nc: 0x10\nd: null\ne: ~\nf: 2026-01-01\ng: 1_000\nh: .inf\ni: 1e3\n"
    assert parse(text).value == {
        "a": "yes",
        "b": "12.10",
        "c": "0x10",
        "d": "null",
        "e": "~",
        "f": "2026-01-01",
        "g": "1_000",
        "h": ".inf",
        "i": "1e3",
    }


def test_empty_is_none_and_quoted_empty_is_text():
    assert parse("a:\nb: ''\nc: \"\"\n").value == {
        "a": None,
        "b": "",
        "c": "",
    }


def test_keys_are_text():
    assert parse("12.0: a\ntrue: b\n").value == {"12.0": "a", "true": "b"}


def test_block_scalars_keep_their_lines():
    assert parse("a: |\n  x\n   y\nb: >\n  p\n  q\n").value == {"a": "x\n y\n", "b": "p q\n"}


def test_positions():
    document = parse("a: 1\nb:\n  c: [x,\n      y]\n")
    assert document.position(("a",)) == (1, 4)
    assert document.position(("b", "c"), on_key=True) == (3, 3)
    assert document.position(("b", "c", 1)) == (4, 7)


@pytest.mark.parametrize(
    ("loc", "line"),
    [(("b", "missing"), 2), (("b", "c", 7), 3), (("missing", "too"), 1)],
)
def test_the_position_of_what_is_missing_is_its_block(loc, line):
    assert parse("a: 1\nb:\n  c: [x]\n").position(loc)[0] == line


@pytest.mark.parametrize(
    ("content", "word", "line", "hint"),
    [
        ("a: b: c\n", "yaml-syntax", 1, "quotes"),
        ("a: [1\n", "yaml-syntax", 1, "close the bracket"),
        ("a: 'x\n", "yaml-syntax", 1, "close the quote"),
        ("a: @x\n", "yaml-syntax", 1, "quotes"),
        ("a: 1\n b: 2\n", "yaml-syntax", 2, "quotes"),
        ("a: 1\nb\n", "yaml-syntax", 2, "look at"),
        ("a: \x07\n", "yaml-syntax", 1, "escape"),
        ("a: 1\nb: \x00\n", "yaml-syntax", 2, "escape"),
        ("a:\n\tb: 1\n", "yaml-tab", 2, "indent with blanks"),
        ("a:\n  b: 1\n\tc: 2\n", "yaml-tab", 3, "indent with blanks"),
        ("\ta: 1\n", "yaml-tab", 1, "indent with blanks"),
        ("a: x\n\ty\n", "yaml-tab", 2, "indent with blanks"),
        (b"\xef\xbb\xbfa: 1\n", "yaml-bom", 1, "without a BOM"),
        ("a: 1\n".encode("utf-16"), "yaml-bom", 1, "without a BOM"),
        (b"a: 1\nb: \xe9\n", "yaml-encoding", 2, "as UTF-8"),
        ("a: 1\n---\nb: 2\n", "yaml-documents", 2, "file of its own"),
        ("", "yaml-empty", 1, "format: 1"),
        ("# only a comment\n", "yaml-empty", 1, "format: 1"),
        ("- a\n", "yaml-mapping", 1, "KEY: VALUE"),
        ("\njust text\n", "yaml-mapping", 2, "KEY: VALUE"),
        ("a: 1\n? [x]\n: y\n", "yaml-mapping", 2, "KEY: VALUE"),
        ("a: *x\nb: [\n", "yaml-syntax", 2, "look at"),
    ],
)
def test_not_a_document(content, word, line, hint):
    with pytest.raises(RecipeError, match=rf"^f\.yaml:{line}: ") as caught:
        parse(content)
    assert caught.value.word == word
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "word", "loc", "hint"),
    [
        ("a: &x 1\n", "yaml-anchor", ("a",), "value out"),
        ("a: *x\n", "yaml-anchor", ("a",), "value out"),
        ("a: &x [1]\n", "yaml-anchor", ("a",), "value out"),
        ("&x a: 1\n", "yaml-anchor", ("a",), "value out"),
        ("b: {a: !!int 1}\n", "yaml-tag", ("b", "a"), "leave the tag out"),
        ("a: !x {b: 1}\n", "yaml-tag", ("a",), "leave the tag out"),
        ("!!str a: 1\n", "yaml-tag", ("a",), "leave the tag out"),
        ("a: ! 1\n", "yaml-tag", ("a",), "leave the tag out"),
        ("b:\n  <<: {c: 1}\n", "yaml-merge", ("b", "<<"), "write the keys out"),
        ("a: 1\na: 2\n", "yaml-duplicate-key", ("a",), "keep one"),
        ("a: 1\n'a': {b: [1]}\n", "yaml-duplicate-key", ("a",), "keep one"),
    ],
)
def test_faults(text, word, loc, hint):
    (fault,) = parse(text).faults
    assert (fault.error.word, fault.loc) == (word, loc)
    assert hint in (fault.error.hint or "")


def test_a_duplicate_key_names_both_lines():
    (fault,) = parse("a: 1\nb: 2\n\na: 3\n").faults
    assert fault.error.message == "a second 'a'; the first stands on line 1"
    assert fault.position == (4, 1)


def test_the_first_of_two_keys_stays():
    assert parse("a: 1\na: {x: 2}\nb: 3\n").value == {"a": "1", "b": "3"}


def test_several_faults_come_together():
    found = parse("a: &x 1\na: 2\n<<: *x\nb: !t 1\n").faults
    assert {f.error.word for f in found} == {
        "yaml-anchor",
        "yaml-duplicate-key",
        "yaml-merge",
        "yaml-tag",
    }


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}")])
def test_depth(opening, closing):
    def nested(levels: int) -> str:
        return f"a: {opening * levels}x{closing * levels}\n"

    assert parse(nested(MAX_DEPTH - 1)).value
    with pytest.raises(RecipeError, match=r"^f\.yaml:1: nested deeper than 20 levels") as caught:
        parse(nested(MAX_DEPTH))
    assert caught.value.word == "yaml-deep"


def test_a_very_deep_document_is_refused_before_it_is_read():
    with pytest.raises(RecipeError, match="nested deeper"):
        parse("a: " + "[" * 100_000)


def test_size():
    assert parse(b"a: 1\n".ljust(MAX_BYTES)).value == {"a": "1"}
    with pytest.raises(RecipeError, match=r"^f\.yaml: larger than 1 MiB") as caught:
        parse(b"a: 1\n".ljust(MAX_BYTES + 1))
    assert caught.value.word == "yaml-large"


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_give_a_document_or_one_of_our_errors(data):
    try:
        document = parse(data)
    except RecipeError as error:
        assert error.word.startswith("yaml-")  # noqa: PT017 - the other outcome is asserted below
        assert error.message.startswith("f.yaml:")  # noqa: PT017
    else:
        assert isinstance(document.value, dict)


@settings(deadline=None)
@given(st.text(alphabet="ab:-[]{}&*!|>'\"#%\n\t ,?<", max_size=40))
def test_any_yaml_like_text_gives_a_document_or_one_of_our_errors(text):
    try:
        document = parse(text)
    except RecipeError as error:
        assert error.word.startswith("yaml-")  # noqa: PT017 - the other outcome is asserted below
    else:
        assert all(document.position(fault.loc)[0] >= 1 for fault in document.faults)
