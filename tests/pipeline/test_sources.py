"""Pinned sources end to end: git, archives inside one another, patches, edits, FetchContent, offline."""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from projects import FILES, KERNEL, RECIPE, share_toolchain, write_project

pytestmark = pytest.mark.build

GIT_ENV = {
    **os.environ,
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": "2024-05-06T07:08:09Z",
    "GIT_COMMITTER_DATE": "2024-05-06T07:08:09Z",
}
COMMIT_EPOCH = 1714979289

CMAKE = """\
cmake_minimum_required(VERSION 3.26)
project(tiny LANGUAGES CXX CUDA)
include(FetchContent)
FetchContent_Declare(repo-maths GIT_REPOSITORY https://example.invalid/maths GIT_TAG main)
FetchContent_MakeAvailable(repo-maths)
file(APPEND ${repo-maths_SOURCE_DIR}/maths.h "// edited in place by configure\\n")
add_library(tiny SHARED tiny.cu)
target_include_directories(tiny PRIVATE ${repo-maths_SOURCE_DIR} ${repo-maths_SOURCE_DIR}/vendor)
install(TARGETS tiny LIBRARY DESTINATION tiny)
"""
SOURCES = """\
sources:
  tiny:
    git: file://{repo}
    commit: {commit}
    tag: v1.2.3
    patches: [tiny/0001-scale.patch, tiny/0002-name.patch]
    edits: [{{file: tiny/__init__.py, find: A tiny, replace: An edited, count: 1}}]
  maths:
    git: file://{maths}
    commit: {maths_commit}
    fetchcontent: repo-maths
  constants:
    archive: constants.tar.gz
    sha256: {sha256}
    strip: 1
    into: maths/vendor
build: {{source: tiny, subdir: project}}
"""
PATCH_1 = """\
--- a/project/tiny.cu
+++ b/project/tiny.cu
@@ -1,2 +1,4 @@
+#include "maths.h"
+#include "constants.h"
 namespace { __global__ void scale(float *x, float by) { x[threadIdx.x] *= by; } }
 extern "C" void tiny_scale(float *x, float by) { scale<<<1, 32>>>(x, by); }
"""
PATCH_2 = """\
--- a/project/tiny.cu
+++ b/project/tiny.cu
@@ -3,2 +3,2 @@
-namespace { __global__ void scale(float *x, float by) { x[threadIdx.x] *= by; } }
-extern "C" void tiny_scale(float *x, float by) { scale<<<1, 32>>>(x, by); }
+namespace { __global__ void scaled(float *x, float by) { x[threadIdx.x] *= MATHS * CONSTANT * by; } }
+extern "C" void tiny_scale(float *x, float by) { scaled<<<1, 32>>>(x, by); }
"""


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=folder, env=GIT_ENV, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def repository(folder: Path, files: dict[str, str], tag: str | None = None) -> str:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    if tag:
        git(folder, "tag", "-a", tag, "-m", tag)
    return git(folder, "rev-parse", "HEAD")


def archive(path: Path) -> str:
    with tarfile.open(path, "w:gz") as tar:
        data = b"#define CONSTANT 3.0f\n"
        info = tarfile.TarInfo("constants-1.0/constants.h")
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def project(tmp_path):
    upstream = {name: text for name, text in FILES.items() if name.startswith("project/")}
    upstream["project/CMakeLists.txt"] = CMAKE
    upstream["tiny/__init__.py"] = '"""A tiny package."""\n'
    commit = repository(tmp_path / "upstream", upstream, tag="v1.2.3")
    maths = {"maths.h": "#define MATHS 2.0f\n", "CMakeLists.txt": "# nothing to build\n"}
    maths_commit = repository(tmp_path / "maths", maths)
    root = tmp_path / "mine"
    root.mkdir()
    sha256 = archive(root / "constants.tar.gz")
    sources = SOURCES.format(
        repo=tmp_path / "upstream",
        commit=commit,
        maths=tmp_path / "maths",
        maths_commit=maths_commit,
        sha256=sha256,
    )
    recipe = RECIPE.replace("sources:\n  tiny: {path: project}\n", sources)
    write_project(
        root,
        {
            "recipes/tiny.yaml": recipe,
            "patches/tiny/0001-scale.patch": PATCH_1,
            "patches/tiny/0002-name.patch": PATCH_2,
        },
    )
    assert KERNEL.count("\n") == 2
    return root


@pytest.fixture
def call(project, tmp_path, compiler_cache, toolkit):
    cache = share_toolchain(tmp_path / "cache", compiler_cache)

    def start(*words, before=()):
        command = [*before, sys.executable, "-m", "kernforge", "--project", str(project)]
        return subprocess.run(
            [*command, "--cache", str(cache), *words], capture_output=True, text=True, check=False
        )

    start.cache = cache
    return start


def test_the_key_needs_no_network_and_nothing_fetched(call):
    done = call("plan", "tiny", "--json", before=("unshare", "-rn"))
    assert done.returncode == 0, done.stderr
    (plan,) = json.loads(done.stdout)
    assert len(plan["recipe_key"]) == 64
    assert not (call.cache / "sources").exists()


def test_two_repositories_an_archive_inside_and_two_patches_build_offline_after_fetch(call):
    fetched = call("fetch", "tiny")
    assert fetched.returncode == 0, fetched.stderr
    offline = ("unshare", "-rn")
    plan = call("plan", "tiny", "--json", before=offline)
    built = call("build", "tiny", "--json", before=offline)
    assert built.returncode == 0, built.stderr
    document = json.loads(built.stdout)[0]
    assert document["recipe_key"] == json.loads(plan.stdout)[0]["recipe_key"]
    assert document["verdict"]["libraries"][0]["service"] == "serves"


def provenance(call, document) -> dict:
    text = (Path(document["wheel"]).parent / "provenance.json").read_text()
    return json.loads(text)["predicate"]["buildDefinition"]["internalParameters"]


def test_a_second_configure_starts_from_the_same_tree(call):
    """Configure edits the FetchContent copy in place; the next build finds it as it was."""
    first = json.loads(call("build", "tiny", "--json").stdout)[0]
    tree = provenance(call, first)["tree"]
    removed = call("cache", "rm", first["key"])
    assert removed.returncode == 0
    for kind, key in [(p.parent.parent.name, p.name) for p in call.cache.glob("store/*/*/*")]:
        assert kind in {"compiled", "trial"}
        call("cache", "rm", key)
    second = json.loads(call("build", "tiny", "--json").stdout)[0]
    assert second["cached"] is False
    assert provenance(call, second)["tree"] == tree
    assert second["sha256"] == first["sha256"]


def test_the_date_is_the_commits(call):
    document = json.loads(call("build", "tiny", "--json").stdout)[0]
    import zipfile

    with zipfile.ZipFile(document["wheel"]) as wheel:
        dates = {info.date_time for info in wheel.infolist()}
    assert dates == {(2024, 5, 6, 7, 8, 8)}  # a zip counts in steps of two seconds


def test_a_patch_that_does_not_stand_at_its_line_stops_before_anything_compiles(call, project):
    path = project / "patches/tiny/0001-scale.patch"
    path.write_text(PATCH_1.replace("@@ -1,2 +1,4 @@", "@@ -2,2 +2,4 @@"))
    done = call("build", "tiny", "--json")
    assert done.returncode == 4, done.stderr
    assert json.loads(done.stdout)[0]["error"] == "patch-offset"


def test_every_patch_and_edit_is_in_the_key(call, project):
    def key() -> str:
        return json.loads(call("plan", "tiny", "--json").stdout)[0]["recipe_key"]

    keys = [key()]
    patch = project / "patches/tiny/0002-name.patch"
    patch.write_text(PATCH_2.replace("scaled", "scaled2"))
    keys.append(key())
    recipe = project / "recipes/tiny.yaml"
    recipe.write_text(recipe.read_text().replace("An edited", "An altered"))
    keys.append(key())
    recipe.write_text(recipe.read_text().replace("file://", "file:///../"))
    assert key() == keys[-1]  # where it is fetched from is no part of it
    assert len(set(keys)) == 3


def test_offline_with_nothing_fetched_names_what_is_missing(call, project):
    recipe = project / "recipes/tiny.yaml"
    recipe.write_text(recipe.read_text().replace("git: file:///", "git: https://example.invalid/"))
    done = call("build", "tiny", "--offline", "--json")
    assert done.returncode == 4
    assert json.loads(done.stdout)[0]["error"] == "offline-missing"


def test_a_missing_patch_file_is_named(call, project):
    (project / "patches/tiny/0001-scale.patch").unlink()
    done = call("plan", "tiny")
    assert done.returncode == 4
    assert "error[patch-missing]: patches/tiny/0001-scale.patch is not there" in done.stderr


def test_a_nested_download_that_remains_fails_with_its_name(call, project, tmp_path):
    recipe = project / "recipes/tiny.yaml"
    recipe.write_text(recipe.read_text().replace("    fetchcontent: repo-maths\n", ""))
    done = call("build", "tiny", "--json")
    assert done.returncode == 6, done.stderr
    fault = json.loads(done.stdout)[0]
    assert fault["error"] == "network-wanted"
    assert "example.invalid" in fault["message"]
    assert "fetchcontent" in fault["hint"]


def test_a_nested_download_beside_answered_ones_is_named_too(call, project):
    cmake = CMAKE.replace(
        "FetchContent_MakeAvailable(repo-maths)\n",
        "FetchContent_MakeAvailable(repo-maths)\n"
        "FetchContent_Declare(repo-other URL https://example.invalid/other.tar.gz)\n"
        "FetchContent_MakeAvailable(repo-other)\n",
    )
    recipe = project / "recipes/tiny.yaml"
    old = "edits: ["
    new = (
        "edits: [{file: project/CMakeLists.txt, count: 1, "
        f"find: {json.dumps('FetchContent_MakeAvailable(repo-maths)')}, "
        f"replace: {json.dumps(cmake.split('GIT_TAG main)')[1].split('file(APPEND')[0])}}}, "
    )
    recipe.write_text(recipe.read_text().replace(old, new))
    done = call("build", "tiny", "--json")
    assert done.returncode == 6, done.stderr
    fault = json.loads(done.stdout)[0]
    assert fault["error"] == "network-wanted", done.stderr
    assert "repo-other" in fault["message"]


def test_git_metadata_is_one_clean_commit_of_the_patched_tree(call, project, tmp_path):
    """A version that is read from git must not see the patches as dirt."""
    recipe = project / "recipes/tiny.yaml"
    text = recipe.read_text().replace(
        "    tag: v1.2.3\n", "    tag: v1.2.3\n    git_metadata: true\n"
    )
    check = (
        'execute_process(COMMAND sh -c \\"cd /kf/src/tiny && test -d .git && ! test -e /usr/local/x\\" '
        "COMMAND_ERROR_IS_FATAL ANY)"
    )
    edit = f'{{file: project/CMakeLists.txt, find: "include(FetchContent)", replace: "include(FetchContent)\\n{check}", count: 1}}'
    recipe.write_text(text.replace("edits: [", f"edits: [{edit}, "))
    done = call("build", "tiny", "--json")
    assert done.returncode == 0, done.stderr
