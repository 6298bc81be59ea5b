"""Lists of dependencies that gcc's own runs tell, behind the compile cache."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kernforge.inside import depends

INSIDE = Path(__file__).parents[2] / "src/kernforge/inside"
FILES = {
    "unit.cu": """\
#include "all.h"
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#include "only_90.h"
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 1200
#include "only_120.h"
#endif
#ifndef __CUDA_ARCH__
#include "in a folder/host only.h"
#endif
__global__ void unit(int *p) { *p = all(); }
""",
    "all.h": "inline __host__ __device__ int all() { return 1; }\n",
    "only_90.h": "// 9.0\n",
    "only_120.h": "// 12.0\n",
    "in a folder/host only.h": "// the host\n",
}
ONE = ["-gencode=arch=compute_120a,code=sm_120a"]
BOTH = [*ONE, "-gencode=arch=compute_90,code=sm_90"]
CALL = """\
import json, os, sys
sys.path.insert(0, sys.argv[1])
import shim
asked = json.load(open(sys.argv[2]))
config = shim.Config()
config.tools, config.roots, config.archs = {"nvcc": asked["nvcc"]}, [os.getcwd()], []
config.by_path, config.default, config.seeded = [], "upstream", True
plan = shim.plan_nvcc(config, asked["words"])
done = shim.run_wrapped(plan, "nvcc", asked["wrap"], [asked["nvcc"], *plan.words], dict(os.environ))
sys.stderr.write(done.said.decode())
print("killed" if done.killed else "ended")
sys.exit(done.code)
"""


def rules(*lines):
    return "".join(f"{line}\n" for line in lines)


def test_rules_of_several_runs_make_one_list():
    told = rules("kf: a.h \\", " b.h /usr/c.h", "kf: b.h d\\ e.h", "kf:")
    assert depends.read_rules(told, "kf") == ["a.h", "b.h", "/usr/c.h", "d\\ e.h"]


@pytest.mark.parametrize("size", [1, 5, 64, 4096])
def test_a_torn_rule_is_never_read(size):
    """Two runs write in pieces, as stdio does; each way in which they can fall between is tried."""
    first = rules("kf: " + " \\\n ".join(f"/first/{n}.h" for n in range(20)))
    second = rules("kf: " + " \\\n ".join(f"/second/{n}.h" for n in range(20)))
    pieces = [first[at : at + size] for at in range(0, len(first), size)]
    for cut in range(len(pieces) + 1):
        text = "".join(pieces[:cut]) + second + "".join(pieces[cut:])
        whole = cut in {0, len(pieces)}
        assert (depends.read_rules(text, "kf") is not None) == whole
    assert depends.read_rules(first[:-1], "kf") is None


@pytest.mark.parametrize(
    "name", ["plain.h", "two words.h", "a$b#c.h", "tab\there.h", "no\u00a0break.h", "a\u2028b.h"]
)
def test_names_are_spelled_as_gcc_spells_them(tmp_path, name):
    (tmp_path / name).write_text("\n")
    (tmp_path / "unit.c").write_text(f'#include "{name}"\n')
    env = {**os.environ, "DEPENDENCIES_OUTPUT": f"{tmp_path}/rules kf"}
    subprocess.run(["gcc", "-E", "unit.c", "-o", "-"], cwd=tmp_path, env=env, check=True)
    (spelled,) = depends.read_rules((tmp_path / "rules").read_text(), "kf")[1:]
    assert depends.unescaped(spelled) == name
    assert depends.escaped(name) == spelled


def test_a_name_with_a_backslash_is_left_to_nvcc(tmp_path):
    (tmp_path / "back\\ slash.h").write_text("\n")
    (tmp_path / "unit.c").write_text('#include "back\\ slash.h"\n')
    env = {**os.environ, "DEPENDENCIES_OUTPUT": f"{tmp_path}/rules kf"}
    subprocess.run(["gcc", "-E", "unit.c", "-o", "-"], cwd=tmp_path, env=env, check=True)
    assert depends.read_rules((tmp_path / "rules").read_text(), "kf") is None


LISTED = [("-MD", ""), ("dependency-output", "x.d"), ("dependency-target-name", "x.o")]


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ([], {}),
        (LISTED[1:], {}),
        ([("-MD", "")], {}),  # nvcc makes up the name itself
        ([*LISTED, ("dependency-output", "y.d")], {}),
        (LISTED, {"SUNPRO_DEPENDENCIES": "mine"}),
        (LISTED, {"DEPENDENCIES_OUTPUT": "mine"}),
        ([*LISTED, ("keep", "")], {}),  # what it keeps would be listed
    ],
)
def test_what_is_left_to_nvcc(tmp_path, monkeypatch, options, environment):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert depends.wanted(options, ["x.cu"], ["x.o"], environment) is None
    assert depends.wanted(LISTED, ["x.cu"], ["x.o"], {}) is not None
    assert depends.wanted(LISTED, ["x.cu", "y.cu"], ["x.o", "y.o"], {}) is None
    for folder in ("tmp", "", str(tmp_path / "none"), str(tmp_path / "two words")):
        (tmp_path / "two words").mkdir(exist_ok=True)
        monkeypatch.setenv("TMPDIR", folder)
        assert depends.wanted(LISTED, ["x.cu"], ["x.o"], {}) is None


def test_headers_are_spelled_as_they_are_looked_up(tmp_path, monkeypatch):
    """By a folder that the words name in full, or from the source, which they name in short."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for name in ("full/a.h", "short/b.h", "c.h"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    folders = [("include-path", f"{tmp_path}/full,short")]
    told = [f"{tmp_path}/full/a.h", f"{tmp_path}/short/b.h", "c.h", f"{tmp_path}/c.h", "gone.h"]
    listing = depends.wanted(LISTED + folders, ["x.cu"], ["x.o"], {})
    assert listing.spelled(told) == ["x.cu", f"{tmp_path}/full/a.h", "short/b.h", "c.h"]
    listing = depends.wanted(LISTED + folders, ["/x.cu"], ["x.o"], {})
    assert listing.spelled(told) == ["/x.cu", told[0], told[1], "c.h"]


class Bench:
    """Files of a unit, sccache's server, and the shim's way to call nvcc through it."""

    def __init__(self, root, nvcc, sccache):
        self.root, self.nvcc, self.wrap = root, nvcc, [sccache]
        for name, text in FILES.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(text)
        (root / "tmp").mkdir()
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("SCCACHE_")}
        self.env |= {"SCCACHE_DIR": f"{root}/cache", "SCCACHE_SERVER_UDS": f"{root}/socket"}
        self.env |= {"SCCACHE_IDLE_TIMEOUT": "0", "TMPDIR": f"{root}/tmp"}

    def compile(self, *words, wrap=True):
        """Call nvcc by the shim; what became of it."""
        words = ["-c", "unit.cu", "-o", "unit.o", *words]
        asked = {"nvcc": str(self.nvcc), "words": words, "wrap": self.wrap if wrap else []}
        (self.root / "asked.json").write_text(json.dumps(asked))
        call = [sys.executable, "-c", CALL, str(INSIDE), "asked.json"]
        options = {"cwd": self.root, "env": self.env, "capture_output": True, "text": True}
        done = subprocess.run(call, check=False, **options)
        assert list((self.root / "tmp").glob("kernforge-*")) == []
        return done


@pytest.fixture
def bench(tmp_path, toolkit):
    """A bench whose server ends with the test."""
    sccache = shutil.which("sccache", path=str(Path(sys.executable).parent))
    made = Bench(tmp_path, toolkit / "bin/nvcc", sccache)
    yield made
    subprocess.run([sccache, "--stop-server"], env=made.env, capture_output=True, check=False)


def names_of(path):
    """Target, source and files of a list, and its empty rules."""
    first, *rest = path.read_text().replace("\\\n", " ").splitlines()
    target, _, files = first.partition(" : ")
    names = re.findall(r"(?:\\.|[^\s\\])+", files)
    return target, names[0], {depends.unescaped(n) for n in names}, [r for r in rest if r]


@pytest.mark.parametrize("kind", ["-MD", "--generate-dependencies-with-compile", "-MMD"])
def test_the_list_says_what_nvccs_own_says(bench, kind):
    """With nothing kept, with all, with one arch of two, and of each half's own headers."""
    words = [kind, "-MF", "unit.d", "-MT", "the/unit.o"]
    for archs in (ONE, ONE, BOTH, BOTH):
        assert bench.compile(*archs, *words, wrap=False).returncode == 0
        native = names_of(bench.root / "unit.d")
        (bench.root / "unit.d").unlink()
        done = bench.compile(*archs, *words)
        assert (done.returncode, done.stderr) == (0, "")
        target, source, files, rest = names_of(bench.root / "unit.d")
        assert (target, source, rest) == (native[0], native[1], native[3])
        assert native[2] <= files
        extra = files - native[2]  # of nvcc's own half of the host's object
        assert all("/include/" in name for name in extra)
        own = {name for name in files if not name.startswith("/")}
        assert own == FILES.keys() - ({"only_90.h"} if archs is ONE else set())


def test_each_file_gets_a_rule_of_its_own_where_asked(bench):
    words = ["-MD", "-MP", "-MF", "unit.d"]
    assert bench.compile(*ONE, *words, wrap=False).returncode == 0
    native = names_of(bench.root / "unit.d")
    assert bench.compile(*ONE, *words).returncode == 0
    target, source, files, rest = names_of(bench.root / "unit.d")
    assert target == native[0] == "unit.o"
    assert set(native[3]) <= set(rest)
    assert set(rest) == {f"{depends.escaped(name)}:" for name in files - {source}}


def tear(bench, more=""):
    """Let gcc's runs find their file with a stray word in it, as if one had torn another's rules."""
    torn = bench.root / "nvcc-torn"
    stray = 'test -z "$SUNPRO_DEPENDENCIES" || echo torn >> "${SUNPRO_DEPENDENCIES%% *}"'
    torn.write_text(f'#!/bin/sh\n{stray}\n{more}\nexec {bench.nvcc} "$@"\n')
    torn.chmod(0o755)
    bench.nvcc, bench.wrap = torn, ["/usr/bin/env"]


def test_torn_rules_are_made_again_by_nvcc(bench):
    tear(bench)
    words = [*BOTH, "-MD", "-MF", "unit.d", "-MT", "unit.o"]
    assert bench.compile(*words, wrap=False).returncode == 0
    native = (bench.root / "unit.d").read_text()
    (bench.root / "unit.d").unlink()
    assert bench.compile(*words).returncode == 0
    assert (bench.root / "unit.d").read_text() == native


def test_what_is_killed_while_it_lists_is_told_as_killed(bench):
    tear(bench, 'case " $* " in *" -M "*) kill -9 $$;; esac')
    done = bench.compile(*ONE, "-MD", "-MF", "unit.d")
    assert (done.returncode, done.stdout) == (137, "killed\n")


def test_a_list_that_cannot_be_written_is_told_by_nvcc(bench):
    done = bench.compile(*ONE, "-MD", "-MF", "none/unit.d")
    assert done.returncode not in {0, 127}
    assert "none/unit.d" in done.stderr


SECOND = """\
import os, sys
sys.path.insert(0, sys.argv[1])
import shim
first = shim.run(["/bin/true"], {})
second = shim.run(["/bin/sh", "-c", f"kill -TERM {os.getpid()}; exec /bin/sleep 60"], {})
print(first.code, first.stopped, second.code, second.stopped)
"""


def test_the_second_tool_of_a_call_hears_a_stop_too():
    """As the one that lists after all, or one that is compiled again."""
    call = [sys.executable, "-c", SECOND, str(INSIDE)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout == "0 False 143 True\n"


def test_a_failed_compile_lists_nothing(bench):
    (bench.root / "all.h").write_text("#error no\n")
    done = bench.compile(*ONE, "-MD", "-MF", "unit.d")
    assert done.returncode != 0
    assert "error" in done.stderr
    assert not (bench.root / "unit.d").exists()
