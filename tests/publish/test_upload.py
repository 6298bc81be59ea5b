"""Uploading by real twine to a real pypiserver, and pip installing from it."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from importlib.util import find_spec

import pytest
from publish.offers import candidate, write_offer

from kernforge.errors import PublishError
from kernforge.process import SystemRunner
from kernforge.publish.upload import UploadOrder, check_upload, upload

ENV = (("HOME", "/nonexistent"), ("PATH", os.environ["PATH"]), ("TWINE_PASSWORD", "hunter22"),
       ("TWINE_USERNAME", "somebody"))  # fmt: skip


def need(*programs):
    """Skip where one is not installed; found, not imported: pypiserver changes how we import."""
    for name in programs:
        if find_spec(name) is None:
            pytest.skip(f"no {name}")


@pytest.fixture
def server(tmp_path):
    need("pypiserver", "twine")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = tmp_path / "packages"
    folder.mkdir()
    words = ["run", "-i", "127.0.0.1", "-p", str(port), "-a", ".", "-P", ".", str(folder)]
    with open(tmp_path / "log", "wb") as log:
        child = subprocess.Popen([sys.executable, "-W", "ignore", "-m", "pypiserver", *words],
                                 stdout=log, stderr=log)  # fmt: skip
    try:
        yield wait_for(f"http://127.0.0.1:{port}/"), folder
    finally:
        child.terminate()
        child.wait()


def wait_for(address):
    for _ in range(200):
        try:
            urllib.request.urlopen(address).close()  # noqa: S310 - our own
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.05)
        else:
            return address
    pytest.fail("pypiserver does not answer")


def order(url, **changes):
    return UploadOrder(**({"url": url, "limit": 1 << 20, "env": ENV} | changes))


def test_it_is_uploaded_and_pip_installs_it(server, tmp_path):
    address, folder = server
    wheel = write_offer(tmp_path)
    upload((candidate(wheel),), order(address), runner=SystemRunner())
    assert (folder / wheel.name).read_bytes() == wheel.read_bytes()
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    env = {"PATH": os.environ["PATH"], "PIP_CONFIG_FILE": os.devnull}
    subprocess.run([*command, "--no-cache-dir", "--target", str(tmp_path / "site"), "--index-url",
                    f"{address}simple/", "tiny"], env=env, check=True)  # fmt: skip
    assert (tmp_path / "site/tiny.py").exists()


def test_a_name_gets_no_other_bytes_there_either(server, tmp_path):
    address, folder = server
    wheel = write_offer(tmp_path)
    upload((candidate(wheel),), order(address), runner=SystemRunner())
    (tmp_path / "other").mkdir()
    other = write_offer(tmp_path / "other", text="x = 2\n")
    with pytest.raises(PublishError, match="was not taken by") as found:
        upload((candidate(other),), order(address), runner=SystemRunner())
    assert found.value.word == "upload-failed"
    assert any("already exists" in line for line in found.value.detail)
    assert "hunter22" not in str(found.value.detail)
    assert (folder / wheel.name).read_bytes() == wheel.read_bytes()


def test_no_server(tmp_path):
    need("twine")
    wheel = candidate(write_offer(tmp_path))
    with pytest.raises(PublishError, match="was not taken by"):
        upload((wheel,), order("http://127.0.0.1:9/"), runner=SystemRunner())


def test_sizes_are_told_before(tmp_path):
    wheels = tuple(candidate(write_offer(tmp_path, version=f"{n}")) for n in (1, 2))
    with pytest.raises(PublishError, match="the server takes 100 a file") as found:
        check_upload(wheels, order("http://127.0.0.1:9/", limit=100))
    assert found.value.word == "file-too-large"
    assert len(found.value.detail) == 2


def test_an_account_in_the_address_is_refused(tmp_path):
    wheel = candidate(write_offer(tmp_path))
    with pytest.raises(PublishError, match="holds a user or password") as found:
        check_upload((wheel,), order("https://me:hunter22@host.example/"))
    assert "hunter22" not in found.value.message
