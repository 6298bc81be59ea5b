"""`kernforge new`: first recipes from real repositories and checkouts that the tests make."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from kernforge.authoring.new import public_address
from kernforge.recipe.load import load_recipe

GIT_ENV = {
    **os.environ,
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}
COMMIT = "57e3cfb47a2d9e0d46eb6335c3dc411498efa198"
SHA256 = "77d3f1714b5903dc8f7a99fbc3a5d9a2b886e449f994b6c4b1d2feeacb467b1e"
FILES = {
    "kernels/pyproject.toml": """\
[build-system]
requires = ["scikit-build-core>=0.10", "torch>=2.8"]
build-backend = "scikit_build_core.build"
[project]
name = "my_kernels"
version = "0.4.1"
""",
    "kernels/CMakeLists.txt": f"""\
include(FetchContent)
FetchContent_Declare(repo-cutlass GIT_REPOSITORY https://example.org/cutlass GIT_TAG {COMMIT})
FetchContent_Declare(repo-fmt URL https://example.org/fmt.tar.gz URL_HASH SHA256={SHA256})
FetchContent_Declare(repo-mla GIT_REPOSITORY https://example.org/mla GIT_TAG sgl)
""",
    "tools/pyproject.toml": '[project]\nname = "tools"\nversion = "1"\n',
    "kernels/csrc/k.cu": "__global__ void k() {}\n",
}


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=folder, env=GIT_ENV, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def upstream(tmp_path):
    folder = tmp_path / "upstream"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    git(folder, "tag", "-a", "v0.4.1", "-m", "v0.4.1")
    return folder


@pytest.fixture
def new(run, tmp_path):
    project = tmp_path / "mine"
    (project / "recipes").mkdir(parents=True)

    def call(*words):
        cache = str(tmp_path / "cache")
        return run("--project", str(project), "--cache", cache, "new", *words)

    call.project = project
    return call


def recipe_of(done):
    assert done.returncode == 0, done.stderr
    return load_recipe(Path(done.stdout.splitlines()[0]))


def test_from_a_url(new, upstream):
    recipe = recipe_of(new(f"file://{upstream}", "--tag", "v0.4.1", "--subdir", "kernels"))
    assert recipe.name == "my-kernels"
    assert recipe.distribution == "my_kernels"
    assert recipe.version == "0.4.1"
    assert recipe.build.subdir == "kernels"
    assert recipe.matrix.torch == ("2.14.1",)
    sources = dict(recipe.sources)
    assert sources["my-kernels"].commit == git(upstream, "rev-parse", "HEAD")
    assert sources["my-kernels"].tag == "v0.4.1"
    assert sources["repo-cutlass"].commit == COMMIT
    assert sources["repo-cutlass"].fetchcontent == "repo-cutlass"
    assert sources["repo-fmt"].sha256 == SHA256
    assert "repo-mla" not in sources


def test_a_moving_pin_is_said_in_its_place(new, upstream):
    done = new(f"file://{upstream}", "--subdir", "kernels")
    text = Path(done.stdout.splitlines()[0]).read_text()
    assert "  # repo-mla (kernels/CMakeLists.txt:4): https://example.org/mla at sgl: pin it" in text


def test_several_projects_are_named(new, upstream):
    done = new(f"file://{upstream}")
    assert done.returncode == 3
    assert "error[project-ambiguous]" in done.stderr
    assert "kernels, tools" in done.stderr


def test_an_unknown_tag(new, upstream):
    done = new(f"file://{upstream}", "--tag", "v9")
    assert done.returncode == 4
    assert "error[tag-unknown]" in done.stderr


@pytest.fixture
def checkout(upstream, tmp_path):
    folder = tmp_path / "found"
    subprocess.run(["git", "clone", "-q", str(upstream), str(folder)], env=GIT_ENV, check=True)
    git(folder, "remote", "set-url", "origin", "https://me:T0KEN@example.org/sgl.git")
    return folder


def test_from_a_dirty_checkout(new, checkout):
    (checkout / "kernels/csrc/k.cu").write_text("__global__ void k2() {}\n")
    (checkout / "scratch.txt").write_text("mine")
    undecided = new("--from", str(checkout), "--subdir", "kernels")
    assert undecided.returncode == 3
    assert "error[changes-undecided]" in undecided.stderr
    done = new("--from", str(checkout), "--subdir", "kernels", "--changes")
    recipe = recipe_of(done)
    (source,) = [s for n, s in recipe.sources if n == "my-kernels"]
    assert source.git == "https://example.org/sgl.git"
    assert source.tag == "v0.4.1"
    assert source.patches == ("my-kernels/0001-local-changes.patch",)
    patch = (new.project / "patches/my-kernels/0001-local-changes.patch").read_text()
    assert "+__global__ void k2() {}" in patch
    assert "untracked files are left out: scratch.txt" in done.stderr
    everything = done.stdout + done.stderr + json.dumps(recipe.to_dict())
    assert "T0KEN" not in everything


def test_nothing_is_overwritten(new, checkout):
    first = new("--from", str(checkout), "--subdir", "kernels")
    path = Path(first.stdout.splitlines()[0])
    path.write_text("mine")
    done = new("--from", str(checkout), "--subdir", "kernels")
    assert done.returncode == 3
    assert "error[recipe-exists]" in done.stderr
    assert path.read_text() == "mine"


def test_hooks_and_filters_of_a_strange_checkout_do_not_run(new, checkout, tmp_path):
    trap = tmp_path / "trap"
    for key in ("core.fsmonitor", "diff.external", "core.pager", "core.editor"):
        git(checkout, "config", key, f"touch {trap}")
    git(checkout, "config", "filter.evil.clean", f"touch {trap}; cat")
    (checkout / ".git/info/attributes").write_text("*.cu filter=evil\n")
    (checkout / "kernels/csrc/k.cu").write_text("changed\n")
    done = new("--from", str(checkout), "--subdir", "kernels", "--changes")
    assert done.returncode == 0, done.stderr
    assert not trap.exists()


def test_what_is_no_checkout(new, tmp_path):
    (tmp_path / "plain").mkdir()
    done = new("--from", str(tmp_path / "plain"))
    assert done.returncode == 4
    assert "error[checkout-unreadable]" in done.stderr


def test_the_nearest_shipped_recipe_is_the_start(new, upstream):
    text = (upstream / "kernels/pyproject.toml").read_text()
    (upstream / "kernels/pyproject.toml").write_text(text.replace("my_kernels", "sgl-kernel"))
    git(upstream, "commit", "-qam", "renamed")
    done = new(f"file://{upstream}", "--subdir", "kernels")
    recipe = recipe_of(done)
    assert recipe.name == "sgl-kernel"
    sources = dict(recipe.sources)
    main = sources[recipe.main_source]
    assert main.commit == git(upstream, "rev-parse", "HEAD")
    shipped = load_recipe(Path("recipes/sgl-kernel.yaml"))
    assert recipe.verify == shipped.verify


@pytest.mark.parametrize(
    ("given", "public"),
    [
        ("git@github.com:sgl-project/sglang.git", "https://github.com/sgl-project/sglang.git"),
        ("ssh://git@example.org/a/b", "https://example.org/a/b"),
        ("https://u:p@example.org/a", "https://example.org/a"),
        ("https://example.org/a", "https://example.org/a"),
    ],
)
def test_addresses_lose_their_secrets(given, public):
    assert public_address(given) == public
