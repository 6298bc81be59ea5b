"""Fixtures for fetching: repositories, servers, settings that wait for nothing long."""

import os
import socket
import subprocess
from dataclasses import replace

import pytest
from source.repositories import Counting, Repository
from source.servers import FileServer, GitServer, serving, wait_for

from kernforge.source.fetch import fetch, fetched, place
from kernforge.source.settings import FetchSettings, Limits

QUICK = Limits(connect=10, stall=20, git=60, tries=3, pause=0.01, download=2**20)


@pytest.fixture
def repositories(tmp_path):
    """A folder of served repositories, as a function that makes one."""
    return lambda name="up": Repository(tmp_path / "served" / name)


@pytest.fixture
def upstream(repositories):
    return repositories()


@pytest.fixture
def settings(tmp_path) -> FetchSettings:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "project").mkdir()
    env = (("PATH", os.environ["PATH"]), ("HOME", str(home)))
    return FetchSettings(
        cache=tmp_path / "cache" / "sources", project=tmp_path / "project", env=env, limits=QUICK
    )


@pytest.fixture
def runner() -> Counting:
    return Counting()


@pytest.fixture
def told():
    """A list that hears what the user is told; its ``append`` is the listener."""
    return []


@pytest.fixture
def daemon(tmp_path):
    """``git daemon`` over the served repositories; gives the address that they are below."""
    served = tmp_path / "served"
    served.mkdir(exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["--export-all", "--listen=127.0.0.1", f"--port={port}", f"--base-path={served}"]
    words += ["--reuseaddr", "--informative-errors", str(served)]
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    child = subprocess.Popen(
        ["git", "daemon", *words],
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_for(port)
    yield f"git://127.0.0.1:{port}"
    os.killpg(child.pid, 15)
    child.wait()


@pytest.fixture
def smart_http(tmp_path):
    """``git http-backend`` behind a small server."""
    served = tmp_path / "served"
    served.mkdir(exist_ok=True)
    state = GitServer(root=served)
    with serving(state):
        yield state


@pytest.fixture
def web():
    """An HTTP server that misbehaves as it is told."""
    state = FileServer()
    with serving(state):
        yield state


@pytest.fixture
def get_git(settings, runner, told, tmp_path):
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
