"""The shim as a program, with small scripts in the place of compilers; spellings are in
test_shim_dryrun.py."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernforge.inside import shim

TARGET = "arch=compute_120a,code=sm_120a"
# stands for nvcc: says what it was called with, lists archs, makes the output
TOOL = """#!/bin/sh
case "$1" in --list-gpu-code) printf 'sm_75\\nsm_80\\nsm_86\\nsm_120\\nsm_121\\n'; exit 0;; esac
env > env.txt
for word in "$@"; do
  case "$previous" in -o) printf 'made by %s' "$$" > "$word";; esac
  previous=$word
done
printf '%s\\n' "$@"
echo trouble >&2
exit ${CODE:-0}
"""


class Build:
    """A source folder, a build folder, tools, and the shim in front of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("src", "build", "ledger", "real", "tmp"):
            (folder / name).mkdir()
        self.gencode = {
            "default": "replace",
            "by_path": [],
            "archs": [{"code": "120a", "ptx": False}],
        }
        self.tools = {}
        for name in ("nvcc", "gcc", "g++"):
            self.tool(name, TOOL)
        self.env = {
            "PATH": "/usr/bin:/bin",
            "TMPDIR": str(folder / "tmp"),
            "KERNFORGE_SHIM_CONFIG": str(folder / "config.json"),
        }
        (folder / "src/a.cu").write_text("// a\n")

    def tool(self, name: str, text: str) -> None:
        path = self.folder / "real" / name
        path.write_text(text)
        path.chmod(0o755)
        self.tools[name] = str(path)

    def configure(self, **changes: object) -> None:
        config = {
            "version": 1,
            "tools": self.tools,
            "path": "/usr/bin:/bin",
            "ledger": str(self.folder / "ledger"),
            "roots": [str(self.folder / "src"), str(self.folder / "build")],
            "gencode": self.gencode,
        }
        (self.folder / "config.json").write_text(json.dumps({**config, **changes}))

    def start(self, *words: str, **options: object) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", shim.__file__, *words],
            env=self.env,
            cwd=self.folder / "build",
            **options,
        )

    def run(self, *words: str, given: bytes = b"") -> tuple[int, str, str]:
        if not (self.folder / "config.json").exists():
            self.configure()
        pipe = subprocess.PIPE
        with self.start(*words, stdin=pipe, stdout=pipe, stderr=pipe) as process:
            out, err = process.communicate(given)
        return process.returncode, out.decode(), err.decode()

    def records(self) -> list[dict]:
        lines = (self.folder / "ledger/calls.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def after(self, *words: str) -> dict:
        """The record of one call that ends well."""
        assert self.run(*words)[0] == 0
        return self.records()[-1]


@pytest.fixture
def build(tmp_path):
    return Build(tmp_path)


def wait_for(condition):
    """Wait for what must come; the limit only ends a test that would hang."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "never came"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


# policies


def test_replace_removes_every_target_and_adds_the_requested(build):
    words = ["-gencode", "arch=compute_80,code=sm_80", "-arch=sm_90", "-O3", "-c", "../src/a.cu"]
    record = build.after("nvcc", *words, "-o", "a.o")
    assert record["argv"][1:] == [
        "-objtemp",
        f"-gencode={TARGET}",
        *["-O3", "-c", "../src/a.cu", "-o", "a.o"],
    ]
    assert record["archs_before"] == ["sm_90", "compute_90", "sm_80"]
    assert record["archs_after"] == ["sm_120a"]
    assert (record["policy"], record["rewritten"], record["note"]) == ("replace", True, "")


def test_replace_adds_ptx_only_where_asked(build):
    build.gencode["archs"] = [{"code": "90", "ptx": False}, {"code": "120", "ptx": True}]
    record = build.after("nvcc", "-c", "../src/a.cu")
    assert record["archs_after"] == ["sm_90", "sm_120", "compute_120"]


def test_call_that_names_just_the_requested_is_left(build):
    record = build.after("nvcc", f"--generate-code={TARGET}", "-c", "../src/a.cu")
    assert record["argv"][2:] == [f"--generate-code={TARGET}", "-c", "../src/a.cu"]
    assert (record["rewritten"], record["archs_after"]) == (False, ["sm_120a"])


@pytest.mark.parametrize(
    ("named", "kept"),
    [
        ("sm_120,sm_120a,sm_120f", ["sm_120a"]),
        ("sm_120a,compute_120a", ["sm_120a"]),
        ("lto_120a,sm_90", ["lto_120a"]),
    ],
)
def test_filter_keeps_equal_names_only(named, kept, build):
    build.gencode["default"] = "filter"
    words = [f"-gencode=arch=compute_120a,code=[{named}]", "-dc", "../src/a.cu"]
    assert build.after("nvcc", *words)["archs_after"] == kept


def test_filter_keeps_the_virtual_arch_of_a_target(build):
    build.gencode.update(default="filter", archs=[{"code": "86", "ptx": False}])
    words = ["-arch=compute_80", "-code=sm_80,sm_86", "-c", "../src/a.cu"]
    assert "-gencode=arch=compute_80,code=sm_86" in build.after("nvcc", *words)["argv"]


@pytest.mark.parametrize("words", [["-arch=sm_90"], ["-gencode", "arch=compute_90,code=sm_90"], []])
def test_filter_left_with_none_keeps_its_own_and_says_so(words, build):
    build.gencode["default"] = "filter"
    record = build.after("nvcc", *words, "-c", "../src/a.cu")
    assert record["argv"][2:] == [*words, "-c", "../src/a.cu"]
    assert record["note"] == "names none of the requested targets; its own are kept"
    assert record["archs_after"] == record["archs_before"]


def test_filter_knows_what_all_means_to_this_nvcc(build):
    build.gencode.update(default="filter", archs=[{"code": "86", "ptx": False}])
    record = build.after("nvcc", "-arch=all", "-c", "../src/a.cu")
    assert record["archs_before"] == ["sm_75", "sm_80", "sm_86", "sm_120", "sm_121", "compute_120"]
    assert record["archs_after"] == ["sm_86"]


def test_upstream_leaves_the_call(build):
    build.gencode["default"] = "upstream"
    words = ["-arch=sm_90", "-c", "../src/a.cu"]
    record = build.after("nvcc", *words)
    assert record["argv"][1:] == ["-objtemp", *words]
    assert record["archs_after"] == ["sm_90", "compute_90"]


@pytest.mark.parametrize(
    ("policy", "value"),
    [("upstream", "native"), ("upstream", "all"), ("upstream", "all-major"), ("filter", "native")],
)
def test_moving_targets_are_refused(policy, value, build):
    build.gencode["default"] = policy
    code, out, err = build.run("nvcc", f"-arch={value}", "-c", "../src/a.cu", "-o", "a.o")
    said = f"-arch={value} under policy {policy!r} has no fixed targets"
    assert (code, out, err) == (96, "", f"kernforge shim: {said}\n")
    assert not (build.folder / "build/a.o").exists()
    assert (build.records()[0]["exit"], build.records()[0]["note"]) == (96, said)


@pytest.mark.parametrize("value", ["native", "all", "all-major"])
def test_moving_targets_are_replaced(value, build):
    record = build.after("nvcc", "-arch", value, "-c", "../src/a.cu")
    assert record["archs_after"] == ["sm_120a"]


@pytest.mark.parametrize(
    ("pattern", "policy"),
    [
        ("*/fast/*", "upstream"),
        ("fast/*", "upstream"),
        ("*/k.cu", "upstream"),
        ("*/fas/*", "replace"),
        ("*/FAST/*", "replace"),
    ],
)
def test_policy_by_path_below_a_root(pattern, policy, build):
    build.gencode["by_path"] = [[pattern, "upstream"], ["*", "replace"]]
    record = build.after("nvcc", "-arch=sm_90", "-c", f"{build.folder}/src/fast/k.cu")
    assert (record["policy"], record["sources"]) == (policy, ["fast/k.cu"])


def test_policy_of_a_device_link_goes_by_its_output(build):
    build.gencode["by_path"] = [["*/fast.dir/*", "upstream"]]
    record = build.after("nvcc", "-dlink", "-arch=sm_90", "a.o", "-o", "fast.dir/link.o")
    assert (record["policy"], record["kind"], record["archs_after"]) == (
        "upstream",
        "device-link",
        ["sm_90"],
    )


def test_device_link_gets_targets_and_no_ptx(build):
    build.gencode["archs"][0]["ptx"] = True
    record = build.after("nvcc", "-dlink", "a.o", "-o", "d.o")
    assert record["argv"][1:] == [f"-gencode={TARGET}", "-dlink", "a.o", "-o", "d.o"]


def test_lto_compile_becomes_lto_code(build):
    record = build.after("nvcc", "-dlto", "-arch=sm_90", "-c", "../src/a.cu")
    lto = "-gencode=arch=compute_120a,code=lto_120a"
    assert record["argv"][2:] == [lto, "-rdc=true", "-c", "../src/a.cu"]


def test_options_file_is_copied_without_targets(build):
    inner = build.folder / "inner.txt"
    inner.write_text('-gencode\narch=compute_90,code=sm_90 -DX="a b"')
    outer = build.folder / "outer.txt"
    outer.write_text(f"-DY=1\n-optf {inner} -O2")
    record = build.after("nvcc", f"--options-file={outer}", "-c", "../src/a.cu")
    assert record["archs_before"] == ["sm_90"]
    _, _, added, option, copy, *rest = record["argv"]
    assert (added, option, rest) == (f"-gencode={TARGET}", "--options-file", ["-c", "../src/a.cu"])
    text = Path(copy).read_text()
    nested = text.removeprefix('-DY=1\n"--options-file" "').removesuffix('" -O2')
    assert Path(nested).read_text() == ' -DX="a b"'
    assert inner.read_text().startswith("-gencode")


def test_options_file_without_targets_is_left(build):
    (build.folder / "build/o.txt").write_text("-DX=1")
    words = ["-optf", "o.txt", "-optf", "missing.txt", "-c", "../src/a.cu"]
    assert build.after("nvcc", *words)["argv"][3:] == words


def test_options_file_that_names_itself_ends(build):
    (build.folder / "build/o.txt").write_text("-optf o.txt -DX=1")
    assert build.after("nvcc", "-optf", "o.txt", "-c", "../src/a.cu")["exit"] == 0


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["-c", "a.cu"], ["-objtemp"]),
        (["a.cu", "-o", "a.out"], ["-objtemp"]),
        (["-objtemp", "-c", "a.cu"], ["-objtemp"]),
        (["--objdir-as-tempdir", "-c", "a.cu"], ["--objdir-as-tempdir"]),
        (["-c", "a.cu", "-o", "/dev/null"], []),
        (["-dlink", "a.o"], []),
        (["-E", "a.cu"], []),
        (["--version"], []),
    ],
)
def test_temporary_files_get_a_fixed_place(words, given, build):
    argv = build.after("nvcc", *words)["argv"]
    assert [word for word in argv if word in {"-objtemp", "--objdir-as-tempdir"}] == given


# records


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["nvcc", "-dc", "a.cu"], "compile"),
        (["nvcc", "-dw", "a.cu"], "compile"),
        (["nvcc", "-ptx", "a.cu"], "compile"),
        (["nvcc", "-MD", "-MF", "a.d", "-c", "a.cu"], "compile"),
        (["nvcc", "-dlink", "a.o"], "device-link"),
        (["nvcc", "a.o", "-o", "x"], "link"),
        (["nvcc", "-E", "a.cu"], "preprocess"),
        (["nvcc", "-M", "-c", "a.cu"], "preprocess"),
        (["nvcc", "--version"], "query"),
        (["nvcc", "--dryrun", "-c", "a.cu"], "query"),
        (["nvcc", "-clean", "a.cu"], "other"),
        (["nvcc"], "other"),
        (["g++", "-c", "a.cpp"], "compile"),
        (["g++", "-shared", "a.o", "-o", "x.so"], "link"),
        (["g++", "-E", "-x", "c++", "-"], "preprocess"),
        (["gcc", "-dumpversion"], "query"),
        (["gcc", "-print-prog-name=ld"], "query"),
        (["gcc", "-v"], "query"),
        (["gcc", "-v", "-I", "a.c"], "query"),
        (["gcc", "-v", "a.c"], "link"),
    ],
)
def test_kind_of_call(words, kind, build):
    assert build.after(*words)["kind"] == kind


@pytest.mark.parametrize(
    ("words", "outputs"),
    [
        (["nvcc", "-c", "x/a.cu", "b.cu"], ["a.o", "b.o"]),
        (["nvcc", "-odir", "d", "-cubin", "x/a.cu"], ["d/a.cubin"]),
        (["nvcc", "-ptx", "a.cu"], ["a.ptx"]),
        (["nvcc", "-dlink", "a.o"], ["a_dlink.o"]),
        (["nvcc", "a.cu"], ["a.out"]),
        (["nvcc", "-c", "a.cu", "-o", "first.o", "-o", "last.o"], ["last.o"]),
        (["g++", "-c", "x/a.cpp"], ["a.o"]),
        (["g++", "a.o"], ["a.out"]),
        (["g++", "-c", "a.cpp", "-ojoined.o"], ["joined.o"]),
        (["g++", "-E", "a.cpp"], []),
    ],
)
def test_outputs_of_call(words, outputs, monkeypatch, build):
    monkeypatch.chdir(build.folder / "build")
    if words[0] == "nvcc":
        found = shim.nvcc_outputs(shim.Call(build.tools["nvcc"], words[1:]))
    else:
        found = shim.plan_host(words[1:]).outputs
    assert found == outputs


def test_record_of_a_compile(build):
    before = time.time()
    record = build.after("nvcc", "-c", "../src/a.cu", "-o", "a.o")
    made = build.folder / "build/a.o"
    assert record["outputs"] == [
        {
            "path": "a.o",
            "sha256": hashlib.sha256(made.read_bytes()).hexdigest(),
            "size": made.stat().st_size,
            "mtime_ns": made.stat().st_mtime_ns,
        }
    ]
    assert (record["tool"], record["sources"], record["output"]) == ("nvcc", ["a.cu"], "a.o")
    assert (record["cwd"], record["exit"], record["nested"]) == (
        str(build.folder / "build"),
        0,
        False,
    )
    assert before <= record["start"] <= time.time()
    assert record["seconds"] > 0
    assert record["max_rss_kib"] > 1000


def test_large_output_is_not_read(build):
    """An unlinked library of gigabytes; a hole in a file stands for it."""
    size = (256 << 20) + 1
    build.tool("nvcc", f"#!/bin/sh\ntruncate -s {size} a.o; truncate -s {size - 1} b.o\n")
    large, hashed = build.after("nvcc", "-c", "a.cu", "b.cu")["outputs"]
    assert (large["path"], large["sha256"], large["size"]) == ("a.o", None, size)
    assert len(hashed["sha256"]) == 64


def test_failed_call_has_no_outputs(build):
    build.env["CODE"] = "3"
    assert build.run("nvcc", "-c", "../src/a.cu", "-o", "a.o")[0] == 3
    assert (build.records()[0]["exit"], build.records()[0]["outputs"]) == (3, [])


def test_objects_that_keep_leaves_are_recorded(build):
    build.tool("nvcc", "#!/bin/sh\necho a > kept/a.o; echo b > kept/b.ptx\n")
    (build.folder / "build/kept").mkdir()
    (build.folder / "build/kept/old.o").write_text("old")
    os.utime(build.folder / "build/kept/old.o", (1, 1))
    record = build.after("nvcc", "-keep", "--keep-dir", "kept", "../src/a.cu", "-o", "x")
    assert [output["path"] for output in record["outputs"]] == ["kept/a.o"]


def test_host_compiler_is_recorded_and_left(build):
    (build.folder / "build/rsp").write_text("-c 'x y.cpp' -o \"out.o\"")
    record = build.after("g++", "-arch=sm_90", "@rsp")
    assert record["argv"][1:] == ["-arch=sm_90", "@rsp"]
    assert (record["sources"], record["output"]) == (["x y.cpp"], "out.o")
    assert (record["policy"], record["archs_before"], record["archs_after"]) == (None, None, None)


def test_compiler_called_by_a_compiler_is_nested(build):
    shim_call = f'exec {sys.executable} -I -S {shim.__file__} g++ "$@"'
    build.tool("nvcc", f"#!/bin/sh\n{shim_call}\n")
    assert build.run("nvcc", "-c", "../src/a.cu")[0] == 0
    assert [(r["tool"], r["nested"]) for r in build.records()] == [("g++", True), ("nvcc", False)]


def test_many_calls_at_once_leave_whole_lines(build):
    build.configure()
    long = "-D" + "x" * 20_000
    calls = [
        build.start(
            "g++", long, "-c", f"{n}.cpp", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for n in range(24)
    ]
    assert {call.wait() for call in calls} == {0}
    assert sorted(int(r["sources"][0][:-4]) for r in build.records()) == list(range(24))


def test_record_after_a_torn_line_stands_alone(build):
    ledger = build.folder / "ledger/calls.jsonl"
    ledger.write_text('{"version":1,"tool":"nv')
    assert build.run("g++", "--version")[0] == 0
    torn, whole = ledger.read_text().splitlines()
    assert torn == '{"version":1,"tool":"nv'
    assert json.loads(whole)["kind"] == "query"


# the program around the tool


def test_bytes_pass_both_ways(build):
    build.tool("gcc", "#!/bin/sh\ncat; printf 'e\\377' >&2\n")
    build.configure()
    pipe = subprocess.PIPE
    with build.start("gcc", "-xc", "-", stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.communicate(b"\xff\x00 in") == (b"\xff\x00 in", b"e\xff")


def test_environment_of_the_tool(build):
    build.env |= {
        "NVCC_PREPEND_FLAGS": "-arch=sm_50",
        "NVCC_APPEND_FLAGS": "-G",
        "NVCC_CCBIN": "g++",
        "OTHER": "stays",
        "PATH": "/shims:/usr/bin:/bin",
    }
    build.after("nvcc", "-c", "../src/a.cu")
    lines = (build.folder / "build/env.txt").read_text().splitlines()
    assert {"OTHER=stays", "NVCC_CCBIN=g++", "PATH=/usr/bin:/bin", "KERNFORGE_SHIM_DEPTH=1"} <= {
        *lines
    }
    assert not [line for line in lines if "PEND_FLAGS" in line]


@pytest.mark.parametrize("code", [1, 2, 96, 255])
def test_exit_code_is_the_tools_own(code, build):
    build.env["CODE"] = str(code)
    assert build.run("g++", "-c", "a.cpp")[0] == code


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL])
def test_tool_killed_by_a_signal(number, build):
    build.tool("nvcc", f"#!/bin/sh\nkill -{int(number)} $$\n")
    assert build.run("nvcc", "-c", "../src/a.cu")[0] == 128 + number
    assert build.records()[0]["exit"] == 128 + number


def test_tool_takes_a_broken_pipe_as_it_would_without_shim(build):
    """Python ignores SIGPIPE; a compiler that inherits that writes on for ever."""
    build.tool("gcc", "#!/bin/sh\nkill -PIPE $$\nexit 0\n")
    assert build.run("gcc", "-v")[0] == 128 + signal.SIGPIPE


def test_missing_tool(build):
    build.tools["nvcc"] = str(build.folder / "missing")
    code, _, err = build.run("nvcc", "-c", "../src/a.cu")
    assert code == 127
    said = f"cannot start '{build.folder}/missing': No such file or directory"
    assert err == f"kernforge shim: {said}\n"


def test_missing_tool_that_would_have_to_list_its_targets(build):
    build.tools["nvcc"] = str(build.folder / "missing")
    code, _, err = build.run("nvcc", "-arch=all", "-c", "../src/a.cu")
    assert (code, err.count("\n")) == (127, 1)
    assert err.startswith("kernforge shim: cannot run 'nvcc': [Errno 2] No such file")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "FileNotFoundError"),
        ("{", "JSONDecodeError"),
        ("[]", "TypeError"),
        ('{"version": 1}', "KeyError"),
    ],
)
def test_unusable_configuration(text, said, build):
    build.configure()
    path = build.folder / "config.json"
    path.unlink()
    if text is not None:
        path.write_text(text)
    with build.start("nvcc", stderr=subprocess.PIPE) as process:
        err = process.communicate()[1].decode()
    assert process.returncode == 97
    assert err.startswith(f"kernforge shim: '{path}' is no configuration: {said}")
    assert err.count("\n") == 1


def test_configuration_not_named_or_of_another_version(build):
    build.configure(version=2)
    assert build.run("nvcc")[::2] == (
        97,
        f"kernforge shim: '{build.folder}/config.json' has version 2; this shim reads version 1\n",
    )
    del build.env["KERNFORGE_SHIM_CONFIG"]
    assert build.run("nvcc")[::2] == (
        97,
        "kernforge shim: KERNFORGE_SHIM_CONFIG is not set; run compilers through kernforge\n",
    )


def test_unknown_tool(build):
    said = "kernforge shim: no real tool is configured for 'clang'\n"
    assert build.run("clang", "-c", "a.c")[::2] == (97, said)


def test_ledger_that_cannot_be_written_fails_the_call(build):
    build.configure(ledger=str(build.folder / "nowhere"))
    code, _, err = build.run("g++", "-c", "a.cpp")
    assert code == 98
    assert "the ledger cannot be written: [Errno 2] No such file or directory" in err


SLOW = """#!/bin/sh
sleep 600 &
echo $! > child.pid.new; mv child.pid.new child.pid
wait
"""


def started(build):
    """A call whose tool and whose tool's child both run; the child outlives its parent."""
    build.tool("nvcc", SLOW)
    build.configure()
    process = build.start("nvcc", "-c", "../src/a.cu", stderr=subprocess.DEVNULL)
    pid = build.folder / "build/child.pid"
    wait_for(pid.exists)
    return process, int(pid.read_text())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_stopping_the_shim_stops_all_below(number, build, request):
    if signal.getsignal(number) is signal.SIG_IGN:  # pytest itself runs in the background
        request.addfinalizer(lambda: signal.signal(number, signal.SIG_IGN))
        signal.signal(number, signal.SIG_DFL)
    process, child = started(build)
    process.send_signal(number)
    assert process.wait(timeout=60) in {128 + number, 255}
    assert not alive(child)
    assert build.records()[0]["exit"] == process.returncode


def test_killing_the_shim_kills_all_below(build):
    process, child = started(build)
    process.kill()
    process.wait(timeout=60)
    wait_for(lambda: not alive(child))


def test_tool_that_ignores_a_stop_is_killed(build):
    build.tool(
        "nvcc", SLOW.replace("sleep", "trap '' TERM; sleep", 1).replace("wait", "wait; wait")
    )
    build.configure()
    process = build.start("nvcc", "-c", "../src/a.cu", stderr=subprocess.DEVNULL)
    pid = build.folder / "build/child.pid"
    wait_for(pid.exists)
    process.terminate()
    assert process.wait(timeout=60) == 128 + signal.SIGKILL
    assert not alive(int(pid.read_text()))


def test_process_left_behind_by_a_good_call_lives(build):
    """A compile cache's server is started so; it must outlive the call."""
    build.tool("nvcc", "#!/bin/sh\nsleep 600 >/dev/null 2>&1 &\necho $! > child.pid\n")
    assert build.run("nvcc", "-c", "../src/a.cu")[0] == 0
    child = int((build.folder / "build/child.pid").read_text())
    assert alive(child)
    os.kill(child, signal.SIGKILL)


def test_shim_needs_nothing_but_the_standard_library():
    code = f"import runpy, sys; runpy.run_path({shim.__file__!r}); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], check=True, capture_output=True, text=True
    )
    names = {name.partition(".")[0] for name in done.stdout.split()}
    assert names <= {*sys.stdlib_module_names, "__main__", "_sysconfigdata"}


@pytest.mark.parametrize(
    ("words", "seeds"),
    [
        (["-c", "../src/a.cu"], ["-frandom-seed=a.cu"]),
        (["-c", "../src/a.cu", "-frandom-seed=7"], ["-frandom-seed=7"]),
        (["--frandom-seed", "7", "-c", "../src/a.cu"], []),
        (["-E", "../src/a.cu"], []),
        (["a.o", "-o", "lib.so"], []),
    ],
)
def test_names_of_a_unit_follow_from_its_path_and_not_from_a_process_id(words, seeds, build):
    build.configure(seeded=True)
    argv = build.after("nvcc", *words)["argv"]
    assert [word for word in argv if word.startswith("-frandom-seed=")] == seeds
