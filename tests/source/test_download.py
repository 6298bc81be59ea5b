"""Downloads from a server that behaves in every wrong way."""

import errno
import os
from dataclasses import replace
from hashlib import sha256

import pytest

from kernforge.errors import CacheError, SourceError
from kernforge.source.cache import file_place
from kernforge.source.download import Download, download
from kernforge.source.settings import Limits
from kernforge.source.web import account, open_session

BODY = os.urandom(100_000)
HASH = sha256(BODY).hexdigest()


@pytest.fixture
def get(web, settings, told):
    """Download ``/x`` of the server, or another path of it."""
    web.bodies["/x"] = BODY

    def call(path="/x", settings=settings, digest=HASH):
        url = path if "://" in path else web.url + path
        return download(Download(url=url, sha256=digest, what="archive 'x'"), settings, told.append)

    return call


def refusal(word, call, *words, **options) -> SourceError:
    with pytest.raises(SourceError, match=r"archive 'x'") as caught:
        call(*words, **options)
    assert caught.value.word == word, caught.value.message
    return caught.value


def left_over(settings) -> list[str]:
    return [p.name for folder in ("partial", "files") for p in (settings.cache / folder).glob("*")]


def test_whole_and_only_once(get, web, settings):
    assert get().read_bytes() == BODY
    assert get() == file_place(settings.cache, HASH)
    assert len(web.seen) == 1
    assert left_over(settings) == [HASH]


def test_compression_is_not_asked_for(get, web):
    get()
    assert web.seen[0]["Accept-Encoding"] == "identity"


def test_changed_file_in_the_cache_is_fetched_again(get, web, settings):
    get()
    file_place(settings.cache, HASH).write_bytes(BODY + b"x")
    assert get().read_bytes() == BODY
    assert len(web.seen) == 2


class TestResume:
    def test_goes_on_where_it_broke(self, get, web):
        web.script = ["cut 60000", "ok"]
        assert get().read_bytes() == BODY
        assert web.seen[1]["Range"] == "bytes=60000-"

    def test_goes_on_where_an_earlier_run_broke(self, get, web, settings):
        web.script = ["cut 60000"]
        refusal("download-truncated", get, settings=replace(settings, limits=Limits(tries=1)))
        web.script = ["ok"]
        assert get().read_bytes() == BODY
        assert web.seen[-1]["Range"] == "bytes=60000-"

    def test_server_that_ignores_range(self, get, web):
        web.script = ["cut 60000", "whole"]
        assert get().read_bytes() == BODY

    def test_server_that_sends_another_range(self, get, web):
        web.script = ["cut 60000", "wrong", "ok"]
        assert get().read_bytes() == BODY
        assert "Range" not in web.seen[2]

    @pytest.mark.parametrize("old", [b"x" * 60_000, b"x" * 200_000], ids=["shorter", "longer"])
    def test_part_of_other_bytes_is_begun_afresh(self, get, web, settings, old):
        (settings.cache / "partial").mkdir(parents=True)
        (settings.cache / "partial" / HASH).write_bytes(old)
        assert get().read_bytes() == BODY
        assert "Range" not in web.seen[1]

    def test_whole_part_needs_no_more_bytes(self, get, web, settings):
        (settings.cache / "partial").mkdir(parents=True)
        (settings.cache / "partial" / HASH).write_bytes(BODY)
        assert get().read_bytes() == BODY
        assert web.seen == []


class TestLies:
    def test_wrong_hash_is_final_and_names_both(self, get, web, settings):
        web.bodies["/x"] = b"other"
        fault = refusal("hash-mismatch", get)
        assert HASH in fault.message
        assert sha256(b"other").hexdigest() in fault.message
        assert len(web.seen) == 1
        assert left_over(settings) == []

    def test_length_that_promises_more_than_the_right_bytes(self, get, web):
        web.script = ["lie 50"]
        assert get().read_bytes() == BODY

    def test_length_that_promises_more_and_a_part(self, get, web):
        web.script = ["cut 500"]
        fault = refusal("download-truncated", get)
        assert "in part only" in fault.message
        assert len(web.seen) == 3

    def test_length_that_promises_less(self, get, web):
        web.script = ["lie -50"]
        refusal("hash-mismatch", get)

    def test_no_length(self, get, web):
        web.script = ["open"]
        assert get().read_bytes() == BODY

    def test_endless(self, get, web, settings):
        web.script = ["endless"]
        fault = refusal("download-endless", get)
        assert str(2**20) in fault.message
        assert len(web.seen) == 1
        assert all(
            (settings.cache / "partial" / n).stat().st_size == 0 for n in left_over(settings)
        )

    def test_silence(self, get, web, settings):
        web.script = ["stall"]
        limits = Limits(stall=2.0, tries=1)
        refusal("download-stalled", get, settings=replace(settings, limits=limits))

    def test_silence_once(self, get, web, settings):
        web.script = ["stall", "ok"]
        limits = Limits(stall=2.0, tries=2, pause=0.01)
        assert get(settings=replace(settings, limits=limits)).read_bytes() == BODY

    def test_a_byte_now_and_then(self, get, web, settings):
        web.script = ["trickle"]
        limits = Limits(stall=2.0, tries=1)
        refusal("download-stalled", get, settings=replace(settings, limits=limits))


class TestStatus:
    @pytest.mark.parametrize("status", ["429", "500", "503"])
    def test_busy_is_tried_again(self, get, web, told, status):
        web.script = [status, status, "ok"]
        assert get().read_bytes() == BODY
        assert sum("trying again" in line for line in told) == 2

    def test_busy_for_good(self, get, web):
        web.script = ["503"]
        refusal("source-unreachable", get)
        assert len(web.seen) == 3

    @pytest.mark.parametrize(
        ("status", "word"),
        [
            ("404", "source-missing"),
            ("410", "source-missing"),
            ("401", "source-auth"),
            ("403", "source-auth"),
            ("418", "source-refused"),
            ("304", "source-refused"),
        ],
    )
    def test_final(self, get, web, status, word):
        web.script = [status]
        fault = refusal(word, get)
        assert status in fault.message
        assert len(web.seen) == 1

    def test_nobody_there(self, get, told):
        fault = refusal("source-unreachable", get, "http://127.0.0.1:9/x")
        assert "refused" in fault.message
        assert sum("trying again" in line for line in told) == 2

    def test_host_that_does_not_exist(self, get, settings):
        one = replace(settings, limits=Limits(tries=1))
        refusal("source-unreachable", get, "http://nowhere.invalid/x", settings=one)


class TestRedirects:
    def test_followed(self, get, web):
        web.script = ["to /y", "ok"]
        web.bodies["/y"] = BODY
        assert get().read_bytes() == BODY

    @pytest.mark.parametrize("to", ["file:///etc/passwd", "ftp://x/y", "data:,x", "http://[::1"])
    def test_elsewhere_than_to_the_web(self, get, web, to):
        web.script = [f"to {to}"]
        refusal("redirect-refused", get)
        assert len(web.seen) == 1

    def test_without_end(self, get, web):
        web.script = ["to /x"]
        refusal("redirect-refused", get)

    def test_account_does_not_go_to_another_host(self, get, web, settings, tmp_path):
        (tmp_path / "home/.netrc").write_text("machine 127.0.0.1 login alice password pw123456\n")
        port = web.url.rpartition(":")[2]
        web.script = [f"to http://localhost:{port}/x", "ok"]
        get()
        assert "Authorization" in web.seen[0]
        assert "Authorization" not in web.seen[1]


class TestSecrets:
    def test_account_of_netrc(self, get, web, tmp_path):
        web.account = ("alice", "pw123456")
        refusal("source-auth", get)
        (tmp_path / "home/.netrc").write_text("machine 127.0.0.1 login alice password pw123456\n")
        assert get().read_bytes() == BODY

    def test_netrc_that_cannot_be_read_is_none(self, settings, tmp_path):
        (tmp_path / "home/.netrc").write_text("machine\x00 what\n")
        assert account("http://127.0.0.1/x", settings) is None

    @pytest.mark.parametrize("script", [["404"], ["503"], ["cut 10"], ["to file:///x"], ["ok"]])
    def test_token_of_a_mirror_works_and_is_nowhere(self, web, settings, told, script):
        web.bodies["/m/x"] = BODY
        web.account = ("alice", "T0KEN+s3cret")
        web.script = script
        host = web.url.removeprefix("http://")
        mirrors = (("https://example.invalid/", f"http://alice:T0KEN%2Bs3cret@{host}/m/"),)
        own = replace(settings, mirrors=mirrors)
        wanted = Download(
            url="https://example.invalid/x?sig=s3cret", sha256=HASH, what="archive 'x'"
        )
        seen = []
        try:
            download(wanted, own, told.append)
        except SourceError as fault:
            seen += [fault.message, fault.hint, fault.detail]
        assert (script == ["ok"]) is not bool(seen)
        names = [str(path) for path in settings.cache.rglob("*")]
        assert "s3cret" not in repr((told, seen, names))
        assert "alice" not in repr((told, seen, names))


def test_offline_names_what_is_missing_and_asks_nobody(get, web, settings):
    refusal("offline-missing", get, settings=replace(settings, offline=True))
    assert web.seen == []


def test_offline_takes_what_is_there(get, settings):
    get()
    assert get(settings=replace(settings, offline=True)).read_bytes() == BODY


class TestFileAddress:
    def test_copied_even_offline(self, get, settings, tmp_path):
        (tmp_path / "a b").write_bytes(BODY)
        own = replace(settings, offline=True)
        assert get(f"file://{tmp_path}/a%20b", settings=own).read_bytes() == BODY

    def test_other_bytes(self, get, tmp_path):
        (tmp_path / "x").write_bytes(b"")
        refusal("hash-mismatch", get, f"file://{tmp_path}/x")

    def test_missing(self, get, tmp_path):
        refusal("source-missing", get, f"file://{tmp_path}/x")

    def test_on_another_host(self, get):
        refusal("source-refused", get, "file://server/x")


def test_mirrors_in_order_and_the_longest_beginning(get, web, settings, told):
    web.bodies["/good"] = BODY
    mirrors = (
        ("https://", "http://127.0.0.1:9/"),
        ("https://example.invalid/", f"{web.url}/absent/"),
        ("https://example.invalid/", f"{web.url}/"),
    )
    own = replace(settings, mirrors=mirrors)
    assert get("https://example.invalid/good", settings=own).read_bytes() == BODY
    assert [request["path"] for request in web.seen] == ["/absent/good", "/good"]
    assert any("/absent/good" in line and "404" in line for line in told)


def test_proxy_of_the_environment(get, web, settings):
    env = (*settings.env, ("http_proxy", web.url))
    own = replace(settings, env=env)
    web.bodies["http://example.invalid/x"] = BODY
    assert get("http://example.invalid/x", settings=own).read_bytes() == BODY


@pytest.mark.parametrize("aside", ["*", "127.0.0.1", "other,127.0.0.1:80", " 127.0.0.1 "])
def test_hosts_that_need_no_proxy(get, settings, aside):
    env = (*settings.env, ("HTTP_PROXY", "http://127.0.0.1:9"), ("no_proxy", aside))
    assert get(settings=replace(settings, env=env)).read_bytes() == BODY


def test_process_environment_is_not_read(get, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    assert get().read_bytes() == BODY


def test_certificates_of_the_environment(settings):
    env = (("SSL_CERT_FILE", "/a.pem"), ("CURL_CA_BUNDLE", "/b.pem"))
    with open_session(replace(settings, env=env)) as session:
        assert session.verify == "/b.pem"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_full_disk(get, settings):
    (settings.cache / "partial").mkdir(parents=True)
    (settings.cache / "partial" / HASH).symlink_to("/dev/full")
    with pytest.raises(CacheError, match="No space is left for sources") as caught:
        get()
    assert caught.value.word == "disk-full"


def test_folder_that_cannot_be_written(get, settings):
    settings.cache.parent.mkdir(parents=True)
    settings.cache.write_text("a file")
    with pytest.raises(CacheError, match="cannot be kept") as caught:
        get()
    assert caught.value.word == "cache-unwritable"
    assert caught.value.__cause__.errno in {errno.ENOTDIR, errno.EEXIST}
