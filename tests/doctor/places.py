"""Real environments in a test's own folder, with distributions as an installer would lay them out.

Extension modules are compiled by gcc in milliseconds; their device code is forged.
"""

import json
import os
import shutil
import subprocess
import venv
from pathlib import Path

from binary.forge import EXIT, digest_row, make_container, make_cubin, make_entry
from verify.targets import LOAD, compile_library, compile_module

from kernforge.arch import parse_arch, parse_device
from kernforge.doctor.examine import Order, Tools, examine
from kernforge.doctor.runtime import Where
from kernforge.process import SystemRunner
from kernforge.source.git import Git
from kernforge.source.settings import FetchSettings, Limits
from kernforge.toolchain.host import find_programs
from kernforge.toolchain.sandbox import probe_sandbox

ROOT = Path(__file__).parents[2]
PATH = os.environ["PATH"]
SANDBOX = shutil.which("bwrap") is not None


def fatbin(*archs: str, names: tuple[str, ...] = ("scale", "reduce"), code: bytes = EXIT) -> bytes:
    """A fat binary of these kernels for each arch: ``12.0a`` is code, ``9.0+PTX`` is PTX."""
    entries = []
    for text in archs:
        arch = parse_arch(text.removesuffix("+PTX"))
        number = arch.major * 10 + arch.minor
        if text.endswith("+PTX"):
            ptx = "".join(f".visible .entry {name}(\n)\n{{\n}}\n" for name in names)
            head = f".version 9.0\n.target sm_{number}\n.address_size 64\n"
            entries.append(make_entry((head + ptx).encode(), number, kind=1))
        else:
            kernels = dict.fromkeys(names, code * 8)
            entries.append(make_entry(make_cubin(kernels), number, suffix=arch.suffix))
    return make_container(*entries)


def module(place: Path, *archs: str, code: bytes = EXIT, options: tuple[str, ...] = (), **text):
    """A Python extension module with device code; a real one that can be imported."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if archs:
        data = place.parent / "code.fatbin"
        data.write_bytes(fatbin(*archs, code=code))
        section = f'.section .nv_fatbin,\\"a\\"\\n.incbin \\"{data}\\"\\n.previous'
        text["before"] = f'asm("{section}");' + text.get("before", "")
    compile_module(place, *options, **text)
    if archs:
        data.unlink()
    return place


class Place:
    """A virtual environment and what is put into it."""

    def __init__(self, root: Path) -> None:
        self.root = root / "env"
        venv.create(self.root, with_pip=False, symlinks=True)
        self.python = self.root / "bin/python"
        (self.site,) = self.root.glob("lib/python3*/site-packages")
        self.scratch = root / "scratch"

    def write(self, name: str, data: str | bytes) -> Path:
        path = self.site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def record(self, name, version, files=(), *, direct=None, metadata="", build=None, **texts):
        """Records of a distribution whose files are in place already."""
        info = f"{name.replace('-', '_')}-{version}.dist-info"
        head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}"
        texts = {"METADATA": head, "INSTALLER": "uv\n", "WHEEL": "Wheel-Version: 1.0\n", **texts}
        if direct:
            texts["direct_url.json"] = json.dumps(direct)
        if build:
            texts["build.json"] = json.dumps(build)
        for key, text in texts.items():
            self.write(f"{info}/{key}", text)
        names = [*files, *(f"{info}/{key}" for key in texts)]
        rows = [digest_row(one, (self.site / one).read_bytes()) for one in names]
        self.write(f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,"]) + "\n")
        return self.site / info

    def install(self, name, version, files: dict[str, str | bytes], **more):
        """A distribution with these files."""
        for path, data in files.items():
            self.write(path, data)
        return self.record(name, version, files, **more)

    def kernels(self, name, version, *archs, package=None, body="", options=(), **more):
        """A distribution with one extension module ``ops`` that holds device code."""
        package = package or name.replace("-", "_")
        self.write(f"{package}/__init__.py", INIT.format(package=package, version=version))
        module(self.site / f"{package}/ops.abi3.so", *archs, body=body, options=options)
        files = [f"{package}/__init__.py", f"{package}/ops.abi3.so"]
        return self.record(name, version, files, **more)

    def torch(self, version="2.14.1", cuda="13.0"):
        """A torch of two functions."""
        self.write("torch/version.py", f"cuda: Optional[str] = {cuda!r}\n")
        self.write("torch/__init__.py", LOAD)
        source = "void _ZN3c104lockEj(void) {} void c10_open(void) {}"
        compile_library(self.site / "torch/lib/libc10.so", source, "-Wl,-soname,libc10.so")
        files = ["torch/version.py", "torch/__init__.py", "torch/lib/libc10.so"]
        self.record("torch", version, files)
        return (f"-L{self.site / 'torch/lib'}", "-l:libc10.so")

    def editable(self, name, version, project: Path, modules: dict[str, Path]):
        """An editable install as setuptools leaves it: a finder with a table."""
        finder = f"__editable___{name.replace('-', '_')}_{version.replace('.', '_')}_finder"
        finder = "".join(c if c.isalnum() or c == "_" else "_" for c in finder)
        table = {key: str(path) for key, path in modules.items()}
        self.write(f"{finder}.py", FINDER.format(table=table))
        pth = f"__editable__.{name.replace('-', '_')}-{version}.pth"
        self.write(pth, f"import {finder}; {finder}.install()\n")
        direct = {"url": project.as_uri(), "dir_info": {"editable": True}}
        return self.record(name, version, [f"{finder}.py", pth], direct=direct)

    def look(self, *devices, sandbox=True, **changes):
        """Examine it, in this process."""
        runner = SystemRunner()
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir()
        order = {
            "python": self.python,
            "devices": tuple(parse_device(device) for device in devices),
            "devices_note": "named",
            "recipes": (ROOT / "recipes",),
            "where": Where(path=PATH, cuda=()),
            "env": (("PATH", PATH),),
        }
        bwrap = shutil.which("bwrap") if sandbox else None
        env = (("PATH", PATH),)
        settings = FetchSettings(
            cache=self.scratch, project=self.scratch, env=env, limits=Limits(git=60)
        )
        tools = Tools(
            runner=runner,
            git=Git(runner=runner, settings=settings, told=print),
            sandbox=probe_sandbox(bwrap=bwrap, uid=os.getuid(), wanted=True, runner=runner),
            programs=find_programs(PATH),
            scratch=self.scratch,
            told=print,
        )
        return examine(Order(**(order | changes)), tools)

    def case(self, name, *devices, **changes):
        """One distribution of the examination."""
        return case_of(self.look(*devices, **changes), name)


def case_of(found, name):
    (case,) = [case for case in found.cases if case.installed.name == name]
    return case


def words(case) -> list[str]:
    return [remark.word for remark in case.remarks]


def said(case, word: str) -> str:
    (text,) = [remark.text for remark in case.remarks if remark.word == word]
    return text


INIT = """\
import importlib.util
if importlib.util.find_spec("torch"):
    import torch
from {package} import ops
__version__ = "{version}"
"""
FINDER = """\
import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from pathlib import Path
MAPPING: dict[str, str] = {table!r}

class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name in MAPPING:
            return spec_from_file_location(name, Path(MAPPING[name], "__init__.py"))

def install():
    sys.meta_path.append(Finder)
"""


def git(folder: Path, *words: str) -> str:
    """A call of git in a folder, as somebody with a name."""
    env = {
        "PATH": PATH, "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org",
        "GIT_AUTHOR_DATE": "2026-09-03T10:00:00Z", "GIT_COMMITTER_DATE": "2026-09-03T10:00:00Z",
    }  # fmt: skip
    done = subprocess.run(
        ["git", "-c", "init.defaultBranch=main", *words],
        cwd=folder, env=env, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip()


PYPROJECT = """\
[project]
name = "sglang"
dynamic = ["version"]
dependencies = ["sglang-kernel==0.4.7"]
[tool.setuptools_scm]
root = ".."
version_file = "sglang/_version.py"
git_describe_command = ["python3", "scripts/release/get_version_tag.py"]
fallback_version = "0.0.0.dev0"
"""


def checkout(root: Path, *, commits: int = 1) -> Path:
    """A checkout of the shape of sglang's: the project in ``python``, its version from git."""
    files = {"python/pyproject.toml": PYPROJECT, "python/sglang/__init__.py": "import os\n",
             "python/sglang/kernels/jit/csrc/add.cuh": "// code\n"}  # fmt: skip
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(root, "init", "-q")
    git(root, "add", ".")
    for number in range(commits):
        git(root, "commit", "-q", "--allow-empty", "-m", f"change {number}")
    git(root, "remote", "add", "origin", "https://user:secret@git.example.org/sglang")
    return root
