"""Sources put back beside what was built of them."""

import os

from kernforge.build.resume import (
    is_stamped,
    restore,
    stamp,
    unstamp,
)

DATE = (1_000_000, 1_000_000)


def tree(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, DATE)
    return root


def texts(root):
    return {p.relative_to(root).as_posix(): p.read_text() for p in root.rglob("*") if p.is_file()}


FILES = {"app/a.cu": "a", "app/b.h": "b", "third/x.cmake": "x"}


def test_changed_files_come_back_and_built_ones_stay(tmp_path):
    fresh, old = tree(tmp_path / "fresh", FILES), tree(tmp_path / "old", FILES)
    (old / "app/a.cu").write_text("edited by configure")
    (old / "app/b.h").unlink()
    (old / "app/build").mkdir()
    (old / "app/build/a.o").write_text("object")
    assert restore(fresh, old, ()) == 2
    assert texts(old) == {**FILES, "app/build/a.o": "object"}
    assert (old / "app/a.cu").stat().st_mtime == DATE[1]  # no newer than its object


def test_a_copy_for_fetchcontent_comes_back_whole(tmp_path):
    fresh, old = tree(tmp_path / "fresh", FILES), tree(tmp_path / "old", FILES)
    (old / "third/patched.flag").write_text("done")
    (old / "third/new").mkdir()
    (old / "third/new/y").write_text("y")
    restore(fresh, old, ("third",))
    assert texts(old) == FILES
    assert not (old / "third/new").exists()


def test_links_modes_and_kinds_count_too(tmp_path):
    fresh, old = tree(tmp_path / "fresh", FILES), tree(tmp_path / "old", FILES)
    (fresh / "app/link").symlink_to("a.cu")
    (old / "app/link").symlink_to("b.h")
    (fresh / "app/a.cu").chmod(0o755)
    (old / "app/b.h").unlink()
    (old / "app/b.h").mkdir()
    restore(fresh, old, ())
    assert (old / "app/link").readlink().name == "a.cu"
    assert (old / "app/a.cu").stat().st_mode & 0o111
    assert (old / "app/b.h").read_text() == "b"


def test_a_folder_that_became_a_file_or_link(tmp_path):
    fresh, old = tree(tmp_path / "fresh", FILES), tree(tmp_path / "old", {"third": "file"})
    (tmp_path / "elsewhere").mkdir()
    (old / "app").symlink_to(tmp_path / "elsewhere")
    restore(fresh, old, ())
    assert texts(old) == FILES
    assert not any((tmp_path / "elsewhere").iterdir())


def test_a_stamp_is_of_one_key_and_tree(tmp_path):
    assert not is_stamped(tmp_path, "key", "tree")
    stamp(tmp_path, "key", "tree")
    assert is_stamped(tmp_path, "key", "tree")
    assert not is_stamped(tmp_path, "other", "tree")
    assert not is_stamped(tmp_path, "key", "other")
    (tmp_path / "stamp.json").write_text("cut sho")
    assert not is_stamped(tmp_path, "key", "tree")
    unstamp(tmp_path)
    assert not is_stamped(tmp_path, "key", "tree")
