"""Sources put back beside what was built of them."""

import hashlib
import os
from dataclasses import replace

from kernforge.build.ledger import Made, Output, Record
from kernforge.build.resume import (
    drop_unfinished,
    is_stamped,
    restore,
    stamp,
    unstamp,
)

RECORD = Record(
    tool="g++", kind="link", sources=(), output="x.so", outputs=(), archs_before=None,
    archs_after=None, policy=None, rewritten=False, note="", argv=("g++",), cwd="/kf/build",
    start=1.0, seconds=1.0, user_seconds=1.0, max_rss_kib=1, waited=0.0, peak_kib=None, cache=None,
    exit=0, nested=False,
)  # fmt: skip
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


def test_only_what_is_known_to_be_whole_stays(tmp_path):
    """ninja and cargo know what they have finished; make and setuptools believe each file."""
    left = {
        "app/a.cu": "placed",
        "app/build/lib/torn.so": "",
        "app/build/lib/whole.so": "linked",
        "app/build/lib/copied.py": "half = ",
        "app/build/temp/.ninja_log": "# ninja log v7",
        "app/build/temp/a.o": "ninja makes it again",
        "app/build/temp/gen/b.h": "ninja's too",
        "app/build/temp/ext/Makefile": "all: c.o",
        "app/build/temp/ext/c.o": "make believes it",
        "app/build/temp/ext/c.h": "a copy",
        "app/build/temp/ext/deep/d.so.1": "make believes it",
        "both/build/.ninja_log": "# ninja log v7",
        "both/build/lib.linux-x86_64-cpython-311/app/copied.py": "half = ",
        "target/.rustc_info.json": "{}",
        "target/release/x/Makefile": "all:",
        "target/release/x/libx.a": "cargo knows it",
        "Makefile": "all:",
        "gen.h": "half",
    }
    root = tree(tmp_path, left)
    (root / "app/build/lib/link.so").symlink_to("whole.so")
    (root / "app/build/lib/folder").symlink_to("../temp")
    dropped = {
        "app/build/lib/torn.so",
        "app/build/lib/copied.py",
        "app/build/temp/ext/c.o",
        "app/build/temp/ext/deep/d.so.1",
        "both/build/lib.linux-x86_64-cpython-311/app/copied.py",
        "Makefile",
        "gen.h",
    }
    digest = hashlib.sha256(b"linked").hexdigest()
    whole = replace(RECORD, outputs=(Output(path="x.so", size=6, mtime_ns=1, sha256=digest),))
    torn = hashlib.sha256(b"").hexdigest()
    failed = replace(
        RECORD, exit=1, outputs=(Output(path="y.so", size=0, mtime_ns=1, sha256=torn),)
    )
    assert drop_unfinished(root, frozenset({"app/a.cu"}), Made([whole, failed])) == len(dropped) + 2
    assert texts(root) == {name: text for name, text in left.items() if name not in dropped}
    assert not (root / "app/build/lib/link.so").is_symlink()
    assert not (root / "app/build/lib/folder").is_symlink()
