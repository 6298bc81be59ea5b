"""Random patches on random trees, with GNU patch and git apply as oracles.

KERNFORGE_FUZZ sets the number of examples (default 25; the figure that counts was made with 5000).
"""

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from kernforge.errors import SourceError
from kernforge.source.difference import diff_trees
from kernforge.source.patches import apply_series
from kernforge.source.tree import tree_hash

EXAMPLES = int(os.environ.get("KERNFORGE_FUZZ", "25"))
FUZZ = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
ENV = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LC_ALL": "C",
       "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}  # fmt: skip
NEVER = b"--- a/never\n+++ b/never\n@@ -1 +1 @@\n-a\n+b\n"
NAMES = ("k.cu", "csrc/k.cu", "csrc/a b.h", "csrc/sub/x.py", "é.txt", 'q"t.c')

# few different lines: blocks then stand at several places, where offsets and fuzz begin to matter
LINES = st.sampled_from(
    [b"", b"a", b"b", b"{", b"}", b"  x = 1;", b"-- ", b"--- a/k.cu", b"+", b"\\ n"]
)
ENDS = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n"])


@st.composite
def texts(draw):
    lines = draw(st.lists(LINES, max_size=25))
    ends = draw(ENDS)
    text = b"".join(line + ends for line in lines)
    return text if draw(st.integers(0, 3)) else text.removesuffix(b"\n")


@st.composite
def changed(draw, text):
    """A text with a few lines added, removed and replaced."""
    lines = text.splitlines(keepends=True)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines)))
        gone = draw(st.integers(0, 2))
        lines[at : at + gone] = [x + b"\n" for x in draw(st.lists(LINES, max_size=3))]
    lines = [x if x.endswith(b"\n") else x + b"\n" for x in lines]
    made = b"".join(lines)
    return made if draw(st.integers(0, 4)) else made.removesuffix(b"\n")


@st.composite
def pairs(draw, contents=texts):
    """Two trees as {path: (bytes, executable)}: the second made from the first."""
    flags = st.sampled_from([False, False, True])
    old = {
        n: (draw(contents()), draw(flags))
        for n in draw(st.sets(st.sampled_from(NAMES), max_size=3))
    }
    new = dict(old)
    for name in draw(st.sets(st.sampled_from(NAMES), min_size=1, max_size=3)):
        if name not in old:
            new[name] = (draw(contents()), draw(flags))
        elif draw(st.integers(0, 5)) == 0:
            del new[name]
        else:
            text, flag = old[name]
            new[name] = (draw(changed(text)), flag if draw(st.integers(0, 4)) else not flag)
    assume(old != new)
    return old, new


@st.composite
def near(draw, old, new):
    """A tree to apply to: the right one, or one that is not quite it."""
    choice = draw(
        st.sampled_from(["same", "same", "same", "new", "some new", "changed", "shifted"])
    )
    event(f"target: {choice}")
    if choice == "same":
        return old
    if choice == "new":
        return new
    if choice == "some new":
        return {**old, **{n: new[n] for n in sorted(new) if draw(st.booleans())}}
    if choice == "shifted":
        base = draw(st.sampled_from([old, new]))
        return {n: (draw(LINES) + b"\n" + data, flag) for n, (data, flag) in base.items()}
    tree = dict(old)
    for name in sorted(tree):
        tree[name] = (draw(changed(tree[name][0])), tree[name][1])
    return tree


def lay(root, tree):
    root.mkdir()
    for name, (data, executable) in tree.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
        (root / name).chmod(0o755 if executable else 0o644)
    return root


@contextmanager
def workplace():
    with tempfile.TemporaryDirectory(prefix="kernforge-fuzz-") as name:
        yield Path(name)


def call(*words, cwd, data=b""):
    return subprocess.run(words, cwd=cwd, input=data, capture_output=True, env=ENV, check=False)


def made_by_git(root, context):
    done = call("git", "diff", "--no-index", "--no-renames", f"-U{context}", "old", "new", cwd=root)
    assert done.returncode == 1, done.stderr
    for side in (b"old", b"new"):
        done.stdout = done.stdout.replace(b"a/%b/" % side, b"a/").replace(b"b/%b/" % side, b"b/")
    return done.stdout


def made_by_diff(root, context):
    done = call("diff", "-ruN", f"-U{context}", "old", "new", cwd=root)
    assert done.returncode in {0, 1}, done.stderr
    return done.stdout


def by_gnu(root, patch):
    """Apply with GNU patch; the tree's hash, or None where it refuses, shifts or guesses."""
    done = call("patch", "-p1", "-F0", "-N", "-f", "--binary", "--no-backup-if-mismatch",
                cwd=root, data=patch)  # fmt: skip
    said = done.stdout + done.stderr
    if done.returncode or b"offset" in said or b"fuzz" in said:
        return None
    return tree_hash(root)


def by_git(root, patch):
    call("git", "init", "-q", cwd=root)
    done = call("git", "apply", "-", cwd=root, data=patch)
    return None if done.returncode else tree_hash(root)


def beyond_gnu(patch):
    """GNU patch does not find unquoted names with blanks on a `diff --git` line alone."""
    sections = (b"\n" + patch).split(b"\ndiff --git ")[1:]
    return any(b"a b.h" in s.partition(b"\n")[0] and b"\n--- " not in s for s in sections)


def by_us(root, patch):
    before = tree_hash(root)
    try:
        apply_series(root, (("random", patch),))
    except SourceError as error:
        event(f"refused: {error.word}")
        assert tree_hash(root) == before
        return None
    event("accepted")
    assert tree_hash(root) != before
    return tree_hash(root)


@given(data=st.data())
@FUZZ
def test_what_we_accept_others_accept_with_the_same_result(data):
    old, new = data.draw(pairs())
    target = data.draw(near(old, new))
    maker = data.draw(st.sampled_from([made_by_git, made_by_diff]))
    context = data.draw(st.sampled_from([0, 1, 3]))
    with workplace() as root:
        lay(root / "old", old), lay(root / "new", new)
        patch = maker(root, context)
        assume(patch)
        ours = by_us(lay(root / "ours", target), patch)
        if ours is not None:
            assert by_git(lay(root / "git", target), patch) == ours
            if not beyond_gnu(patch):
                assert by_gnu(lay(root / "gnu", target), patch) == ours
        elif target is old and context:
            pytest.fail("a patch does not fit the tree that it was made of")


@given(data=st.data())
@FUZZ
def test_our_patch_makes_the_new_tree_of_the_old(data):
    blobs = st.one_of(texts(), st.binary(max_size=200).map(lambda b: b + b"\0"))
    old, new = data.draw(pairs(lambda: blobs))
    with workplace() as root:
        lay(root / "old", old), lay(root / "new", new)
        patch = diff_trees(root / "old", root / "new")
        wanted = tree_hash(root / "new")
        shutil.copytree(root / "old", root / "git")
        assert by_us(root / "old", patch) == wanted
        assert by_git(root / "git", patch) == wanted


@given(data=st.data())
@FUZZ
def test_a_series_leads_to_the_last_tree_or_changes_nothing(data):
    old, middle = data.draw(pairs())
    new = {**middle, "k.cu": (data.draw(texts()), False)}
    assume(new != middle)
    with workplace() as root:
        trees = [lay(root / n, t) for n, t in (("old", old), ("middle", middle), ("new", new))]
        one, two = diff_trees(trees[0], trees[1]), diff_trees(trees[1], trees[2])
        before = tree_hash(root / "old")
        with pytest.raises(SourceError, match="'never' is not a file of the tree"):
            apply_series(root / "old", (("1", one), ("2", two), ("3", NEVER)))
        assert tree_hash(root / "old") == before
        apply_series(root / "old", (("1", one), ("2", two)))
        assert tree_hash(root / "old") == tree_hash(root / "new")


@given(data=st.data(), cut=st.integers(0, 400), flip=st.integers(0, 400))
@FUZZ
def test_a_broken_patch_is_applied_whole_or_refused(data, cut, flip):
    """Lines lost or repeated never end in anything but the new tree of it, or a named refusal."""
    old, new = data.draw(pairs())
    with workplace() as root:
        lay(root / "old", old), lay(root / "new", new)
        lines = diff_trees(root / "old", root / "new").splitlines(keepends=True)
        cut, flip = cut % len(lines), flip % len(lines)
        lines[flip : flip + 1] = data.draw(st.sampled_from([[], [lines[flip]] * 2]))
        broken = b"".join(lines[:cut] if data.draw(st.booleans()) else lines)
        ours = by_us(lay(root / "ours", old), broken)
        if ours is not None:
            assert by_git(lay(root / "git", old), broken) == ours
