"""Sessions are thin calls of our own command line and of the test tools; they hold no logic.

`nox -s build-NAME` exists for every recipe file, named without reading it. Sessions use the
environment that `dev.py` makes, or the one that nox itself runs in where kernforge is installed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nox

ROOT = Path(__file__).parent
nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "tests"]


def program(session: nox.Session, name: str) -> str:
    """A program beside nox, else from `.venv`, which is made where it is not there."""
    for folder in (Path(sys.executable).parent, ROOT / ".venv/bin"):
        if (folder / "kernforge").exists() and (folder / name).exists():
            return str(folder / name)
    session.run(sys.executable, "dev.py", "install")
    return str(ROOT / ".venv/bin" / name)


def _add_build(recipe: str) -> None:
    @nox.session(name=f"build-{recipe}")
    def build(session: nox.Session) -> None:
        session.run(program(session, "kernforge"), "build", recipe, *session.posargs)

    build.__doc__ = f"Build recipes/{recipe}.yaml; words after -- go to kernforge build."


for _path in sorted((ROOT / "recipes").glob("*.yaml")):
    _add_build(_path.stem)


@nox.session
def tests(session: nox.Session) -> None:
    """All tests that need neither a GPU nor published wheels; they compile with nvcc."""
    chosen = session.posargs or ["-m", "not network and not gpu", "-n", "2", "--dist", "loadgroup"]
    session.run(program(session, "pytest"), *chosen)


@nox.session(name="tests-quick")
def tests_quick(session: nox.Session) -> None:
    """The tests that compile nothing: seconds."""
    marks = "not network and not gpu and not build"
    session.run(program(session, "pytest"), "-m", marks, *session.posargs)


@nox.session(name="tests-network")
def tests_network(session: nox.Session) -> None:
    """Golden values of published wheels; downloads more than a gigabyte."""
    session.run(program(session, "pytest"), "-m", "network", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Ruff, its formatter, and mypy."""
    ruff = program(session, "ruff")
    session.run(ruff, "check", ".")
    session.run(ruff, "format", "--check", ".")
    session.run(program(session, "mypy"))


@nox.session
def generate(session: nox.Session) -> None:
    """Write the schema and the reference page from the recipe model."""
    session.run(program(session, "kernforge"), "schema", "--write", "docs")


@nox.session
def fuzz(session: nox.Session) -> None:
    """Coverage-guided fuzzing of the readers of binaries; words after -- go to atheris."""
    limits = session.posargs or ["-max_total_time=600", "-rss_limit_mb=2048", "-timeout=20"]
    python = program(session, "python")
    session.run(program(session, "uv"), "pip", "install", "--quiet", "--python", python, "atheris")
    session.run(python, "tests/fuzz/fuzz_reading.py", *limits)
