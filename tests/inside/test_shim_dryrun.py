"""The shim against ``nvcc --dryrun``: what it says a call compiles is what the call compiles."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kernforge.inside import shim

pytestmark = pytest.mark.build

KERNEL = "__global__ void kernel(float *p) { p[0] = 1; }\n"
CALL = (
    "extern __device__ float twice(float); __global__ void kernel(float *p) { *p = twice(*p); }\n"
)
TWICE = "__device__ float twice(float x) { return 2 * x; }\n"
MAKES = {"elf": "sm", "ptx": "compute", "nvvm": "lto"}
C120 = "arch=compute_120a,code=sm_120a"
C90 = "arch=compute_90,code=sm_90"
C80 = "arch=compute_80"

# every way to choose targets that nvcc 13.0 takes, and words that only look like one
COMPILES = [
    "-arch sm_80",
    "-arch=sm_80",
    "--gpu-architecture sm_80",
    "--gpu-architecture=sm_80",
    "-arch=sm_120a",
    "-arch=sm_120f",
    "-arch=sm_90a",
    "-arch=compute_80",
    "-arch=compute_120a",
    "-arch=all",
    "-arch=all-major",
    "-arch=compute_80 -code=sm_80",
    "-arch=compute_80 -code sm_80,sm_86",
    "-arch=compute_80 -code=sm_80,,sm_86",
    "-arch=compute_80 --gpu-code=sm_80,compute_80",
    "-arch=compute_80 --gpu-code sm_120",
    "-arch=compute_120a -code=sm_120a -code=compute_120a",
    f"-gencode {C120}",
    f"-gencode={C120}",
    f"--generate-code {C120}",
    f"--generate-code={C120}",
    "-gencode code=sm_120a,arch=compute_120a",
    f"-gencode {C80},code=[sm_80,compute_80]",
    f"-gencode={C80},code=[compute_80]",
    f"--generate-code={C80},code=[sm_80]",
    f'-gencode {C80},code="sm_80,sm_86"',
    f"-gencode={C80},code=[sm_80,sm_80]",
    f"-gencode {C80},code=compute_80",
    f"-gencode {C80},code=sm_80 -gencode={C120} --generate-code {C90}",
    f"-gencode {C90} -gencode {C90}",
    f"-arch=sm_80 -gencode {C120}",
    f"-arch=sm_120a -gencode {C120}",
    f"-arch=compute_80 -gencode {C120}",
    f"-arch=compute_80 -code=sm_80,sm_86 -gencode {C120}",
    f"-arch=all-major -gencode {C120}",
    "-arch=sm_80 -arch=sm_90",
    "-arch=all -arch=sm_80",
    "-arch=lto_80 -rdc=true",
    "-arch=lto_120a -rdc true",
    "-dlto -arch=sm_80",
    "-lto -arch=sm_120a",
    "--dlink-time-opt -arch=compute_80",
    "-dlto -arch=all-major",
    f"-gencode {C80},code=lto_80 -rdc=true",
    f"-gencode {C80},code=[sm_80,lto_80] -rdc true",
    "-gen-opt-lto -arch=sm_80",
    "-arch=sm_80 -Xcompiler -arch=sm_90",
    "-arch=sm_80 -Xcompiler=-arch=sm_90,-gencode",
    "-arch=sm_80 --compiler-options -code=sm_90",
    "-arch=sm_80 -Xptxas -arch=sm_90",
    "-arch=sm_80 -Xcudafe -arch=sm_90 -Xfatbin -arch=sm_90 -Xcicc -arch=sm_90",
    "-arch=sm_80 -Xlinker -arch=sm_90 -Xnvlink -arch=sm_90 -Xarchive -arch=sm_90",
    "-arch=sm_80 -D -arch=sm_90 -U -arch=sm_86",
    "-arch=sm_80 -I -gencode -L -arch=all -l -arch=native",
    "-arch=sm_80 -isystem -arch=sm_90 -MT -arch=sm_90",
    "-Ofc max -arch=sm_80 -O3 -t 2 -t4 -std c++17 -m 64",
    "-arch=sm_80 -forward-unknown-to-host-compiler -march=native -fcode=sm_90",
    "-list-gpu-code -arch=sm_80",
    "-optf FILES/plain.txt",
    "-optf=FILES/plain.txt",
    "--options-file FILES/plain.txt,FILES/gencode.txt",
    "--options-file=FILES/nested.txt -arch=sm_86",
    "-optf FILES/quoted.txt -optf FILES/lines.txt",
    "-x cu -arch=sm_80",
    "-arch=sm_80 -keep --keep-dir FILES",
    "-fatbin -arch=sm_120a",
    "-cuda -arch=sm_80",
    "-lib -arch=sm_80",
    f"-ptx -gencode {C120}",
    "-ptx -arch=sm_120a",
    "-ptx -arch=compute_80 -code=sm_80,sm_86",
    "-cubin -arch=sm_120a",
    f"-cubin -gencode={C80},code=sm_86",
]
LINKS = [
    "-arch=sm_80",
    "-arch=sm_120a",
    f"-gencode {C120} -gencode={C90}",
    f"-gencode={C80},code=[sm_80,compute_80]",
    "-arch=all-major",
    "-dlto -arch=sm_80",
    "-shared -arch=compute_90 -code=sm_90",
]
DEVICE_LINKS = [
    "-arch=sm_80",
    "-arch=sm_120a",
    "-arch=all-major",
    f"-gencode {C120} -gencode={C90}",
    f"-gencode={C80},code=[sm_80,compute_80]",
    "-dlto -arch=sm_120a",
    f"-dlto -gencode={C120}",
    "-dlto -arch=compute_120a -code=sm_120a",
    f"-lto -gencode {C80},code=[sm_80,lto_80]",
    "-optf FILES/gencode.txt",
]
FILES = {
    "plain.txt": "-arch=sm_80",
    "gencode.txt": f"-gencode {C120}\n-gencode={C90}\n",
    "nested.txt": "-DA=1 -optf FILES/gencode.txt -DB=2",
    "quoted.txt": f'"-gencode" "{C80},code=[sm_80,compute_80]" -DX="a b"',
    "lines.txt": "\n-arch\n  sm_90\t-DY=a\\ b\n",
}
UNDOCUMENTED = ["cicc-options", "cudafe-options", "export-dir", "fatbin-options"]
# options that came after CUDA 13.0 or went since
CHANGED = """apply-controls fdevice-sanitize fdevice-time-trace-granularity fmax-errors
    nvprune-options sanitize stdlib tile-preview tileiras-options""".split()
ARCHS = {
    "120a": [("120a", False)],
    "90+120a": [("90", False), ("120a", False)],
    "120a+PTX": [("120a", True)],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dryrun")
    for name, text in FILES.items():
        (folder / name).write_text(text.replace("FILES", str(folder)))
    (folder / "a.cu").write_text(KERNEL)
    (folder / "a.o").write_bytes(b"")
    return folder


@pytest.fixture
def config(toolkit, folder):
    config = shim.Config()
    config.tools = {"nvcc": str(toolkit / "bin/nvcc")}
    config.path, config.ledger, config.roots = "/usr/bin:/bin", str(folder), [str(folder)]
    config.seeded, config.steward = False, None
    config.archs, config.by_path, config.default = ARCHS["120a"], [], "replace"
    return config


@pytest.fixture(autouse=True)
def _in_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TMPDIR", str(folder))


def dryrun(nvcc, words):
    """What nvcc would run; fails the test where nvcc refuses the call."""
    done = subprocess.run([nvcc, "--dryrun", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [line[3:] for line in done.stderr.splitlines() if line.startswith("#$ ")]


def images(lines):
    found = set()
    for line in lines:
        for kind, digits in re.findall(r"--image3=kind=(\w+),sm=(\w+)", line):
            found.add(f"{MAKES[kind]}_{digits}")
    return found


def truth(form, lines):
    """The targets in the command lines that nvcc prints, by what the call makes."""
    if form == "ptx":
        cicc = [line for line in lines if "/cicc" in line]
        return {"compute_" + re.search(r"-arch compute_(\w+)", line)[1] for line in cicc}
    if form == "cubin":
        ptxas = [line for line in lines if line.startswith("ptxas ")]
        return {re.search(r"-arch=(\S+)", line)[1] for line in ptxas}
    if form == "device-link":
        nvlink = [line for line in lines if line.startswith("nvlink ")]
        return {re.search(r"-arch=(\S+)", line)[1] for line in nvlink}
    return images(lines)


def words_of(text, folder, *more):
    return [*text.replace("FILES", str(folder)).split(), *more]


def told(text, folder):
    """A compile, unless the spelling says what else it makes."""
    other = re.search(r"-(ptx|cubin|fatbin|cuda|lib)\b", text)
    return words_of(text, folder, "a.cu", *([] if other else ["-c", "-o", "a.o"]))


def check(config, words):
    nvcc = config.tools["nvcc"]
    plan = shim.plan_nvcc(config, words)
    form = shim.Call(nvcc, words).form
    assert set(plan.before) == truth(form, dryrun(nvcc, words))
    assert set(plan.after) == truth(form, dryrun(nvcc, plan.words))
    return plan


@pytest.mark.parametrize("text", COMPILES)
def test_compile_spelling_under_replace(text, config, folder):
    plan = check(config, told(text, folder))
    lto = any(name.startswith("lto") for name in plan.before)
    ptx = "-ptx" in text
    assert "compute_120a" in plan.after if ptx else ("lto_120a" if lto else "sm_120a") in plan.after
    assert {name.partition("_")[2] for name in plan.after} == {"120a"}


@pytest.mark.parametrize("text", COMPILES)
def test_compile_spelling_under_filter(text, config, folder):
    config.default = "filter"
    config.archs = [("80", False), ("120a", False)]
    plan = check(config, told(text, folder))
    wanted = {"sm_80", "sm_120a", "lto_80", "lto_120a"}
    kept = set(plan.before) & wanted
    if "-ptx" in text:
        assert len(plan.after) == 1
    else:
        assert set(plan.after) == (kept or set(plan.before))
        assert bool(plan.note) == (not kept)


@pytest.mark.parametrize("text", [text for text in COMPILES if "all" not in text])
def test_compile_spelling_under_upstream(text, config, folder):
    config.default = "upstream"
    words = told(text, folder)
    plan = check(config, words)
    if plan.threads is not None:  # granted when the call runs; the last one that it names counts
        assert (plan.threads, text.split().count("-t4")) == (4, 1)
        words = [w for w, before in zip(words, ["", *words], strict=False)
                 if w not in {"-t", "-t4"} and before != "-t"]  # fmt: skip
    assert plan.words == (["-objtemp", *words] if plan.kind in {"compile", "link"} else words)
    assert plan.after == plan.before


@pytest.mark.parametrize("archs", ARCHS)
@pytest.mark.parametrize("text", [t for t in COMPILES if not re.search(r"-(ptx|cubin)\b", t)])
def test_replace_by_several_targets(text, archs, config, folder):
    config.archs = ARCHS[archs]
    plan = check(config, told(text, folder))
    ptx = {f"compute_{code}" for code, kept in config.archs if kept}
    assert {name for name in plan.after if name.startswith("compute")} == ptx
    assert {n.partition("_")[2] for n in plan.after} == {code for code, _ in config.archs}


@pytest.mark.parametrize("archs", ["120a", "90+120a"])
@pytest.mark.parametrize("text", DEVICE_LINKS)
def test_device_link_spelling(text, archs, config, folder):
    config.archs = ARCHS[archs]
    plan = check(config, words_of(text, folder, "-dlink", "a.o", "-o", "d.o"))
    assert set(plan.after) == {f"sm_{code}" for code, _ in config.archs}


@pytest.mark.parametrize("text", LINKS)
def test_link_spelling(text, config, folder):
    plan = check(config, words_of(text, folder, "a.cu", "a.o", "-o", "a.out"))
    assert "sm_120a" in plan.after


def test_link_with_lto_of_several_targets_is_left(config, folder):
    config.archs = ARCHS["90+120a"]
    plan = check(config, words_of("-dlto -arch=sm_80", folder, "a.cu", "-o", "a.out"))
    assert (plan.rewritten, plan.after) == (False, plan.before)
    said = "link-time optimization in this call takes one target and 2 are asked"
    assert plan.note == said + "; left as it is"


@pytest.mark.parametrize("text", ["-arch=lto_80", "-arch=lto_90a"])
def test_whole_program_lto_has_no_gencode(text, config, folder):
    """nvcc takes a lto code in -gencode for relocatable code only."""
    plan = check(config, told(text, folder))
    assert set(plan.after) == {"lto_120", "lto_120a"}


@pytest.mark.parametrize("option", ["-ptx", "-cubin"])
def test_one_file_for_several_targets_is_left(option, config):
    config.archs = ARCHS["90+120a"]
    plan = check(config, [option, "-arch=sm_80", "a.cu"])
    assert (plan.rewritten, plan.after) == (False, plan.before)
    assert plan.note == f"{option} takes one target and 2 are asked; left as it is"


@pytest.mark.parametrize("words", [["-c", "a.cu"], ["-dlink", "a.o"], ["a.cu"]])
def test_call_without_target_means_the_default(words, config):
    nvcc = config.tools["nvcc"]
    plan = shim.plan_nvcc(config, words)
    assert plan.before is None
    assert "sm_75" in images(dryrun(nvcc, words))
    assert images(dryrun(nvcc, plan.words)) == {"sm_120a"} == set(plan.after)


def test_removed_arch_compiles_after_replace(config):
    """CUDA 13 dropped 7.0; projects still name it."""
    words = ["-gencode", "arch=compute_70,code=sm_70", "-c", "a.cu"]
    refused = subprocess.run(
        [config.tools["nvcc"], "--dryrun", *words], check=False, capture_output=True
    )
    assert b"Unsupported gpu architecture 'compute_70'" in refused.stderr
    plan = shim.plan_nvcc(config, words)
    assert plan.before == ["sm_70"]
    assert images(dryrun(config.tools["nvcc"], plan.words)) == {"sm_120a"}


def test_native_is_replaced(config):
    plan = shim.plan_nvcc(config, ["-arch=native", "-c", "a.cu"])
    assert plan.refused is None
    assert images(dryrun(config.tools["nvcc"], plan.words)) == {"sm_120a"}


def test_host_file_gets_the_target_list(config, folder):
    """A host file has no device code, yet headers read the targets from a macro."""
    (folder / "host.cpp").write_text("int f() { return 1; }\n")
    plan = shim.plan_nvcc(config, ["-c", "host.cpp", "-arch=sm_80"])
    lines = dryrun(config.tools["nvcc"], plan.words)
    assert (plan.before, plan.after, images(lines)) == (None, None, set())
    assert any("-D__CUDA_ARCH_LIST__=1200" in line for line in lines)


def test_at_file_is_no_options_file(config, folder):
    """nvcc refuses it; reading targets from it would tell a lie."""
    words = [f"@{folder}/plain.txt", "a.o", "-o", "a.out"]
    done = subprocess.run(
        [config.tools["nvcc"], "--dryrun", *words], check=False, capture_output=True, text=True
    )
    assert f"Don't know what to do with '@{folder}/plain.txt'" in done.stderr
    assert shim.plan_nvcc(config, words).before is None


@pytest.mark.parametrize("option", ["-Ofc", "-hls"])
def test_option_that_leaves_an_option_alone(option, config):
    words = [option, "-arch=sm_80", "a.cu", "-o", "a.out"]
    plan = shim.plan_nvcc(config, words)
    assert set(plan.before) == images(dryrun(config.tools["nvcc"], words))


def test_rewritten_options_file_keeps_the_rest(config, folder):
    """Quotes and escapes of other options reach the compiler as before."""
    source = folder / "macro.txt"
    source.write_text('-DX=\\"a\\ b\\" -arch=sm_80 -DY="c d" -gencode ' + C90 + " -DZ=a\\\\b\n")
    words = ["-optf", str(source), "-c", "a.cu"]
    plan = shim.plan_nvcc(config, words)
    pattern = re.compile(r'-D "?[XYZ]=[^-]*')

    def macros(given):
        return pattern.findall(next(x for x in dryrun(config.tools["nvcc"], given) if " -E " in x))

    assert len(macros(words)) == 3
    assert macros(plan.words) == macros(words)


def test_tables_are_those_of_help(toolkit):
    """Every option with a value is known as such, and no other; names agree."""
    nvcc = str(toolkit / "bin/nvcc")
    text = subprocess.run([nvcc, "--help"], capture_output=True, text=True, check=True).stdout
    entries = re.findall(r"^(--\S+)(?: (\S.*?))?\s+\((-\S+)\)\s*$", text, re.MULTILINE)
    silent = {"--dependency-output", "--qpp-config"}  # help shows no value, yet they take one
    valued = {n.removeprefix("--"): s for n, value, s in entries if value or n in silent}
    flags = {n.removeprefix("--"): s for n, value, s in entries if not value}
    table = {name: s for s, name in shim.VALUED.items() if not s.startswith("--")}
    same = {name for name in table if shim.VALUED.get("-" + name) == name}
    assert len(valued) > 60
    assert valued == {n: s for n, s in table.items() if n in valued}
    assert {*table} - {*valued} <= {*UNDOCUMENTED, *CHANGED}
    assert same == {n for n, s in table.items() if s == "-" + n}
    assert set(shim.FLAGS.values()) <= set(flags)
    assert all(shim.FLAGS[flags[name]] == name for name in shim.FLAGS.values())


@pytest.mark.parametrize("name", UNDOCUMENTED)
def test_undocumented_option_takes_a_value(name, config):
    short = next(s for s, n in shim.VALUED.items() if n == name and not s.startswith("--"))
    for spelling in ("--" + name, short):
        words = [spelling, "-arch=sm_90", "-arch=sm_80", "-c", "a.cu"]
        assert images(dryrun(config.tools["nvcc"], words)) == {"sm_80", "compute_80"}


class Build:
    """A folder with launchers, a ledger and a configuration, as a build sees them."""

    def __init__(self, folder: Path, toolkit: Path, archs: list[tuple[str, bool]]) -> None:
        self.folder = folder
        for name in ("bin", "ledger", "src", "build", "tmp"):
            (folder / name).mkdir()
        tools = {name: shutil.which(name) for name in ("gcc", "g++", "cc", "c++")}
        tools["nvcc"] = str(toolkit / "bin/nvcc")
        config = {
            "version": 1,
            "tools": tools,
            "path": "/usr/bin:/bin",
            "ledger": str(folder / "ledger"),
            "roots": [str(folder / "src"), str(folder / "build")],
            "gencode": {
                "default": "replace",
                "by_path": [],
                "archs": [{"code": code, "ptx": ptx} for code, ptx in archs],
            },
        }
        (folder / "config.json").write_text(json.dumps(config))
        for tool in tools:
            launcher = folder / "bin" / tool
            launcher.write_text(
                f'#!/bin/sh\nexec {sys.executable} -I -S {shim.__file__} {tool} "$@"\n'
            )
            launcher.chmod(0o755)
        self.env = {
            "PATH": f"{folder}/bin:/usr/bin:/bin",
            "KERNFORGE_SHIM_CONFIG": str(folder / "config.json"),
            "TMPDIR": str(folder / "tmp"),
            "HOME": str(folder / "tmp"),
            "CUDACXX": str(folder / "bin/nvcc"),
            "CUDAToolkit_ROOT": str(toolkit),
        }

    def run(self, *argv: str):
        return subprocess.run(
            argv,
            env=self.env,
            cwd=self.folder / "build",
            capture_output=True,
            text=True,
            check=False,
        )

    def records(self):
        lines = (self.folder / "ledger/calls.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


def test_objects_do_not_depend_on_tmpdir(tmp_path, toolkit):
    folder = tmp_path / "build"
    folder.mkdir()
    build = Build(folder, toolkit, ARCHS["120a"])
    (build.folder / "src/a.cu").write_text(KERNEL)
    digests = []
    for name in ("one", "another"):
        build.env["TMPDIR"] = str(tmp_path / name)
        (tmp_path / name).mkdir()
        assert build.run("nvcc", "-c", "-arch=sm_90", "../src/a.cu", "-o", "a.o").returncode == 0
        digests.append(build.records()[-1]["outputs"][0]["sha256"])
    assert digests[0] == digests[1]


def cmake_path(toolkit):
    """Where cmake and ninja are: in the environment that the toolkit belongs to, or on PATH."""
    environment = (toolkit / "include").resolve().parents[5]
    return os.pathsep.join([str(environment / "bin"), os.environ["PATH"]])


@pytest.mark.parametrize(
    ("archs", "asked"), [("120a", None), ("120a", "120a-real"), ("90+120a", "90;120a")]
)
def test_cmake_finds_the_compiler_and_links_device_code(archs, asked, tmp_path, toolkit):
    """Identification, ABI detection, separable compilation and its device link, all replaced."""
    path = cmake_path(toolkit)
    cmake, ninja = shutil.which("cmake", path=path), shutil.which("ninja", path=path)
    if not (cmake and ninja and (toolkit / "lib64").exists()):
        pytest.skip("needs cmake, ninja and a completed toolkit root")
    build = Build(tmp_path, toolkit, ARCHS[archs])
    (tmp_path / "src/CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(x LANGUAGES CXX CUDA)\n"
        "add_library(x SHARED a.cu b.cu)\n"
        "set_target_properties(x PROPERTIES CUDA_SEPARABLE_COMPILATION ON "
        "CUDA_RESOLVE_DEVICE_SYMBOLS ON)\n"
    )
    (tmp_path / "src/a.cu").write_text(CALL)
    (tmp_path / "src/b.cu").write_text(TWICE)
    options = [f"-DCMAKE_CUDA_ARCHITECTURES={asked}"] if asked else []
    options += [f"-DCMAKE_MAKE_PROGRAM={ninja}", "-G", "Ninja", "-S", str(tmp_path / "src")]
    configured = build.run(cmake, *options, "-B", ".")
    assert configured.returncode == 0, configured.stdout + configured.stderr
    assert "Detecting CUDA compiler ABI info - done" in configured.stdout
    built = build.run(cmake, "--build", ".")
    assert built.returncode == 0, built.stdout + built.stderr
    device = [r for r in build.records() if r["tool"] == "nvcc" and r["kind"] != "query"]
    assert {r["kind"] for r in device} == {"compile", "link", "device-link"}
    expected = [f"sm_{code}" for code, _ in ARCHS[archs]]
    assert all(r["archs_after"] == expected for r in device)
