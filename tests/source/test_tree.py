import os
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernforge.errors import SourceError
from kernforge.source.tree import copy_tree, entries, tree_hash


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    (root / "csrc").mkdir(parents=True)
    (root / "csrc/k.cu").write_text("kernel")
    (root / "build.sh").write_text("#!/bin/sh\n")
    (root / "build.sh").chmod(0o755)
    (root / "link").symlink_to("csrc/k.cu")
    return root


def test_times_modes_and_order_do_not_matter(tree, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(tree, other, symlinks=True)
    os.utime(other / "csrc/k.cu", (1, 1))
    (other / "csrc/k.cu").chmod(0o600)
    assert tree_hash(other) == tree_hash(tree)


@pytest.mark.parametrize(
    "change",
    [
        lambda r: (r / "csrc/k.cu").write_text("Kernel"),
        lambda r: (r / "build.sh").chmod(0o644),
        lambda r: (r / "csrc/k.cu").rename(r / "csrc/K.cu"),
        lambda r: (r / "new").write_text(""),
        lambda r: ((r / "link").unlink(), (r / "link").symlink_to("build.sh")),
        lambda r: ((r / "link").unlink(), (r / "link").write_text("kernel")),
    ],
)
def test_every_change_of_content_matters(tree, change):
    before = tree_hash(tree)
    change(tree)
    assert tree_hash(tree) != before


def test_a_change_with_an_old_time_matters(tree):
    before = tree_hash(tree)
    (tree / "csrc/k.cu").write_text("kernel2")
    os.utime(tree / "csrc/k.cu", (978307200, 978307200))
    assert tree_hash(tree) != before


def test_names_and_contents_do_not_run_together(tmp_path):
    one, two = tmp_path / "1", tmp_path / "2"
    for root, name, text in ((one, "ab", "c"), (two, "a", "bc")):
        root.mkdir()
        (root / name).write_text(text)
    assert tree_hash(one) != tree_hash(two)


def test_version_control_and_caches_are_left_out(tree):
    before = tree_hash(tree)
    (tree / ".git").mkdir()
    (tree / ".git/HEAD").write_text("ref")
    (tree / "csrc/__pycache__").mkdir()
    (tree / "csrc/__pycache__/x.pyc").write_text("")
    assert tree_hash(tree) == before


def test_exclude(tree):
    listed = entries(tree, ("csrc/*", "link"))
    assert [entry.path for entry in listed] == ["build.sh"]


def test_copy_is_equal_and_normal(tree, tmp_path):
    (tree / "csrc/k.cu").chmod(0o600)
    target = tmp_path / "copy"
    copy_tree(tree, target, exclude=(), epoch=1577836800)
    assert tree_hash(target) == tree_hash(tree)
    status = (target / "csrc/k.cu").stat()
    assert status.st_mode & 0o777 == 0o644
    assert status.st_mtime == 1577836800
    assert (target / "csrc").stat().st_mtime == 1577836800


def test_a_missing_folder(tmp_path):
    with pytest.raises(SourceError, match="is not a folder") as caught:
        tree_hash(tmp_path / "no")
    assert caught.value.word == "source-missing"


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside", "csrc/../../x"])
def test_a_link_out_of_the_tree_is_refused(tree, target):
    (tree / "bad").symlink_to(target)
    with pytest.raises(SourceError, match="outside the tree") as caught:
        tree_hash(tree)
    assert caught.value.word == "tree-link-outside"


def test_a_pipe_is_refused(tree):
    os.mkfifo(tree / "pipe")
    with pytest.raises(SourceError, match="neither file, folder nor link"):
        tree_hash(tree)


NAMES = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1, max_size=20
)


@given(names=st.sets(NAMES.filter(lambda n: n not in {".", "..", ".git"}), min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_odd_names_copy_to_an_equal_tree(tmp_path_factory, names):
    root = tmp_path_factory.mktemp("odd")
    for name in names:
        if len(os.fsencode(name)) < 200:
            (root / "in").mkdir(exist_ok=True)
            (root / "in" / name).write_text(name, encoding="utf-8")
    if (root / "in").exists():
        copy_tree(root / "in", root / "out", exclude=(), epoch=0)
        assert tree_hash(root / "out") == tree_hash(root / "in")
