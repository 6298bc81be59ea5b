"""Programs of the host that a recipe asks for: found, identified, shown to the sandbox."""

import os
import shutil
from pathlib import Path

import pytest

from kernforge.errors import ToolchainError
from kernforge.process import SystemRunner
from kernforge.toolchain.host import Host, Memory
from kernforge.toolchain.programs import Wanted, with_programs

HOST = Host(programs=(("sh", "/bin/sh"),), python=Path("/usr/bin/python3"), identity=(("a", "b"),))


@pytest.fixture
def tools(tmp_path):
    folder = tmp_path / "tools"
    folder.mkdir()
    return folder


def script(path, text="true"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def ask(tools, tmp_path):
    """Ask for programs on a PATH that begins with a folder of the test's."""

    def call(*names, path="/usr/bin:/bin", env=()):
        return with_programs(
            HOST,
            Wanted(programs=names, who="job", env=env),
            path=f"{tools}:{path}",
            memory=Memory(tmp_path / "memory"),
            runner=SystemRunner(),
        )

    return call


def test_nothing_asked_changes_nothing(ask):
    assert ask() == HOST


def test_all_that_is_missing_is_told_at_once(ask):
    with pytest.raises(
        ToolchainError, match="job: the build calls what is not on PATH: flatc, protoc, zzz"
    ) as caught:
        ask("zzz", "protoc", "flatc", path="/nowhere")
    assert caught.value.word == "program-missing"
    assert "apt-get install flatbuffers-compiler protobuf-compiler" in caught.value.hint


def test_a_program_without_a_known_package(ask):
    with pytest.raises(ToolchainError, match="zzz") as caught:
        ask("zzz")
    assert "apt-get" not in caught.value.hint


def test_a_program_of_the_systems_is_shown_already(ask):
    host = ask("env")
    assert dict(host.programs)["env"] == os.path.realpath(shutil.which("env", path="/usr/bin:/bin"))
    assert host.shown == ()
    assert host.identity == HOST.identity
    assert [name for name, _ in host.asked] == ["program env"]


def test_a_program_elsewhere_is_shown_and_nothing_beside_it(ask, tools, tmp_path):
    real = script(tmp_path / "apart/say-1")
    (tools / "say").symlink_to(real)
    host = ask("say")
    assert dict(host.programs)["say"] == str(real)
    assert host.shown == (real,)


def test_its_bytes_are_its_identity(ask, tools):
    script(tools / "say", "echo 1")
    one, again = ask("say").asked, ask("say").asked
    script(tools / "say", "echo 2")
    assert one == again != ask("say").asked


@pytest.fixture
def rust(tools, tmp_path):
    """A toolchain apart from PATH, and what stands for it there as rustup's programs do."""
    root = tmp_path / "toolchains/stable"
    libraries = root / "lib/rustlib/here/lib"
    script(root / "bin/cargo")
    script(root / "bin/rustc", f'[ "$1" = -V ] && echo rustc 1.99.0 || echo {libraries}')
    for path in (
        root / "lib/librustc_driver-1.so",
        libraries / "libstd-1.rlib",
        root / "lib/other",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name)
    script(tools / "cargo", "exit 1")
    script(tools / "rustc", f'[ -n "$HOME" ] && [ "$PWD" = / ] && echo {root}')
    return root


HOME = (("HOME", "/home/kim"), ("SECRET", "x"))


def test_rust_is_taken_from_the_toolchain_that_rustc_names(ask, rust):
    host = ask("cargo", "rustc", env=HOME)
    assert dict(host.programs)["cargo"] == str(rust / "bin/cargo")
    assert dict(host.asked)["rust version"] == "rustc 1.99.0"
    assert set(host.shown) == {
        rust / "bin/cargo",
        rust / "bin/rustc",
        rust / "lib/rustlib",
        rust / "lib/librustc_driver-1.so",
    }


@pytest.mark.parametrize(
    "name", ["lib/librustc_driver-1.so", "lib/rustlib/here/lib/libstd-1.rlib", "bin/cargo"]
)
def test_every_part_of_it_is_in_its_identity(ask, rust, name):
    before = ask("cargo", "rustc", env=HOME).asked
    with (rust / name).open("a") as file:
        file.write("\n# more")
    assert ask("cargo", "rustc", env=HOME).asked != before


def test_a_toolchain_without_cargo(ask, rust):
    (rust / "bin/cargo").unlink()
    with pytest.raises(ToolchainError, match=r"rustc's toolchain .* holds no cargo"):
        ask("cargo", "rustc", env=HOME)


def test_rustup_without_a_toolchain(ask, tools, rust):
    script(tools / "rustc", "echo 'error: rustup could not choose a version' >&2; exit 1")
    with pytest.raises(ToolchainError, match="rustc' fails when asked") as caught:
        ask("cargo", "rustc", env=HOME)
    assert caught.value.word == "program-broken"
    assert "rustup could not choose" in caught.value.detail[0]
