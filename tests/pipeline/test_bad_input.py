"""What goes wrong before a compile begins, as a user meets it: one clear error with a way out."""

import json
import subprocess
import sys

import pytest
from pipeline.trials import PYPROJECT, recipe_with
from projects import CMAKE, ROOT, share_toolchain, write_project
from source.servers import FileServer, serving

ARCHIVE = """\
sources:
  plain: {path: project}
  table: {archive: "ADDRESS/table-1.0.tar.gz", sha256: "SHA256"}
build:
  source: plain
"""


def failed(answer, status, word):
    assert answer.status == status, answer.said
    assert answer.fault["error"] == word, answer.fault["message"]
    assert "Traceback" not in answer.said
    return answer.fault


@pytest.fixture
def web():
    """A server of files, which has none."""
    state = FileServer()
    with serving(state):
        yield state


@pytest.fixture
def with_table(trial):
    """The plain project with a third-party archive at an address."""

    def write(address):
        block = ARCHIVE.replace("ADDRESS", address).replace("SHA256", "0" * 64)
        text = recipe_with().replace("sources: {plain: {path: project}}\nbuild:\n", block)
        assert "table" in text
        trial.write({"recipes/plain.yaml": text})

    return write


@pytest.fixture
def build_tiny(run, tmp_path, compiler_cache):
    """Build the CMake project with files changed."""

    def call(changes):
        project = write_project(tmp_path / "p", changes)
        cache = share_toolchain(tmp_path / "cache", compiler_cache)
        place = ("--project", str(project), "--cache", str(cache))
        return run(*place, "build", "tiny", "--json")

    return call


@pytest.mark.build
def test_a_third_party_pin_that_vanished(trial, web, with_table):
    with_table(web.url)
    answer = trial.build()
    fault = failed(answer, 4, "source-missing")
    assert "table-1.0.tar.gz' is not there (status 404)" in fault["message"]
    assert "mirror" in fault["hint"]
    assert ": env " not in answer.said


@pytest.mark.build
def test_a_third_party_file_that_upstream_changed(trial, web, with_table):
    with_table(web.url)
    web.bodies["/table-1.0.tar.gz"] = b"other bytes"
    answer = trial.build()
    assert "table-1.0.tar.gz" in failed(answer, 4, "hash-mismatch")["message"]
    assert ": env " not in answer.said


@pytest.mark.build
def test_a_proxy_that_is_not_there(trial, web, with_table):
    with_table("http://files.example")
    answer = trial.build(env={"http_proxy": "http://127.0.0.1:9", "no_proxy": ""})
    fault = failed(answer, 4, "source-unreachable")
    assert "proxy" in f"{fault['message']} {fault['hint']}"
    assert ": env " not in answer.said


@pytest.mark.build
@pytest.mark.parametrize("words", [(), ("--offline",)])
def test_no_network_at_all(trial, with_table, words):
    with_table("http://files.example")
    place = ("--project", str(trial.root), "--cache", str(trial.cache))
    done = subprocess.run(
        ["unshare", "-rn", sys.executable, "-m", "kernforge", *place, "build", "plain", "--json", *words],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 4, done.stderr
    (fault,) = json.loads(done.stdout)
    assert fault["error"] == ("offline-missing" if words else "source-unreachable")
    assert fault["hint"]
    assert "Traceback" not in done.stderr


@pytest.mark.build
@pytest.mark.parametrize(
    ("cmake", "word", "said"),
    [
        (CMAKE.replace("3.26", "99.1"), "requirement-missing", "cmake>=99.1"),
        (f"{CMAKE}add_subdirectory(table)\n", "cmake-too-old", "CMake 99.2 or higher is required"),
        (f"{CMAKE}cmake_policy(SET CMP9999 NEW)\n", "cmake-too-old", '"CMP9999" is not known'),
    ],
)
def test_a_project_that_wants_a_newer_cmake(build_tiny, cmake, word, said):
    """Its own minimum is held against the lock; that of third parties, and policies, by CMake."""
    third = "cmake_minimum_required(VERSION 99.2)\n"
    done = build_tiny({"project/CMakeLists.txt": cmake, "project/table/CMakeLists.txt": third})
    assert done.returncode == 6, done.stderr
    (fault,) = json.loads(done.stdout)
    assert fault["error"] == word, fault["message"]
    assert said in fault["message"]
    assert "build.requires" in fault["hint"]


@pytest.mark.build
def test_a_project_that_wants_torch_of_another_minor(trial):
    """Its own build requirement is held against the lock before anything compiles."""
    text = PYPROJECT.replace('"setuptools>=77"', '"setuptools>=77", "torch==2.13.0"')
    trial.write({"project/pyproject.toml": text})
    fault = failed(trial.build(), 6, "requirement-missing")
    assert "torch==2.13.0" in fault["message"]
    assert "0 compiler calls" in fault["message"]
    assert "build.requires" in fault["hint"]


def test_a_torch_that_no_lock_was_made_for(run, tmp_path):
    words = ("plan", "sgl-kernel", "--torch", "2.12.0", "--json")
    done = run("--cache", str(tmp_path), *words, cwd=ROOT)
    assert done.returncode == 5
    (fault,) = json.loads(done.stdout)
    assert fault["error"] == "lock-missing"
    assert "kernforge lock sgl-kernel --torch 2.12.0" in f"{fault['message']} {fault['hint']}"
