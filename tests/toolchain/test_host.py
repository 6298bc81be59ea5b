import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from kernforge.errors import ToolchainError
from kernforge.process import SystemRunner
from kernforge.toolchain.host import (
    COMPILERS,
    Host,
    Memory,
    compiler_identity,
    find_programs,
    probe_host,
    python_identity,
)

SYSTEM = "/usr/bin:/bin"
PYTHON = Path(sys.executable).resolve()


class Counting(SystemRunner):
    """The real runner, and how often it was called."""

    calls = 0

    def run(self, command, *, timeout=None):
        self.calls += 1
        return super().run(command, timeout=timeout)


def tools(folder, *names):
    """A PATH of one folder that holds links to these programs only."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).symlink_to(shutil.which(name, path=SYSTEM))
    return str(folder)


@pytest.fixture
def memory(tmp_path):
    return Memory(tmp_path / "memory")


def test_programs_are_found():
    found = dict(find_programs(SYSTEM))
    assert {*COMPILERS, "ld", "strip", "sh", "sed"} <= set(found)
    assert all(os.access(path, os.X_OK) for path in found.values())
    assert "python3" not in found


@pytest.mark.parametrize(
    ("names", "word", "said"),
    [
        ((), "compiler-missing", "neither c\\+\\+ nor g\\+\\+"),
        (("gcc", "ld", "strip"), "compiler-missing", "No C\\+\\+ compiler is on PATH"),
        (("g++", "ld", "strip"), "compiler-missing", "No C compiler is on PATH: neither cc nor"),
        (("g++", "gcc", "strip"), "linker-missing", "No ld or strip is on PATH"),
        (("g++", "gcc", "ld"), "linker-missing", "No ld or strip is on PATH"),
    ],
)
def test_what_is_missing_is_named(tmp_path, names, word, said):
    with pytest.raises(ToolchainError, match=said) as caught:
        find_programs(tools(tmp_path / "bin", *names))
    assert caught.value.word == word
    assert "apt-get install" in caught.value.hint


def test_one_compiler_answers_to_both_its_names(tmp_path):
    found = dict(find_programs(tools(tmp_path / "bin", "g++", "gcc", "ld", "strip")))
    assert found["c++"] == found["g++"]
    assert found["cc"] == found["gcc"]


def test_the_current_folder_is_never_searched(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("g++", "sed"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    found = dict(find_programs(f"::.:{SYSTEM}"))
    assert found["g++"].startswith("/usr/bin/")
    with pytest.raises(ToolchainError, match="No C"):
        find_programs(".")


def test_the_identity_holds_digests_and_no_path(memory):
    facts = compiler_identity(
        dict(find_programs(SYSTEM)), path=SYSTEM, memory=memory, runner=SystemRunner()
    )
    assert {"gcc", "g++", "cc1plus", "as", "ld", "libc.so.6", "defines"} <= set(facts)
    assert facts["version"][0].isdigit()
    assert "/usr" not in json.dumps(facts)


def test_the_second_time_nothing_is_asked(memory):
    programs, runner = dict(find_programs(SYSTEM)), Counting()
    first = compiler_identity(programs, path=SYSTEM, memory=memory, runner=runner)
    asked = runner.calls
    assert asked > 5
    assert compiler_identity(programs, path=SYSTEM, memory=memory, runner=runner) == first
    assert runner.calls == asked


def test_another_linker_on_path_is_another_identity(tmp_path, memory):
    """The compiler stays; PATH gives it another `ld`."""
    runner = SystemRunner()
    path = tools(tmp_path / "bin", "g++", "gcc", "as", "strip", "ld")
    before = compiler_identity(dict(find_programs(path)), path=path, memory=memory, runner=runner)
    first = tmp_path / "first"
    first.mkdir()
    shutil.copyfile(shutil.which("ld", path=SYSTEM), first / "ld")
    with (first / "ld").open("ab") as file:
        file.write(b"\0")
    (first / "ld").chmod(0o755)
    path = f"{first}:{path}"
    after = compiler_identity(dict(find_programs(path)), path=path, memory=memory, runner=runner)
    assert before["g++"] == after["g++"]
    assert before["ld"] != after["ld"]


def test_a_compiler_that_fails_is_one_fault(tmp_path, memory):
    path = tools(tmp_path / "bin", "gcc", "ld", "strip")
    (tmp_path / "bin/g++").write_text("#!/bin/sh\necho line one >&2\necho broken >&2\nexit 3\n")
    (tmp_path / "bin/g++").chmod(0o755)
    with pytest.raises(ToolchainError, match="g\\+\\+' fails when asked -print-prog") as caught:
        compiler_identity(
            dict(find_programs(path)), path=path, memory=memory, runner=SystemRunner()
        )
    assert caught.value.word == "compiler-broken"
    assert caught.value.detail == ("line one", "broken")


def test_python_identity(memory):
    facts = python_identity(PYTHON, memory=memory, runner=SystemRunner())
    assert facts["python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")
    assert facts["abi"].startswith("cpython-")


def test_a_host_knows_its_programs(memory):
    host = probe_host(python=PYTHON, path=SYSTEM, memory=memory, runner=SystemRunner())
    assert isinstance(host, Host)
    assert hash(host)
    assert host.program("strip") == dict(host.programs)["strip"]
    assert {"machine", "zlib", "python", "compiler g++"} <= set(dict(host.identity))
    with pytest.raises(ToolchainError, match="Program 'cowsay' is not on PATH"):
        host.program("cowsay")


@pytest.fixture
def remembered(memory, tmp_path):
    file = tmp_path / "file"
    file.write_text("one")
    memory.keep("topic", [str(file)], {"a": "1"})
    assert memory.recall("topic") == {"a": "1"}
    return file


def test_memory_forgets_when_a_file_changes(memory, remembered):
    status = remembered.stat()
    while remembered.stat().st_ctime_ns == status.st_ctime_ns:  # the kernel's clock is coarse
        remembered.write_text("two")
        os.utime(remembered, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert memory.recall("topic") is None


def test_memory_forgets_when_a_file_is_replaced_or_gone(memory, remembered, tmp_path):
    (tmp_path / "other").write_text("one")
    (tmp_path / "other").replace(remembered)
    assert memory.recall("topic") is None
    remembered.unlink()
    assert memory.recall("topic") is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", "null", '{"files": 1, "facts": {}}', '{"files": {}}']
)
def test_memory_that_is_garbled_is_none(memory, remembered, tmp_path, text):
    (tmp_path / "memory/topic.json").write_text(text)
    assert memory.recall("topic") is None


def test_memory_that_cannot_be_kept_is_no_fault(tmp_path, remembered):
    (tmp_path / "in the way").write_text("")
    blocked = Memory(tmp_path / "in the way")
    blocked.keep("topic", [str(remembered)], {"a": "1"})
    assert blocked.recall("topic") is None
