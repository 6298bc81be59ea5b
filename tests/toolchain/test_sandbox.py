import os
import select
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kernforge.process import Command, SystemRunner
from kernforge.toolchain.host import Memory, probe_host
from kernforge.toolchain.sandbox import (
    KF,
    Mount,
    bwrap_argv,
    compiler_prefixes,
    constant_folder,
    inside_env,
    interpreter_parts,
    probe_sandbox,
    real_layout,
    unmasked,
)

BWRAP = shutil.which("bwrap")
PYTHON = Path(sys.base_prefix) / f"bin/python{sys.version_info.major}.{sys.version_info.minor}"


def probe(bwrap=BWRAP, *, wanted=True):
    return probe_sandbox(bwrap=bwrap, uid=1234, wanted=wanted, runner=SystemRunner())


def test_bubblewrap_holds_here():
    found = probe()
    assert (found.layout, found.bwrap, found.network_cut) == (KF, BWRAP, True)


def test_switched_off():
    found = probe(wanted=False)
    assert found.layout == real_layout(1234)
    assert (found.reason, found.network_cut) == ("switched off by --no-sandbox", False)


def test_not_installed():
    assert probe(None).reason == "bubblewrap (bwrap) is not installed"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "#!/bin/sh\necho first >&2\necho no namespaces >&2\nexit 1\n",
            "forbidden here: no namesp",
        ),
        ("#!/bin/sh\nexit 1\n", "forbidden here: no reason given"),
        ("\0\0 no program", "does not start here: Program "),
        ("#!/no/such/interpreter\n", "does not start here: Program "),
    ],
)
def test_bubblewrap_that_is_there_and_does_not_work(tmp_path, text, said):
    program = tmp_path / "bwrap"
    program.write_text(text)
    program.chmod(0o755)
    found = probe(str(program))
    assert (found.bwrap, found.layout.name) == (None, "real")
    assert said in found.reason


def test_bubblewrap_that_may_not_be_run(tmp_path):
    (tmp_path / "bwrap").write_text("")
    assert "does not start here" in probe(str(tmp_path / "bwrap")).reason


@pytest.mark.parametrize(
    ("make", "layout"),
    [
        (lambda folder: folder.mkdir(mode=0o700), KF),
        (lambda folder: folder.mkdir(mode=0o755), KF),
        (lambda folder: None, real_layout(os.getuid())),
        (lambda folder: folder.write_text(""), real_layout(os.getuid())),
        (lambda folder: folder.symlink_to("/tmp"), real_layout(os.getuid())),
        (lambda folder: (folder.mkdir(), folder.chmod(0o777)), real_layout(os.getuid())),
    ],
    ids=["own", "readable", "missing", "a file", "a link", "writable by all"],
)
def test_a_folder_of_ones_own_has_the_paths_of_a_sandbox(tmp_path, make, layout):
    make(tmp_path / "kf")
    assert constant_folder(os.getuid(), tmp_path / "kf") == layout


def test_somebody_elses_folder_is_not_used(tmp_path):
    assert constant_folder(os.getuid() + 1, tmp_path) == real_layout(os.getuid() + 1)


def test_what_compilers_find_in_usr_local_is_told(tmp_path):
    """Python's own files, and programs, are none of it."""
    for name in ("lib/python3.11/x.so", "bin/tool", "share/x", "lib/libpython3.11.so"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    hidden = (tmp_path / "lib/libpython3.11.so",)
    assert not unmasked(hidden, tmp_path)
    found = {unmasked((), tmp_path)}
    for name, text in (("include/a.h", "1"), ("include/a.h", "22"), ("lib64/b.so", "3")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        found.add(unmasked(hidden, tmp_path))
    assert len(found) == 4


def test_paths_of_a_layout():
    assert KF.at("env/bin", "python") == "/kf/env/bin/python"
    assert real_layout(7).root == "/var/tmp/kernforge-7"


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    memory = Memory(tmp_path_factory.mktemp("memory"))
    return probe_host(python=PYTHON, path="/usr/bin:/bin", memory=memory, runner=SystemRunner())


@pytest.fixture
def inside(host, tmp_path):
    """Run a shell script as a build would, with `src` to write in and `env` to read."""
    for name in ("src of 'mine' ü", "env"):
        (tmp_path / name).mkdir()
    (tmp_path / "env/file").write_text("locked")
    mounts = (
        Mount(source=tmp_path / "src of 'mine' ü", place="src", writable=True),
        Mount(source=tmp_path / "env", place="env", writable=False),
    )
    argv = bwrap_argv(BWRAP, mounts=mounts, layout=KF, host=host, cwd="/kf/src")
    argv = inside_env(argv, (("PATH", "/usr/bin:/bin"), ("ODD", "a b\n'c'")))

    def run(script: str):
        return SystemRunner().run(Command(argv=(*argv, "--", "/bin/sh", "-c", script)))

    return run


def lines(result) -> list[str]:
    assert result.returncode == 0, result.complaint
    return result.text.splitlines()


def test_no_network(inside):
    assert lines(inside("grep -c : /proc/net/dev")) == ["1"]
    assert lines(inside("grep : /proc/net/dev"))[0].split(":")[0].strip() == "lo"


def test_a_server_outside_is_out_of_reach(inside):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        ask = f"import socket; socket.create_connection(('127.0.0.1', {port}))"
        done = inside(f'{PYTHON} -I -S -c "{ask}"')
        assert "refused" in done.complaint
        assert select.select([server], [], [], 0)[0] == []
        subprocess.run([PYTHON, "-I", "-S", "-c", ask], check=True)
        assert select.select([server], [], [], 5)[0] == [server]


def test_home_and_everything_else_is_not_there(inside, tmp_path):
    assert set(lines(inside("ls /"))) <= {
        "bin", "dev", "etc", "kf", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "tmp", "usr",
        *PYTHON.parts[1:2],
    }  # fmt: skip
    assert inside(f"test -e {tmp_path}").returncode != 0
    home = Path.home()
    way = PYTHON.relative_to(home).parts[:1] if PYTHON.is_relative_to(home) else ()
    assert tuple(inside(f"ls -A {home}").text.splitlines()) == way


def test_usr_local_is_masked(inside):
    if PYTHON.is_relative_to("/usr/local"):
        assert set(lines(inside("ls /usr/local"))) <= {"bin", "lib", "include"}
    else:
        assert lines(inside("ls -A /usr/local")) == []


def test_the_system_and_the_environment_cannot_be_written(inside, tmp_path):
    for place in ("/usr/evil", "/kf/env/evil", "/etc/ld.so.cache"):
        assert inside(f"echo x > {place}").returncode != 0
    assert inside("rm /kf/env/file").returncode != 0
    assert (tmp_path / "env/file").read_text() == "locked"


def test_what_is_written_below_src_is_kept(inside, tmp_path):
    assert lines(inside("pwd; echo made > made; cat /kf/env/file")) == ["/kf/src", "locked"]
    assert (tmp_path / "src of 'mine' ü/made").read_text() == "made\n"


def test_tmp_is_its_own(inside):
    assert lines(inside("ls -A /tmp; echo x > /tmp/left")) == []
    assert lines(inside("ls -A /tmp")) == []


def test_names_are_constant(inside):
    assert lines(inside("uname -n")) == ["kernforge"]


def test_the_environment_is_exactly_what_was_given(inside):
    found = inside("env -0").stdout.split(b"\0")
    found = dict(item.split(b"=", 1) for item in found if item)
    assert found.pop(b"ODD") == b"a b\n'c'"
    assert set(found) <= {b"PATH", b"PWD", b"SHLVL", b"_", b"OLDPWD"}


def test_no_process_of_the_host_is_seen(inside):
    pids = lines(inside("ls /proc | grep -c '^[0-9]'"))
    assert int(pids[0]) <= 6
    ours = f"/proc/{os.getpid()}/cmdline"
    assert inside(f"grep -q pytest {ours}").returncode != 0


def test_the_interpreter_runs_with_its_library(inside):
    ask = "import ssl, ctypes, json; print('well')"
    assert lines(inside(f'{PYTHON} -I -c "{ask}"')) == ["well"]


def test_the_compiler_compiles(inside):
    script = "echo 'int main() { return 7; }' > a.cpp; g++ a.cpp -o a; ./a; echo $?"
    assert lines(inside(script)) == ["7"]


def test_the_exit_status_comes_through(inside):
    assert inside("exit 37").returncode == 37


def test_interpreters_of_the_system_need_no_more():
    assert interpreter_parts(Path("/usr/bin/python3.11")) == ()


def test_parts_of_an_interpreter_elsewhere(tmp_path):
    for name in ("bin/python3.11", "lib/python3.11/os.py", "lib/libpython3.11.so.1.0", "other/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    parts = interpreter_parts(tmp_path / "bin/python3.11")
    assert [str(part.relative_to(tmp_path)) for part in parts] == [
        "bin/python3.11", "lib/python3.11", "lib/libpython3.11.so.1.0"
    ]  # fmt: skip


def test_compilers_elsewhere_bring_their_prefix(host, tmp_path):
    from dataclasses import replace

    assert compiler_prefixes(host) == ()
    (tmp_path / "toolset/bin").mkdir(parents=True)
    shutil.copyfile("/bin/true", tmp_path / "toolset/bin/g++")
    other = replace(host, programs=(("g++", str(tmp_path / "toolset/bin/g++")),))
    assert compiler_prefixes(other) == (tmp_path / "toolset",)


def test_the_call_holds_no_variable_of_ours(host):
    argv = bwrap_argv(BWRAP, mounts=(), layout=KF, host=host, cwd="/kf")
    assert {"--unshare-all", "--clearenv", "--die-with-parent"} <= set(argv)
    assert subprocess.run([*argv, "--", "/bin/true"], check=False).returncode == 0
