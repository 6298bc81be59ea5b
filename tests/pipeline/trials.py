"""Small setuptools projects whose setup.py calls compilers by itself, and their real builds.

No torch: what a build step does is written out, so that each fault has one cause.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from projects import KERNEL, ROOT, share_toolchain

LOCKS = ROOT / "tests/fixtures/locks"
PYPROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
[project]
name = "plain"
version = "1.2.3"
"""
SETUP = """\
import os
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

NVCC = "nvcc"
CXX = "g++"
FLAGS = ["-gencode=arch=compute_90,code=sm_90"]
LINK = []
INCLUDE = f"-I{os.environ['CUDA_HOME']}/include"


class Compile(build_ext):
    def build_extension(self, ext):
        objects = []
        for source in ext.sources:
            made = Path(self.build_temp, source + ".o")
            made.parent.mkdir(parents=True, exist_ok=True)
            tool = [NVCC, *FLAGS, "-Xcompiler"] if source.endswith(".cu") else [CXX]
            subprocess.run([*tool, "-fPIC", INCLUDE, "-c", source, "-o", str(made)], check=True)
            objects.append(str(made))
        library = Path(self.get_ext_fullpath(ext.name))
        library.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["nvcc", "-shared", *FLAGS, *objects, *LINK, "-o", str(library)], check=True)


sources = sorted(str(p) for p in Path("csrc").rglob("*") if p.suffix in {".cu", ".cpp"})
setup(packages=["plain"], ext_modules=[Extension("plain.code", sources)],
      cmdclass={"build_ext": Compile})
"""
RECIPE = """\
format: 1
name: plain
distribution: plain
version: "1.2.3"
sources: {plain: {path: project}}
build:
  backend: setuptools
matrix: {archs: ["12.0a"], cuda: ["13.0"], python: ["3.11"]}
verify: {require: code}
"""
FILES = {
    "recipes/plain.yaml": RECIPE,
    "project/pyproject.toml": PYPROJECT,
    "project/setup.py": SETUP,
    "project/csrc/scale.cu": KERNEL,
    "project/plain/__init__.py": '"""A plain package."""\n',
}


def setup_with(**values: object) -> str:
    """The setup.py with other values for its capital names."""
    text = SETUP
    for name, value in values.items():
        (line,) = [line for line in SETUP.splitlines() if line.startswith(f"{name} = ")]
        text = text.replace(line, f"{name} = {value}")
    return text


def recipe_with(*build: str, arch: str = "12.0a") -> str:
    """The recipe with more lines in its build block, for other archs."""
    text = RECIPE.replace("12.0a", arch)
    return text.replace(
        "  backend: setuptools\n", "".join(f"  {b}\n" for b in ("backend: setuptools", *build))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a call answered: its status, the objects on standard output, standard error."""

    status: int
    objects: list[dict[str, Any]]
    said: str

    @property
    def fault(self) -> dict[str, Any]:
        """The one fault it tells."""
        (fault,) = [o for o in self.objects if "error" in o]
        return fault

    @property
    def made(self) -> dict[str, Any]:
        """The one wheel it tells, and no fault."""
        assert self.status == 0, self.said
        (made,) = self.objects
        return made

    def ledger(self) -> list[dict[str, Any]]:
        """The records of the compiler calls that made the wheel."""
        lines = (Path(self.made["wheel"]).parent / "ledger.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def archs(self) -> dict[str, list[str]]:
        """Source and what was compiled from it, of each call that compiled device code."""
        compiled = [r for r in self.ledger() if r["kind"] == "compile" and r["policy"]]
        return {r["sources"][0].rpartition("/")[2]: r["archs_after"] for r in compiled}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A project and the command line on it."""

    root: Path
    cache: Path
    run: Callable[..., Any]

    def write(self, files: dict[str, str | bytes]) -> None:
        """Write files below the project's root; bytes as they are."""
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def lock(self, recipe: str, made_as: str) -> None:
        """Give a recipe a lock of the fixtures."""
        target = self.root / "recipes/locks" / recipe
        shutil.copytree(LOCKS / made_as, target, dirs_exist_ok=True)

    def build(self, *words: str, name: str = "plain", env: dict[str, str] | None = None) -> Answer:
        """Build and read the answer."""
        place = ("--project", str(self.root), "--cache", str(self.cache))
        done = self.run(*place, "build", name, "--json", *words, env=env)
        objects = json.loads(done.stdout) if done.stdout else []
        return Answer(status=done.returncode, objects=objects, said=done.stderr)


def make_trial(root: Path, shared: Path, run: Callable[..., Any]) -> Trial:
    """A plain project that builds."""
    trial = Trial(root=root / "work", cache=share_toolchain(root / "cache", shared), run=run)
    trial.write(FILES)
    trial.lock("plain", "plain")
    return trial
