import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from kernforge.errors import CacheError, SelectionError
from kernforge.store.local import Store
from kernforge.store.upkeep import collect, parse_size, remove_entries

KEY = "ab" * 32


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "cache")


def put(store, key=KEY, text="wheel", kind="artifact"):
    folder = store.folder("incoming")
    path = folder / "thing.whl"
    path.write_text(text)
    return store.put(kind, key, {"thing.whl": path}, {"wheel": "thing.whl"})


def get(store, key=KEY):
    told = []
    return store.get("artifact", key, told=told.append), told


def test_what_was_put_is_got(store):
    entry = put(store)
    again, told = get(store)
    assert again == entry
    assert not told
    assert (again.path / "thing.whl").read_text() == "wheel"
    assert again.facts() == {"wheel": "thing.whl"}


def test_a_miss_is_none(store):
    assert get(store) == (None, [])


def test_first_complete_writer_wins(store):
    first = put(store, text="one")
    second = put(store, text="two")
    assert first == second
    assert (second.path / "thing.whl").read_text() == "one"
    assert not any((store.root / "tmp").iterdir())


def damage_bytes(path):
    data = bytearray((path / "thing.whl").read_bytes())
    data[0] ^= 1
    (path / "thing.whl").write_bytes(data)


def damage_length(path):
    (path / "thing.whl").write_bytes(b"wh")


def damage_missing(path):
    (path / "thing.whl").unlink()


def damage_manifest(path):
    (path / "manifest.json").write_text("{")


def damage_claim(path):
    data = json.loads((path / "manifest.json").read_text())
    data["body"]["meta"]["wheel"] = "other.whl"
    (path / "manifest.json").write_text(json.dumps(data))


def damage_shape(path):
    (path / "manifest.json").write_text("[1]")


@pytest.mark.parametrize(
    "damage",
    [damage_bytes, damage_length, damage_missing, damage_manifest, damage_claim, damage_shape],
)
def test_a_damaged_entry_is_quarantined_and_counts_as_none(store, damage):
    entry = put(store)
    entry.path.chmod(0o755)
    damage(entry.path)
    found, told = get(store)
    assert found is None
    assert "damaged" in told[0]
    assert not entry.path.exists()
    assert len(list((store.root / "quarantine").iterdir())) == 1
    assert put(store, text="new").key == KEY


def test_a_draft_never_counts(store):
    draft = store.place("artifact", KEY)
    draft.mkdir(parents=True)
    (draft / "thing.whl").write_text("half")
    assert get(store)[0] is None


PUT = """
import sys
from pathlib import Path
from kernforge.errors import CacheError
from kernforge.store.local import Store

store = Store(Path(sys.argv[1]))
thing = store.folder("incoming") / "thing.whl"
thing.write_bytes(bytes(200_000))
try:
    store.put("artifact", "ab" * 32, {"thing.whl": thing}, {})
except CacheError as error:
    print(error.word, list(store.place("artifact", "ab" * 32).parent.iterdir()))
"""
HOLD = """
import sys
from pathlib import Path
from kernforge.store.local import Store

with Store(Path(sys.argv[1])).lock("x", waiting=lambda *_: None):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(store):
    """Another process that holds the lock until its standard input is closed."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(store.root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "held\n"
    yield child
    child.kill()
    child.stdin.close()
    child.stdout.close()
    child.wait()


def test_a_lock_waits_and_says_for_whom(store, holder):
    said = []

    def waiting(owner, seconds):
        said.append(owner)
        holder.stdin.close()

    with store.lock("x", waiting=waiting):
        pass
    assert said[0] == f"process {holder.pid} on {os.uname().nodename}"


@pytest.fixture
def taken(store):
    """A lock that somebody has just taken, who has not yet written its name."""
    with open(store.folder("locks") / "x.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


@pytest.mark.parametrize("before", [None, ""], ids=["missing", "empty"])
def test_who_has_just_taken_a_lock_is_named_once_it_has_written_its_name(store, taken, before):
    owner, said = store.root / "locks/x.owner", []
    if before is not None:
        owner.write_text(before)

    def waiting(name, _seconds):
        said.append(name)
        fcntl.flock(taken, fcntl.LOCK_UN)

    with store.lock("x", waiting=waiting, meanwhile=lambda: owner.write_text("process 7 on here")):
        pass
    assert said == ["process 7 on here"]


def test_who_never_writes_its_name_is_another_process(store, taken):
    said = []

    def waiting(*words):
        said.append(words)
        fcntl.flock(taken, fcntl.LOCK_UN)

    with store.lock("x", waiting=waiting):
        pass
    ((name, seconds),) = said
    assert name == "another process"
    assert seconds >= 1


def test_a_killed_owner_leaves_no_lock(store, holder):
    holder.kill()
    holder.wait()
    said = []
    with store.lock("x", waiting=lambda *words: said.append(words)):
        pass
    assert not said


def test_a_lock_file_that_somebody_left_is_no_lock(store):
    (store.folder("locks") / "x.lock").write_text("left over")
    with store.lock("x", waiting=lambda *_: pytest.fail("waited")):
        pass


def test_sweep_removes_what_the_dead_left(store):
    with store.scratch() as mine:
        machine = mine.name.split("-")[0]
        dead = store.root / "tmp" / f"{machine}-999999999-x"
        dead.mkdir()
        store.sweep()
        assert mine.exists()
        assert not dead.exists()
    assert not mine.exists()


def test_a_cache_that_is_a_file_is_one_clear_error(tmp_path):
    (tmp_path / "cache").write_text("")
    with pytest.raises(CacheError, match="cannot be written") as caught:
        put(Store(tmp_path / "cache"))
    assert caught.value.word == "cache-unwritable"
    assert "--cache" in caught.value.hint


def test_a_full_disk_is_one_clear_error(store, tmp_path, monkeypatch):
    put(store)  # folders are there
    if not os.path.exists("/dev/full"):
        pytest.fail("this machine has no /dev/full")
    with pytest.raises(CacheError, match="No space is left") as caught, store.scratch():
        with open("/dev/full", "w") as full:
            full.write("x" * 100_000)
    assert caught.value.word == "disk-full"


def test_remove_takes_a_prefix(store):
    put(store)
    assert remove_entries(store, (KEY[:8],)) == (("artifact", KEY),)
    assert store.listing() == ()


@pytest.mark.parametrize(
    ("prefix", "word"),
    [("ab", "key-short"), ("cdcdcdcd", "key-missing"), ("abababab", "key-ambiguous")],
)
def test_remove_refuses(store, prefix, word):
    put(store)
    put(store, key="ab" * 31 + "cd")
    with pytest.raises(SelectionError) as caught:
        remove_entries(store, (prefix,))
    assert caught.value.word == word


def test_collect_removes_the_oldest_first_and_leftovers(store):
    old = put(store, text="o" * 1000)
    new = put(store, key="cd" * 32, text="n" * 1000)
    os.utime(old.path, (1, 1))
    (store.folder("quarantine") / "bad").mkdir()
    (store.folder("work") / "left").mkdir()
    removed = collect(store, keep=2500)
    assert not old.path.exists()
    assert new.path.exists()
    assert {name for name, _ in removed} >= {"quarantine/bad", "work/left"}


def test_collect_leaves_what_a_build_holds(store):
    (store.folder("work") / KEY[:24]).mkdir()
    with store.lock(f"work-{KEY}", waiting=lambda *_: None):
        collect(store, keep=0)
        assert (store.root / "work" / KEY[:24]).exists()
    collect(store, keep=0)
    assert not (store.root / "work" / KEY[:24]).exists()


@pytest.mark.parametrize(
    ("text", "size"), [("20 GiB", 20 << 30), ("1.5MB", 1_500_000), ("7", 7), ("2 kib", 2048)]
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "many", "-1 GiB", "1 XB"])
def test_sizes_that_are_none(text):
    with pytest.raises(SelectionError, match="not an amount"):
        parse_size(text)


def test_the_cache_carries_its_tag(store):
    put(store)
    tag = (store.root / "CACHEDIR.TAG").read_text()
    assert tag.startswith("Signature: 8a477f597d28d172789f06886806bc55")


@pytest.fixture
def elsewhere(tmp_path):
    """A folder on another file system."""
    if os.stat("/dev/shm").st_dev == tmp_path.stat().st_dev:
        pytest.skip("/dev/shm is no other file system than the tests' folder")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture(params=["store", "store/artifact", "tmp", "quarantine"])
def scattered(store, elsewhere, request):
    """A store one of whose folders is a link to another file system."""
    place = store.root / request.param
    place.parent.mkdir(parents=True)
    place.symlink_to(elsewhere, target_is_directory=True)
    return store


def test_a_folder_of_the_cache_may_be_a_link_to_elsewhere(scattered):
    first, second = put(scattered, text="one"), put(scattered, text="two")
    assert first == second
    assert (first.path / "thing.whl").read_text() == "one"
    assert scattered.listing() == (("artifact", KEY),)
    assert [path.name for path in first.path.parent.iterdir()] == [KEY]
    damage_bytes(first.path)
    assert get(scattered)[0] is None
    assert len(list((scattered.root / "quarantine").iterdir())) == 1
    assert put(scattered, text="new").key == KEY
    scattered.remove("artifact", KEY)
    assert scattered.listing() == ()
    assert not any((scattered.root / "tmp").iterdir())


def test_a_draft_that_the_dead_left_beside_an_entry_is_none_and_is_swept(store):
    entry = put(store)
    with store.scratch() as mine:
        machine = mine.name.split("-")[0]
        (dead, alive) = (entry.path.parent / f".{machine}-{n}-x" for n in (999999999, os.getpid()))
        for draft in (dead, alive):
            shutil.copytree(entry.path, draft)
        assert store.listing() == (("artifact", KEY),)
        assert store.entries() == (entry,)
        store.sweep()
    assert (dead.exists(), alive.exists()) == (False, True)


def test_a_full_disk_elsewhere_is_one_clear_error(tmp_path):
    """On a small file system of its own, mounted for that process alone."""
    (tmp_path / "cache/store").mkdir(parents=True)
    script = 'mount -t tmpfs -o size=64k none "$1/store"; shift; exec "$@"'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-ec", script, "sh", str(tmp_path / "cache"),
         sys.executable, "-c", PUT, str(tmp_path / "cache")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "disk-full []\n", done.stderr


def test_moving_the_cache_keeps_it_whole(store, tmp_path):
    put(store)
    shutil.copytree(store.root, tmp_path / "elsewhere")
    assert get(Store(tmp_path / "elsewhere"))[0] is not None
