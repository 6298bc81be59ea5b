"""Fetching git sources: what is fetched, how, what is refused, and what is never shown."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
from source.repositories import EPOCH, git, tree_of

from kernforge.errors import SourceError, ToolchainError
from kernforge.process import KILLED_FOR_TIME, Result
from kernforge.recipe.model import GitSource
from kernforge.source.cache import mirror_folder
from kernforge.source.fetch import epoch, fetch, fetched, place
from kernforge.source.git import fault_of
from kernforge.source.identity import identity

GONE = "0123456789abcdef0123456789abcdef01234567"


def source(url, commit, **more) -> GitSource:
    return GitSource.model_validate({"git": url, "commit": commit, **more})


@pytest.fixture
def get(settings, runner, told, tmp_path):
    """Fetch and place a source; answers the tree."""
    count = iter(range(100))

    def call(wanted, settings=settings):
        fetch(wanted, settings, runner=runner, told=told.append)
        assert fetched(wanted, settings)
        into = tmp_path / f"tree{next(count)}"
        place(wanted, replace(settings, offline=True), into, runner=runner)
        return into

    call.told, call.runner, call.home = told, runner, tmp_path / "home"
    return call


def refusal(word, call, *words, **options) -> SourceError:
    with pytest.raises(SourceError, match=r"\w") as caught:
        call(*words, **options)
    assert caught.value.word == word, caught.value.message
    return caught.value


def cache_text(settings) -> bytes:
    """All that the cache holds, names too, packs unpacked no further."""
    parts = []
    for path in sorted(settings.cache.rglob("*")):
        parts.append(os.fsencode(path))
        if path.is_file():
            parts.append(path.read_bytes())
    return b"\n".join(parts)


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


class TestSubmodules:
    def test_relative_and_nested(self, repositories, smart_http, get):
        inner, middle, outer = (repositories(name) for name in ("inner", "middle", "outer"))
        middle.submodule("deep/inner", inner.commit({"i": "1"}), "../inner")
        outer.submodule("third/middle", middle.commit({"m": "2"}), "../middle")
        inner.commit({"i": "later"})
        tree = get(source(f"{smart_http.url}/outer", outer.commit({"o": "3"})))
        found = tree_of(tree)
        assert found["third/middle/deep/inner/i"] == b"1"
        assert found["third/middle/m"] == b"2"
        assert found["o"] == b"3"

    def test_left_out(self, repositories, get):
        inner, outer = repositories("inner"), repositories("outer")
        outer.submodule("sub", inner.commit({"i": "1"}), "../inner")
        tree = get(source(outer.url, outer.commit({"o": "3"}), submodules=False))
        assert "sub/i" not in tree_of(tree)

    def test_sparse_takes_what_lies_in_it(self, repositories, smart_http, get):
        inner, one, outer = (repositories(name) for name in ("inner", "one", "outer"))
        outer.submodule("third/inner", inner.commit({"inc/i": "1", "doc/d": "2"}), "../inner")
        outer.submodule("other", one.commit({"x": "1"}), "../one")
        commit = outer.commit({"src/o": "3", "docs/d": "4"})
        wanted = source(f"{smart_http.url}/outer", commit, sparse=["src", "third/inner/inc"])
        assert tree_of(get(wanted)) == {"src/o": b"3", "third/inner/inc/i": b"1"}
        assert not any("/one/" in request for request in smart_http.requests)

    def test_gone_commit_names_the_submodule(self, repositories, get):
        inner, outer = repositories("inner"), repositories("outer")
        inner.commit({"i": "1"})
        outer.submodule("third/sub", GONE, "../inner")
        fault = refusal("commit-gone", get, source(outer.url, outer.commit({"o": "3"})))
        assert "'third/sub'" in fault.message
        assert "served/inner" in fault.message

    def test_without_an_address(self, repositories, get):
        outer = repositories("outer")
        outer.gitlink("sub", GONE)
        git(outer.folder, "commit", "-q", "-m", "c")
        commit = git(outer.folder, "rev-parse", "HEAD")
        fault = refusal("submodule-unknown", get, source(outer.url, commit))
        assert "'sub'" in fault.message

    @pytest.mark.parametrize(
        "url",
        [
            "ext::sh -c touch% kernforge-pwned",
            "--upload-pack=touch kernforge-pwned",
            "ssh://-oProxyCommand=touch/x",
            "-u./payload",
            "/etc",
            "fd::17",
            "https://example.invalid/x y",
            "git@-oProxyCommand=touch:x",
            "../../../../../../../../../../../..",
            "javascript://x",
        ],
    )
    def test_addresses_that_are_refused(self, repositories, get, runner, url):
        outer = repositories("outer")
        outer.submodule("sub", GONE, url.replace('"', ""))
        fault = refusal("submodule-refused", get, source(outer.url, outer.commit({"o": "3"})))
        assert "'sub'" in fault.message
        assert runner.network() == 1

    def test_file_address_only_from_a_file_repository(self, repositories, smart_http, get):
        inner, outer = repositories("inner"), repositories("outer")
        outer.submodule("sub", inner.commit({"i": "1"}), inner.url)
        commit = outer.commit({"o": "3"})
        assert "sub/i" in tree_of(get(source(outer.url, commit)))
        refusal("submodule-refused", get, source(f"{smart_http.url}/outer", commit))

    def test_gitmodules_that_is_no_config(self, repositories, get):
        outer = repositories("outer")
        outer.gitlink("sub", GONE)
        refusal("submodule-refused", get, source(outer.url, outer.commit({".gitmodules": "[[["})))

    @pytest.mark.parametrize("limits", [{"depth": 2}, {"submodules": 2}])
    def test_chain_without_end(self, repositories, get, settings, limits):
        last = repositories("last").commit({"x": "1"})
        name = "last"
        for number in range(4):
            outer = repositories(f"r{number}")
            outer.submodule("s", last, f"../{name}")
            last, name = outer.commit({"x": "1"}), f"r{number}"
        own = replace(settings, limits=replace(settings.limits, **limits))
        refusal("submodule-refused", get, source(outer.url, last), own)


class TestHostile:
    def test_attributes_change_nothing(self, upstream, get):
        attributes = (
            "* text=auto eol=crlf ident\nhidden export-ignore\nsubst export-subst\n"
            "wide text working-tree-encoding=UTF-16\nbad filter=bad\n"
        )
        files = {
            "plain": "a\nb\n",
            "hidden": "1",
            "subst": "$Format:%H$ $Id$",
            "wide": "w\n",
            "bad": "b",
        }
        git(upstream.folder, "config", "filter.bad.smudge", "touch kernforge-pwned")
        first = upstream.commit(files)
        (upstream.folder / ".gitattributes").write_text(attributes)
        tree = upstream.folder
        git(tree, "add", ".gitattributes")
        git(tree, "commit", "-q", "-m", "attributes")
        assert first
        found = tree_of(get(source(upstream.url, git(tree, "rev-parse", "HEAD"))))
        assert found == {
            ".gitattributes": attributes.encode(),
            **{name: content.encode() for name, content in files.items()},
        }

    def test_hooks_and_configuration_of_it_and_of_the_user_do_not_run(
        self, upstream, get, settings, tmp_path
    ):
        mark = tmp_path / "pwned"
        hooks = tmp_path / "hooks"
        hooks.mkdir()
        for name in ("reference-transaction", "post-checkout", "fsmonitor", "post-index-change"):
            (hooks / name).write_text(f"#!/bin/sh\ntouch {mark}\n")
            (hooks / name).chmod(0o755)
        for key, value in (
            ("core.hooksPath", str(hooks)),
            ("core.fsmonitor", str(hooks / "fsmonitor")),
            ("core.autocrlf", "true"),
            ("fetch.recurseSubmodules", "true"),
        ):
            git(upstream.folder, "config", "--file", str(tmp_path / "home/.gitconfig"), key, value)
        tree = get(source(upstream.url, upstream.commit({"x": "1\n"}), git_metadata=True))
        assert tree_of(tree) == {"x": b"1\n"}
        assert not mark.exists()

    @pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "a/../../outside"])
    def test_links_that_lead_outside(self, upstream, get, target):
        (upstream.folder / "link").symlink_to(target)
        refusal("archive-member", get, source(upstream.url, upstream.commit({"a/x": "1"})))

    @pytest.mark.parametrize("name", [".git", "..", ".GIT"])
    def test_trees_that_no_git_makes(self, upstream, get, name):
        """A tree object by hand: fsck would refuse it, the wire does not."""
        blob = git(upstream.folder, "rev-parse", f"{upstream.commit({'x': '1'})}:x")
        inner = upstream.folder / "tree"
        inner.write_bytes(b"100644 config\0" + bytes.fromhex(blob))
        sub = git(upstream.folder, "hash-object", "-t", "tree", "-w", "--literally", "tree")
        inner.write_bytes(f"40000 {name}\0".encode() + bytes.fromhex(sub))
        root = git(upstream.folder, "hash-object", "-t", "tree", "-w", "--literally", "tree")
        commit = git(upstream.folder, "commit-tree", "-m", "m", root)
        git(upstream.folder, "branch", "evil", commit)
        with pytest.raises(SourceError, match=r"holds|other files|fails|reached|hash") as caught:
            get(source(upstream.url, commit))
        assert caught.value.word in {
            "archive-member",
            "source-damaged",
            "git-failed",
            "archive-empty",
        }

    def test_transports_that_run_programs_are_off(self, settings, runner, told):
        from kernforge.source.git import Git

        call = Git(runner=runner, settings=settings, told=told.append)
        settings.cache.mkdir(parents=True)
        mark = settings.cache / "pwned"
        with pytest.raises(SourceError, match="is refused") as caught:
            call.remote(settings.cache, f"ext::touch {mark}", "ls-remote", "kernforge")
        assert caught.value.word == "source-refused"
        assert not mark.exists()

    def test_bytes_that_git_would_change_are_told_of(self, upstream, settings, get):
        """Were our attributes gone, the hash of the file would tell."""
        wanted = source(upstream.url, upstream.commit({"x": "1\n"}))
        get(wanted)
        attributes = mirror_folder(settings.cache, upstream.url) / "info/attributes"
        attributes.write_text("* text eol=crlf\n")
        into = get.home.parent / "t"
        fault = refusal("source-damaged", place, wanted, settings, into, runner=get.runner)
        assert "'x' has other bytes" in fault.message

    def test_files_that_git_would_leave_out_are_told_of(self, upstream, settings, get):
        wanted = source(upstream.url, upstream.commit({"x": "1", "y": "2"}))
        get(wanted)
        attributes = mirror_folder(settings.cache, upstream.url) / "info/attributes"
        attributes.write_text("y export-ignore\n")
        into = get.home.parent / "t"
        refusal("source-damaged", place, wanted, settings, into, runner=get.runner)

    def test_damaged_mirror_is_told_of(self, upstream, settings, runner, told, tmp_path):
        first = upstream.commit({"x": "1", "y": "2"})
        wanted = source(upstream.url, first)
        fetch(wanted, settings, runner=runner, told=told.append)
        commit_file = mirror_folder(settings.cache, upstream.url) / "kernforge" / first
        commit_file.write_bytes(commit_file.read_bytes() + b"x")
        refusal("source-damaged", place, wanted, settings, tmp_path / "t", runner=runner)
        assert not (tmp_path / "t").exists()
        assert epoch(wanted, settings) is None


class TestSecrets:
    TOKEN = "T0KEN%2Bs3cret"  # noqa: S105 - what must never show up
    PLAIN = "T0KEN+s3cret"

    def mirrored(self, settings, smart_http):
        host = smart_http.url.removeprefix("http://")
        return replace(
            settings,
            mirrors=(("https://example.invalid/", f"http://alice:{self.TOKEN}@{host}/"),),
        )

    def test_token_works_and_is_nowhere(self, upstream, smart_http, settings, get):
        smart_http.account = ("alice", self.PLAIN)
        commit = upstream.commit({"a/x": "1", "b": "2"})
        git(upstream.folder, "tag", "v1")
        own = self.mirrored(settings, smart_http)
        wanted = source("https://example.invalid/up", commit, tag="v1", sparse=["a"])
        get(wanted, own)
        seen = cache_text(settings) + repr((get.told, identity(wanted))).encode()
        seen += repr([command.argv for command in get.runner.commands]).encode()
        assert b"s3cret" not in seen
        assert b"alice" not in seen

    @pytest.mark.parametrize("path", ["up", "other"])
    def test_failing_fetch_does_not_show_it(self, smart_http, settings, get, path):
        smart_http.account = ("alice", "another")
        own = self.mirrored(settings, smart_http)
        wanted = source(f"https://example.invalid/{path}", GONE)
        fault = refusal("source-auth", get, wanted, own)
        shown = repr((fault.message, fault.hint, fault.detail, get.told)).encode()
        assert b"s3cret" not in shown + cache_text(settings)
        assert b"alice" not in shown + cache_text(settings)

    def test_token_in_a_submodule_address(self, repositories, smart_http, get, told, settings):
        smart_http.account = None
        host = smart_http.url.removeprefix("http://")
        inner, outer = repositories("inner"), repositories("outer")
        inner.commit({"i": "1"})
        outer.submodule("sub", GONE, f"http://bob:{self.TOKEN}@{host}/inner")
        wanted = source(outer.url, outer.commit({"o": "1"}))
        fault = refusal("commit-gone", get, wanted)
        names = "\n".join(str(path) for path in settings.cache.rglob("*"))
        assert "s3cret" not in repr((fault.message, fault.hint, fault.detail, told)) + names

    def test_header_of_the_users_configuration_works_and_is_nowhere(
        self, upstream, smart_http, settings, get
    ):
        import base64

        smart_http.account = ("alice", self.PLAIN)
        pair = base64.b64encode(f"alice:{self.PLAIN}".encode()).decode()
        key = f"http.{smart_http.url}/.extraHeader"
        header = f"Authorization: Basic {pair}"
        git(upstream.folder, "config", "--file", f"{get.home}/.gitconfig", key, header)
        get(source(f"{smart_http.url}/up", upstream.commit({"x": "1"})))
        assert pair.encode() not in cache_text(settings) + repr(get.told).encode()

    def test_credential_helper_is_asked_and_nobody_else(
        self, upstream, smart_http, settings, get, tmp_path
    ):
        smart_http.account = ("alice", self.PLAIN)
        commit = upstream.commit({"x": "1"})
        mark = tmp_path / "asked"
        asking = tmp_path / "askpass"
        asking.write_text(f"#!/bin/sh\ntouch {mark}\n")
        asking.chmod(0o755)
        env = (*settings.env, ("GIT_ASKPASS", str(asking)), ("SSH_ASKPASS", str(asking)))
        wanted = source(f"{smart_http.url}/up", commit)
        refusal("source-auth", get, wanted, replace(settings, env=env))
        assert not mark.exists()
        helper = f"!f() {{ echo username=alice; echo 'password={self.PLAIN}'; }}; f"
        config = tmp_path / "home/.gitconfig"
        git(tmp_path, "config", "--file", str(config), "credential.helper", helper)
        assert tree_of(get(wanted)) == {"x": b"1"}

    def test_configuration_in_the_users_environment_counts(
        self, upstream, smart_http, settings, get
    ):
        given = (
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", f"url.{smart_http.url}/.insteadOf"),
            ("GIT_CONFIG_VALUE_0", "https://example.invalid/"),
        )
        wanted = source("https://example.invalid/up", upstream.commit({"x": "1"}))
        assert tree_of(get(wanted, replace(settings, env=(*settings.env, *given)))) == {"x": b"1"}


class TestOffline:
    def test_what_is_not_there_is_named(self, upstream, smart_http, settings, get):
        wanted = source(f"{smart_http.url}/up", upstream.commit({"x": "1"}))
        fault = refusal("offline-missing", get, wanted, replace(settings, offline=True))
        assert wanted.commit in fault.message
        assert not smart_http.requests
        assert not fetched(wanted, settings)

    def test_what_is_there_is_taken(self, upstream, smart_http, settings, get):
        commit = upstream.commit({"x": "1"})
        get(source(f"{smart_http.url}/up", commit))
        get(source(f"{smart_http.url}/up", commit), replace(settings, offline=True))

    def test_unchecked_tag_is_named(self, upstream, smart_http, settings, get):
        commit = upstream.commit({"x": "1"})
        get(source(f"{smart_http.url}/up", commit))
        wanted = source(f"{smart_http.url}/up", commit, tag="v1")
        fault = refusal("offline-missing", get, wanted, replace(settings, offline=True))
        assert "'v1'" in fault.message

    def test_placing_what_was_not_fetched(self, upstream, settings, runner, tmp_path):
        wanted = source(upstream.url, upstream.commit({"x": "1"}))
        refusal("offline-missing", place, wanted, settings, tmp_path / "t", runner=runner)


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
