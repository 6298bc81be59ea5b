import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernforge.errors import ToolchainError
from kernforge.pack.archive import write_wheel
from kernforge.process import Result, SystemRunner
from kernforge.toolchain.env import EnvOrder, existing, find_python, make_environment
from kernforge.toolchain.host import Host, find_programs
from kernforge.toolchain.lock import HEAD, Uv, read_lock

PYTHON = Path(sys.executable).resolve()
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
UV = str(Path(sys.executable).parent / "uv")


def own_wheel(folder: Path, name: str, files: dict[str, str]) -> Path:
    info = f"{name}-1.0.dist-info"
    texts = files | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name}-run = {name}:main\n",
    }
    tree = folder / f"tree-{name}"
    for path, text in texts.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    (folder / "links").mkdir(exist_ok=True)
    wheel = folder / f"links/{name}-1.0-py3-none-any.whl"
    write_wheel(tree, wheel, info_dir=info, epoch=0)
    return wheel


CUDA = {
    f"nvidia/cu13/{name}": text
    for name, text in {
        "bin/nvcc": "#!/bin/sh\n",
        "include/cuda.h": "CUresult CUDAAPI cuInit(unsigned int Flags);\n",
        "lib/libcudart.so.13": "",
    }.items()
}


@pytest.fixture
def uv(tmp_path):
    env = (("UV_FIND_LINKS", str(tmp_path / "links")), ("UV_NO_INDEX", "1"), ("UV_OFFLINE", "1"))
    return Uv(program=UV, cache=tmp_path / "uv", env=env)


@pytest.fixture
def order(tmp_path):
    """An order of one package of ours, found without network."""

    def make(*wheels: Path, toolkit=False, digest=None, compiler="gcc"):
        lines = [HEAD]
        for wheel in wheels:
            sha = digest or hashlib.sha256(wheel.read_bytes()).hexdigest()
            lines.append(f"{wheel.name.split('-')[0]}==1.0 --hash=sha256:{sha}")
        host = Host(
            programs=find_programs("/usr/bin:/bin"), python=PYTHON, identity=(("gcc", compiler),)
        )
        lock = read_lock(Path("x.lock"), "\n".join(lines))
        return EnvOrder(lock=lock, host=host, python=VERSION, toolkit=toolkit)

    return make


@pytest.fixture
def plain(tmp_path):
    return own_wheel(tmp_path, "own", {"own.py": "def main():\n    print('ran')\n"})


def make(order, folder, uv):
    return make_environment(order, folder=folder, uv=uv, runner=SystemRunner())


def test_an_environment_is_made_and_found_again(tmp_path, uv, order, plain):
    wanted = order(plain)
    assert existing(wanted, tmp_path / "envs") is None
    made = make(wanted, tmp_path / "envs", uv)
    assert made.cuda is None
    assert existing(wanted, tmp_path / "envs") == made
    assert [path.name for path in (tmp_path / "envs").iterdir()] == [wanted.name]
    ask = "import own, sys; own.main(); print(sys.prefix)"
    done = subprocess.run([made.python, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["ran", str(made.path)]


def test_it_works_from_another_place(tmp_path, uv, order, plain):
    made = make(order(plain), tmp_path / "envs", uv)
    moved = tmp_path / "else where"
    made.path.rename(moved)
    done = subprocess.run([moved / "bin/own-run"], capture_output=True, text=True, check=True)
    assert done.stdout == "ran\n"
    assert str(made.path).encode() not in (moved / "bin/own-run").read_bytes()


LISTS = """\
import glob, os, pathlib, shutil, sys
assert shutil.rmtree.avoids_symlink_attacks
class Holder:  # as pathlib before Python 3.11
    listdir, scandir = os.listdir, os.scandir
os.chdir(sys.argv[1])
with os.scandir() as entries:
    first = next(entries).name
    rest = [entry.name for entry in entries]
there = os.open(".", os.O_RDONLY)
found = [
    os.listdir(), os.listdir("."), os.listdir(there), [os.fsdecode(n) for n in os.listdir(b".")],
    [first, *rest], next(os.walk("."))[2], next(os.fwalk("."))[2], glob.glob("*"),
    Holder().listdir("."), [entry.name for entry in Holder().scandir(".")],
    [path.name for path in pathlib.Path().iterdir()], [p.name for p in pathlib.Path().glob("*")],
]
entries = os.scandir("."); entries.close(); assert list(entries) == []
for names in found:
    print(*names)
"""


def test_its_python_lists_folders_by_name(tmp_path, uv, order, plain):
    """By whatever means; and a program that a build starts with no environment likewise."""
    made = make(order(plain), tmp_path / "envs", uv)
    folder = tmp_path / "folder"
    folder.mkdir()
    names = [f"{number * 37 % 101:03}" for number in range(101)]
    for name in names:
        (folder / name).touch()
    assert os.listdir(folder) != sorted(names)
    for options in ((), ("-I",)):
        call = [made.python, *options, "-c", LISTS, str(folder)]
        done = subprocess.run(call, capture_output=True, text=True, check=True, env={})
        assert done.stdout.splitlines() == [" ".join(sorted(names))] * 12
    call = [made.python, "-c", LISTS, str(tmp_path / "none")]
    assert b"FileNotFoundError" in subprocess.run(call, capture_output=True, check=False).stderr


def test_a_file_with_other_bytes_than_locked_is_refused(tmp_path, uv, order, plain):
    with pytest.raises(ToolchainError, match="uv pip cannot make the locked") as caught:
        make(order(plain, digest="0" * 64), tmp_path / "envs", uv)
    assert caught.value.word == "env-failed"
    assert "hash" in "\n".join(caught.value.detail).lower()
    assert existing(order(plain, digest="0" * 64), tmp_path / "envs") is None


def test_what_a_killed_run_left_is_no_environment(tmp_path, uv, order, plain):
    wanted = order(plain)
    envs = tmp_path / "envs"
    for leftover in (envs / wanted.name, envs / f".{wanted.name}.draft"):
        (leftover / "lib").mkdir(parents=True)
        (leftover / "lib/half").write_text("")
    assert existing(wanted, envs) is None
    made = make(wanted, envs, uv)
    assert not (made.path / "lib/half").exists()
    assert len(list(envs.iterdir())) == 1


@pytest.mark.parametrize("stamp", ["", "{", "[]", "null", "{}", '"cuda"'])
def test_a_garbled_stamp_is_none(tmp_path, order, plain, stamp):
    wanted = order(plain)
    (tmp_path / "envs" / wanted.name).mkdir(parents=True)
    (tmp_path / "envs" / wanted.name / "kernforge-env.json").write_text(stamp)
    assert existing(wanted, tmp_path / "envs") is None


def test_finding_an_environment_marks_it_as_used(tmp_path, uv, order, plain):
    made = make(order(plain), tmp_path / "envs", uv)
    os.utime(made.path, (1, 1))
    existing(order(plain), tmp_path / "envs")
    assert made.path.stat().st_mtime > 1


def test_names_follow_what_decides_the_content(tmp_path, order, plain):
    other = own_wheel(tmp_path, "more", {"more.py": ""})
    names = [
        order(plain).name,
        order(other).name,
        order(plain, other).name,
        order(plain, toolkit=True).name,
        order(plain, compiler="another").name,
        order(plain, digest="0" * 64).name,
    ]
    assert len(set(names)) == len(names)
    assert order(plain, other).name == order(other, plain).name


def test_a_toolkit_root_is_found_and_completed(tmp_path, uv, order):
    wheel = own_wheel(tmp_path, "cudakit", CUDA)
    made = make(order(wheel, toolkit=True), tmp_path / "envs", uv)
    assert made.cuda == f"lib/python{VERSION}/site-packages/nvidia/cu13"
    root = made.path / made.cuda
    assert (root / "lib64/stubs/libcuda.so.1").exists()
    assert (root / "bin/nvcc.real").read_text() == "#!/bin/sh\n"
    assert existing(order(wheel, toolkit=True), tmp_path / "envs") == made


def test_completing_a_root_leaves_uvs_cache_alone(tmp_path, uv, order):
    wheel = own_wheel(tmp_path, "cudakit", CUDA)
    make(order(wheel, toolkit=True), tmp_path / "envs", uv)
    made = make(order(wheel, toolkit=True, compiler="b"), tmp_path / "envs", uv)
    assert (made.path / made.cuda / "bin/nvcc.real").read_text() == "#!/bin/sh\n"


def test_a_lock_without_a_compiler(tmp_path, uv, order, plain):
    with pytest.raises(ToolchainError, match="holds no nvcc") as caught:
        make(order(plain, toolkit=True), tmp_path / "envs", uv)
    assert caught.value.word == "toolkit-incomplete"
    assert existing(order(plain, toolkit=True), tmp_path / "envs") is None


class Refusing(SystemRunner):
    """A uv that finds and gets nothing."""

    def __init__(self):
        self.asked = []

    def run(self, command, *, timeout=None):
        self.asked.append(command.argv[1:3])
        return Result(returncode=2, stdout=b"", stderr=b"error: no download\n")


def test_the_running_interpreter_is_taken_where_it_fits(uv):
    runner = Refusing()
    found = find_python(VERSION, current=(PYTHON, VERSION), uv=uv, runner=runner)
    assert found == PYTHON
    assert not runner.asked


def test_an_interpreter_that_nobody_has(uv):
    runner = Refusing()
    with pytest.raises(ToolchainError, match=r"No Python 3\.99 is here") as caught:
        find_python("3.99", current=(PYTHON, VERSION), uv=uv, runner=runner)
    assert caught.value.word == "python-missing"
    assert caught.value.hint == f"install it, or build for this one: --python {VERSION}"
    assert runner.asked == [("python", "find"), ("python", "install"), ("python", "find")]


def test_the_real_uv_finds_an_interpreter(uv):
    bare = Uv(program=UV, cache=uv.cache, env=(*uv.env, ("PATH", str(PYTHON.parent))))
    found = find_python(VERSION, current=(PYTHON, "0.0"), uv=bare, runner=SystemRunner())
    ask = [found, "-c", "import sys, json; print(json.dumps(sys.version_info[:2]))"]
    done = subprocess.run(ask, capture_output=True, check=True)
    assert json.loads(done.stdout) == list(sys.version_info[:2])
