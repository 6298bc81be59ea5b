"""git sources that mean harm, secrets in addresses, submodules, and no network."""

import base64
import shutil
from dataclasses import replace

import pytest
from source.repositories import GONE, cache_text, git, refusal, source, tree_of

from kernforge.errors import SourceError
from kernforge.source.cache import mirror_folder
from kernforge.source.fetch import epoch, fetch, fetched, place
from kernforge.source.git import Git
from kernforge.source.identity import identity


@pytest.fixture
def get(get_git):
    return get_git


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

    def test_tree_that_is_another_is_told_of(self, upstream, settings, get):
        """git itself does not check the hash of a folder that it lists."""
        first, second = upstream.commit({"d/x": "1"}), upstream.commit({"d/x": "2"})
        wanted = source(upstream.url, first)
        get(wanted)
        mirror = mirror_folder(settings.cache, upstream.url)
        shutil.rmtree(mirror / "objects/pack")
        shutil.copytree(upstream.folder / ".git/objects", mirror / "objects", dirs_exist_ok=True)
        trees = [git(upstream.folder, "rev-parse", f"{c}:d") for c in (first, second)]
        right, wrong = (mirror / "objects" / tree[:2] / tree[2:] for tree in trees)
        wrong.replace(right)
        into = get.home.parent / "t"
        fault = refusal("source-damaged", place, wanted, settings, into, runner=get.runner)
        assert "list of files" in fault.message

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
