"""Whole calls that are kept: what names them, and that nothing which a compiler reads is left out."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

INSIDE = Path(__file__).parents[2] / "src/kernforge/inside"


def load(name):
    spec = importlib.util.spec_from_file_location(name, INSIDE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sys.path.append(str(INSIDE))  # as the steward does
shim, reach, recall = load("shim"), load("reach"), load("recall")
UNIT = """\
#include <vector>
#include "a.h"
#if __CUDA_ARCH__ >= 900
# include "only_90.cuh"
#endif
#include "table.txt"
#include "part.cu"
"""
FILES = {
    "src/p/csrc/unit.cu": UNIT,
    "src/p/csrc/other.cu": "int other;\n",
    "src/p/csrc/part.cu": '#include "deep.json"\n',
    "src/p/csrc/deep.json": "1\n",
    "src/p/csrc/table.txt": "1, 2\n",
    "src/p/csrc/only_90.cuh": "int ninety;\n",
    "src/p/csrc/first.cpp": "int first;\n",
    "src/p/include/a.h": "int a;\n",
    "src/p/include/unasked.h": "int unasked;\n",
    "src/p/CMakeLists.txt": "project(p)\n",
    "src/p/README.md": "p\n",
    "build/gen/config.h": "int config;\n",
    "build/CMakeFiles/u.dir/flags.rsp": "-I include\n",
    "env/include/cuda.h": "int cuda;\n",
}
WORDS = "-gencode=arch=compute_120a,code=sm_120a -I../include -std=c++17 -Xcompiler=-fPIC"


class Site:
    """Folders that a build can write, and a place for calls."""

    def __init__(self, root):
        self.root = root
        for name, text in FILES.items():
            self.write(name, text)
        self.settle()
        self.order = {
            "folder": str(root / "calls"),
            "limit": 1 << 30,
            "roots": [str(root / "src"), str(root / "build")],
            "fixed": [str(root / "env"), "/usr/include"],
            "packages": [str(root / "env")],
            "outside": [],
            "salt": "salt",
        }
        self.kept = recall.Recall(self.order)
        self.environment = {"PATH": "/usr/bin", "LC_ALL": "C.UTF-8", "MAX_JOBS": "2"}

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def settle(self):
        """Files that were written long ago."""
        for path in self.root.rglob("*"):
            if path.is_file():
                os.utime(path, (1_600_000_000, 1_600_000_000))

    def asked(self, words=WORDS, *, tool="nvcc", source="unit.cu", output="../../../build/u.o"):
        config = shim.Config()
        config.tools = {"nvcc": "/opt/nvcc", "g++": "/usr/bin/g++"}
        config.roots = [str(self.root / "src"), str(self.root / "build")]
        config.archs, config.by_path, config.default = [], [], "upstream"
        config.seeded, config.steward, config.path = False, None, ""
        listed = [*words.split(), "-c", source, "-o", output]
        here = os.getcwd()
        os.chdir(self.root / "src/p/csrc")
        try:
            plan = shim.plan_nvcc(config, listed) if tool == "nvcc" else shim.plan_host(listed)
        finally:
            os.chdir(here)
        return {
            "tool": tool,
            "kind": plan.kind,
            "words": [tool, *plan.words],
            "options": [list(pair) for pair in plan.options],
            "environment": self.environment,
            "sources": plan.sources,
            "outputs": plan.outputs,
            "kept": plan.kept,
            "cwd": str(self.root / "src/p/csrc"),
        }

    def name(self, words=WORDS, **how):
        found = self.kept.name(self.asked(words, **how))
        return found and found[0]


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def edit(name, text="changed\n"):
    return lambda site: site.write(name, text)


def link(name, target):
    def change(site):
        path = site.root / name
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    return change


CHANGES = {
    "the source": edit("src/p/csrc/unit.cu", UNIT + "\n"),
    "a header": edit("src/p/include/a.h"),
    "a header of one arch alone": edit("src/p/csrc/only_90.cuh"),
    "a text that is included": edit("src/p/csrc/table.txt"),
    "a unit that is included": edit("src/p/csrc/part.cu", "int part;\n"),
    "what that one includes": edit("src/p/csrc/deep.json"),
    "a header that nobody names: one outside may": edit("src/p/include/unasked.h"),
    "a header that the build has made": edit("build/gen/config.h"),
    "a new header that comes to stand before another": edit("src/p/csrc/a.h"),
    "a new header without an ending": edit("src/p/include/vector"),
    "a header that is gone": lambda site: (site.root / "src/p/include/unasked.h").unlink(),
    "a link that leads elsewhere": link("src/p/include/to", "../csrc"),
    "a header that is a link": link("src/p/include/a.h", "unasked.h"),
    "a precompiled header": edit("src/p/include/a.h.gch"),
}  # fmt: skip
INDIFFERENT = {
    "another unit": edit("src/p/csrc/other.cu"),
    "a text that nobody includes": edit("src/p/README.md"),
    "what a build tool reads": edit("src/p/CMakeLists.txt"),
    "an object": edit("build/other.o"),
    "what nvcc leaves for a moment": edit("src/p/csrc/x.cudafe1.cpp", '#include "y.stub.c"\n'),
    "what CMake keeps": edit("build/CMakeFiles/x/y.h"),
    "a date": lambda site: os.utime(site.root / "src/p/include/a.h"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_a_compiler_may_read_names_the_call(site, what):
    before = site.name()
    assert before == site.name()
    CHANGES[what](site)
    assert site.name() not in {None, before}


@pytest.mark.parametrize("what", INDIFFERENT)
def test_what_no_compiler_reads_does_not(site, what):
    before = site.name()
    INDIFFERENT[what](site)
    assert site.name() == before


def test_a_file_that_changes_within_one_tick_is_read_again(site):
    names = set()
    for number in range(30):
        site.write("src/p/include/a.h", f"int a{number:02};\n")
        names.add(site.name())
    assert len(names) == 30


@pytest.mark.parametrize("directive", ["#include HEADER", "#  include  /* */ MAKE(a)"])
def test_an_include_by_a_macro_makes_every_source_count(site, directive):
    site.write("src/p/include/a.h", f"{directive}\n")
    before = site.name()
    site.write("src/p/csrc/other.cu", "int changed;\n")
    assert site.name() not in {None, before}
    before = site.name()
    site.write("build/other.o", "object")
    site.write("src/p/csrc/x.ptx", "ptx")
    assert site.name() == before


def test_words_folder_environment_and_the_fixed_rest_name_the_call(site, tmp_path):
    names = {site.name(), site.name(WORDS + " -DX=1"), site.name(WORDS + " -O3")}
    site.environment["LC_ALL"] = "C"
    names.add(site.name())
    site.kept = recall.Recall({**site.order, "salt": "other"})
    names.add(site.name())
    headers = tmp_path / "outside"
    headers.mkdir()
    for text in ("one", "three"):
        (headers / "x.h").write_text(text)
        site.kept = recall.Recall({**site.order, "outside": [str(headers)]})
        names.add(site.name())
    assert len(names - {None}) == 7
    before = site.name()
    site.environment["MAX_JOBS"] = "64"
    assert site.name() == before


def test_options_files_count_by_what_they_say(site):
    words = WORDS + " --options-file ../../../build/CMakeFiles/u.dir/flags.rsp"
    before = site.name(words)
    site.write("build/CMakeFiles/u.dir/flags.rsp", "-I ../csrc\n")
    assert site.name(words) not in {None, before}


@pytest.mark.parametrize("word", ["-include first.cpp", "--pre-include=first.cpp"])
def test_a_file_that_is_included_first_counts(site, word):
    before = site.name(f"{WORDS} {word}")
    site.write("src/p/csrc/first.cpp", "int changed;\n")
    assert site.name(f"{WORDS} {word}") not in {None, before}


def test_threads_of_nvcc_do_not(site):
    assert site.name(WORDS + " --threads=4") == site.name(WORDS + " --threads 2") is not None


@pytest.mark.parametrize(
    "words",
    [
        "-keep",
        "--save-temps",
        "-Xcompiler=-march=native",
        "-Xcompiler=-save-temps",
        "-Xcompiler=-fplugin=x.so",
        "-Xcompiler=-Wp,-MD,x.d",
        "-Xcompiler=-ftest-coverage",
        "-Xptxas=--output-file=x",
        "-fdevice-time-trace=x.json",
        "--time=x.csv",
        "-I/tmp",
        "-I../../../home",
        "-isystem=/root/include",
        "-MD",
        "-include /etc/passwd",
        "-ccbin=../../../build/wrapper",
        "-Xcompiler=-isystem=/x",
        "-Xcompiler=-fdiagnostics-format=sarif-file",
        "--unheard-of",
        "other.cu",
    ],
)
def test_a_call_with_unknown_inputs_or_outputs_is_not_kept(site, words):
    assert site.name(f"{WORDS} {words}") is None


@pytest.mark.parametrize(
    "words",
    ["-march=native", "-save-temps=obj", "-gsplit-dwarf", "-Wa,-a=x", "-specs=x", "-MMD", "@x"],
)
def test_nor_one_of_a_host_compiler(site, words):
    how = {"tool": "g++", "source": "other.cu"}
    assert site.name("-O2", **how) is not None
    assert site.name(f"-O2 {words}", **how) is None


@pytest.mark.parametrize(
    "words",
    [
        "-MD -MT u.o -MF ../../../build/u.o.d",
        "--generate-dependencies-with-compile --dependency-output ../../../build/u.o.d",
        "-Xcompiler=-fPIC,-Wall,-O3 -Xptxas=-v,-O3 -lineinfo --use_fast_math",
        '--expt-relaxed-constexpr --extended-lambda -Xcudafe=--diag_suppress=177 -DA="b"',
        "-forward-unknown-to-host-compiler -fvisibility=hidden -isystem=../include -x cu",
        "--compiler-options '-fPIC' -Xfatbin=-compress-all -diag-suppress=1,2 --compress-mode=size",
    ],
)  # fmt: skip
def test_what_projects_say_is_kept(site, words):
    assert site.name(f"{WORDS} {words}") is not None


@pytest.mark.parametrize(
    "text",
    [
        'asm(".incbin \\"x.bin\\"");',
        'asm("\\t.include \\"x.s\\"");',
        '.Include  "x.s"',
        "char t[] = __TIMESTAMP__;",
        '#include "/tmp/x.h"',
    ],
)
def test_nor_is_one_that_reads_in_a_way_that_is_not_followed(site, text):
    site.write("src/p/csrc/other.cu", text)
    assert site.name() is not None
    site.write("src/p/include/a.h", text)
    assert site.name() is None


def test_nor_are_those_beside_a_folder_that_lies_where_nobody_looks(site, tmp_path):
    site.write("src/p/csrc/other.cu", '#include "gen/x.h"\n')
    link("src/p/csrc/gen", "../include")(site)
    link("src/p/csrc/host", "/usr/include")(site)
    assert site.name(source="other.cu") is not None
    (tmp_path / "away").mkdir()
    link("src/p/csrc/gen", tmp_path / "away")(site)
    assert site.name(source="other.cu") is None
    link("src/p/csrc/gen", tmp_path / "nowhere")(site)
    assert site.name(source="other.cu") is not None
    (tmp_path / "nowhere").mkdir()
    assert site.name(source="other.cu") is None


@pytest.mark.parametrize("make", [lambda path: None, os.mkfifo])
def test_nor_one_that_reads_no_file(site, make):
    """Standard input among them: ``gcc -x c -c -`` has a source called ``-``."""
    make(site.root / "src/p/csrc/-")
    assert site.name("-x c++", tool="g++", source="-") is None


def test_what_the_machines_folders_hold_counts_behind_links_too(tmp_path):
    (tmp_path / "include").mkdir()
    (tmp_path / "mpi").mkdir()
    (tmp_path / "mpi/round").symlink_to(tmp_path / "include")
    (tmp_path / "include/mpi").symlink_to(tmp_path / "mpi")
    before = recall.outside([str(tmp_path / "include")])
    (tmp_path / "mpi/mpi.h").write_text("int mpi;\n")
    assert recall.outside([str(tmp_path / "include")]) != before


@pytest.mark.parametrize("variable", ["CPATH", "LD_PRELOAD", "GCC_EXEC_PREFIX"])
def test_nor_one_whose_environment_lets_it_read_elsewhere(site, variable):
    site.environment[variable] = "/tmp/x"
    assert site.name() is None


class Check:
    """A call in the folder of one of CMake's checks."""

    def __init__(self, site, folder, program, text="int main() {}\n", words=""):
        self.site, self.cwd = site, f"build/CMakeFiles/CMakeScratch/{folder}"
        self.object = f"CMakeFiles/{program}.dir/src.cxx.o"
        site.write(f"{self.cwd}/src.cxx", text)
        listed = f"{words} -v -MD -MT {self.object} -MF {self.object}.d -o {self.object} -c"
        (site.root / self.cwd / self.object).parent.mkdir(parents=True, exist_ok=True)
        source = str(site.root / self.cwd / "src.cxx")
        plan = shim.plan_host([*listed.split(), source])
        self.asked = {**site.asked(tool="g++", source="other.cu"), "cwd": f"{site.root}/{self.cwd}"}
        self.asked |= {"words": ["g++", *plan.words], "sources": plan.sources}
        self.asked |= {"options": [list(p) for p in plan.options], "outputs": plan.outputs}

    def name(self):
        return self.site.kept.name(self.asked)[0]


def test_cmakes_checks_are_known_again_by_what_they_compile(site):
    """Each has a folder and a program of another name: what is kept gets the names of the asker."""
    site.settle()
    one = Check(site, "TryCompile-a1b2C3", "cmTC_0a1b2")
    name, reach = site.kept.name(one.asked)
    for path in map(Path, reach.outputs):
        path.write_text(f"{one.object}: {one.asked['sources'][0]}\n")
    site.kept.keep(name, reach, f"-o {one.object}\n".encode())
    two = Check(site, "TryCompile-ZZZZZZ", "cmTC_fffff")
    again, reach = site.kept.name(two.asked)
    assert again == name
    assert site.kept.answer(name, reach) == f"-o {two.object}\n".encode()
    for path in map(Path, reach.outputs):
        assert two.cwd in str(path)
        assert path.read_text() == f"{two.object}: {two.asked['sources'][0]}\n"


def test_another_check_is_another_call(site):
    name = Check(site, "TryCompile-a1b2C3", "cmTC_0a1b2").name()
    assert (
        Check(site, "TryCompile-d4e5F6", "cmTC_0a1b2", "int main() { return 1; }\n").name() != name
    )
    assert Check(site, "TryCompile-d4e5F6", "cmTC_0a1b2", words="-O1").name() != name
    asked = Check(site, "TryCompile-d4e5F6", "cmTC_0a1b2").asked
    elsewhere = json.loads(json.dumps(asked).replace("CMakeScratch/", "Scratches/"))
    site.write("build/CMakeFiles/Scratches/TryCompile-d4e5F6/src.cxx", "int main() {}\n")
    again = json.loads(json.dumps(elsewhere).replace("d4e5F6", "a1b2C3"))
    site.write("build/CMakeFiles/Scratches/TryCompile-a1b2C3/src.cxx", "int main() {}\n")
    assert site.kept.name(elsewhere) != site.kept.name(again)


def test_a_source_of_the_environment_is_kept_and_counts(site):
    """As the files with which CMake asks a compiler for its kind."""
    site.write("env/share/abi.cu", "int abi;\n")
    site.settle()
    name = site.name(source=str(site.root / "env/share/abi.cu"))
    assert name is not None
    site.write("env/share/abi.cu", "int other;\n")
    assert site.name(source=str(site.root / "env/share/abi.cu")) not in {None, name}


@pytest.mark.parametrize(
    ("words", "source"), [("", "/usr/include/stdio.h"), ("-I/usr/share/doc", "unit.cu")]
)
def test_what_nothing_names_of_the_machine_is_not_read(site, words, source):
    """What stands beside such a source, or below such a folder, may change with a package."""
    assert site.name(f"{WORDS} -I/usr/include/linux") is not None
    assert site.name(f"{WORDS} {words}", source=source) is None


def test_an_object_that_leaves_the_folders_is_not_kept(site):
    assert site.name(output="/tmp/u.o") is None
    (site.root / "build/out").symlink_to("/tmp")
    assert site.name(output="../../../build/out/u.o") is None
    (site.root / "build/out").unlink()
    assert site.name(output="../../../build/u.o") is not None


def test_what_is_kept_comes_back_whole(site):
    asked = site.asked(WORDS + " -MD -MF ../../../build/u.d")
    name, reach = site.kept.name(asked)
    assert site.kept.answer(name, reach) is None
    outputs = [site.root / "build/u.o", site.root / "build/u.d"]
    assert reach.outputs == [str(path) for path in outputs]
    for path, text in zip(outputs, ("object", "u.o: a.h\n"), strict=True):
        path.write_text(text)
    site.kept.keep(name, reach, b"a warning\n")
    for path in outputs:
        path.unlink()
    assert site.kept.answer(name, reach) == b"a warning\n"
    assert [path.read_text() for path in outputs] == ["object", "u.o: a.h\n"]
    assert not list(site.root.rglob("*.draft"))


@pytest.mark.parametrize("place", [5, 60, -1])
@pytest.mark.parametrize("how", ["changed", "cut", "empty", "huge", "a list"])
def test_what_is_damaged_is_not_believed(site, place, how):
    name, reach = site.kept.name(site.asked())
    (site.root / "build/u.o").write_text("object" * 20)
    site.kept.keep(name, reach, b"")
    path = Path(site.kept.place(name))
    data = bytearray(path.read_bytes())
    if how == "changed":
        data[place] ^= 1
    huge = b'{"sizes": [-5, 9000000000000000000], "sha256": []}\n'
    texts = {"changed": data, "cut": data[:place], "empty": b""}
    path.write_bytes((texts | {"huge": huge, "a list": b"[1]\n"})[how])
    (site.root / "build/u.o").unlink()
    assert site.kept.answer(name, reach) is None
    assert not (site.root / "build/u.o").exists()


def test_what_was_not_asked_for_the_longest_goes_first(site):
    name, reach = site.kept.name(site.asked())
    (site.root / "build/u.o").write_bytes(bytes(1000))
    names = [f"{number:02}{name}" for number in range(5)]
    for age, each in enumerate(names):
        site.kept.keep(each, reach, b"")
        os.utime(site.kept.place(each), (1000 + age, 1000 + age))
    assert site.kept.answer(names[0], reach) is not None
    site.kept.limit = 4000
    site.kept.trim()
    left = {each for each in names if Path(site.kept.place(each)).exists()}
    assert left == {names[0], names[3], names[4]}


INCLUDES = [
    '#include "t.txt"',
    "#include <t.txt>",
    '  #\tinclude\t"t.txt"',
    '%:include "t.txt"',
    '/* one */ # /* two */ include /* three */ "t.txt" // four',
    '/* over\nlines */ #include "t.txt"',
    '#inc\\\nlude "t.txt"',
    '#include \\\n "t.txt"',
    '#include "t.\\\ntxt"',
    '#if 1\n#include "sub/../t.txt"\n#endif',
    "#include_next <t.txt>",
    '#import "t.txt"',
    '#define HEADER "t.txt"\n#include HEADER',
    "#define TEXT(x) #x\n#define IN(x) TEXT(x)\n#include IN(t.txt)",
    "#define ANGLE <t.txt>\n#include ANGLE",
    '#define NOTHING\n#include NOTHING "t.txt"',
    '??=include "t.txt"',
    '??=include ??/\n"t.txt"',
    '\f#include "t.txt"',
    'int x;\r\n#include "t.txt"\r\n',
    '#if __has_include("t.txt")\n#include "t.txt"\n#endif',
    '#pragma once\n#include"t.txt"',
    '\ufeff#include "t.txt"',
    '/* one *//**//* ** / */#include "t.txt"',
    '#if 0\n#elif __has_include(/**/"t.txt")\n#include "t.txt"\n#endif',
]


@pytest.mark.parametrize("text", INCLUDES)
def test_whatever_gcc_includes_is_seen(tmp_path, text):
    """gcc is the oracle: where it reads the file, we name it or know that we cannot."""
    for folder in ("one", "two"):
        (tmp_path / folder / "sub").mkdir(parents=True)
        (tmp_path / folder / "t.txt").write_text("int t;\n")
    (tmp_path / "unit.cpp").write_bytes(text.encode() + b"\n")
    argv = ["g++", "-M", "-trigraphs", "-I", "one", "-I", "two", "unit.cpp"]
    listed = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "t.txt" in listed
    seen = reach.Seen((tmp_path / "unit.cpp").read_bytes())
    assert "t.txt" in seen.names or seen.computed


def test_comments_are_read_in_one_pass():
    """With a pattern that tries each end of each comment this does not end within a day."""
    script = f"""
import sys; sys.path.append({str(INSIDE)!r}); import reach
print(len(reach.Seen(b"/**/" * 100 + b"x\\n" + b"/* a ** b */\\n" * 40000 + b"/*").names))
"""
    words = [sys.executable, "-I", "-S", "-c", script]
    assert subprocess.run(words, capture_output=True, timeout=300, check=True).stdout == b"0\n"


def test_prose_is_no_include():
    seen = reach.Seen(b'// we #include X here\nchar s[] = "#include Y";\n#define include z\n')
    assert (seen.computed, seen.names) == (False, frozenset())


def test_a_large_tree_is_walked_in_little_time_again(site):
    """Not a limit: that nothing is read twice."""
    for number in range(500):
        site.write(f"src/p/many/h{number}.h", "int h;\n")
    site.settle()
    time.sleep(0.2)
    site.name()
    reads = []
    site.kept.files.read = lambda path: (
        reads.append(path) or type(site.kept.files).read(site.kept.files, path)
    )
    site.name()
    assert len(reads) < 10


def test_it_needs_nothing_but_the_standard_library():
    script = f"import sys; sys.path.append({str(INSIDE)!r}); import recall"
    subprocess.run([sys.executable, "-I", "-S", "-c", script], check=True)
