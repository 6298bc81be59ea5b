"""Crates out of git repositories: found, copied, and given a manifest that stands by itself."""

import json
import tomllib
from hashlib import sha256

import pytest
from source.crates import crate, lock
from source.repositories import git, refusal, tree_of

from kernforge.recipe.model import CargoSource
from kernforge.source.cargo import keep_lock, write_config
from kernforge.source.cratelock import GitCrate, Origin
from kernforge.source.fetch import fetch, fetched, place
from kernforge.source.gitcrate import place_git_crate

ORIGIN = Origin(
    name="git+https://git.example/w?rev=abc", url="https://git.example/w", asked=(("rev", "abc"),),
    commit="a" * 40,
)  # fmt: skip
WORKSPACE = """\
[workspace]
members = ["crates/*"]
[workspace.package]
version = "1.2.3"
edition = "2021"
readme = "README.md"
[workspace.lints.rust]
unsafe_code = "forbid"
[workspace.dependencies]
text = "1.0"
more = { version = "2", features = ["a"], default-features = false }
near = { path = "crates/near" }
"""
MEMBER = """\
[package]
name = "member"
version.workspace = true
edition.workspace = true
readme.workspace = true
description = 'say "hi"\\n ünd'
[lints]
workspace = true
[features]
default = []
fast = ["dep:more"]
[dependencies]
text.workspace = true
more = { workspace = true, features = ["b"], optional = true }
near.workspace = true
next = { path = "../next", version = "0.1" }
plain = "3"
[dev-dependencies]
test-only = { path = "../../tests" }
[target.'cfg(unix)'.build-dependencies]
near = { workspace = true }
[target.'cfg(unix)'.dev-dependencies]
other = "1"
[[bin]]
name = "b"
path = "src/b.rs"
"""


def wanted(name="member", version="1.2.3"):
    return GitCrate(name=name, version=version, origin=ORIGIN)


@pytest.fixture
def checkout(tmp_path):
    """A workspace on disk; answers a function that takes a crate out of it."""
    root = tmp_path / "checkout"

    def call(one=None, **files):
        found = {"Cargo.toml": WORKSPACE, "crates/member/Cargo.toml": MEMBER, **files}
        for name, text in found.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        place_git_crate(one or wanted(), root, tmp_path / "into")
        return tmp_path / "into"

    call.root = root
    return call


def manifest(folder):
    return tomllib.loads((folder / "Cargo.toml").read_text())


def test_fields_of_the_workspace_are_written_out(checkout):
    found = manifest(checkout())
    assert found["package"] == {
        "name": "member",
        "version": "1.2.3",
        "edition": "2021",
        "description": 'say "hi"\\n ünd',
    }
    assert not {"lints", "workspace", "dev-dependencies"} & found.keys()
    assert found["features"] == {"default": [], "fast": ["dep:more"]}
    assert found["bin"] == [{"name": "b", "path": "src/b.rs"}]


def test_dependencies_of_the_workspace_are_written_out(checkout):
    near = {"git": ORIGIN.url, "rev": "abc"}
    found = manifest(checkout())
    assert found["dependencies"] == {
        "text": {"version": "1.0"},
        "more": {
            "version": "2", "features": ["a", "b"], "default-features": False, "optional": True,
        },
        "near": near,
        "next": {"version": "0.1", **near},
        "plain": "3",
    }  # fmt: skip
    assert found["target"]["cfg(unix)"] == {"build-dependencies": {"near": near}}


def test_a_crate_at_the_top_of_its_own_workspace(checkout):
    text = '[package]\nname = "top"\nversion.workspace = true\n' + WORKSPACE
    assert (
        manifest(checkout(wanted("top"), **{"Cargo.toml": text}))["package"]["version"] == "1.2.3"
    )


def test_a_crate_without_a_workspace(checkout):
    text = '[package]\nname = "lone"\nversion = "0.1.0"\n'
    files = {"Cargo.toml": text, "crates/member/Cargo.toml": "not TOML ["}
    assert manifest(checkout(wanted("lone", "0.1.0"), **files)) == {
        "package": {"name": "lone", "version": "0.1.0"}
    }


@pytest.mark.parametrize("one", [wanted("nobody"), wanted(version="9.9.9")])
def test_a_crate_that_is_not_there(checkout, one):
    assert "is not in 'https://git.example/w' at aaaaaaaaaaaa" in str(
        refusal("crate-missing-in-git", checkout, one)
    )


def test_links_that_leave_the_crate_become_what_they_point_to(checkout):
    member = checkout.root / "crates/member"
    member.mkdir(parents=True)
    (checkout.root / "LICENSE").write_text("terms")
    (member / "LICENSE").symlink_to("../../LICENSE")
    (member / "all").symlink_to("../..")
    (member / "own").symlink_to("src")
    found = tree_of(checkout(**{"crates/member/src/lib.rs": "x"}))
    assert found["LICENSE"] == b"terms"
    assert found["own"] == "-> src"
    assert "all" not in found


def test_it_comes_by_commit_over_http(smart_http, upstream, settings, runner, tmp_path):
    up = upstream
    files = {
        "Cargo.toml": WORKSPACE,
        "crates/member/Cargo.toml": MEMBER,
        "crates/member/src/lib.rs": "",
    }
    commit = up.commit(files)
    up.commit({"later": "x"})
    url = f"{smart_http.url}/up"
    text = lock(crate("member", "1.2.3"), source=f"git+{url}?rev={commit[:8]}#{commit}")
    path = tmp_path / "Cargo.lock"
    path.write_text(text)
    source = CargoSource(cargo="up/Cargo.lock", sha256=sha256(text.encode()).hexdigest())
    keep_lock(source, path, settings)
    assert not fetched(source, settings)
    fetch(source, settings, runner=runner, told=print)
    assert fetched(source, settings)
    asked = len(smart_http.requests)
    place(source, settings, tmp_path / "vendor", runner=runner)
    assert len(smart_http.requests) == asked
    (folder,) = (tmp_path / "vendor").iterdir()
    assert folder.name == f"member-1.2.3-{commit[:12]}"
    assert json.loads((folder / ".cargo-checksum.json").read_text()) == {
        "files": {},
        "package": None,
    }
    write_config(source, settings, tmp_path, "vendor")
    told_to_cargo = tomllib.loads((tmp_path / ".cargo/config.toml").read_text())["source"]
    assert told_to_cargo[f"git+{url}?rev={commit[:8]}"] == {
        "git": url, "rev": commit[:8], "replace-with": "kernforge",
    }  # fmt: skip
    assert git(up.folder, "rev-parse", "HEAD") != commit
