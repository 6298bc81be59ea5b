"""Fetching git sources: what is fetched, how, and what of it becomes the tree."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
from source.repositories import EPOCH, GONE, git, refusal, source, tree_of

from kernforge.errors import ToolchainError
from kernforge.process import KILLED_FOR_TIME, Result
from kernforge.source.cache import mirror_folder
from kernforge.source.fetch import epoch, fetch, place
from kernforge.source.git import fault_of
from kernforge.source.identity import identity


@pytest.fixture
def get(get_git):
    return get_git


class TestPlain:
    def test_tree_is_the_commit_and_holds_no_git(self, upstream, get):
        old = upstream.commit({"a/x.cu": "one", "run.sh": "#!"})
        upstream.commit({"a/x.cu": "two"})
        tree = get(source(upstream.url, old))
        assert tree_of(tree) == {"a/x.cu": b"one", "run.sh": b"#!"}
        assert not (tree / ".git").exists()

    def test_modes_and_links_are_kept(self, upstream, get):
        (upstream.folder / "run.sh").write_text("#!")
        (upstream.folder / "run.sh").chmod(0o755)
        (upstream.folder / "link").symlink_to("run.sh")
        tree = get(source(upstream.url, upstream.commit({"plain": ""})))
        assert (tree / "run.sh").stat().st_mode & 0o7777 == 0o755
        assert (tree / "plain").stat().st_mode & 0o7777 == 0o644
        assert tree_of(tree)["link"] == "-> run.sh"

    def test_second_fetch_and_place_use_no_network(self, upstream, get, runner):
        wanted = source(upstream.url, upstream.commit({"x": "1"}))
        get(wanted)
        before = runner.network()
        shutil.rmtree(upstream.folder)
        get(wanted)
        assert runner.network() == before

    def test_epoch_is_the_commit_date_and_needs_no_program(self, upstream, get, settings):
        wanted = source(upstream.url, upstream.commit({"x": "1"}))
        assert epoch(wanted, settings) is None
        get(wanted)
        assert epoch(wanted, settings) == EPOCH

    def test_history_and_other_branches_do_not_come(self, upstream, get, settings):
        upstream.commit({"x": "old and secret"})
        wanted = source(upstream.url, upstream.commit({"x": "new"}))
        get(wanted)
        mirror = mirror_folder(settings.cache, wanted.git)
        objects = git(mirror, "--git-dir=.", "cat-file", "--batch-check", "--batch-all-objects")
        assert len(objects.splitlines()) == 3

    def test_two_commits_share_a_mirror_and_files_at_hand_do_not_come_again(
        self, upstream, get, settings
    ):
        big = os.urandom(200_000)
        first = upstream.commit({"big": big, "x": "1"})
        second = upstream.commit({"x": "2"})
        assert tree_of(get(source(upstream.url, first))) == {"big": big, "x": b"1"}
        assert tree_of(get(source(upstream.url, second))) == {"big": big, "x": b"2"}
        (mirror,) = (settings.cache / "git").iterdir()
        packs = [p.stat().st_size for p in (mirror / "objects/pack").glob("*.pack")]
        assert sum(packs) < 250_000

    def test_a_name_that_begins_with_a_dash_is_a_name(self, upstream, get):
        tree = get(source(upstream.url, upstream.commit({"--output=x": "1", "a": "2"})))
        assert tree_of(tree) == {"--output=x": b"1", "a": b"2"}

    def test_names_that_are_not_utf8_and_differ_in_case_come_as_they_are(self, upstream, get):
        name = os.fsdecode(b"\xff\n")
        tree = get(source(upstream.url, upstream.commit({name: "1", "A": "2", "a": "3"})))
        assert tree_of(tree) == {name: b"1", "A": b"2", "a": b"3"}

    def test_git_that_is_not_there_is_named(self, upstream, settings, runner, told, tmp_path):
        wanted = source(upstream.url, upstream.commit({"x": "1"}))
        bare = replace(settings, env=(("PATH", str(tmp_path)),))
        with pytest.raises(ToolchainError, match="'git' is not there"):
            fetch(wanted, bare, runner=runner, told=told.append)


class TestTransports:
    def test_what_a_killed_git_left_is_cleared(self, upstream, get, settings):
        get(source(upstream.url, upstream.commit({"x": "1"})))
        mirror = mirror_folder(settings.cache, upstream.url)
        second = upstream.commit({"x": "2"})
        lock = mirror / f"refs/kernforge/commits/{second}.lock"
        for left in (mirror / "shallow.lock", mirror / "config.lock", lock):
            left.touch()
        (mirror / "objects/pack/tmp_pack_1").touch()
        assert tree_of(get(source(upstream.url, second))) == {"x": b"2"}
        assert not list(mirror.glob("objects/pack/tmp_*"))

    def test_daemon(self, upstream, daemon, get):
        commit = upstream.commit({"x": "1"})
        upstream.commit({"x": "2"})
        assert tree_of(get(source(f"{daemon}/up", commit))) == {"x": b"1"}

    def test_smart_http(self, upstream, smart_http, get):
        commit = upstream.commit({"x": "1"})
        upstream.commit({"x": "2"})
        assert tree_of(get(source(f"{smart_http.url}/up", commit))) == {"x": b"1"}

    def test_sparse_fetches_only_its_files(self, upstream, smart_http, get):
        big = os.urandom(300_000)
        commit = upstream.commit({"big": big, "src/a/x": "1", "src/b/y": "2"})
        tree = get(source(f"{smart_http.url}/up", commit, sparse=["src/a"]))
        assert tree_of(tree) == {"src/a/x": b"1"}
        assert smart_http.sent < 20_000

    def test_thousands_of_sparse_files(self, upstream, smart_http, get):
        commit = upstream.history([{f"src/{i}": str(i) for i in range(2100)} | {"o": "1"}])
        assert len(tree_of(get(source(f"{smart_http.url}/up", commit, sparse=["src"])))) == 2100

    def test_bytes_sent_do_not_grow_with_history(self, repositories, smart_http, get):
        sent = []
        for count in (2, 2000):
            one = repositories(f"h{count}")
            commit = one.history([{"x": str(i), f"y{i % 10}": "1"} for i in range(count)])
            get(source(f"{smart_http.url}/h{count}", commit))
            sent.append(smart_http.sent - sum(sent))
        assert sent[1] < sent[0] + 1000

    def test_more_folders_of_a_commit_at_hand(self, upstream, smart_http, get):
        commit = upstream.commit({"a/x": "1", "b/y": "2"})
        get(source(f"{smart_http.url}/up", commit, sparse=["a"]))
        tree = get(source(f"{smart_http.url}/up", commit, sparse=["a", "b"]))
        assert tree_of(tree) == {"a/x": b"1", "b/y": b"2"}

    def test_server_without_filters(self, upstream, smart_http, get):
        git(upstream.folder, "config", "uploadpack.allowFilter", "false")
        first = upstream.commit({"a/x": "1", "b": "2"})
        second = upstream.commit({"a/x": "3"})
        url = f"{smart_http.url}/up"
        assert tree_of(get(source(url, first, sparse=["a"]))) == {"a/x": b"1"}
        assert tree_of(get(source(url, second))) == {"a/x": b"3", "b": b"2"}

    @pytest.mark.parametrize("filters", ["true", "false"])
    def test_old_server_gives_a_tagged_commit_by_its_tag(
        self, upstream, smart_http, get, told, filters
    ):
        git(upstream.folder, "config", "uploadpack.allowFilter", filters)
        smart_http.old = True
        commit = upstream.commit({"x": "1"})
        git(upstream.folder, "tag", "-a", "-m", "t", "v1")
        upstream.commit({"x": "2"})
        assert tree_of(get(source(f"{smart_http.url}/up", commit, tag="v1"))) == {"x": b"1"}
        assert not any("all of its history" in line for line in told)

    @pytest.mark.parametrize("sparse", [[], ["a"]])
    def test_old_server_gives_other_commits_with_all_history(
        self, upstream, smart_http, get, told, sparse
    ):
        smart_http.old = True
        first = upstream.commit({"a/x": "1", "b": "1"})
        second = upstream.commit({"a/x": "2"})
        upstream.commit({"a/x": "3"})
        url = f"{smart_http.url}/up"
        assert tree_of(get(source(url, second, sparse=sparse)))["a/x"] == b"2"
        assert any("all of its history" in line for line in told)
        assert tree_of(get(source(url, first, sparse=sparse)))["a/x"] == b"1"

    def test_old_server_with_a_shallow_mirror(self, upstream, smart_http, get):
        first = upstream.commit({"x": "1"})
        second = upstream.commit({"x": "2"})
        url = f"{smart_http.url}/up"
        get(source(url, second))
        smart_http.old = True
        assert tree_of(get(source(url, first))) == {"x": b"1"}

    def test_old_server_and_a_gone_commit(self, upstream, smart_http, get):
        smart_http.old = True
        upstream.commit({"x": "1"})
        refusal("commit-gone", get, source(f"{smart_http.url}/up", GONE))

    def test_passing_trouble_is_tried_again(self, upstream, smart_http, get, told):
        wanted = source(f"{smart_http.url}/up", upstream.commit({"x": "1"}))
        smart_http.failing = 2
        assert tree_of(get(wanted)) == {"x": b"1"}
        assert sum("trying again" in line for line in told) == 2

    def test_nobody_there(self, get):
        fault = refusal("source-unreachable", get, source("http://127.0.0.1:9/up", GONE))
        assert "127.0.0.1:9" in fault.message

    @pytest.mark.parametrize("kind", ["file", "daemon", "http"])
    def test_no_such_repository(self, tmp_path, daemon, smart_http, get, kind):
        served = f"file://{tmp_path}/served"
        base = {"file": served, "daemon": daemon, "http": smart_http.url}[kind]
        refusal("source-missing", get, source(f"{base}/other", GONE))


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ("fatal: write error: No space left on device", "disk-full"),
        ("git@h: Permission denied (publickey).", "source-auth"),
        ("Host key verification failed.", "source-auth"),
        ("ERROR: Repository not found.", "source-missing"),
        ("fatal: unsafe repository: detected dubious ownership in repository", "source-refused"),
        ("fatal: want 0123 is not valid", "by-hash-refused"),
        ("fatal: Could not resolve host: h", "source-unreachable"),
        ("", "source-unreachable"),
    ],
)
def test_complaints_of_git(settings, said, word):
    result = Result(returncode=128, stdout=b"", stderr=said.encode())
    assert fault_of(result, "https://h/x", settings).word == word


def test_complaints_of_git_are_shown_without_secrets(settings):
    own = replace(settings, mirrors=(("https://x/", "https://u:mirrorpass@m/"),))
    said = "unable to access 'https://bob:T0KEN%2Bs3cret@h/x': T0KEN+s3cret mirrorpass for bob"
    result = Result(returncode=128, stdout=b"", stderr=said.encode())
    fault = fault_of(result, "https://bob:T0KEN%2Bs3cret@h/x", own)
    assert fault.detail == ("unable to access 'https://***@h/x': *** *** for bob",)
    assert "s3cret" not in fault.message


def test_silence_of_git(settings):
    result = Result(returncode=KILLED_FOR_TIME, stdout=b"", stderr=b"")
    fault = fault_of(result, "https://h/x", settings)
    assert fault.word == "source-timeout"
    assert "60 s" in fault.message


class TestCommitAndTag:
    def test_force_pushed_commit_that_is_still_served(self, upstream, get):
        old = upstream.commit({"x": "1"})
        upstream.commit({"x": "2"}, "--amend")
        assert tree_of(get(source(upstream.url, old))) == {"x": b"1"}

    def test_force_pushed_commit_that_is_gone(self, upstream, get):
        old = upstream.commit({"x": "1"})
        upstream.commit({"x": "2"}, "--amend")
        git(upstream.folder, "reflog", "expire", "--expire=all", "--all")
        git(upstream.folder, "gc", "-q", "--prune=now")
        fault = refusal("commit-gone", get, source(upstream.url, old))
        assert old in fault.message
        assert upstream.url in fault.message

    def test_gone_commit_that_is_at_hand(self, upstream, get):
        wanted = source(upstream.url, upstream.commit({"x": "1"}))
        get(wanted)
        upstream.commit({"x": "2"}, "--amend")
        git(upstream.folder, "reflog", "expire", "--expire=all", "--all")
        git(upstream.folder, "gc", "-q", "--prune=now")
        assert tree_of(get(wanted)) == {"x": b"1"}

    @pytest.mark.parametrize("kind", [(), ("-a", "-m", "t")], ids=["light", "annotated"])
    def test_tag_at_the_commit(self, upstream, smart_http, get, kind):
        commit = upstream.commit({"x": "1"})
        git(upstream.folder, "tag", *kind, "v1.0")
        git(upstream.folder, "tag", "other/v1.0", commit)
        assert tree_of(get(source(f"{smart_http.url}/up", commit, tag="v1.0"))) == {"x": b"1"}

    def test_moved_tag_names_both_commits(self, upstream, get):
        commit = upstream.commit({"x": "1"})
        now = upstream.commit({"x": "2"})
        git(upstream.folder, "tag", "v1")
        fault = refusal("tag-moved", get, source(upstream.url, commit, tag="v1"))
        assert commit in fault.message
        assert now in fault.message

    def test_missing_tag(self, upstream, get):
        commit = upstream.commit({"x": "1"})
        git(upstream.folder, "tag", "x/v1")
        refusal("tag-missing", get, source(upstream.url, commit, tag="v1"))

    def test_tag_is_asked_for_once_and_is_no_part_of_the_identity(self, upstream, get, runner):
        commit = upstream.commit({"x": "1"})
        git(upstream.folder, "tag", "v1")
        wanted = source(upstream.url, commit, tag="v1")
        get(wanted)
        git(upstream.folder, "tag", "-d", "v1")
        before = runner.network()
        get(wanted)
        assert runner.network() == before
        assert identity(wanted) == identity(source("https://other.example/up", commit))


def test_missing_sparse_folder(upstream, get):
    commit = upstream.commit({"src/x": "1"})
    fault = refusal("sparse-missing", get, source(upstream.url, commit, sparse=["src", "scr"]))
    assert "'scr'" in fault.message


def test_mirrors_are_asked_in_order_instead_of_the_source(
    upstream, daemon, get, settings, tmp_path
):
    served = f"file://{tmp_path}/served"
    own = replace(
        settings,
        mirrors=(
            ("https://", "http://127.0.0.1:9/wrong/"),
            ("https://example.invalid/", f"{daemon}/absent/"),
            ("https://example.invalid/", f"{served}/"),
        ),
    )
    wanted = source("https://example.invalid/up", upstream.commit({"x": "1"}))
    assert tree_of(get(wanted, own)) == {"x": b"1"}


def test_metadata_is_one_commit_that_depends_on_the_files_alone(upstream, get):
    upstream.commit({".gitignore": "x\n", "x": "1", "crlf": "a\r\n"})
    wanted = source(upstream.url, upstream.commit({"y": "1"}), git_metadata=True)
    trees = [get(wanted), get(wanted)]
    assert len({git(tree, "rev-parse", "HEAD") for tree in trees}) == 1
    assert git(trees[0], "log", "--format=%an %ct") == f"kernforge {EPOCH}"
    assert git(trees[0], "status", "--porcelain") == ""
    assert sorted(git(trees[0], "ls-files").splitlines()) == [".gitignore", "crlf", "x", "y"]


def test_several_processes_fetch_one_mirror_at_once(upstream, settings, tmp_path, runner):
    commits = [upstream.commit({"x": str(number), "big": os.urandom(9000)}) for number in range(3)]
    program = (
        "import sys; from pathlib import Path\n"
        "from kernforge.process import SystemRunner\n"
        "from kernforge.recipe.model import GitSource\n"
        "from kernforge.source.fetch import fetch\n"
        "from kernforge.source.settings import FetchSettings\n"
        "url, commit, cache, path = sys.argv[1:]\n"
        "s = FetchSettings(cache=Path(cache), project=Path(cache), env=(('PATH', path),))\n"
        "fetch(GitSource(git=url, commit=commit), s, runner=SystemRunner(), told=print)\n"
    )
    words = [str(settings.cache), os.environ["PATH"]]
    children = [
        subprocess.Popen([sys.executable, "-c", program, upstream.url, commit, *words])
        for commit in commits
    ]
    assert [child.wait(60) for child in children] == [0] * 3
    for commit in commits:
        place(source(upstream.url, commit), settings, tmp_path / commit, runner=runner)


LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {}\n"


def test_lfs_pointers_are_told_of(upstream, get):
    pointer = LFS.format("a" * 64, 5)
    commit = upstream.commit({"models/x.bin": pointer, "doc": "version https://x\n", "y": "1"})
    fault = refusal("lfs-pointer", get, source(upstream.url, commit))
    assert "'models/x.bin'" in fault.message
    assert get(source(upstream.url, commit, sparse=["doc"]))


@pytest.mark.skipif(shutil.which("git-lfs") is None, reason="git-lfs is not there")
@pytest.mark.parametrize("sparse", [[], ["models"]])
def test_lfs_files_come_from_the_repository(upstream, get, sparse):
    import hashlib

    data = os.urandom(3000)
    oid = hashlib.sha256(data).hexdigest()
    stored = upstream.folder / ".git/lfs/objects" / oid[:2] / oid[2:4] / oid
    stored.parent.mkdir(parents=True)
    stored.write_bytes(data)
    attributes = "*.bin filter=lfs diff=lfs merge=lfs -text\n"
    commit = upstream.commit({"models/x.bin": LFS.format(oid, 3000), "y": "1"})
    upstream.folder.joinpath(".gitattributes").write_text(attributes)
    upstream.folder.joinpath(".lfsconfig").write_text("[lfs]\n\turl = http://127.0.0.1:9/\n")
    git(upstream.folder, "add", ".gitattributes", ".lfsconfig")
    git(upstream.folder, "commit", "-q", "-m", "lfs")
    assert commit
    now = git(upstream.folder, "rev-parse", "HEAD")
    tree = get(source(upstream.url, now, lfs=True, sparse=sparse))
    assert (tree / "models/x.bin").read_bytes() == data
