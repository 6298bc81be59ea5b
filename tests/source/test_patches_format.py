"""Reading patch files: every spelling that tools write, and what is refused by name."""

import base64
import zlib

import pytest

from kernforge.errors import SourceError
from kernforge.source.gitbinary import apply_delta, decode_line, encode, encode_line, inflate
from kernforge.source.patch import FILE, LINK, PROGRAM, Kind
from kernforge.source.patchfile import parse_patch
from kernforge.source.quoting import read_name, read_pair, write_name

HUNK = b"@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
PLAIN = b"--- a/k.cu\n+++ b/k.cu\n" + HUNK
GIT = b"diff --git a/k.cu b/k.cu\nindex 4cb29ea..f384549 100644\n" + PLAIN


def parse(data):
    return parse_patch(data, "p.patch").files


def paths(section):
    return [path.text for path in section.paths]


def refused(data, word, match):
    with pytest.raises(SourceError, match=match) as caught:
        parse(data)
    assert caught.value.word == word
    return caught.value


def test_a_section_with_all_its_parts():
    (section,) = parse(GIT)
    assert (section.kind, paths(section), section.kept_mode) == (
        Kind.MODIFY,
        ["a/k.cu", "b/k.cu"],
        FILE,
    )
    (hunk,) = section.hunks
    assert (hunk.old, hunk.new) == (
        (b"one\n", b"two\n", b"three\n"),
        (b"one\n", b"2\n", b"three\n"),
    )
    assert (hunk.old_start, hunk.old_count, hunk.new_start, hunk.new_count) == (1, 3, 1, 3)
    assert (section.at, hunk.at) == (1, 5)
    assert len({section, hunk}) == 2  # hashable


@pytest.mark.parametrize(
    "around",
    [
        b"From: A <a@b.example>\nSubject: [PATCH] x\n\nwords\n---\n k.cu | 2 +-\n\n%b-- \n2.39.5\n\n",
        b"Index: k.cu\n===================================================================\n%b",
        b"diff -ruN a/k.cu b/k.cu\n%b",
        b"# a remark\n\n%b\n",
        b"%b--\n",
    ],
    ids=["format-patch", "svn", "diff", "remark", "signature"],
)
def test_what_stands_around_is_passed_over(around):
    (section,) = parse(around % PLAIN)
    assert section.hunks[0].new[1] == b"2\n"


@pytest.mark.parametrize(
    ("name", "read"),
    [
        (b"a/k.cu\t2026-11-30 07:00:00.000000000 +0000", "a/k.cu"),
        (b"a/k.cu\tMon Nov 30 07:00:00 2026", "a/k.cu"),
        (b"a/k.cu 2026-11-30 07:00:00", "a/k.cu"),
        (b"a/k.cu\t(revision 12)", "a/k.cu"),
        (b"a/two words.cu\t", "a/two words.cu"),
        (b"a/two words.cu", "a/two words.cu"),
        (b'"a/\\303\\251 \\"q\\" \\t.cu"', 'a/é "q" \t.cu'),
    ],
)
def test_names_and_what_follows_them(name, read):
    (section,) = parse(b"--- %b\n+++ %b\n%b" % (name, name, HUNK))
    assert paths(section) == [read, read]


@pytest.mark.parametrize(
    "stamp",
    [
        b"1970-01-01 00:00:00.000000000 +0000",
        b"1970-01-01 01:00:00.000000000 +0100",
        b"1969-12-31 19:00:00.000000000 -0500",
        b"1970-01-01 05:30:00 +0530",
    ],
)
def test_the_time_of_no_file(stamp):
    new = b"--- old/n\t%b\n+++ new/n\t2026-11-30 07:00:00.0 +0000\n@@ -0,0 +1 @@\n+x\n" % stamp
    gone = b"--- old/n\t2026-11-30 07:00:00.0 +0000\n+++ new/n\t%b\n@@ -1 +0,0 @@\n-x\n" % stamp
    assert [s.kind for s in parse(new + gone)] == [Kind.CREATE, Kind.DELETE]


@pytest.mark.parametrize("stamp", [b"1970-01-01 00:00:01 +0000", b"1970-13-01 00:00:00 +0000"])
def test_other_times_are_of_files(stamp):
    data = b"--- old/n\t%b\n+++ new/n\n@@ -0,0 +1 @@\n+x\n" % stamp
    assert parse(data)[0].kind is Kind.MODIFY


def test_marks_for_a_missing_newline():
    mark = b"\\ No newline at end of file\n"
    (section,) = parse(
        b"--- a/k\n+++ b/k\n@@ -1,2 +1,2 @@\n a\n-b\n" + mark + b"+c\n" + mark.strip()
    )
    assert (section.hunks[0].old, section.hunks[0].new) == ((b"a\n", b"b"), (b"a\n", b"c"))


def test_omitted_counts_are_one():
    (hunk,) = parse(b"--- a/k\n+++ b/k\n@@ -3 +3 @@ void f()\n-a\n+b\n")[0].hunks
    assert (hunk.index, hunk.old_count, hunk.new_count) == (2, 1, 1)


def test_an_unchanged_blank_line_may_have_lost_its_blank():
    (hunk,) = parse(b"--- a/k\n+++ b/k\n@@ -1,2 +1,2 @@\n\n-a\n+b\n")[0].hunks
    assert hunk.old == (b"\n", b"a\n")


def test_lines_that_look_like_heads_are_lines():
    data = b"--- a/k\n+++ b/k\n@@ -1,2 +1,2 @@\n--- a/x\n-@@ -1 +1 @@\n+++ b/x\n+diff --git a b\n"
    (section,) = parse(data)
    assert section.hunks[0].old == (b"-- a/x\n", b"@@ -1 +1 @@\n")


def test_crlf_within_hunks_is_content():
    (section,) = parse(b"--- a/k\n+++ b/k\n@@ -1 +1 @@\n-a\r\n+b\r\n")
    assert section.hunks[0].old == (b"a\r\n",)


BLOB = bytes(range(256)) * 3
HASHES = b"index %b..%b 100644\n" % (b"1" * 40, b"2" * 40)


def binary(block, index=HASHES):
    return b"diff --git a/b.bin b/b.bin\n" + index + b"GIT binary patch\n" + block


HEAD = b"diff --git a/one two b/one two\n"


@pytest.mark.parametrize(
    ("data", "kind", "modes"),
    [
        (HEAD + b"old mode 100644\nnew mode 100755\n", Kind.MODIFY, (FILE, PROGRAM)),
        (HEAD + b"new file mode 100755\nindex 0000000..e69de29\n", Kind.CREATE, (None, PROGRAM)),
        (HEAD + b"deleted file mode 100644\nindex e69de29..0000000\n", Kind.DELETE, (FILE, None)),
    ],
)
def test_sections_of_modes_and_empty_files(data, kind, modes):
    (section,) = parse(data)
    assert (section.kind, section.old_mode, section.new_mode) == (kind, *modes)
    assert {path.stripped(1) for path in section.paths} == {"one two"}


@pytest.mark.parametrize("verb", ["rename", "copy"])
def test_renames_and_copies(verb):
    words = verb.encode()
    (section,) = parse(
        b"diff --git a/x y b/p q\nsimilarity index 100%%\n%b from x y\n%b to p q\n" % (words, words)
    )
    assert section.kind == verb
    assert [path.stripped(1) for path in section.paths] == ["x y", "p q"]
    assert [path.stripped(0) for path in section.paths] == ["x y", "p q"]


def test_a_link_is_a_mode():
    data = (
        b"diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+k\n"
        b"\\ No newline at end of file\n"
    )
    assert parse(data)[0].new_mode == LINK


@pytest.mark.parametrize("data", [b"", b"\n\n", b"From: a\nSubject: b\n\nwords\n", b"-- \n2.39\n"])
def test_no_change_at_all(data):
    refused(data, "patch-empty", "'p.patch' holds no change")


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"--- a/k\n+++ b/k\n@@ -1 +1 @@\n-a\n+a\n", "line 3: the hunk changes nothing"),
        (b"--- a/k\n+++ b/k\n@@ -1 +1 @@\n a\n", "line 3: the hunk changes nothing"),
        (HEAD + b"old mode 100644\nnew mode 100644\n", "line 1: the section changes nothing"),
        (HEAD, "line 1: the section changes nothing"),
        (b"diff --git a/k b/k\nrename from k\nrename to k\n", "the section changes nothing"),
    ],
)
def test_no_ops(data, match):
    refused(data, "patch-noop", match)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (PLAIN[:-1], "line 7: the patch ends in the middle of a line"),
        (PLAIN.replace(b" three\n", b""), "line 7: the hunk ends before the counts"),
        (PLAIN.replace(b" three", b"three"), "line 7: the hunk ends before the counts"),
        (PLAIN + b" four\n", "line 8: the hunk has more lines than the counts"),
        (PLAIN + b"+four\n", "line 8: the hunk has more lines than the counts"),
        (PLAIN + b"--- a/x\n", "line 8: the hunk has more lines than the counts"),
        (PLAIN.replace(b"-1,3 +1,3", b"-1,3 +1,2"), "other lines than the counts"),
        (PLAIN.replace(b"-1,3", b"-0,3"), "line 3: lines count from 1"),
        (PLAIN.replace(b"-1,3 +1,3", b"-1,0 +1,0"), "line 3: the hunk has no lines"),
        (PLAIN.replace(b"@@ -1,3 +1,3 @@", b"@@ -1,3 @@"), "line 3: a hunk begins with"),
        (PLAIN + HUNK, "before the end of the one above it"),
        (HUNK, "line 1: a hunk stands here, and no file is named"),
        (b"--- a/k.cu\n" + HUNK, "line 1: '---' and '\\+\\+\\+' lines belong together"),
        (b"--- a/k.cu\n+++ b/k.cu\n", "line 2: a file is named, and no hunk follows"),
        (GIT[: GIT.index(b"--- ")], "line 2: a file is named, and no hunk follows"),
        (GIT[: GIT.index(b"+++ ")], "line 3: '---' and '\\+\\+\\+' lines belong together"),
        (b"--- \t\n+++ b/k\n" + HUNK, "line 1: no file name"),
        (b'--- "a/k\n+++ b/k\n' + HUNK, "line 1: no file name"),
        (GIT.replace(b"+++ b/k.cu", b"+++ b/l.cu"), "'b/l.cu' is not the file that"),
        (GIT.replace(b"--- a/k.cu", b"--- /dev/null"), "'/dev/null' and 'new file mode' belong"),
        (HEAD + b"old mode 100644\nold mode 100644\n", "'old mode' stands twice"),
        (HEAD + b'rename from "x\n', "'rename from' stands twice or names nothing"),
        (binary(b"words\n"), "line 4: a binary block begins with"),
        (b"diff --git a/x b/y\nrename from x\n", "'rename from' and 'rename to' belong together"),
        (b"diff --git a/x b b/y\nold mode 100644\nnew mode 100755\n", "cannot be told apart"),
        (b"diff --git a/x b/x\nold mode 100644\n", "'old mode' and 'new mode' belong together"),
        (b"--- /dev/null\n+++ b/k\n@@ -1 +1 @@\n-a\n+b\n", "creates has no old lines"),
        (b"--- a/k\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", "deletes has no new lines"),
        (b"*** a/k\n--- b/k\n***************\n*** 1 ****\n", "this is a context diff"),
        (b"diff --cc k\n", "combined diff of a merge"),
        (PLAIN + b"\nProperty changes on: k.cu\n", "Subversion properties"),
        (PLAIN + b"Only in b/csrc: new.cu\n", "on one side only is left out"),
        (PLAIN.decode().encode("utf-16"), "the patch is UTF-16"),
        (b"\xef\xbb\xbf" + PLAIN, "byte order mark"),
    ],
)
def test_what_does_not_add_up(data, match):
    refused(data, "patch-malformed", match)


def test_a_line_without_newline_ends_its_file():
    mark = b"\\ No newline at end of file\n"
    head = b"--- a/k\n+++ b/k\n@@ -1,2 +1,2 @@\n"
    refused(head + b" a\n" + mark + b"-b\n+c\n", "patch-malformed", "before the end of the file")
    refused(head + b" a\n-b\n" + mark * 2 + b"+c\n", "patch-malformed", "stands twice")
    more = head + b" a\n-b\n+c\n" + mark + b"@@ -8 +8 @@\n-x\n+y\n"
    refused(more, "patch-malformed", "before the end of the file")


def test_a_patch_that_was_converted_to_crlf():
    error = refused(
        PLAIN.replace(b"\n", b"\r\n"), "patch-line-ends", "line 1: the patch file itself"
    )
    assert "CRLF" in error.hint


def test_a_submodule_is_no_file():
    data = b"diff --git a/s b/s\nnew file mode 160000\nindex 0000000..1234567\n"
    error = refused(data, "patch-mode", "mode '160000' is not one of a file")
    assert "recipe" in error.hint


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (HEAD + b"index 1..2\nBinary files a/one two and b/one two differ\n", "without its bytes"),
        (b"Binary files a/x and b/x differ\n", "without its bytes"),
        (b"Index: x\nCannot display: file marked as a binary type.\n", "without its bytes"),
        (binary(encode(BLOB), b"index 1111111..2222222\n"), "without the full hashes"),
        (binary(encode(BLOB).replace(b"literal 768", b"literal 767")), "does not hold the 767"),
        (binary(encode(BLOB).replace(b"literal 768", b"literal 9999999999")), "the limit is"),
        (binary(b"literal 1\nz~~\n\n"), "length letter"),
        (binary(b"literal 1\nA~~~~~\n\n"), "broken"),
        (binary(b"literal 1\n" + encode_line(b"no deflate") + b"\n"), "deflate stream"),
    ],
)
def test_binary_files_that_cannot_be_read(data, match):
    refused(data, "patch-binary", match)


def test_a_binary_block_is_read():
    (section,) = parse(binary(encode(BLOB) + encode(b"")))
    assert (section.binary.data, section.binary.delta) == (BLOB, False)


def test_a_line_of_a_block_with_other_padding():
    with pytest.raises(ValueError, match="padded"):
        decode_line(b"A" + base64.b85encode(b"xyzw"))


def test_a_block_with_more_behind_it():
    with pytest.raises(ValueError, match="does not hold"):
        inflate(zlib.compress(b"x") + b"more", 1)


@pytest.mark.parametrize(
    ("delta", "match"),
    [
        (b"", "too early"),
        (b"\x05\x01\x01a", "another size"),
        (b"\x04\x02\x91\x03\x02", "beyond the file"),
        (b"\x04\x05\x05ab", "too early"),
        (b"\x04\x01\x00", "unknown instruction"),
        (b"\x04\x05\x01a", "of another size"),
        (b"\x04\x01\x91", "too early"),
    ],
)
def test_broken_deltas(delta, match):
    with pytest.raises(ValueError, match=match):
        apply_delta(b"1234", delta)


def test_a_delta():
    assert apply_delta(b"1234", b"\x04\x05\x91\x01\x02\x03abc") == b"23abc"


@pytest.mark.parametrize("name", ["a/k.cu", "a/two words", 'a/q"t\\', "a/é\n\t\x01", "a/\udcff"])
def test_names_read_back(name):
    assert read_name(write_name(name)) == name


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        (b"a/x b/x", ("a/x", "b/x")),
        (b"a/x y b/x y", ("a/x y", "b/x y")),
        (b'"a/\\t" "b/\\t"', ("a/\t", "b/\t")),
        (b'a/x "b/\\t"', ("a/x", "b/\t")),
        (b'"a/\\t" b/x y', ("a/\t", "b/x y")),
        (b"csrc/x csrc/x", ("csrc/x", "csrc/x")),
        (b"a/x y b/z", None),
        (b"a/x", None),
        (b'"a/\\t', None),
        (b'"a/\\9" b/x', None),
    ],
)
def test_the_names_of_a_git_head(text, pair):
    assert read_pair(text) == pair
