"""Real pip, uv and pypi-simple read a published index over HTTP."""

import os
import subprocess
import sys

import pytest
from publish.offers import put, write_offer
from publish.servers_of_index import Negotiating, Quiet, serving
from pypi_simple import PyPISimple

from kernforge.publish.candidate import file_sha256

PIP = (sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-cache-dir")
UV = (sys.executable, "-m", "uv", "pip", "install", "--no-cache", "--no-config")


@pytest.fixture
def offers(tmp_path):
    """Two wheels of one version for two arch sets, one with torch, and an index of them."""
    wheels = (
        write_offer(tmp_path, text="arch = '12.0a'\n"),
        write_offer(tmp_path, text="arch = '9.0'\n", archs=["9.0"], version="1.2.3+cu130.sm90",
                    build="1kf9"),
        write_offer(tmp_path, text="arch = 't'\n", torch="2.14.1", build="1kft",
                    version="1.2.3+cu130.torch2.14.sm120a"),
    )  # fmt: skip
    put(tmp_path / "index", *wheels)
    leaves = ("cu130/sm120a", "cu130/sm90", "cu130/torch2.14/sm120a")
    return tmp_path / "index/current", tuple(zip(leaves, wheels, strict=True))


def install(tool, into, address, leaf, requirement):
    asked = into.with_suffix(".txt")
    asked.write_text(requirement)
    words = [*tool, "--target", str(into), "-r", str(asked)]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_"))}
    env |= {"PIP_CONFIG_FILE": os.devnull}
    return subprocess.run([*words, "--index-url", f"{address}/{leaf}/"], env=env,
                          capture_output=True, text=True, check=False)  # fmt: skip


@pytest.mark.parametrize("kind", [Quiet, Negotiating])
@pytest.mark.parametrize("tool", [PIP, UV], ids=["pip", "uv"])
def test_each_leaf_gives_its_own_wheel_with_hashes_required(offers, tmp_path, tool, kind):
    folder, leaves = offers
    with serving(folder, kind) as (address, _):
        for number, (leaf, wheel) in enumerate(leaves):
            into = tmp_path / f"site{number}"
            # the whole version: without its local part uv takes no hash for it
            wanted = f"tiny=={wheel.name.split('-')[1]} --hash=sha256:{file_sha256(wheel)}\n"
            done = install((*tool, "--require-hashes"), into, address, leaf, wanted)
            assert done.returncode == 0, done.stderr
            text = (into / "tiny.py").read_text()
            assert (
                text
                == (
                    wheel.parent / f"tree-{'-'.join(wheel.name.split('-')[:3])}/tiny.py"
                ).read_text()
            )


@pytest.mark.parametrize("tool", [PIP, UV], ids=["pip", "uv"])
def test_metadata_is_read_without_the_wheel(offers, tmp_path, tool):
    folder, ((leaf, wheel), *_) = offers
    with serving(folder) as (address, asked):
        done = install((*tool, "--dry-run"), tmp_path / "site", address, leaf, "tiny\n")
    assert done.returncode == 0, done.stderr
    place = f"/{leaf}/tiny/{wheel.name}".replace("+", "%2B")
    assert f"{place}.metadata" in asked
    assert place not in asked


@pytest.mark.parametrize("tool", [PIP, UV], ids=["pip", "uv"])
def test_another_hash_is_refused(offers, tmp_path, tool):
    folder, ((leaf, _), *_) = offers
    with serving(folder) as (address, _):
        wanted = f"tiny==1.2.3 --hash=sha256:{'0' * 64}\n"
        done = install((*tool, "--require-hashes"), tmp_path / "site", address, leaf, wanted)
    assert done.returncode != 0
    assert not (tmp_path / "site/tiny.py").exists()


@pytest.mark.parametrize("tool", [PIP, UV], ids=["pip", "uv"])
def test_bytes_that_were_changed_on_the_server_are_refused(offers, tmp_path, tool):
    folder, ((leaf, wheel), *_) = offers
    served = folder / leaf / "tiny" / wheel.name
    served.write_bytes(served.read_bytes() + b"\0")
    with serving(folder) as (address, _):
        done = install(tool, tmp_path / "site", address, leaf, "tiny\n")
    assert done.returncode != 0
    assert "hash" in done.stderr.lower()


@pytest.mark.parametrize("tool", [PIP, UV], ids=["pip", "uv"])
def test_what_is_taken_back_is_installed_only_where_it_is_pinned(tmp_path, tool):
    old = write_offer(tmp_path, version="1.0", text="v = 1\n")
    bad = write_offer(tmp_path, version="2.0", text="v = 2\n")
    put(tmp_path / "index", old, bad, yank=((bad.name, "it hangs"),))
    with serving(tmp_path / "index/current") as (address, _):
        for wanted, text in (("tiny\n", "v = 1\n"), ("tiny==2.0\n", "v = 2\n")):
            into = tmp_path / f"site-{text[4]}"
            done = install(tool, into, address, "cu130/sm120a", wanted)
            assert done.returncode == 0, done.stderr
            assert (into / "tiny.py").read_text() == text


@pytest.mark.parametrize("kind", [Quiet, Negotiating])
def test_pypi_simple_reads_it(offers, kind):
    folder, leaves = offers
    with serving(folder, kind) as (address, _):
        for leaf, wheel in leaves:
            with PyPISimple(f"{address}/{leaf}/") as client:
                assert client.get_index_page().projects == ["tiny"]
                (package,) = client.get_project_page("tiny").packages
                assert package.filename == wheel.name
                assert b"Name: tiny" in client.get_package_metadata_bytes(package, verify=True)
