"""Fixtures that several rooms share. Markers follow from fixtures where they can."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings

from kernforge.build.hostenv import unheard

STEERING = [name for name, _ in unheard(os.environ, ())]  # a CUDA image sets LIBRARY_PATH
for name in ("GITHUB_ACTIONS", "KERNFORGE_PROGRESS", *STEERING):
    os.environ.pop(name, None)  # what tests read does not hang on the place
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so a shell starts what runs behind it
    signal.signal(signal.SIGINT, signal.default_int_handler)
ROOT = Path(__file__).parents[1]
settings.register_profile("kernforge", deadline=None)  # a busy machine is no failure
settings.load_profile("kernforge")
LONGEST_ID = 100
IMPLIED = {"toolkit": "build", "compiler_cache": "build"}


def pytest_collection_modifyitems(items):
    for item in items:
        for fixture, mark in IMPLIED.items():
            if fixture in item.fixturenames:
                item.add_marker(mark)


def pytest_make_parametrize_id(val, argname):
    """A short name for a long value: pytest keeps each name several times over."""
    if isinstance(val, (bytes, str)) and len(val) > LONGEST_ID:
        return f"{argname} of {len(val)}"
    return None


@pytest.fixture(scope="session")
def compiler_cache() -> Path:
    """A cache that tests share, so that the compiler's wheels are fetched once."""
    named = os.environ.get("KERNFORGE_TEST_CACHE")
    return Path(named) if named else ROOT / "cache"


def kernforge(*words: str, env: dict[str, str] | None = None, cwd: Path = ROOT, **options):
    """Run the command line as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "kernforge", *words],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


@pytest.fixture(scope="session")
def run():
    """The command line as a function."""
    return kernforge


def has_build_tools(folder: Path) -> bool:
    return all((folder / name).exists() for name in ("cmake", "ninja"))


@pytest.fixture(scope="session")
def toolkit(compiler_cache, tmp_path_factory) -> Path:
    """A whole CUDA root made of wheels, with the real nvcc as bin/nvcc."""
    done = kernforge("--cache", str(compiler_cache), "plan", "demo", "--probe", "--arch", "12.0a")
    assert done.returncode == 0, done.stderr
    roots = (compiler_cache / "envs").glob("[!.]*/lib/python*/site-packages/nvidia/cu13")
    whole = max(roots, key=lambda root: (has_build_tools(root.parents[4] / "bin"), root))
    root = tmp_path_factory.mktemp("cuda")
    for item in whole.iterdir():
        if item.name != "bin":
            (root / item.name).symlink_to(item)
    (root / "bin").mkdir()
    for item in (whole / "bin").iterdir():
        if item.name != "nvcc":
            (root / "bin" / item.name).symlink_to(item)
    shutil.copyfile(whole / "bin/nvcc.real", root / "bin/nvcc")
    (root / "bin/nvcc").chmod(0o755)
    return root


@pytest.fixture(scope="session")
def cuobjdump(compiler_cache) -> Path:
    """NVIDIA's own program, the oracle; from its wheel, never part of the product."""
    folder = compiler_cache / "tests/cuobjdump"
    program = folder / "nvidia/cu13/bin/cuobjdump"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):  # of the processes of one run, the first installs it
        if not os.access(program, os.X_OK):
            command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps"]
            subprocess.run(
                [*command, "--target", str(folder), "nvidia-cuda-cuobjdump==13.5.37"], check=True
            )
            program.chmod(0o755)
    return program
