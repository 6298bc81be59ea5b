"""Crates and programs of the host in real builds: pinned, offline, named where they are missing."""

import ctypes
import json
import shutil
import zipfile
from pathlib import Path

import pytest
from pipeline.crates import ADD, LOCK, RECIPE, RUSTY, TWICE, with_git_crate
from pipeline.trials import SETUP, make_trial, recipe_with
from source.crates import serve
from source.repositories import Repository
from source.servers import FileServer, GitServer, serving

pytestmark = pytest.mark.build

needs_rust = pytest.mark.skipif(
    not (shutil.which("cargo") and shutil.which("rustc")), reason="no Rust: apt-get install cargo"
)


@pytest.fixture
def registry():
    """A registry of the two crates over HTTP."""
    state = FileServer()
    with serving(state):
        serve(state, ADD, TWICE)
        yield state


@pytest.fixture
def rusty(run, tmp_path, compiler_cache):
    """The project with crates, and nothing that says where crates are."""
    found = make_trial(tmp_path, compiler_cache, run)
    found.write(RUSTY)
    found.lock("rusty", "rusty")
    return found


@pytest.fixture
def user(registry, tmp_path):
    """The environment of a user whose cargo takes crates from the registry."""
    text = (
        '[source.crates-io]\nreplace-with = "near"\n'
        f'[source.near]\nregistry = "sparse+{registry.url}/index/"\n'
    )
    (tmp_path / "cargo").mkdir()
    (tmp_path / "cargo/config.toml").write_text(text)
    return {"CARGO_HOME": str(tmp_path / "cargo")}


def without_programs(tmp_path, *names):
    """A PATH with the system's programs but for these."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for path in Path("/usr/bin").iterdir():
        if path.name not in names:
            (folder / path.name).symlink_to(path)
    return {"PATH": str(folder)}


def failed(answer, status, word):
    assert answer.status == status, answer.said
    assert answer.fault["error"] == word, answer.fault["message"]
    return answer.fault


@needs_rust
def test_it_builds_offline_from_fetched_crates(rusty, user, registry, run, tmp_path):
    place = ("--project", str(rusty.root), "--cache", str(rusty.cache))
    fetched = run(*place, "fetch", "rusty", env=user)
    assert fetched.returncode == 0, fetched.stderr
    assert "Fetching 2 crates of up/native/Cargo.lock" in fetched.stderr
    asked = len(registry.seen)
    answer = rusty.build("--offline", name="rusty")
    assert answer.made["verdict"]["passed"]
    assert len(registry.seen) == asked
    with zipfile.ZipFile(answer.made["wheel"]) as wheel:
        (name,) = [n for n in wheel.namelist() if n.startswith("plain/native")]
        library = ctypes.CDLL(wheel.extract(name, tmp_path))
        built = json.loads(wheel.read(next(n for n in wheel.namelist() if "build.json" in n)))
    assert library.plain_twice(21) == 42
    assert {"rust files", "rust version"} < built["machine"]["host"].keys()


@needs_rust
def test_a_crate_of_a_git_repository_s_workspace(rusty, user, tmp_path):
    """It inherits from its workspace and names a neighbour by path; the build has neither."""
    (tmp_path / "git").mkdir()
    state = GitServer(root=tmp_path / "git")
    with serving(state):
        rusty.write(with_git_crate(Repository(tmp_path / "git/shared"), f"{state.url}/shared"))
        answer = rusty.build(name="rusty", env=user)
        assert answer.made["verdict"]["passed"]
    with zipfile.ZipFile(answer.made["wheel"]) as wheel:
        (name,) = [n for n in wheel.namelist() if n.startswith("plain/native")]
        library = ctypes.CDLL(wheel.extract(name, tmp_path))
    assert library.plain_twice(21) == 42 + 3


@needs_rust
def test_without_the_source_of_crates_cargo_wants_the_network(rusty):
    text = "".join(line for line in RECIPE.splitlines(True) if "cargo:" not in line)
    text = text.replace("  backend:", "  programs: [cargo, rustc]\n  backend:")
    rusty.write({"recipes/rusty.yaml": text})
    fault = failed(rusty.build(name="rusty"), 6, "network-wanted")
    assert "a source of kind cargo" in fault["hint"]


@needs_rust
def test_a_crate_that_the_lock_does_not_name_is_missed(rusty, user):
    """Cargo would resolve anew, and finds nothing but what is pinned."""
    manifest = RUSTY["project/native/Cargo.toml"] + 'tiny-more = "1"\n'
    rusty.write({"project/native/Cargo.toml": manifest})
    fault = failed(rusty.build(name="rusty", env=user), 6, "crate-missing")
    assert "tiny-more" in fault["message"]


@needs_rust
def test_a_project_that_asks_for_a_newer_rust(rusty, user):
    manifest = RUSTY["project/native/Cargo.toml"].replace(
        'edition = "2021"', 'edition = "2021"\nrust-version = "1.999"'
    )
    rusty.write({"project/native/Cargo.toml": manifest})
    assert "1.999" in failed(rusty.build(name="rusty", env=user), 6, "rust-too-old")["message"]


@needs_rust
@pytest.mark.parametrize("name", ["tiny-add", "tiny-twice"])
def test_a_crate_with_other_bytes_stops_before_the_environment(rusty, user, registry, name):
    registry.bodies[f"/files/{name}-1.0.0.crate"] += b"\0"
    answer = rusty.build(name="rusty", env=user)
    assert f"crate '{name} 1.0.0'" in failed(answer, 4, "hash-mismatch")["message"]
    assert ": env " not in answer.said


@needs_rust
def test_a_lock_that_is_not_the_pinned_one(rusty, user):
    rusty.write({"project/native/Cargo.lock": LOCK + "\n"})
    fault = failed(rusty.build(name="rusty", env=user), 4, "hash-mismatch")
    assert fault["message"].startswith("'up/native/Cargo.lock' has SHA-256")


@needs_rust
def test_a_lock_that_changed_after_it_was_fetched(rusty, user):
    """What cargo reads is what the pin says, also where the crates are at hand already."""
    assert rusty.build(name="rusty", env=user).status == 0
    rusty.write({"project/native/Cargo.lock": LOCK.replace("version = 3", "version = 4")})
    failed(rusty.build(name="rusty", env=user), 4, "hash-mismatch")


@needs_rust
def test_nobody_says_where_crates_are(rusty, tmp_path):
    answer = rusty.build(name="rusty", env={"CARGO_HOME": str(tmp_path)})
    assert "config.toml" in failed(answer, 4, "crates-unnamed")["hint"]


def test_without_cargo_nothing_is_fetched(rusty, user, registry, tmp_path):
    env = user | without_programs(tmp_path, "cargo", "rustc")
    fault = failed(rusty.build(name="rusty", env=env), 5, "program-missing")
    assert "cargo, rustc" in fault["message"]
    assert "apt-get install cargo rustc" in fault["hint"]
    assert registry.seen == []


def test_a_program_that_the_recipe_names_is_missing(trial, tmp_path):
    trial.write({"recipes/plain.yaml": recipe_with("programs: [protoc, no-such-program]")})
    answer = trial.build(env=without_programs(tmp_path, "protoc"))
    fault = failed(answer, 5, "program-missing")
    assert "no-such-program, protoc" in fault["message"]
    assert "apt-get install protobuf-compiler" in fault["hint"]
    assert ": env " not in answer.said


def test_a_program_that_the_recipe_names_is_let_in_and_known(trial, tmp_path):
    """It lies where no build looks otherwise, and its bytes are in the key."""
    tool = tmp_path / "tools/say-word"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho 1\n")
    tool.chmod(0o755)
    call = "import subprocess\nsubprocess.run(['say-word'], check=True)\n"
    trial.write({"project/setup.py": call + SETUP})
    env = {"PATH": f"{tool.parent}:/usr/bin:/bin"}
    assert trial.build(env=env).status == 6
    trial.write({"recipes/plain.yaml": recipe_with("programs: [say-word]")})
    keys = {trial.build(env=env).made["key"] for _ in range(2)}
    tool.write_text("#!/bin/sh\necho 2\n")
    assert trial.build(env=env).made["key"] not in keys
    assert len(keys) == 1
