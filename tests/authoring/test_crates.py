"""Pins of crates against the locks of the sources: what lint says, what bump moves."""

from hashlib import sha256

import pytest
from authoring.recipes import TEXT, recipe
from source.crates import crate, lock

from kernforge.authoring.crates import lint_crates, move_crates

ONE, TWO = crate("one"), crate("two")
LOCK = lock(ONE, own="mine")
NEW = lock(ONE, TWO, own="mine")


def digest(text):
    return sha256(text.encode()).hexdigest()


def pinned(text=LOCK):
    return TEXT.replace(
        "build:\n", f"  crates: {{cargo: up/rust/Cargo.lock, sha256: {digest(text)}}}\nbuild:\n"
    )


@pytest.fixture
def tree(tmp_path):
    """A tree of a source with this lock, or none."""
    count = iter(range(9))

    def make(text, name="rust/Cargo.lock"):
        root = tmp_path / f"tree{next(count)}"
        root.mkdir()
        if text is not None:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return root

    return make


def test_a_lock_that_nothing_pins_is_told_with_its_pin(tree):
    (remark,) = lint_crates(recipe(), {"up": tree(LOCK)})
    assert (remark.word, remark.place) == ("crates-unpinned", "up/rust/Cargo.lock")
    assert "names 1 crate, and" in remark.text
    assert f"crates: {{cargo: up/rust/Cargo.lock, sha256: {digest(LOCK)}}}" in remark.hint


def test_a_lock_that_cannot_be_pinned_is_told_with_the_reason(tree):
    text = lock(ONE, source="registry+https://other.example/index")
    (remark,) = lint_crates(recipe(), {"up": tree(text)})
    assert "from another registry: 1 package (one)" in remark.text


def test_a_lock_without_crates_is_nobodys_concern(tree):
    assert lint_crates(recipe(), {"up": tree(lock(own="mine"))}) == ()


def test_what_fits_is_not_told(tree):
    assert lint_crates(recipe(pinned()), {"up": tree(LOCK)}) == ()


@pytest.mark.parametrize(("text", "said"), [(NEW, digest(NEW)), (None, "is not there")])
def test_a_pin_that_no_longer_fits_is_told(tree, text, said):
    (remark,) = lint_crates(recipe(pinned()), {"up": tree(text)})
    assert (remark.word, remark.place) == ("crates-unfit", "sources.crates")
    assert said in remark.text


def test_the_pin_moves_with_the_source(tree):
    text, remarks = move_crates(pinned(), recipe(pinned()), tree(LOCK), tree(NEW))
    assert text == pinned(NEW)
    assert remarks == ()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (LOCK, None, "is not there at the new commit"),
        (LOCK + "# before an edit\n", NEW, digest(NEW)),
    ],
)
def test_a_pin_that_cannot_be_moved_is_told_and_left(tree, old, new, said):
    text, (remark,) = move_crates(pinned(), recipe(pinned()), tree(old), tree(new))
    assert text == pinned()
    assert said in remark.text


def test_a_lock_of_another_source_stays(tree):
    text = pinned().replace("up/rust", "repo-table/rust")
    assert move_crates(text, recipe(text), tree(LOCK), tree(NEW)) == (text, ())
