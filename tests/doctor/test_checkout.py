"""What git says of checkouts that strangers left; nothing of theirs is run."""

import os
import shutil
import subprocess

import pytest
from doctor.places import PATH, checkout, git

from kernforge.doctor.checkout import find_top, read_checkout
from kernforge.process import SystemRunner
from kernforge.source.git import Git
from kernforge.source.settings import FetchSettings, Limits


@pytest.fixture
def read(tmp_path):
    def call(folder, path=PATH):
        settings = FetchSettings(
            cache=tmp_path, project=tmp_path, env=(("PATH", path),), limits=Limits(git=30)
        )
        return read_checkout(folder, Git(runner=SystemRunner(), settings=settings, told=print))

    return call


@pytest.fixture
def top(tmp_path):
    return checkout(tmp_path / "top", commits=3)


def test_a_clean_checkout_after_a_tag(read, top):
    git(top, "tag", "v1.2", "HEAD~2")
    git(top, "tag", "-a", "-m", "x", "gateway-v9", "HEAD~1")
    found = read(top / "python/sglang")
    assert (found.folder, found.branch, found.changed) == (top, "main", ())
    assert (found.tag, found.ahead, found.tags) == ("gateway-v9", 1, 2)
    assert found.date == 1788429600
    assert (found.shallow, found.trouble) == (False, None)
    assert found.remote == "https://git.example.org/sglang"


def test_a_tag_of_another_branch_is_not_reachable(read, top):
    """FIELD_CASES 104."""
    git(top, "checkout", "-q", "-b", "release")
    git(top, "commit", "-q", "--allow-empty", "-m", "release")
    git(top, "tag", "v2.0")
    git(top, "checkout", "-q", "main")
    found = read(top)
    assert (found.tag, found.tags) == (None, 1)


def test_a_shallow_clone(read, top, tmp_path):
    git(top, "tag", "v1.2", "HEAD~2")
    git(tmp_path, "clone", "-q", "--depth", "1", top.as_uri(), "shallow")
    found = read(tmp_path / "shallow")
    assert (found.shallow, found.tag, found.tags) == (True, None, 0)


def test_changes_and_renames(read, top):
    (top / "python/sglang/__init__.py").write_text("import sys\n")
    git(top, "mv", "python/pyproject.toml", "python/other.toml")
    (top / "unknown").touch()
    assert sorted(read(top).changed) == ["python/other.toml", "python/sglang/__init__.py"]


def test_a_bare_commit_and_a_worktree(read, top, tmp_path):
    git(top, "worktree", "add", "-q", "--detach", str(tmp_path / "tree"))
    found = read(tmp_path / "tree/python")
    assert (found.folder, found.branch) == (tmp_path / "tree", "")
    assert found.commit == git(top, "rev-parse", "HEAD")


def test_no_checkout_at_all(read, tmp_path):
    assert read(tmp_path) is None
    assert find_top(tmp_path) is None


@pytest.mark.parametrize("harm", ["empty", "no-head", "gitdir"])
def test_a_broken_repository_is_told(read, top, harm):
    if harm == "empty":
        shutil.rmtree(top / ".git/objects")
    elif harm == "no-head":
        (top / ".git/HEAD").write_text("ref: refs/heads/none\n")
    else:
        shutil.rmtree(top / ".git")
        (top / ".git").write_text("gitdir: /no/such/place\n")
    found = read(top)
    assert found.trouble
    assert found.commit == ""


def test_nothing_that_a_repository_names_is_run(read, top, tmp_path):
    """Filters, monitors, hooks, pagers, external diffs: each would leave a mark."""
    mark = tmp_path / "mark"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    program.chmod(0o755)
    (top / ".gitattributes").write_text("* filter=evil diff=evil\n")
    git(top, "add", ".gitattributes")
    git(top, "commit", "-q", "-m", "attributes")
    for key in ("filter.evil.clean", "filter.evil.process", "filter.evil.smudge", "core.fsmonitor",
                "core.pager", "diff.external", "diff.evil.textconv", "core.sshCommand",
                "gpg.program", "core.hooksPath", "core.alternateRefsCommand"):  # fmt: skip
        git(top, "config", key, str(program))
    git(top, "config", "filter.evil.required", "true")
    git(top, "config", "log.showSignature", "true")
    hook = top / ".git/hooks/post-index-change"
    hook.write_text(program.read_text())
    hook.chmod(0o755)
    (top / "python/sglang/__init__.py").write_text("import sys\n")
    (top / "python/pyproject.toml").touch()
    before = (top / ".git/index").read_bytes()
    found = read(top)
    assert found.changed == ("python/sglang/__init__.py",)
    assert not mark.exists()
    assert (top / ".git/index").read_bytes() == before
    # The same call without care does run them.
    subprocess.run(["git", "status", "--porcelain"], cwd=top, capture_output=True, check=False)
    assert mark.exists()


PRETEND = f"""#!/bin/sh
GIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec {shutil.which("git")} "$@"
"""


@pytest.mark.parametrize("how", ["pretended", *(["owned"] if os.geteuid() == 0 else [])])
def test_of_another_owner(read, top, tmp_path, how):
    """Git itself refuses a checkout of somebody else's; asked so, it answers."""
    path = PATH
    if how == "owned":
        for place in (top, *top.rglob("*")):
            shutil.chown(place, 65534)
    else:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin/git").write_text(PRETEND)
        (tmp_path / "bin/git").chmod(0o755)
        path = f"{tmp_path}/bin:{PATH}"
    env = {"PATH": path, "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    plain = subprocess.run(["git", "status"], cwd=top, env=env, capture_output=True, check=False)
    assert b"dubious ownership" in plain.stderr
    assert read(top, path).trouble is None
