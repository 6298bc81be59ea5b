"""The command line in this process, on a small project of its own."""

import contextlib
import io
import signal
import subprocess

import pytest
from projects import write_project

from kernforge.cli import main


@pytest.fixture
def project(tmp_path):
    return write_project(tmp_path / "project")


@pytest.fixture
def swift():
    """The command line in this very process: the same, but for the start of an interpreter."""

    def kernforge(*words):
        out, err = io.StringIO(), io.StringIO()
        old = signal.getsignal(signal.SIGTERM)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = main.run(words)
        finally:
            signal.signal(signal.SIGTERM, old)
        return subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue())

    return kernforge


@pytest.fixture
def fixed(project, tmp_path):
    """Options that name a small project of its own, with a cache of its own."""
    return ("--project", str(project), "--cache", str(tmp_path / "cache"))


@pytest.fixture
def call(swift, fixed):
    """A call in the project, in this process."""
    return lambda *words: swift(*fixed, *words)
