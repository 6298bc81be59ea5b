"""Distributions from package indexes, over HTTP and from folders. Nothing of them is run."""

import gzip
import io
import json
import os
import subprocess
import tarfile
import zipfile
from dataclasses import replace
from hashlib import sha256

import pypi_simple
import pytest
from source.repositories import EPOCH, tree_of

from kernforge.errors import SourceError
from kernforge.recipe.model import PypiSource
from kernforge.source.fetch import epoch, fetch, fetched, place
from kernforge.source.identity import identity
from kernforge.source.settings import Limits


def sdist(name="My.Kernels", version="1.2.3", files=None, *, info=True) -> bytes:
    """A source distribution; its setup.py leaves a mark wherever it is run."""
    top = f"my_kernels-{version}"
    mark = "import pathlib; pathlib.Path('kernforge-pwned').touch()"
    found = {"setup.py": mark, "pyproject.toml": "", **(files or {})}
    if info:
        found["PKG-INFO"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for path, text in found.items():
            member = tarfile.TarInfo(f"{top}/{path}")
            member.size, member.mtime = len(text), EPOCH
            archive.addfile(member, io.BytesIO(text.encode()))
    return gzip.compress(out.getvalue(), mtime=0)


def wheel(name="my-kernels", version="1.2.3") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("my_kernels/__init__.py", "x")
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        archive.writestr(f"my_kernels-{version}.dist-info/METADATA", text)
    return out.getvalue()


SDIST, WHEEL = sdist(), wheel()


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def source(data=SDIST, name="My_Kernels", version="1.2.3") -> PypiSource:
    return PypiSource(pypi=name, version=version, sha256=digest(data))


@pytest.fixture
def index(web):
    """Serve files as an index; answers its address."""

    def serve(files, *, kind="html", hashes=True, at="/simple/", prefix="../../files/"):
        if kind == "json":
            rows = [
                {
                    "filename": n,
                    "url": prefix + n,
                    "hashes": {"sha256": digest(d)} if hashes else {},
                }
                for n, d in files.items()
            ]
            page = {"meta": {"api-version": "1.0"}, "name": "my-kernels", "files": rows}
            body, content = json.dumps(page), "application/vnd.pypi.simple.v1+json"
        else:
            tails = {n: f"#sha256={digest(d)}" if hashes else "" for n, d in files.items()}
            links = [f'<a href="{prefix}{n}{tails[n]}">{n}</a>' for n in files]
            body, content = "<!DOCTYPE html>" + "".join(links), "text/html"
        web.bodies[f"{at}my-kernels/"] = body.encode()
        web.types[f"{at}my-kernels/"] = content
        base = at.removesuffix("simple/")
        web.bodies |= {f"{base}files/{name}": data for name, data in files.items()}
        return web.url + at

    return serve


@pytest.fixture
def get(settings, runner, told, tmp_path):
    count = iter(range(9))

    def call(wanted, *indexes, **more):
        own = replace(settings, indexes=indexes, **more)
        fetch(wanted, own, runner=runner, told=told.append)
        assert fetched(wanted, own)
        into = tmp_path / f"tree{next(count)}"
        place(wanted, replace(own, offline=True), into, runner=runner)
        return into

    call.runner = runner
    return call


def refusal(word, call, *words, **options) -> SourceError:
    with pytest.raises(SourceError, match=r"\w") as caught:
        call(*words, **options)
    assert caught.value.word == word, caught.value.message
    return caught.value


FILES = {"my_kernels-1.2.3.tar.gz": SDIST, "my_kernels-1.2.3-py3-none-any.whl": WHEEL}


@pytest.mark.parametrize("kind", ["html", "json"])
def test_sdist_loses_its_top_folder_and_nothing_is_run(index, get, settings, runner, kind):
    tree = get(source(), index(FILES, kind=kind))
    assert {"setup.py", "pyproject.toml", "PKG-INFO"} == set(tree_of(tree))
    assert epoch(source(), settings) == EPOCH
    assert runner.commands == []
    assert not list(tree.parent.rglob("kernforge-pwned"))
    assert not os.path.exists("kernforge-pwned")


def test_wheel_is_told_from_an_sdist_by_its_content(index, get):
    assert "my_kernels/__init__.py" in tree_of(get(source(WHEEL), index(FILES)))


def test_only_the_right_file_is_downloaded_and_only_once(index, get, web):
    address = index(FILES)
    get(source(WHEEL), address)
    assert [r["path"].rpartition("/")[2] for r in web.seen[1:]] == list(FILES)[1:]
    get(source(WHEEL), address)
    assert len(web.seen) == 2


def test_index_without_hashes(index, get):
    other = {"my_kernels-1.2.3.zip": sdist(files={"x": "1"}), **FILES}
    assert get(source(), index(other, hashes=False))


def test_second_index_has_it(index, get, web, told):
    nothing = index({"my_kernels-1.0.tar.gz": sdist(version="1.0")}, at="/one/simple/")
    good = index(FILES, at="/two/simple/")
    assert get(source(), "http://127.0.0.1:9/simple/", nothing, f"{web.url}/none/", good)
    assert any("127.0.0.1:9" in line for line in told)


def test_folder_as_an_index_works_offline(get, tmp_path):
    folder = tmp_path / "an index/my-kernels"
    folder.mkdir(parents=True)
    (folder / "a.tar.gz").write_bytes(SDIST)
    page = f'<a href="a.tar.gz#sha256={digest(SDIST)}">my_kernels-1.2.3.tar.gz</a>'
    (folder / "index.html").write_text(page)
    assert get(source(), (tmp_path / "an index").as_uri(), offline=True)


def test_page_from_the_network_names_no_file_of_this_machine(index, get, tmp_path):
    (tmp_path / "my_kernels-1.2.3.tar.gz").write_bytes(SDIST)
    address = index({"my_kernels-1.2.3.tar.gz": SDIST}, prefix=f"file://{tmp_path}/")
    refusal("index-missing", get, source(), address)


class TestWrong:
    def test_other_hash_lists_what_is_offered(self, index, get):
        fault = refusal("hash-mismatch", get, source(b"other"), index(FILES))
        assert any(digest(SDIST) in line for line in fault.detail)

    def test_other_bytes_than_the_index_says(self, index, get, web):
        address = index(FILES)
        web.bodies["/files/my_kernels-1.2.3.tar.gz"] = sdist(files={"x": "1"})
        refusal("hash-mismatch", get, source(), address)

    def test_version_that_is_not_there_names_those_that_are(self, index, get):
        fault = refusal("index-missing", get, source(version="9.9"), index({
            "my_kernels-1.0.tar.gz": sdist(version="1.0")
        }))  # fmt: skip
        assert "1.0" in fault.hint

    def test_name_that_is_not_there(self, web, get):
        refusal("index-missing", get, source(), f"{web.url}/simple/")

    def test_no_index(self, get):
        refusal("index-missing", get, source())

    def test_index_that_cannot_be_reached(self, get):
        fault = refusal("source-unreachable", get, source(), "http://127.0.0.1:9/simple/")
        assert "127.0.0.1:9" in fault.message

    @pytest.mark.parametrize(
        ("status", "word"), [("401", "source-auth"), ("500", "source-unreachable")]
    )
    def test_index_that_refuses(self, index, get, web, status, word):
        address = index(FILES)
        web.script = [status]
        refusal(word, get, source(), address)

    @pytest.mark.parametrize("kind", ["application/json", "application/vnd.pypi.simple.v1+json"])
    def test_page_that_is_none(self, web, get, kind):
        web.bodies["/simple/my-kernels/"] = b'{"a": 1}'
        web.types["/simple/my-kernels/"] = kind
        refusal("index-invalid", get, source(), f"{web.url}/simple/")

    @pytest.mark.parametrize("more", [{"version": "1.2.4"}, {"name": "other-kernels"}])
    def test_recipe_that_names_it_otherwise(self, index, get, web, more):
        address = index(FILES)
        web.bodies["/simple/other-kernels/"] = web.bodies["/simple/my-kernels/"]
        web.types["/simple/other-kernels/"] = "text/html"
        refusal("distribution-other", get, source(**more), address)

    @pytest.mark.parametrize("data", [sdist(info=False), sdist(name="other"), sdist(version="1")])
    def test_content_that_is_another_distribution(self, index, get, data):
        address = index({"my_kernels-1.2.3.tar.gz": data})
        refusal("distribution-other", get, source(data), address)

    def test_offline(self, index, get, web):
        refusal("offline-missing", get, source(), index(FILES), offline=True)
        assert web.seen == []


class TestSecrets:
    ACCOUNT = ("alice", "T0KEN+s3cret")

    def with_token(self, address):
        return address.replace("http://", "http://alice:T0KEN%2Bs3cret@")

    def test_token_works_for_page_and_file_and_is_nowhere(self, index, get, web, told, settings):
        address = index(FILES)
        web.account = self.ACCOUNT
        get(source(), self.with_token(address))
        kept = [str(path) for path in settings.cache.rglob("*")]
        assert "s3cret" not in repr((told, kept, identity(source())))
        assert "alice" not in repr((told, kept))

    def test_token_does_not_go_to_another_host(self, index, get, web):
        port = web.url.rpartition(":")[2]
        address = index(FILES, prefix=f"http://localhost:{port}/files/")
        get(source(), self.with_token(address))
        assert ["Authorization" in request for request in web.seen] == [True, False]

    @pytest.mark.parametrize("script", [["401"], ["500"], ["ok", "404"], ["to file:///x"]])
    def test_failure_does_not_show_it(self, index, get, web, told, script):
        address = index(FILES)
        web.script = script
        with pytest.raises(SourceError, match=r"\w") as caught:
            get(source(), self.with_token(address))
        fault = caught.value
        assert "s3cret" not in repr((fault.message, fault.hint, fault.detail, told))

    def test_netrc(self, index, get, web, tmp_path):
        address = index(FILES)
        web.account = self.ACCOUNT
        line = "machine 127.0.0.1 login alice password T0KEN+s3cret\n"
        (tmp_path / "home/.netrc").write_text(line)
        assert get(source(), address)


def test_identity_takes_any_spelling_of_the_name():
    assert identity(source(name="My.Kernels")) == identity(source(name="my-kernels"))


def configured_index() -> str:
    """The index that pip of this machine is set to, else that of the client library."""
    import sys

    words = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    named = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("PIP_INDEX_URL")
    return named or done.stdout.strip() or pypi_simple.PYPI_SIMPLE_ENDPOINT


PUBLISHED = [
    PypiSource(
        pypi="causal-conv1d",
        version="1.7.0",
        sha256="3202758494eaa7b597ce1c282dfa188889506bfcb92cad3c407d26736bfcd32b",
    ),
    PypiSource(
        pypi="sglang",
        version="0.5.9",
        sha256="11b1445bfb039c20217783850fda66a71b814391b2cf313f4e6cadc3b9fea41b",
    ),
]


@pytest.mark.network
@pytest.mark.parametrize("wanted", PUBLISHED, ids=lambda source: source.pypi)
def test_published_sdist(get, settings, wanted):
    env = (*settings.env, *((k, v) for k, v in os.environ.items() if k != "HOME"))
    tree = get(wanted, configured_index(), env=env, limits=Limits())
    assert (tree / "pyproject.toml").is_file()
    assert get.runner.commands == []
    assert (epoch(wanted, settings) or 0) > 1_700_000_000
