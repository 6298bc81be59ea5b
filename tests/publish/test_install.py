"""Installing from real servers on loopback: good ones, and such that lie, stall or fail."""

import json
import sys
import threading
import time
import venv
from dataclasses import replace

import pytest
from publish.offers import put, write_offer
from publish.servers_of_index import Failing, Quiet, serving

from kernforge.canonical import digest
from kernforge.cli.place import Place, make_settings
from kernforge.errors import PublishError, SourceError
from kernforge.process import SystemRunner
from kernforge.publish.install import install, read_index
from kernforge.source.settings import Limits


@pytest.fixture
def settings(tmp_path):
    made = make_settings(Place(project=tmp_path, found_cache=tmp_path / "cache"))
    limits = Limits(connect=60.0, stall=60.0, tries=1, pause=0.0)
    return replace(made, fetching=replace(made.fetching, limits=limits))


@pytest.fixture
def index(tmp_path):
    put(tmp_path / "index", write_offer(tmp_path, text="v = 'right'\n"))
    return (tmp_path / "index/current").resolve()


@pytest.fixture
def python(tmp_path):
    venv.create(tmp_path / "venv")
    return tmp_path / "venv/bin/python"


def test_it_is_installed(index, settings, python):
    with serving(index) as (address, _):
        (wheel,) = read_index(address, settings.fetching)
        done = install(wheel, f"{address}/", str(python), settings, runner=SystemRunner())
    assert done.url == f"{address}/{wheel.place}".replace("+", "%2B")
    site = next((python.parent.parent / "lib").glob("python3*/site-packages"))
    assert (site / "tiny.py").read_text() == "v = 'right'\n"


def test_a_wheel_with_other_bytes_is_not_installed(index, settings, python):
    with serving(index) as (address, _):
        (wheel,) = read_index(address, settings.fetching)
        served = index / wheel.place
        served.write_bytes(served.read_bytes() + b"\0")
        with pytest.raises(SourceError, match="tiny") as found:
            install(wheel, address, str(python), settings, runner=SystemRunner())
    assert found.value.word == "hash-mismatch"
    assert not list((python.parent.parent / "lib").glob("python3*/site-packages/tiny.py"))


def test_a_server_that_fails(index, settings):
    with serving(index, Failing) as (address, _):
        with pytest.raises(PublishError, match="it answers 500") as found:
            read_index(address, settings.fetching)
    assert found.value.word == "index-unreachable"


def test_no_server(settings):
    with pytest.raises(PublishError, match="cannot be read: connection refused"):
        read_index("http://127.0.0.1:9", settings.fetching)


def test_another_site(tmp_path, settings):
    with serving(tmp_path) as (address, _):
        with pytest.raises(PublishError, match="There is no index of ours") as found:
            read_index(f"{address}/?token=secret", settings.fetching)
    assert found.value.word == "index-missing"
    assert "secret" not in found.value.message


@pytest.mark.parametrize("url", ["file:///etc", "ftp://host", "here"])
def test_another_scheme(url, settings):
    with pytest.raises(PublishError, match="is no http address"):
        read_index(url, settings.fetching)


def silent(handler):
    handler.send_response(200)
    handler.end_headers()
    time.sleep(3)


def dripping(handler):
    handler.send_response(200)
    handler.end_headers()
    for _ in range(40):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.1)


@pytest.mark.parametrize("behave", [silent, dripping])
def test_a_server_that_stalls(index, settings, behave):
    class Slow(Quiet):
        def do_GET(self):  # noqa: N802 - the server's own name
            try:
                behave(self)
            except OSError:
                self.close_connection = True

    hasty = replace(settings.fetching, limits=replace(settings.fetching.limits, stall=1.0))
    with serving(index, Slow) as (address, _):
        with pytest.raises(PublishError, match=r"cannot be read: it (fell silent|is too slow)"):
            read_index(address, hasty)
    assert threading.active_count() < 10


def endless(handler):
    handler.send_response(200)
    handler.end_headers()
    for _ in range(65):
        handler.wfile.write(b" " * (1 << 20))


def test_a_catalogue_that_does_not_end(index, settings):
    class Endless(Quiet):
        def do_GET(self):  # noqa: N802 - the server's own name
            try:
                endless(self)
            except OSError:
                self.close_connection = True

    with serving(index, Endless) as (address, _):
        with pytest.raises(PublishError, match="its catalogue does not end"):
            read_index(address, settings.fetching)


def cut(handler, data):
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data[:-10])
    handler.close_connection = True


def refusing(handler, _data):
    handler.send_error(500)


def leading_away(handler, _data):
    handler.send_response(302)
    handler.send_header("Location", "file:///etc/passwd")
    handler.end_headers()


@pytest.mark.parametrize(
    ("behave", "said"),
    [(cut, "download-truncated"), (refusing, "source-unreachable"),
     (leading_away, "redirect-refused")],
)  # fmt: skip
def test_a_server_that_gives_the_catalogue_and_not_the_wheel(index, settings, python, behave, said):
    class Bad(Quiet):
        def do_GET(self):  # noqa: N802 - the server's own name
            if not self.path.endswith(".whl"):
                super().do_GET()
                return
            behave(self, (index / self.path.replace("%2B", "+").lstrip("/")).read_bytes())

    with serving(index, Bad) as (address, _):
        (wheel,) = read_index(address, settings.fetching)
        with pytest.raises(SourceError, match="tiny") as found:
            install(wheel, address, str(python), settings, runner=SystemRunner())
    assert found.value.word == said
    assert not list((python.parent.parent / "lib").glob("python3*/site-packages/tiny.py"))


LIES = [
    {"leaf": "../../etc"},
    {"file": "../../../evil.whl"},
    {"file": "a/b.whl"},
    {"sha256": "short"},
    {"size": "7"},
    {"size": True},
    {"claims": [{"device": 12, "levels": []}]},
    {"archs": [None]},
    {"project": "UPPER"},
    {"yanked": 3},
    {"claims": [{"device": "12.0", "levels": [], "expected": "yes"}]},
]


@pytest.mark.parametrize("lie", LIES, ids=str)
def test_a_server_that_lies(index, settings, lie):
    path = index / "catalog.json"
    body = json.loads(path.read_text())["body"]
    body["wheels"][0] |= lie
    path.write_text(json.dumps({"body": body, "digest": digest(body)}))
    with serving(index) as (address, _):
        with pytest.raises(PublishError, match="its catalogue cannot be read") as found:
            read_index(address, settings.fetching)
    assert found.value.word == "index-damaged"


@pytest.mark.parametrize("text", ["", "{}", "[]", "3", '{"body": {}, "digest": 1}', "\xff" * 9])
def test_a_catalogue_that_is_none(index, settings, text):
    (index / "catalog.json").write_bytes(text.encode("latin-1"))
    with serving(index) as (address, _):
        with pytest.raises(PublishError, match=r"The index .* is damaged"):
            read_index(address, settings.fetching)


def test_the_command_chooses_and_explains(index, run, python, tmp_path):
    words = ("--cache", str(tmp_path / "cache"), "install", "tiny", "--python", str(python))
    with serving(index) as (address, _):
        done = run(*words, "--index", address, "--device", "12.0", "--json")
        assert done.returncode == 0, done.stderr
        (document,) = json.loads(done.stdout)
        assert (document["installed"], document["wheel"]["project"]) == (True, "tiny")
        refused = run(*words, "--index", address, "--device", "9.0")
    assert refused.returncode == 8
    assert "serves GPUs 12.0, not 9.0" in refused.stderr
    assert "hint: build one: `kernforge build tiny --arch 9.0a" in refused.stderr


def test_uv_that_cannot_install_says_why(index, settings):
    with serving(index) as (address, _):
        (wheel,) = read_index(address, settings.fetching)
        with pytest.raises(PublishError, match="could not be installed into") as found:
            install(wheel, address, "/nowhere/python", settings, runner=SystemRunner())
    assert found.value.word == "install-failed"
    assert found.value.detail
    assert sys.executable not in found.value.message
