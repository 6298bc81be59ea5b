"""The folder: whole generations, names that keep their bytes, damage refused, kills survived."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from publish.offers import candidate, put, write_offer

from kernforge.errors import PublishError
from kernforge.publish.folder import read_shown
from kernforge.publish.listing import read_catalogue
from kernforge.publish.publication import Order, publish

TESTS = Path(__file__).parents[1]


@pytest.fixture
def root(tmp_path):
    return tmp_path / "an index"


def snapshot(root: Path) -> dict[str, bytes]:
    served = root / "current"
    return {str(p.relative_to(served)): p.read_bytes() for p in served.rglob("*") if p.is_file()}


def test_a_generation_holds_the_bytes(root, tmp_path):
    wheel = write_offer(tmp_path)
    published = put(root, wheel, base_url="https://wheels.example")
    assert [listed.file for listed in published.new] == [wheel.name]
    served = root / "current/cu130/sm120a/tiny"
    assert (served / wheel.name).read_bytes() == wheel.read_bytes()
    assert (served / f"{wheel.name}.metadata").read_bytes() == candidate(wheel).metadata
    assert read_shown(root).base_url == "https://wheels.example"


def test_the_same_again_writes_nothing(root, tmp_path):
    wheel = write_offer(tmp_path)
    first = put(root, wheel)
    again = put(root, wheel)
    assert again.new == ()
    assert again.folder == first.folder


def test_the_pages_are_the_same_whoever_writes_them(root, tmp_path):
    wheels = [write_offer(tmp_path), write_offer(tmp_path, archs=["9.0"], version="1+cu130.sm90")]
    put(root, *wheels)
    other = tmp_path / "other"
    old = os.umask(0o077)
    try:
        put(other, wheels[1])
        put(other, wheels[0])
    finally:
        os.umask(old)
    assert snapshot(root) == snapshot(other)
    modes = {p.stat().st_mode & 0o777 for p in (other / "current/").rglob("*")}
    assert modes == {0o644, 0o755}


def test_what_was_published_stays(root, tmp_path):
    first = write_offer(tmp_path)
    put(root, first)
    for number in range(4):
        put(root, write_offer(tmp_path, version=f"2.{number}"))
    assert (root / "current/cu130/sm120a/tiny" / first.name).read_bytes() == first.read_bytes()
    assert len(list((root / "generations").iterdir())) == 2
    assert len(read_shown(root).wheels) == 5


def test_a_name_never_gets_other_bytes(root, tmp_path):
    put(root, write_offer(tmp_path))
    before = snapshot(root)
    (tmp_path / "other").mkdir()
    other = write_offer(tmp_path / "other", text="x = 2\n")
    with pytest.raises(PublishError, match="is published with other bytes") as found:
        put(root, other, write_offer(tmp_path, version="9"))
    assert found.value.word == "file-name-taken"
    assert snapshot(root) == before


def test_two_wheels_of_one_name_in_one_call(root, tmp_path):
    (tmp_path / "other").mkdir()
    wheels = write_offer(tmp_path), write_offer(tmp_path / "other", text="x = 2\n")
    with pytest.raises(PublishError, match="is published with other bytes"):
        put(root, *wheels)
    assert not (root / "current").exists()


def test_a_new_build_of_a_version_takes_the_old_one_back(root, tmp_path):
    old = write_offer(tmp_path, build="1kffff")
    new = write_offer(tmp_path, build="1kf000", key="cd" * 32)
    put(root, old)
    shown = {w.file: w.yanked for w in put(root, new).wheels}
    assert shown == {old.name: f"superseded by {new.name}", new.name: None}


def test_yank_and_unyank(root, tmp_path):
    wheel = write_offer(tmp_path)
    put(root, wheel)
    assert put(root, yank=((wheel.name, "it hangs"),)).wheels[0].yanked == "it hangs"
    page = (root / "current/cu130/sm120a/tiny/index.html").read_text()
    assert 'data-yanked="it hangs"' in page
    assert put(root, unyank=(wheel.name,)).wheels[0].yanked is None
    with pytest.raises(PublishError, match=r"holds no 'x.whl'"):
        put(root, yank=(("x.whl", ""),))


def test_another_folder_is_left_alone(root, tmp_path):
    root.mkdir()
    (root / "thesis.txt").write_text("mine")
    with pytest.raises(PublishError, match="is no index of ours") as found:
        put(root, write_offer(tmp_path))
    assert found.value.word == "index-foreign"
    assert [p.name for p in root.iterdir()] == ["thesis.txt"]


def break_wheel(served, name):
    path = served / "cu130/sm120a/tiny" / name
    path.write_bytes(path.read_bytes()[:-1] + b"!")


def break_metadata(served, name):
    (served / "cu130/sm120a/tiny" / f"{name}.metadata").write_text("Name: huge\n")


def remove_wheel(served, name):
    (served / "cu130/sm120a/tiny" / name).unlink()


def link_wheel(served, name):
    path = served / "cu130/sm120a/tiny" / name
    path.rename(served / "moved.whl")
    path.symlink_to(served / "moved.whl")


def edit_catalogue(served, name):
    path = served / "catalog.json"
    path.write_text(path.read_text().replace("12.0a", "12.0f"))


def rewrite_catalogue(served, name):
    """As somebody would who knows the format: the digest is right, the place leads out."""
    from kernforge.canonical import digest

    path = served / "catalog.json"
    body = json.loads(path.read_text())["body"]
    body["wheels"][0]["leaf"] = "../../../etc"
    path.write_text(json.dumps({"body": body, "digest": digest(body)}))


def garble_catalogue(served, name):
    (served / "catalog.json").write_text("[" * 100_000)


def drop_catalogue(served, name):
    (served / "catalog.json").unlink()


@pytest.mark.parametrize(
    "harm",
    [break_wheel, break_metadata, remove_wheel, link_wheel, edit_catalogue, rewrite_catalogue,
     garble_catalogue, drop_catalogue],
)  # fmt: skip
def test_a_damaged_index_is_not_published_from(root, tmp_path, harm):
    wheel = write_offer(tmp_path)
    put(root, wheel)
    harm((root / "current").resolve(), wheel.name)
    before = snapshot(root)
    with pytest.raises(PublishError, match=r"The index .* is damaged") as found:
        put(root, write_offer(tmp_path, version="2"))
    assert found.value.word == "index-damaged"
    assert snapshot(root) == before


@pytest.mark.parametrize("target", ["/tmp", "generations/../..", "nowhere"])
def test_a_link_that_leads_elsewhere_is_refused(root, tmp_path, target):
    put(root, write_offer(tmp_path))
    (root / "current").unlink()
    (root / "current").symlink_to(target)
    with pytest.raises(PublishError, match="does not lead to a generation"):
        put(root, write_offer(tmp_path, version="2"))


def test_a_wheel_that_changes_meanwhile_is_not_shown(root, tmp_path):
    wheel = write_offer(tmp_path)
    order = Order(candidates=(candidate(wheel),))
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    with pytest.raises(PublishError, match="changed while it was published"):
        publish(root, order, waiting=lambda _: None)
    assert not (root / "current").exists()
    assert list((root / "generations").iterdir()) == []


WORKER = """\
import sys
from pathlib import Path
from publish.offers import put
wheels = [Path(name) for name in sys.argv[2:]]
from publish.offers import candidate
from kernforge.publish.publication import Order, publish
order = Order(candidates=tuple(map(candidate, wheels)))
print("go", flush=True)
publish(Path(sys.argv[1]), order, waiting=lambda seconds: print("waiting", flush=True))
print("done", flush=True)
"""


def start(root, *wheels, prefix=()):
    env = {**os.environ, "PYTHONPATH": str(TESTS)}
    words = [*prefix, sys.executable, "-c", WORKER, str(root), *map(str, wheels)]
    return subprocess.Popen(
        words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def check_whole(root: Path) -> int:
    """Everything that a page names is there with the bytes that the page says; counts wheels."""
    from hashlib import sha256

    from pypi_simple import ProjectPage

    if not (root / "current").exists():
        return 0
    served = (root / "current").resolve()
    wheels, _ = read_catalogue((served / "catalog.json").read_bytes(), "x")
    named = set()
    for page in served.rglob("index.html"):
        if page.parent.parent.name.startswith("sm"):
            for package in ProjectPage.from_html(page.parent.name, page.read_text()).packages:
                data = (page.parent / package.filename).read_bytes()
                assert sha256(data).hexdigest() == package.digests["sha256"]
                metadata = (page.parent / f"{package.filename}.metadata").read_bytes()
                assert sha256(metadata).hexdigest() == package.metadata_digests["sha256"]
                named.add(package.filename)
    assert named == {wheel.file for wheel in wheels}
    return len(named)


def test_two_publishers_at_once(root, tmp_path):
    wheels = [write_offer(tmp_path, version=f"1.{number}") for number in range(8)]
    both = [start(root, *wheels[:4]), start(root, *wheels[4:])]
    ends = [child.communicate(timeout=60) for child in both]
    assert [child.returncode for child in both] == [0, 0], ends
    assert check_whole(root) == 8


def test_a_second_publisher_waits_and_says_so(root, tmp_path):
    from filelock import FileLock

    put(root, write_offer(tmp_path))
    with FileLock(root / ".lock"):
        child = start(root, write_offer(tmp_path, version="2"))
        assert child.stdout.readline() == "go\n"
        said = child.stdout.readline()
    out, err = child.communicate(timeout=60)
    assert (said, out.splitlines()[-1:]) == ("waiting\n", ["done"]), err
    assert check_whole(root) == 2


def about_to_publish(root: Path, *wheels: Path) -> subprocess.Popen[str]:
    """A process of its own that begins to publish now."""
    child = start(root, *wheels)
    assert child.stdout.readline() == "go\n"
    return child


def seconds_of(child: subprocess.Popen[str]) -> float:
    """How long it publishes."""
    began = time.monotonic()
    assert child.stdout.readline() == "done\n"
    took = time.monotonic() - began
    child.communicate()
    return took


def test_killed_at_twenty_random_moments(root, tmp_path):
    """Whatever the moment: what is shown is whole, and the next publisher finishes the work."""
    put(root, *(write_offer(tmp_path, version=f"1.{number}") for number in range(3)))
    took = []
    for number in range(3):
        new = [write_offer(tmp_path, version=f"1.1.{number}.{part}") for part in range(3)]
        took.append(seconds_of(about_to_publish(root, *new)))
    window = 1.2 * min(took)  # a busy moment must not make it so long that all end before
    dice, killed = random.Random(20261130), 0
    for number in range(20):
        new = [write_offer(tmp_path, version=f"2.{number}.{part}") for part in range(3)]
        before = check_whole(root)
        child = about_to_publish(root, *new)
        time.sleep(dice.uniform(0.0, window))
        child.kill()
        said, told = child.communicate()
        assert child.returncode in {0, -signal.SIGKILL}, told
        killed += "done" not in said
        after = check_whole(root)
        assert after in {before, before + 3}
        put(root, *new)
        assert check_whole(root) == before + 3
    assert killed > 0
    assert len(list((root / "generations").iterdir())) == 2
    assert not list(root.glob(".current-*"))


def test_a_full_disk_leaves_the_index_as_it_was(tmp_path):
    """On a small file system of its own, mounted for this process alone."""
    root = tmp_path / "small/index"
    root.parent.mkdir()
    noise = random.Random(1).randbytes(600_000).hex()
    first = write_offer(tmp_path)
    large = [write_offer(tmp_path, version=f"3.{n}", text=f"x = '{noise}{n}'\n") for n in range(3)]
    keep = tmp_path / "kept"
    script = (
        f'mount -t tmpfs -o size=1m none "{root.parent}"; shift 0; '
        f'{sys.executable} -c "$WORKER" "{root}" "{first}" >/dev/null || exit 90; '
        f'{sys.executable} -c "$WORKER" "{root}" {" ".join(map(str, large))}; status=$?; '
        f'cp -a "{root}" "{keep}"; exit $status'
    )
    env = {**os.environ, "PYTHONPATH": str(TESTS), "WORKER": WORKER}
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], env=env, capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "No space is left for the index" in done.stderr
    assert check_whole(keep) == 1
    assert len(list((keep / "generations").iterdir())) == 1
