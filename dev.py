#!/usr/bin/env python3
"""Makes `.venv` on first use and runs nox in it: `python3 dev.py -s build-demo`.

Needs git, Python 3.11 or newer, and a C++ compiler. `python3 dev.py install` only makes `.venv`.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
STAMP = VENV / "kernforge-dev"


def wanted() -> str:
    """What decides whether `.venv` is up to date."""
    text = (ROOT / "pyproject.toml").read_bytes()
    return hashlib.sha256(text + str(ROOT).encode() + sys.version.encode()).hexdigest()


def install() -> None:
    """Make or renew `.venv`: kernforge itself, nox, and what tests and lint need."""
    if STAMP.exists() and STAMP.read_text() == wanted():
        return
    if sys.version_info < (3, 11):  # noqa: UP036 - whoever runs this may have an older one
        sys.exit(f"dev.py: Python 3.11 or newer is needed, this is {sys.version.split()[0]}")
    made = subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=False)
    if made.returncode != 0:
        sys.exit("dev.py: no virtual environment can be made\n  hint: apt-get install python3-venv")
    pip = [str(VENV / "bin/python"), "-m", "pip", "install", "--quiet"]
    uv = [str(VENV / "bin/uv"), "pip", "install", "--quiet", "--python", str(VENV / "bin/python")]
    subprocess.run([*pip, "uv"], check=True, cwd=ROOT)
    subprocess.run([*uv, "-e", ".", "--group", "test", "--group", "lint"], check=True, cwd=ROOT)
    STAMP.write_text(wanted())


def main(arguments: list[str]) -> int:
    """Install, then hand the words over to nox."""
    try:
        install()
    except subprocess.CalledProcessError as error:
        sys.exit(f"dev.py: {' '.join(error.cmd[:4])} ... ended with {error.returncode}")
    if arguments == ["install"]:
        return 0
    return subprocess.run([str(VENV / "bin/nox"), *arguments], check=False, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
