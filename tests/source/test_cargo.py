"""Crates: from a Cargo.lock to a vendored registry, each by its checksum, over loopback HTTP."""

import json
import tarfile
import tomllib
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from source.crates import crate, lock, serve, tarball
from source.repositories import tree_of

from kernforge.errors import SourceError
from kernforge.recipe.model import CargoSource
from kernforge.source.cargo import check_lock, keep_lock, write_config
from kernforge.source.cratelock import Crate, GitCrate, Origin, read_lock
from kernforge.source.fetch import epoch, fetch, fetched, place
from kernforge.source.identity import identity

ONE = crate("one", code="pub fn one() -> i32 { 1 }\n")
TWO = crate("two_x", "2.3.4+build.1", code="pub fn two() -> i32 { 2 }\n")
LOCK = lock(ONE, TWO, own="mine")


def source(text=LOCK) -> CargoSource:
    return CargoSource(cargo="up/rust/Cargo.lock", sha256=sha256(text.encode()).hexdigest())


@pytest.fixture
def keep(settings, tmp_path):
    """Keep a lock as a placed source has it; answers the source of crates."""

    def call(text=LOCK):
        path = tmp_path / "Cargo.lock"
        path.write_text(text)
        keep_lock(source(text), path, settings)
        return source(text)

    return call


@pytest.fixture
def get(settings, runner, told, tmp_path):
    """Fetch crates and place them; answers the vendored folder."""
    count = iter(range(9))

    def call(wanted, *registries, **more):
        own = replace(settings, crates=registries, **more)
        fetch(wanted, own, runner=runner, told=told.append)
        assert fetched(wanted, own)
        into = tmp_path / f"vendor{next(count)}"
        place(wanted, replace(own, offline=True, crates=()), into, runner=runner)
        return into

    return call


def refusal(word, call, *words, **options) -> SourceError:
    with pytest.raises(SourceError, match=r"\w") as caught:
        call(*words, **options)
    assert caught.value.word == word, caught.value.message
    return caught.value


# the lock


def test_a_lock_names_its_crates_and_no_package_of_the_workspace():
    assert read_lock(LOCK.encode(), "L").crates == (
        Crate(name="one", version="1.0.0", sha256=ONE.sha256),
        Crate(name="two_x", version="2.3.4+build.1", sha256=TWO.sha256),
    )


@pytest.mark.parametrize("version", [3, 4])
def test_both_formats_of_today_read_alike(version):
    text = lock(ONE, own="mine", version=version)
    assert [c.folder for c in read_lock(text.encode(), "L").crates] == ["one-1.0.0"]


def test_a_lock_of_a_project_without_dependencies_names_nothing():
    assert read_lock(lock(own="mine").encode(), "L").count == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version = ", "is not TOML"),
        ("\xff", "is not TOML"),
        ("package = 3\n", "no list of packages"),
        ("package = [3]\n", "no list of packages"),
        (LOCK.replace(ONE.sha256, "0" * 63), "no SHA-256 for the crate one 1.0.0"),
        (LOCK.replace(f'checksum = "{ONE.sha256}"\n', ""), "no SHA-256 for the crate one 1.0.0"),
        (LOCK.replace('"one"\nversion', '"../one"\nversion'), "'../one' '1.0.0', no crate"),
        (LOCK.replace('"1.0.0"', '"1.0.0/.."'), "no crate"),
        (LOCK.replace('"1.0.0"', '"1"'), "no crate"),
    ],
)
def test_a_lock_that_says_no_bytes_is_refused(text, said):
    fault = refusal("cargo-lock-invalid", read_lock, text.encode("latin-1"), "up/Cargo.lock")
    assert said in fault.message
    assert fault.message.startswith("up/Cargo.lock ")


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        ("registry+https://other.example/index", "another registry"),
        ("sparse+https://other.example/index/", "another registry"),
    ],
)
def test_crates_from_elsewhere_are_named_and_refused(origin, said):
    text = lock(ONE, TWO, source=origin)
    fault = refusal("crate-origin", read_lock, text.encode(), "up/Cargo.lock")
    assert said in fault.message
    assert fault.message.endswith("2 packages (one, two_x)")
    assert "to a path" in fault.hint


def test_crates_of_git_repositories_have_the_commit_that_cargo_resolved():
    commit = "0123456789" * 4
    text = lock(ONE, TWO, source=f"git+https://git.example/x.git?tag=v1%2Fa#{commit}")
    origin = Origin(
        name="git+https://git.example/x.git?tag=v1%2Fa",
        url="https://git.example/x.git",
        asked=(("tag", "v1/a"),),
        commit=commit,
    )
    locked = read_lock(text.encode(), "L")
    assert locked.crates == ()
    assert locked.git[0] == GitCrate(name="one", version="1.0.0", origin=origin)
    assert locked.origins == (origin,)
    assert locked.count == 2


@pytest.mark.parametrize("end", ["", "#", "#012345", "#main"])
def test_a_git_crate_without_a_commit_is_refused(end):
    text = lock(ONE, source=f"git+https://git.example/x?branch=main{end}")
    assert "no commit for the crate one" in str(
        refusal("cargo-lock-invalid", read_lock, text.encode(), "L")
    )


@pytest.mark.parametrize("url", ["file:///srv/x", "ext::sh -c x", "https://kim:pw@git.example/x"])
def test_no_lock_names_a_folder_a_program_or_a_password(keep, get, url):
    text = lock(ONE, source=f"git+{url}#{'0' * 40}")
    fault = refusal("crate-origin", get, keep(text))
    assert "pw" not in f"{fault} {fault.hint}"


# fetching


@pytest.mark.parametrize("dl", ["{url}/crates", "{url}/files/{{crate}}-{{version}}.crate"])
def test_each_crate_is_fetched_and_lies_as_cargo_wants_it(web, keep, get, told, dl):
    tree = get(keep(), serve(web, ONE, TWO, dl=dl))
    assert {"one-1.0.0/Cargo.toml", "one-1.0.0/src/lib.rs", "two_x-2.3.4+build.1/src/lib.rs"} < set(
        tree_of(tree)
    )
    said = json.loads((tree / "one-1.0.0/.cargo-checksum.json").read_text())
    assert said == {"files": {}, "package": ONE.sha256}
    assert told == ["Fetching 2 crates of up/rust/Cargo.lock"]


def test_every_marker_of_an_address_is_filled_in(web, keep, get):
    serve(
        web, ONE, dl="{url}/x/{{prefix}}/{{lowerprefix}}/{{crate}}/{{version}}/{{sha256-checksum}}"
    )
    web.bodies[f"/x/3/o/3/o/one/1.0.0/{ONE.sha256}"] = ONE.data
    assert get(keep(lock(ONE)), f"sparse+{web.url}/index")


@pytest.mark.parametrize(
    ("name", "folder"), [("a", "1"), ("Ab", "2"), ("Abc", "3/A"), ("Serde-X", "Se/rd")]
)
def test_folders_of_an_index(web, keep, get, name, folder):
    each = crate(name)
    serve(web, dl="{url}/x/{{prefix}}/{{crate}}")
    web.bodies[f"/x/{folder}/{name}"] = each.data
    assert get(keep(lock(each)), f"{web.url}/index/")


def test_what_is_at_hand_is_not_asked_for_again(web, keep, get, told):
    wanted, address = keep(), serve(web, ONE, TWO)
    get(wanted, address)
    asked = len(web.seen)
    get(wanted, address)
    get(wanted, offline=True)
    assert len(web.seen) == asked == 3
    assert len(told) == 1


def test_a_registry_in_a_folder(keep, get, tmp_path):
    folder = tmp_path / "registry"
    (folder / "files").mkdir(parents=True)
    (folder / "config.json").write_text(
        json.dumps({"dl": f"{folder.as_uri()}/files/{{crate}}-{{version}}"})
    )
    for each in (ONE, TWO):
        (folder / f"files/{each.name}-{each.version}").write_bytes(each.data)
    assert get(keep(), folder.as_uri(), offline=True)


def test_the_next_registry_is_asked(web, keep, get, told):
    good = serve(web, ONE, TWO)
    assert get(keep(), f"{web.url}/nowhere/", good)
    assert "status 404; asking the next registry" in told[1]


def test_a_mirror_of_the_registry(web, keep, get):
    serve(web, ONE, TWO)
    mirrors = (("https://registry.example/", f"{web.url}/index/"),)
    assert get(keep(), "sparse+https://registry.example/", mirrors=mirrors)


def test_user_and_password_reach_the_registry_and_no_message(web, keep, get, told):
    address = serve(web, ONE).replace("http://", "http://kim:secretword@")
    web.account = ("kim", "secretword")
    assert get(keep(lock(ONE)), address)
    web.account = ("kim", "another")
    fault = refusal("source-auth", get, keep(lock(TWO)), address)
    assert "secretword" not in f"{fault} {fault.hint} {told}"


@pytest.mark.parametrize("step", ["503", "404"])
def test_what_the_registry_refuses(web, keep, get, step):
    address = serve(web, ONE, TWO)
    web.script = [step]
    fault = refusal("source-unreachable", get, keep(), address)
    assert f"answers with status {step}" in fault.message
    assert len(web.seen) == (3 if step == "503" else 1)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"dl": 3}', b'{"dl": "file:///etc"}'])
def test_what_is_no_registry(web, keep, get, body):
    address = serve(web, ONE, TWO)
    web.bodies["/index/config.json"] = body
    fault = refusal("index-invalid", get, keep(), address)
    assert "config.json" in fault.hint


def test_a_crate_that_vanished_is_named(web, keep, get):
    address = serve(web, ONE)
    assert "crate 'two_x 2.3.4+build.1' is not there" in str(
        refusal("source-missing", get, keep(), address)
    )


def test_a_crate_with_other_bytes_is_refused(web, keep, get):
    address = serve(web, ONE, TWO)
    web.bodies["/files/one-1.0.0.crate"] = TWO.data
    assert ONE.sha256 in str(refusal("hash-mismatch", get, keep(), address))


def test_no_registry_is_named(keep, get):
    fault = refusal("crates-unnamed", get, keep())
    assert fault.message.endswith("to fetch 2 crates of 'up/rust/Cargo.lock' from")
    assert "kernforge/config.toml" in fault.hint


def test_no_network(web, keep, get):
    address = serve(web, ONE, TWO)
    assert "2 crates" in str(refusal("offline-missing", get, keep(), address, offline=True))
    assert web.seen == []


def test_crates_without_their_lock(get):
    refusal("offline-missing", get, source())


def test_a_changed_crate_in_the_cache_is_fetched_again(web, keep, get, settings):
    wanted, address = keep(), serve(web, ONE, TWO)
    get(wanted, address)
    (settings.cache / "files" / ONE.sha256).write_bytes(b"rot")
    assert not fetched(wanted, settings)
    assert get(wanted, address)


# placing


@pytest.mark.parametrize("name", ["/etc/x", "../../x", "one-1.0.0/../../x"])
def test_hostile_crates_stay_in_their_folder(web, keep, get, name):
    bad = crate("one", more=[(name, "x")])
    refusal("archive-member", get, keep(lock(bad)), serve(web, bad))


def test_links_may_not_leave_a_crate_for_the_next(web, keep, get):
    link = tarfile.TarInfo("one-1.0.0/next")
    link.type, link.linkname = tarfile.SYMTYPE, "../two_x-2.3.4+build.1"
    bad = crate("one", more=[("", link)])
    refusal("archive-member", get, keep(lock(bad, TWO)), serve(web, bad, TWO))


def test_a_checksum_file_of_the_crate_s_own_is_not_followed(web, keep, get):
    link = tarfile.TarInfo("one-1.0.0/.cargo-checksum.json")
    link.type, link.linkname = tarfile.SYMTYPE, "src/lib.rs"
    bad = crate("one", code="keep me", more=[("", link)])
    tree = get(keep(lock(bad)), serve(web, bad))
    assert (tree / "one-1.0.0/src/lib.rs").read_text() == "keep me"
    assert not (tree / "one-1.0.0/.cargo-checksum.json").is_symlink()


def test_what_is_no_archive(web, keep, get):
    bad = replace(ONE, data=b"no tar at all")
    refusal("archive-format", get, keep(lock(bad)), serve(web, bad))
    empty = replace(ONE, data=tarball([]))
    with pytest.raises(SourceError, match=r"holds no file|neither zip nor tar"):
        get(keep(lock(empty)), serve(web, empty))


# the lock in the tree, and cargo's configuration


def test_the_lock_is_that_of_the_pin(settings, tmp_path):
    path = tmp_path / "Cargo.lock"
    assert "up/rust/Cargo.lock" in str(refusal("cargo-lock-missing", check_lock, source(), path))
    path.write_text(LOCK + "\n")
    fault = refusal("hash-mismatch", keep_lock, source(), path, settings)
    assert sha256(path.read_bytes()).hexdigest() in fault.message
    assert not (settings.cache / "files").exists()


def test_cargo_is_told_to_take_nothing_from_elsewhere(tmp_path: Path, keep, settings):
    write_config(keep(), settings, tmp_path, "up/vendor")
    said = tomllib.loads((tmp_path / ".cargo/config.toml").read_text())
    chosen = said["source"]["crates-io"]["replace-with"]
    assert said["source"][chosen] == {"directory": "up/vendor"}
    assert said["net"]["offline"] is True


def test_the_pin_alone_enters_a_key(settings):
    one = source()
    assert identity(one) == {"kind": "cargo", "sha256": one.sha256}
    assert identity(one.model_copy(update={"cargo": "other/Cargo.lock"})) == identity(one)
    assert epoch(one, settings) is None
