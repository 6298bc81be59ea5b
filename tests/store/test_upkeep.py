"""What `cache gc` may take, and that nothing half removed is ever taken for whole."""

import os
import tempfile
from pathlib import Path

import pytest

from kernforge.errors import CacheError
from kernforge.store.local import Store
from kernforge.store.upkeep import collect, size_of

KEY = "ab" * 32


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "cache")


def env(store, name, *, used, size=1000):
    path = store.folder("envs") / name
    path.mkdir()
    (path / "file").write_text("x" * size)
    os.utime(path, (used, used))
    return path


def removed(store, keep):
    return [name for name, _ in collect(store, keep=keep)]


def test_environments_go_by_their_last_use(store):
    for name, used in (("old", 10), ("new", 30), ("mid", 20)):
        env(store, name, used=used)
    assert removed(store, 2500) == ["envs/old"]
    assert removed(store, 500) == ["envs/mid", "envs/new"]


@pytest.mark.parametrize("name", [KEY, f"work-{KEY}", "env-other"])
def test_no_environment_goes_while_anything_is_held(store, name):
    kept = env(store, "abc", used=1)
    with store.lock(name, waiting=lambda *_: None):
        assert removed(store, 0) == []
        assert kept.exists()
    assert removed(store, 0) == ["envs/abc"]


def test_what_a_gpu_has_said_stays(store, tmp_path):
    """It was brought from another machine; entries of other kinds are made again."""
    for kind in ("report", "levels"):
        path = tmp_path / "file"
        path.write_text("x")
        store.put(kind, KEY, {"file": path}, {})
    assert removed(store, 0) == [f"store/levels/ab/{KEY}"]
    assert store.get("report", KEY, told=lambda _text: None) is not None


def test_the_draft_of_a_killed_run_goes_and_one_in_work_stays(store):
    for name in (".one.draft", ".two.draft"):
        env(store, name, used=1)
    with store.lock("env-one", waiting=lambda *_: None):
        assert removed(store, 1 << 30) == ["envs/.two.draft"]
    assert removed(store, 1 << 30) == ["envs/.one.draft"]


def test_what_is_removed_leaves_its_place_by_one_rename(store):
    """A folder that cannot be emptied is out of sight all the same."""
    path = env(store, "abc", used=1)
    seen = []
    real = os.rename

    def watch(source, target, **options):
        real(source, target, **options)
        seen.append((Path(source), path.exists(), Path(target).exists()))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "rename", watch)
        store.discard(path)
    assert seen == [(path, False, True)]
    assert list((store.root / "tmp").iterdir()) == []


def test_files_and_links_are_discarded_too(store, tmp_path):
    (tmp_path / "target").write_text("stays")
    folder = store.folder("quarantine")
    (folder / "file").write_text("")
    (folder / "link").symlink_to(tmp_path / "target")
    assert sorted(removed(store, 1 << 30)) == ["quarantine/file", "quarantine/link"]
    assert (tmp_path / "target").read_text() == "stays"


def test_what_is_gone_already_is_no_fault(store):
    store.discard(store.folder("envs") / "nothing")
    assert list((store.root / "tmp").iterdir()) == []


def test_a_folder_that_is_a_link_to_another_file_system(store, tmp_path):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        assert Path(other).stat().st_dev != tmp_path.stat().st_dev
        store.folder("locks")
        (store.root / "envs").symlink_to(other)
        env(store, "abc", used=1)
        assert removed(store, 0) == ["envs/abc"]
        assert list(Path(other).iterdir()) == []


def test_a_put_that_fails_leaves_no_draft(store, tmp_path):
    (tmp_path / "one").write_text("x" * 1000)
    with pytest.raises(CacheError, match="cannot be written"):
        store.put("artifact", KEY, {"one": tmp_path / "one", "two": tmp_path / "missing"}, {})
    assert list((store.root / "tmp").iterdir()) == []
    assert store.listing() == ()


def test_size_of(tmp_path):
    (tmp_path / "folder/deep").mkdir(parents=True)
    (tmp_path / "folder/deep/a").write_text("x" * 10)
    (tmp_path / "folder/b").write_text("x" * 5)
    (tmp_path / "folder/link").symlink_to("/usr")
    assert size_of(tmp_path / "folder/b") == 5
    assert size_of(tmp_path / "folder") == 15
