"""Patches against trees: applied exactly, all or nothing, or refused with the reason."""

import os
import resource
import stat
import subprocess

import pytest

from kernforge.errors import SourceError
from kernforge.source.draft import Draft
from kernforge.source.gitbinary import encode, git_hash
from kernforge.source.patch import FILE, LINK, PROGRAM
from kernforge.source.patches import apply_series, natural_order
from kernforge.source.tree import tree_hash

TEXT = b"".join(b"line %d\n" % n for n in range(1, 21))


def hunk(at, *lines, new=None):
    old = sum(line[0] in " -" for line in lines)
    now = sum(line[0] in " +" for line in lines)
    body = "".join(f"{line}\n" for line in lines)
    return f"@@ -{at},{old} +{new or at},{now} @@\n{body}".encode()


def patch(*hunks, path="csrc/k.cu"):
    return f"--- a/{path}\n+++ b/{path}\n".encode() + b"".join(hunks)


ONE = hunk(4, " line 4", "-line 5", "+five", " line 6")
TWO = hunk(14, " line 14", "+extra", " line 15")
THREE = hunk(18, " line 18", "-line 19", " line 20", new=19)
GOOD = patch(ONE, TWO, THREE)
NEW = b"--- /dev/null\n+++ b/csrc/new.h\n@@ -0,0 +1 @@\n+#pragma once\n"


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    (root / "csrc").mkdir(parents=True)
    (root / "csrc/k.cu").write_bytes(TEXT)
    (root / "csrc/two words.h").write_bytes(b"a\n")
    (root / "run.sh").write_bytes(b"#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    return root


def apply(tree, *patches, strip=1):
    named = tuple((f"{n}.patch", data) for n, data in enumerate(patches, 1))
    return apply_series(tree, named, strip=strip)


def refused(tree, *patches, word, match, strip=1):
    """The series is refused so, and the tree is as it was."""
    before = tree_hash(tree)
    with pytest.raises(SourceError, match=match) as caught:
        apply(tree, *patches, strip=strip)
    assert caught.value.word == word
    assert tree_hash(tree) == before
    return caught.value


def test_a_patch_that_fits(tree):
    (done,) = apply(tree, GOOD)
    wanted = TEXT.replace(b"line 5\n", b"five\n").replace(b"line 14\n", b"line 14\nextra\n")
    assert (tree / "csrc/k.cu").read_bytes() == wanted.replace(b"line 19\n", b"")
    (touched,) = done.files
    assert (done.name, touched.path, touched.mode_after) == ("1.patch", "csrc/k.cu", FILE)
    assert touched.before != touched.after


def test_patches_build_on_each_other(tree):
    again = patch(hunk(4, " line 4", "-five", "+5", " line 6"))
    done = apply(tree, GOOD, again)
    assert done[0].files[0].after == done[1].files[0].before
    assert b"\n5\n" in (tree / "csrc/k.cu").read_bytes()


def test_all_or_nothing(tree):
    bad = patch(hunk(4, " line 4", "-line 5", "+V", " line 6"))
    refused(tree, NEW, GOOD, bad, word="patch-context", match="3.patch")


def test_below_another_repository(tree):
    """Field case 53: git apply skips there in silence."""
    subprocess.run(["git", "init", "-q"], cwd=tree.parent, check=True)
    named = b"diff --git a/csrc/k.cu b/csrc/k.cu\nindex 1111111..2222222 100644\n" + GOOD
    assert apply(tree, named)[0].files
    assert b"extra\n" in (tree / "csrc/k.cu").read_bytes()


def test_applied_twice(tree):
    apply(tree, GOOD, NEW)
    error = refused(tree, GOOD, word="patch-applied", match="'1.patch' is applied already")
    assert error.hint.startswith("start from the pristine source")
    refused(tree, NEW, word="patch-applied", match="is there already, and equal")


def test_half_applied_hunks(tree):
    apply(tree, patch(TWO))
    error = refused(tree, GOOD, word="patch-half-applied", match="'1.patch' is applied in part")
    assert "hunk 1 is not applied (line 4), hunk 2 is applied already (line 14)" in error.message
    assert "hunk 3 is not applied (line 19)" in error.message


def test_half_applied_files(tree):
    apply(tree, NEW)
    error = refused(tree, GOOD + NEW, word="patch-half-applied", match="applied in part")
    assert "'csrc/k.cu' is not applied; 'csrc/new.h' is there already" in error.message


def test_merged_upstream(tree):
    moved = b"// a licence\n" + TEXT.replace(b"line 5\n", b"five\n")
    (tree / "csrc/k.cu").write_bytes(moved)
    refused(tree, patch(ONE), word="patch-merged", match="hunk 1 has its new lines at line 5")


def test_an_offset_says_where_it_would_fit(tree):
    (tree / "csrc/k.cu").write_bytes(b"// new\n// head\n" + TEXT)
    match = "1.patch' line 3: hunk 1 of 'csrc/k.cu' does not stand at line 4; it fits 2 lines below"
    refused(tree, GOOD, word="patch-offset", match=match)


def test_several_places_where_it_would_fit(tree):
    (tree / "csrc/k.cu").write_bytes(b"x\n" + b"line 4\nline 5\nline 6\n" * 5)
    refused(tree, patch(ONE), word="patch-offset", match="at lines 2, 5, 8 and 2 more")


def test_fuzz_is_not_accepted(tree):
    """Field case 57: the block stands twice, and differs in one outer line."""
    block = b"{\n  begin\n  x = 1;\n  end\n}\n"
    (tree / "csrc/k.cu").write_bytes(b"void f()\n" + block + b"void g()\n" + block)
    data = patch(hunk(1, " void h()", " {", "   begin", "-  x = 1;", "+  x = 2;", "   end", " }"))
    error = refused(tree, data, word="patch-context", match="differs at line 1: 'void h")
    assert "'void f()' found" in error.message


def test_a_wrong_hunk_beside_applied_ones(tree):
    apply(tree, patch(TWO))
    data = patch(hunk(4, " line 4", "-line V", "+five", " line 6"), TWO)
    refused(tree, data, word="patch-context", match="other hunks are applied already")


@pytest.mark.parametrize(
    ("file", "data", "match"),
    [
        (b"\r\n", patch(ONE), "differs at line 4 in its line end: CRLF in the file, LF here"),
        (b"\n", patch(ONE.replace(b"5\n", b"5\r\n")), "line 5 in its line end: LF in the file"),
    ],
)
def test_wrong_line_ends(tree, file, data, match):
    (tree / "csrc/k.cu").write_bytes(TEXT.replace(b"\n", file))
    refused(tree, data, word="patch-line-ends", match=match)


def test_crlf_on_both_sides(tree):
    (tree / "csrc/k.cu").write_bytes(TEXT.replace(b"\n", b"\r\n"))
    lines = ONE.split(b"\n")
    data = patch(lines[0] + b"\n" + b"".join(line + b"\r\n" for line in lines[1:-1]))
    apply(tree, data)
    assert b"line 4\r\nfive\r\nline 6\r\n" in (tree / "csrc/k.cu").read_bytes()


END = hunk(19, " line 19", "-line 20", "+twenty")
MARK = b"\\ No newline at end of file\n"


def test_missing_last_newline(tree):
    (tree / "csrc/k.cu").write_bytes(TEXT[:-1])
    refused(tree, patch(END), word="patch-newline", match="a newline at the end of line 20; it has")
    apply(tree, patch(END.replace(b"-line 20\n", b"-line 20\n" + MARK)))
    assert (tree / "csrc/k.cu").read_bytes().endswith(b"twenty\n")


def test_unexpected_last_newline(tree):
    data = patch(END.replace(b"-line 20\n", b"-line 20\n" + MARK))
    refused(tree, data, word="patch-newline", match="no newline at the end of line 20; it has one")
    apply(tree, patch(END + MARK))
    assert (tree / "csrc/k.cu").read_bytes().endswith(b"line 19\ntwenty")


def test_a_hunk_that_says_the_file_ends_with_it(tree):
    data = patch(hunk(4, " line 4", " line 5", "+more"))
    refused(tree, data, word="patch-context", match="but the|the file goes on after line 5")
    data = patch(hunk(4, " line 4", "-line 5", "+five")[:-1] + b"\n" + MARK)
    refused(tree, data, word="patch-context", match="the file goes on after line 5")


def test_beyond_the_end(tree):
    data = patch(hunk(40, " a", "-b", " c"))
    refused(tree, data, word="patch-context", match="expects 'a' at line 40; the file has 20 lines")


def test_hunks_without_old_lines(tree):
    mid = patch(b"@@ -5,0 +6 @@\n+x\n")
    refused(tree, mid, word="patch-context", match="adds lines after line 5 with no unchanged line")
    top = patch(b"@@ -0,0 +1 @@\n+x\n")
    refused(tree, top, word="patch-context", match="is for an empty file; it has 20 lines")
    (tree / "csrc/k.cu").write_bytes(b"")
    apply(tree, top)
    assert (tree / "csrc/k.cu").read_bytes() == b"x\n"


def test_a_file_that_is_emptied_stays(tree):
    data = patch(b"@@ -1 +0,0 @@\n-a\n", path="csrc/two words.h\t")
    apply(tree, data)
    assert (tree / "csrc/two words.h").read_bytes() == b""


GONE = b"--- a/run.sh\n+++ /dev/null\n@@ -1 +0,0 @@\n-#!/bin/sh\n"


def test_deleting(tree):
    (done,) = apply(tree, GONE)
    assert done.files[0].after is None
    assert not (tree / "run.sh").exists()
    refused(tree, GONE, word="patch-applied", match="'run.sh' is gone already")


def test_deleting_the_last_file_of_a_folder(tree):
    (tree / "deep/er").mkdir(parents=True)
    (tree / "deep/er/run.sh").write_bytes(b"#!/bin/sh\n")
    apply(tree, GONE.replace(b"run.sh", b"deep/er/run.sh"))
    assert not (tree / "deep").exists()


def test_deleting_other_content(tree):
    (tree / "run.sh").write_bytes(b"#!/bin/sh\nmore\n")
    refused(tree, GONE, word="patch-context", match="the file goes on after line 1")
    whole = b"diff --git a/run.sh b/run.sh\ndeleted file mode 100755\n"
    refused(tree, whole, word="patch-context", match="deletes 'run.sh', which holds more")


def test_creating_what_is_there(tree):
    (tree / "csrc/new.h").write_bytes(b"mine\n")
    refused(tree, NEW, word="patch-exists", match="'csrc/new.h', which is there and differs")


def test_creating_from_a_file_that_is_not_empty(tree):
    data = NEW.replace(b"-0,0", b"-5,0")
    refused(tree, data, word="patch-malformed", match="from a file that is not empty")


def test_a_file_that_is_missing(tree):
    refused(tree, patch(ONE, path="csrc/x.cu"), word="patch-missing", match="'csrc/x.cu' is not a")


def git(*heads, old="run.sh", new="run.sh"):
    return f"diff --git a/{old} b/{new}\n".encode() + b"".join(f"{h}\n".encode() for h in heads)


def test_modes(tree):
    off = git("old mode 100755", "new mode 100644")
    (done,) = apply(tree, off)
    assert (done.files[0].mode_before, done.files[0].mode_after) == (PROGRAM, FILE)
    assert stat.S_IMODE((tree / "run.sh").stat().st_mode) == 0o644
    refused(tree, off, word="patch-applied", match="'run.sh' is changed already")


def test_a_mode_that_is_another(tree):
    data = git("old mode 100644", "new mode 100755") + GONE.replace(
        b"/dev/null", b"b/run.sh"
    ).replace(b"+0,0", b"+1").replace(b"-#!/bin/sh\n", b"-#!/bin/sh\n+#!/bin/bash\n")
    refused(tree, data, word="patch-mode", match="'run.sh' has mode 100755, not 100644")


def test_a_new_file_that_is_there_with_another_mode(tree):
    data = git("new file mode 100644", "index 0000000..e69de29")
    (tree / "run.sh").write_bytes(b"")
    refused(tree, data, word="patch-exists", match="'run.sh', which is there and differs")
    moved = git("old mode 100644", "new mode 100755", "rename from x", "rename to run.sh", old="x")
    (tree / "run.sh").chmod(0o644)
    refused(tree, moved, word="patch-exists", match="would make 'run.sh'")


def test_the_executable_bit_is_kept(tree):
    apply(tree, patch(hunk(1, "-#!/bin/sh", "+#!/bin/bash"), path="run.sh"))
    assert stat.S_IMODE((tree / "run.sh").stat().st_mode) == 0o755


RENAME = git("rename from run.sh", "rename to bin/run.sh", new="bin/run.sh")


def test_renames(tree):
    change = b"--- a/run.sh\n+++ b/bin/run.sh\n" + hunk(1, "-#!/bin/sh", "+#!/bin/bash")
    (done,) = apply(tree, RENAME + change)
    assert [touched.path for touched in done.files] == ["bin/run.sh", "run.sh"]
    assert (tree / "bin/run.sh").read_bytes() == b"#!/bin/bash\n"
    assert stat.S_IMODE((tree / "bin/run.sh").stat().st_mode) == 0o755
    refused(tree, RENAME + change, word="patch-applied", match="'bin/run.sh' is there already")


def test_a_rename_to_what_is_there(tree):
    (tree / "bin").mkdir()
    (tree / "bin/run.sh").write_bytes(b"")
    refused(tree, RENAME, word="patch-exists", match="would make 'bin/run.sh', which is there")


def test_a_rename_of_nothing(tree):
    (tree / "run.sh").unlink()
    refused(tree, RENAME, word="patch-missing", match="'run.sh' is not a file")


def test_a_copy_reads_what_was_before_the_patch(tree):
    change = patch(hunk(1, "-#!/bin/sh", "+#!/bin/bash"), path="run.sh")
    copy = git("copy from run.sh", "copy to z.sh", new="z.sh")
    apply(tree, change + copy)
    assert (tree / "run.sh").read_bytes() == b"#!/bin/bash\n"
    assert (tree / "z.sh").read_bytes() == b"#!/bin/sh\n"


def link(*lines, path="link", mode="new file mode 120000"):
    old = "/dev/null" if mode.startswith("new") else f"a/{path}"
    body = f"--- {old}\n+++ b/{path}\n".encode() + b"".join(lines)
    return git(mode, old=path, new=path) + body


TO_K = b"@@ -0,0 +1 @@\n+csrc/k.cu\n" + MARK


def test_links(tree):
    (done,) = apply(tree, link(TO_K))
    assert (tree / "link").readlink().as_posix() == "csrc/k.cu"
    assert done.files[0].mode_after == LINK


@pytest.mark.parametrize("target", ["/etc/passwd", "../x", "csrc/../../x", "."])
def test_links_out_of_the_tree(tree, target):
    data = link(TO_K.replace(b"csrc/k.cu", target.encode()))
    refused(tree, data, word="tree-link-outside", match="outside the tree")


def test_a_link_where_the_patch_means_a_file(tree):
    (tree / "k").symlink_to("csrc/k.cu")
    data = patch(ONE, path="k")
    refused(tree, data, word="patch-mode", match="'k' is a link; the patch changes a file")


def test_a_link_in_the_path(tree):
    (tree / "src").symlink_to("csrc")
    data = patch(ONE, path="src/k.cu")
    refused(tree, data, word="tree-link-in-path", match="'src/k.cu' leads through the link 'src'")


def test_a_link_made_by_the_series_itself(tree):
    data = link(TO_K.replace(b"csrc/k.cu", b"csrc"))
    through = NEW.replace(b"csrc/", b"link/")
    refused(
        tree, data, through, word="tree-path-taken", match="'link/new.h' cannot be made: 'link'"
    )


def test_a_file_where_a_folder_is(tree):
    data = NEW.replace(b"csrc/new.h", b"csrc")
    refused(tree, data, word="tree-path-taken", match="'csrc' cannot be made: 'csrc/")


def test_a_file_makes_room_for_a_folder(tree):
    apply(tree, GONE, NEW.replace(b"csrc/", b"run.sh/"))
    assert (tree / "run.sh/new.h").is_file()


def test_a_pipe_is_no_file(tree):
    os.mkfifo(tree / "pipe")
    with pytest.raises(SourceError, match="neither file, folder nor link"):
        apply(tree, patch(ONE, path="pipe"))


@pytest.mark.parametrize(
    ("path", "match"),
    [
        ("a/../../etc/x", "is not plain"),
        ("a/csrc/../k.cu", "is not plain"),
        ("/etc/passwd", "is absolute"),
        ("a//k.cu", "is not plain"),
        ("a/.git/config", "repository's own folder"),
        ("a/csrc/.GIT/hooks/x", "repository's own folder"),
        ('"a/\\000"', "no name that a file can have"),
        ("a/" + "x" * 300, "no name that a file can have"),
    ],
)
def test_paths_that_are_refused(tree, path, match):
    data = f"--- {path}\n+++ {path}\n".encode() + ONE
    refused(tree, data, word="patch-path", match=match)
    refused(tree, NEW.replace(b"b/csrc/new.h", path.encode()), word="patch-path", match=match)


def test_two_files_named(tree):
    (tree / "csrc/k.cu.orig").write_bytes(TEXT)
    data = patch(ONE).replace(b"a/csrc/k.cu", b"a/csrc/k.cu.orig")
    refused(tree, data, word="patch-path", match="names two files that are both there")
    (tree / "csrc/k.cu.orig").unlink()
    assert apply(tree, data)[0].files[0].path == "csrc/k.cu"


def test_other_strip_levels_are_named_not_taken(tree):
    """Field case 61."""
    bare = patch(ONE).replace(b"a/csrc", b"csrc").replace(b"b/csrc", b"csrc")
    refused(tree, bare, word="patch-strip", match="all of its files are there with 0")
    apply(tree, bare, strip=0)
    deep = patch(TWO).replace(b" a/", b" x/a/").replace(b" b/", b" x/b/")
    refused(tree, deep, word="patch-strip", match="all of its files are there with 2")
    apply(tree, deep, strip=2)


@pytest.mark.parametrize(("top", "strip"), [("./", 1), ("./a/", 2), ("", 0), ("./", 0)])
def test_folders_count_by_slashes(tree, top, strip):
    data = patch(ONE).replace(b" a/", f" {top}".encode()).replace(b" b/", f" {top}".encode())
    assert apply(tree, data, strip=strip)[0].files[0].path == "csrc/k.cu"


def test_another_top_folder_is_fine(tree):
    data = patch(ONE).replace(b" a/", b" proj-1.0.orig/").replace(b" b/", b" proj-1.0/")
    apply(tree, data)
    assert b"five" in (tree / "csrc/k.cu").read_bytes()


def test_a_new_file_whose_folder_would_be_stripped(tree):
    bare = NEW.replace(b"b/csrc", b"csrc")
    refused(tree, bare, word="patch-strip", match="it would take off 'csrc', a folder")
    refused(tree, NEW.replace(b"b/csrc/", b""), word="patch-strip", match="no 1 folders to strip")


BEFORE, AFTER = b"\0old" * 9, b"\0new" * 9


def binary(before, after, block):
    names = (git_hash(side, "0" * 40) for side in (before, after))
    head = "index {}..{} 100644".format(*names)
    return git(head, "GIT binary patch", old="b.bin", new="b.bin") + block


def test_binary_files(tree):
    (tree / "b.bin").write_bytes(BEFORE)
    data = binary(BEFORE, AFTER, encode(AFTER) + encode(BEFORE))
    apply(tree, data)
    assert (tree / "b.bin").read_bytes() == AFTER
    refused(tree, data, word="patch-applied", match="'b.bin' is changed already")
    (tree / "b.bin").write_bytes(b"\0")
    refused(
        tree, data, word="patch-context", match="holds other bytes than the binary patch is for"
    )


def test_binary_blocks_that_are_broken(tree):
    (tree / "b.bin").write_bytes(BEFORE)
    data = binary(BEFORE, AFTER, encode(AFTER + b"x"))
    refused(tree, data, word="patch-binary", match="a file of another hash than it says")
    data = binary(BEFORE, AFTER, encode(AFTER).replace(b"literal", b"delta"))
    refused(tree, data, word="patch-binary", match="the binary block is broken")


def test_a_delta_that_git_wrote(tree):
    """Git takes a delta where that is shorter than the file."""
    noise = bytes(x * x * 7 % 251 for x in range(20_000))
    (tree / "b.bin").write_bytes(b"\0" + noise)
    (tree.parent / "new").write_bytes(b"\0" + noise[:9000] + b"changed" + noise[9000:])
    command = ["git", "diff", "--no-index", "--binary", "tree/b.bin", "new"]
    data = subprocess.run(command, cwd=tree.parent, capture_output=True, check=False).stdout
    assert b"\ndelta " in data
    data = data.replace(b"a/tree/b.bin b/new", b"a/b.bin b/b.bin")
    apply(tree, data)
    assert (tree / "b.bin").read_bytes() == (tree.parent / "new").read_bytes()


def test_sections_that_undo_each_other(tree):
    back = GONE.replace(b"--- a/run.sh\n+++ /dev/null", b"--- /dev/null\n+++ b/run.sh")
    back = back.replace(b"-1 +0,0", b"-0,0 +1").replace(b"-#!", b"+#!")
    (tree / "run.sh").chmod(0o644)
    refused(tree, GONE + back, word="patch-noop", match="undoes all that it does")


def test_no_tree(tmp_path):
    with pytest.raises(SourceError, match="is not a folder"):
        apply(tmp_path / "no", GOOD)


def test_a_shared_file_is_not_written_into(tree, tmp_path):
    """A tree may be made of hard links into a cache."""
    os.link(tree / "csrc/k.cu", tmp_path / "cached")
    apply(tree, GOOD)
    assert (tmp_path / "cached").read_bytes() == TEXT


@pytest.mark.parametrize("number", range(4))
def test_a_failure_midway_is_undone(tree, monkeypatch, number):
    """Stop at each of the moves in turn, as a full disk would."""
    from pathlib import Path

    before, moves, rename = tree_hash(tree), [], Path.rename

    def failing(self, target):
        moves.append(target)
        if len(moves) == number + 1:
            raise OSError(28, "No space left on device")
        return rename(self, target)

    draft = Draft(tree)
    content = draft.read("csrc/k.cu")
    for path in ("csrc/k.cu", "run.sh/x", "run.sh"):
        draft.write(path, None if path != "run.sh/x" else content)
    monkeypatch.setattr(Path, "rename", failing)
    if number == 3:
        draft.land()
        assert not (tree / "csrc/k.cu").exists()
        return
    with pytest.raises(SourceError, match="No space left on device; it is left as it was"):
        draft.land()
    monkeypatch.undo()
    assert tree_hash(tree) == before
    assert not list(tree.glob(".kernforge-*"))


def test_a_file_that_cannot_be_written(tree):
    """As on a full disk, but for this process alone."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    whole = tree_hash(tree)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(TEXT) - 10, before[1]))
    try:
        with pytest.raises(SourceError, match="cannot be changed: File too large") as caught:
            apply(tree, GOOD)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.word == "tree-unwritable"
    assert tree_hash(tree) == whole
    assert not list(tree.glob(".kernforge-*"))


def test_natural_order():
    names = ("10-c.patch", "2-b.patch", "1-a.patch", "0003-d.patch", "a.patch", "2-a.patch")
    assert natural_order(names) == (
        "1-a.patch", "2-a.patch", "2-b.patch", "0003-d.patch", "10-c.patch", "a.patch",
    )  # fmt: skip


def repository(root):
    """A repository of two commits: renames, a copy, modes, bytes, links and a file twice changed."""
    env = {"PATH": os.environ["PATH"], "HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1"}

    def call(*words):
        who = ("-c", "user.name=A", "-c", "user.email=a@b.example")
        done = subprocess.run(
            ("git", *who, *words), cwd=root, env=env, capture_output=True, check=True
        )
        return done.stdout

    call("init", "-q", "-b", "main")
    (root / "old.cu").write_bytes(TEXT)
    (root / "b.bin").write_bytes(BEFORE * 50)
    (root / "gone").write_bytes(b"x")
    call("add", ".")
    call("commit", "-qm", "one")
    (root / "sub").mkdir()
    (root / "old.cu").rename(root / "sub/né w.cu")
    (root / "sub/né w.cu").write_bytes(TEXT.replace(b"line 9\n", b"nine"))
    (root / "sub/né w.cu").chmod(0o755)
    (root / "b.bin").write_bytes(BEFORE * 20 + AFTER + BEFORE * 30)
    (root / "link").symlink_to("b.bin")
    (root / "empty").write_bytes(b"")
    call("rm", "-q", "gone")
    call("add", ".")
    call("commit", "-qm", "two\n\n--- not a head\n@ nor this")
    (root / "sub/né w.cu").write_bytes(b"0\n" + TEXT)
    call("commit", "-qam", "three")
    return call


def test_mail_that_git_wrote(tmp_path):
    """Both as one file and as two."""
    (tmp_path / "git").mkdir()
    call = repository(tmp_path / "git")
    mails = [call("format-patch", "-M", "--stdout", f"{n}^..{n}") for n in ("HEAD^", "HEAD")]
    wanted = tree_hash(tmp_path / "git")
    call("checkout", "-q", "HEAD^^")
    for name, series in (("two", mails), ("one", [b"".join(mails)])):
        subprocess.run(["cp", "-a", tmp_path / "git", tmp_path / name], check=True)
        apply(tmp_path / name, *series)
        assert tree_hash(tmp_path / name) == wanted
