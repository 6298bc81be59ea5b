"""Builds held against each other: inputs, wheels at three levels, and real rebuilds."""

import copy
import json
import os
import re
import shutil
import zipfile
from pathlib import Path

import pytest
from binary.forge import (
    EXIT,
    TRAP,
    Part,
    make_container,
    make_cubin,
    make_elf,
    make_entry,
    make_library,
    make_wheel,
)
from projects import FILES, share_toolchain, write_project

from kernforge.reproduce.comparison import compare_wheels
from kernforge.reproduce.inputs import input_differences

BUILT = {
    "machine": {
        "host": {"compiler version": "12.2.0", "machine": "x86_64"},
        "layout": ["kf", "/kf"],
        "inside": "ab" * 32,
    },
    "stages": {
        "fetch": {"sources": [["tiny", "tiny", {"kind": "git", "commit": "12" * 20}]]},
        "patch": {"sources": [["tiny", [["0001-x.patch", "34" * 32]], []]]},
        "env": {"lock": [["cmake", "4.4.5", ["56" * 32]]], "python": "3.11"},
        "build": {"archs": ["12.0a"], "cmake": []},
        "pack": {"local": "cu130"},
    },
}


def changed(*way, to):
    document = copy.deepcopy(BUILT)
    place = document
    for key in way[:-1]:
        place = place[key]
    place[way[-1]] = to
    return document


def test_equal_inputs_have_no_difference():
    assert input_differences(BUILT, copy.deepcopy(BUILT)) == ()


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (changed("machine", "host", "compiler version", to="14.1.0"),
         "host toolchain, compiler version: 12.2.0 -> 14.1.0"),
        (changed("machine", "layout", to=["real", "/var"]),
         'sandbox layout: ["kf","/kf"] -> ["real","/var"]'),
        (changed("stages", "fetch", "sources", 0, 2, "commit", to="99" * 20),
         f"source 'tiny', commit: {'12' * 20} -> {'99' * 20}"),
        (changed("stages", "patch", "sources", to=[]),
         f"source 'tiny', patch 1: 0001-x.patch {'34' * 32} -> (not there)"),
        (changed("stages", "env", "lock", 0, 1, to="4.5.0"),
         "package 'cmake', version: 4.4.5 -> 4.5.0"),
        (changed("stages", "build", "archs", to=["9.0"]), 'build, archs: ["12.0a"] -> ["9.0"]'),
        (changed("stages", "build", "env", to=[["A", "1"]]), 'build, env: (not there) -> [["A","1"]]'),
        (changed("machine", "inside", to="cd" * 32),
         f"kernforge's programs in the sandbox: {'ab' * 32} -> {'cd' * 32}"),
        (changed("stages", "pack", "local", to=None), "pack, local: cu130 -> null"),
    ],
)  # fmt: skip
def test_the_input_that_differs_is_named(now, told):
    found = [str(difference) for difference in input_differences(BUILT, now)]
    assert told in found


def test_the_host_toolchain_is_named_first():
    now = changed("machine", "host", "compiler version", to="14.1.0")
    now["stages"]["fetch"]["sources"][0][2]["commit"] = "99" * 20
    first, second = input_differences(BUILT, now)
    assert first.name == "host toolchain, compiler version"
    assert second.name == "source 'tiny', commit"


@pytest.mark.parametrize(
    "document", [{}, {"machine": 3, "stages": []}, {"stages": {"fetch": {"sources": [7, [1], []]}}}]
)
def test_a_document_of_a_stranger_is_told_and_never_trips(document):
    assert input_differences(document, BUILT)
    assert input_differences(BUILT, document)


def fatbin(**kernels):
    return make_container(make_entry(make_cubin(kernels or {"scale": EXIT}), 120, suffix="a"))


def lib(*extra, code=None):
    return make_library(fatbin=code or fatbin(), extra=(Part(".text", 1, b"host"), *extra))


def pair(tmp_path, before, now, **options):
    wheels = []
    for name, members in (("before", before), ("now", now)):
        (tmp_path / name).mkdir()
        more = options if name == "now" else {}
        wheels.append(make_wheel(tmp_path / name, members, **more))
    return compare_wheels(*wheels)


def test_equal_bytes(tmp_path):
    found = pair(tmp_path, {"p/a.so": lib()}, {"p/a.so": lib()})
    assert found.differences == () or found.equal == "normalised"
    wheel = tmp_path / "before/demo-1.0-cp311-cp311-linux_x86_64.whl"
    assert compare_wheels(wheel, wheel).equal == "bytes"


def test_another_compression_is_no_other_content(tmp_path):
    found = pair(tmp_path, {"p/a.so": lib()}, {"p/a.so": lib()}, method=zipfile.ZIP_STORED)
    assert found.equal == "normalised"
    assert [str(d) for d in found.differences] == [
        "archive: members are equal; their order, times or compression differ"
    ]


def test_a_build_id_is_described_away(tmp_path):
    old, new = (lib(Part(".note.gnu.build-id", 7, data)) for data in (b"1234", b"5678"))
    found = pair(tmp_path, {"p/a.so": old}, {"p/a.so": new})
    assert found.equal == "normalised"
    assert {d.level for d in found.differences} == {"bytes"}
    assert ".note.gnu.build-id" in {d.section for d in found.differences}


def test_other_host_code_leaves_the_device_code_equal(tmp_path):
    new = make_library(fatbin=fatbin(), extra=(Part(".text", 1, b"HOST"),))
    found = pair(tmp_path, {"p/a.so": lib()}, {"p/a.so": new})
    assert found.equal == "device code"
    assert str(found.differences[0]) == "p/a.so, .text: has other bytes"


def test_the_kernel_that_differs_is_named(tmp_path):
    old = lib(code=fatbin(scale=EXIT, add=EXIT))
    new = lib(code=fatbin(scale=EXIT, add=TRAP))
    found = pair(tmp_path, {"p/a.so": old}, {"p/a.so": new})
    assert found.equal is None
    first = found.differences[0]
    assert (first.file, first.image, first.kernel) == ("p/a.so", "module 0, 12.0a", "add")
    assert "scale" not in {d.kernel for d in found.differences}


def test_debug_information_that_differs_is_told_apart_from_code(tmp_path):
    cubins = [
        make_elf([Part(".text.scale", 1, EXIT), Part(".debug_line", 1, data)], kind=2, machine=190)
        for data in (b"/one/path", b"/two/path")
    ]
    old, new = (lib(code=make_container(make_entry(cubin, 120, suffix="a"))) for cubin in cubins)
    found = pair(tmp_path, {"p/a.so": old}, {"p/a.so": new})
    assert found.equal is None
    assert str(found.differences[0]) == (
        "p/a.so, module 0, 12.0a, .debug_line: differs; the code of every kernel is equal"
    )


def test_a_kernel_that_is_named_by_another_hash_is_told_once(tmp_path):
    names = [
        f"_ZN47_GLOBAL__N__{h}_14_verify_tree_cu_739bd39c4rankEv" for h in ("edcf73da", "f787d667")
    ]
    old, new = (lib(code=fatbin(**{name: EXIT})) for name in names)
    found = pair(tmp_path, {"p/a.so": old}, {"p/a.so": new})
    told = [d for d in found.differences if d.level == "device code"]
    assert [d.text for d in told] == [
        "is named by another hash of its source file or that file's path"
    ]
    assert told[0].kernel == names[0]


def test_another_way_of_storing_is_equal_device_code(tmp_path):
    cubin = make_cubin({"scale": EXIT})
    old, new = (
        lib(code=make_container(make_entry(cubin, 120, suffix="a", pack=pack)))
        for pack in ("none", "zstd")
    )
    assert pair(tmp_path, {"p/a.so": old}, {"p/a.so": new}).equal == "device code"


def test_an_image_more_is_named(tmp_path):
    more = fatbin() + make_container(make_entry(make_cubin({"k": EXIT}), 90))
    found = pair(tmp_path, {"p/a.so": lib()}, {"p/a.so": lib(code=more)})
    assert found.equal is None
    assert str(found.differences[0]) == "p/a.so, module 1, 9.0: is new"


def test_ptx_counts_as_device_code(tmp_path):
    old, new = (
        lib(code=make_container(make_entry(text, 90, kind=1)))
        for text in (b".version 9.0\n.entry k() { ret; }\n", b".version 9.1\n.entry k() { ret; }\n")
    )
    found = pair(tmp_path, {"p/a.so": old}, {"p/a.so": new})
    assert found.equal is None
    assert found.differences[0].image == "module 0, 9.0+PTX"


def test_a_library_that_is_gone_breaks_device_code(tmp_path):
    found = pair(tmp_path, {"p/a.so": lib(), "p/x.py": b""}, {"p/x.py": b""})
    assert found.equal is None
    assert str(found.differences[0]) == "p/a.so: is gone"


def test_a_text_that_differs_is_named_with_its_line(tmp_path):
    old, new = {"p/x.py": b"a = 1\nb = 2\n"}, {"p/x.py": b"a = 1\nb = 3\n"}
    found = pair(tmp_path, old, new)
    assert found.equal == "device code"
    assert str(found.differences[0]) == "p/x.py: 12 and 12 bytes, first in line 2"


def test_what_repeats_the_key_is_normalised(tmp_path):
    name = "demo-1.0.dist-info/build.json"
    old, new = ({name: json.dumps({"build_key": k, "recipe_key": "r"}).encode()} for k in "ab")
    assert pair(tmp_path, old, new).equal == "normalised"


# Real builds of the tiny project.


@pytest.fixture
def tiny(run, tmp_path, compiler_cache, toolkit):
    project = write_project(tmp_path / "project")
    cache = share_toolchain(tmp_path / "cache", compiler_cache)

    def call(*words, **options):
        return run("--project", str(project), "--cache", str(cache), *words, **options)

    call.project, call.cache = project, cache
    return call


def compiles(done) -> int:
    """How often a call compiled: its stage `build` took time."""
    return len(re.findall(r": build +\d", done.stderr))


def built(tiny):
    done = tiny("build", "tiny", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)[0]


@pytest.mark.build
def test_an_artifact_is_reproduced(tiny, tmp_path):
    first = built(tiny)
    old = os.umask(0o027)
    try:
        done = tiny("reproduce", first["key"][:12], "--json", "--jobs", "1", "--out",
                    str(tmp_path / "again"), env={"TZ": "Asia/Tokyo", "LC_ALL": "C"})  # fmt: skip
    finally:
        os.umask(old)
    assert done.returncode == 0, done.stderr
    (document,) = json.loads(done.stdout)
    assert (document["equal"], document["inputs"]) == ("bytes", [])
    assert document["rebuilt"]["sha256"] == first["sha256"]
    assert compiles(done) == 1
    assert [path.name for path in (tmp_path / "again").iterdir()] == [Path(first["wheel"]).name]
    assert list((tiny.cache / "tmp").iterdir()) == []


@pytest.mark.build
def test_a_changed_input_is_named_before_anything_compiles(tiny):
    first = built(tiny)
    kernel = tiny.project / "project/tiny.cu"
    kernel.write_text(FILES["project/tiny.cu"].replace("*= by", "+= by"))
    done = tiny("reproduce", first["wheel"])
    assert done.returncode == 8
    assert "error[inputs-differ]" in done.stderr
    assert "source 'tiny', tree: " in done.stderr
    assert compiles(done) == 0
    anyway = tiny("reproduce", first["wheel"], "--anyway", "--json")
    assert anyway.returncode == 8
    document = json.loads(anyway.stdout.split("\n]\n")[0] + "\n]")[0]
    assert document["equal"] is None
    first_told = document["differences"][0]
    assert first_told["file"] == "tiny/libtiny.so"
    assert first_told["image"] == "module 0, 12.0a"
    assert "scale" in first_told["kernel"]


def from_elsewhere(wheel: Path, into: Path, change) -> Path:
    """The wheel with another ``build.json``."""
    into.mkdir()
    target = into / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(target, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            if info.filename.endswith("build.json"):
                document = json.loads(data)
                change(document)
                data = json.dumps(document).encode()
            new.writestr(info, data)
    return target


@pytest.mark.build
def test_another_toolchain_is_the_first_difference(tiny, tmp_path):
    def change(document):
        document["machine"]["host"]["compiler version"] = "14.1.0"
        document["stages"]["fetch"]["sources"][0][2]["tree"] = "0" * 64

    wheel = from_elsewhere(Path(built(tiny)["wheel"]), tmp_path / "theirs", change)
    done = tiny("reproduce", str(wheel))
    assert done.returncode == 8
    assert "first: host toolchain, compiler version: 14.1.0 -> " in done.stderr


@pytest.mark.build
def test_a_wheel_from_elsewhere_needs_consent_and_a_sandbox(tiny, tmp_path):
    first = built(tiny)
    wheel = from_elsewhere(Path(first["wheel"]), tmp_path / "theirs", lambda _document: None)
    done = tiny("reproduce", str(wheel))
    assert done.returncode == 8
    assert "error[consent-missing]" in done.stderr
    assert "$ /kf/env/bin/python -m build" in done.stderr
    agreed = tiny("reproduce", str(wheel), "--yes-run-it")
    assert agreed.returncode == 8
    assert "equal after normalisation, other bytes" in agreed.stdout
    empty = tmp_path / "bin"
    empty.mkdir()
    for name in os.listdir("/usr/bin"):
        if name != "bwrap":
            (empty / name).symlink_to(f"/usr/bin/{name}")
    bare = tiny("reproduce", str(wheel), "--yes-run-it", "--anyway", env={"PATH": str(empty)})
    assert "error[sandbox-required]" in bare.stderr


@pytest.mark.build
@pytest.mark.xdist_group("real")
def test_what_was_built_in_the_real_folder_is_reproduced_there(tiny):
    """Another layout is named before anything compiles, with the way to build there again."""
    done = tiny("build", "tiny", "--no-sandbox", "--json")
    first = json.loads(done.stdout)[0]
    inside = tiny("reproduce", first["key"])
    assert inside.returncode == 8
    assert "built from other inputs, first: sandbox layout: [" in inside.stderr
    assert "hint: --no-sandbox builds in the real folder, as this wheel was built" in inside.stderr
    assert compiles(inside) == 0
    again = tiny("reproduce", first["key"], "--no-sandbox")
    assert again.returncode == 0, again.stdout + again.stderr
    assert compiles(again) == 1
    assert "equal bytes" in again.stdout


@pytest.mark.build
def test_a_build_that_hears_how_many_compile_at_once_is_found_out(tiny, tmp_path):
    """Nothing of the kind may stand in a wheel: file and section are named."""
    cmake = FILES["project/CMakeLists.txt"]
    heard = (
        'target_compile_definitions(tiny PRIVATE JOBS="$ENV{CMAKE_BUILD_PARALLEL_LEVEL} jobs")\n'
    )
    (tiny.project / "project/CMakeLists.txt").write_text(cmake + heard)
    told = FILES["project/tiny.cu"] + 'extern "C" const char *jobs() { return JOBS; }\n'
    (tiny.project / "project/tiny.cu").write_text(told)
    done = tiny("build", "tiny", "--jobs", "1", "--json")
    first = json.loads(done.stdout)[0]
    page = tmp_path / "page.html"
    again = tiny("reproduce", first["key"], "--jobs", "2", "--html", str(page))
    assert again.returncode == 8
    if shutil.which("diffoscope"):
        assert f"note: diffoscope wrote {page}" in again.stderr
        assert ".rodata" in page.read_text()
    else:
        assert "note: diffoscope is not installed: no page is written" in again.stderr
    assert "error[not-reproduced]" in again.stderr
    assert "equal device code, other content" in again.stdout
    assert "normalised: tiny/libtiny.so, .rodata: has other bytes" in again.stdout
    assert "device code: " not in again.stdout


PATCH = """\
--- a/tiny/__init__.py
+++ b/tiny/__init__.py
@@ -1,1 +1,1 @@
-\"\"\"A tiny package.\"\"\"
+\"\"\"A patched package.\"\"\"
"""
RICH = {
    "patches/tiny/0001-say.patch": PATCH,
    "recipes/tiny.yaml": FILES["recipes/tiny.yaml"].replace(
        "{path: project}\n",
        "{path: project, patches: [tiny/0001-say.patch]}\nbuild: {env: {TINY: plain}}\n",
    ),
}
LOCK = "recipes/locks/tiny/py311-cu130-linux_x86_64.lock"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, old
    path.write_text(text.replace(old, new))


def other_assembler(folder: Path) -> dict[str, str]:
    """A PATH on which the assembler is the same one with a byte more."""
    folder.mkdir()
    (folder / "as").write_bytes(Path(shutil.which("as")).read_bytes() + b"\0")
    (folder / "as").chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


CHANGES = [
    ("project/tiny.cu", "*= by", "+= by", "source 'tiny', tree: "),
    ("patches/tiny/0001-say.patch", "patched", "mended", "source 'tiny', patch 1: tiny/0001-say"),
    ("recipes/tiny.yaml", "[tiny/0001-say.patch]", "[]", "source 'tiny', patch 1: tiny/0001-say"),
    ("recipes/tiny.yaml", "TINY: plain", "TINY: other", 'build, env: [["TINY","plain"]] -> [['),
    ("recipes/tiny.yaml", "build: {", "build: {gencode: {default: filter}, ", "build, gencode: "),
    ("recipes/tiny.yaml", "sm{archs}", "x{archs}", "pack, local: cu130.sm120a -> cu130.x120a"),
    (LOCK, "cmake==4.4.5", "cmake==4.4.4", "package 'cmake', version: 4.4.5 -> 4.4.4"),
]


@pytest.fixture(scope="module")
def rich(run, tmp_path_factory, compiler_cache, toolkit):
    """A wheel of a project with a patch and a variable; a function that copies the project."""
    home = tmp_path_factory.mktemp("rich")
    project = write_project(home / "project", RICH)
    cache = share_toolchain(home / "cache", compiler_cache)
    done = run("--project", str(project), "--cache", str(cache), "build", "tiny", "--json")
    assert done.returncode == 0, done.stderr
    wheel = json.loads(done.stdout)[0]["wheel"]

    def again(root: Path, *words, **options):
        place = ("--project", str(root), "--cache", str(cache))
        return run(*place, "reproduce", wheel, *words, **options)

    again.project = project
    return again


def first_named(done) -> str:
    """What is named first, and that nothing was compiled before it was."""
    assert done.returncode == 8
    assert compiles(done) == 0
    return done.stderr.split("error[inputs-differ]: ")[1].split("first: ")[1].splitlines()[0]


@pytest.mark.build
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change[3])
def test_the_input_that_was_changed_is_named_first(rich, tmp_path, change):
    file, old, new, named = change
    shutil.copytree(rich.project, tmp_path / "copy")
    edit(tmp_path / "copy" / file, old, new)
    assert first_named(rich(tmp_path / "copy")).startswith(named)


@pytest.mark.build
def test_another_host_toolchain_is_named_before_another_source(rich, tmp_path):
    shutil.copytree(rich.project, tmp_path / "copy")
    edit(tmp_path / "copy/project/tiny.cu", "*= by", "+= by")
    done = rich(tmp_path / "copy", env=other_assembler(tmp_path / "bin"))
    assert first_named(done).startswith("host toolchain, compiler as: ")
    assert "source 'tiny', tree: " in done.stderr


@pytest.mark.build
def test_other_archs_in_the_matrix_are_no_other_input(rich, tmp_path):
    """The wheel says for which archs it was built, and for these it is built again."""
    shutil.copytree(rich.project, tmp_path / "copy")
    edit(tmp_path / "copy/recipes/tiny.yaml", '["12.0a"]', '["9.0"]')
    done = rich(tmp_path / "copy")
    assert done.returncode == 0, done.stderr
    assert "tiny-cu130-cp311-sm120a: equal bytes" in done.stdout


@pytest.mark.build
def test_a_recipe_that_is_gone(tiny, tmp_path):
    wheel = shutil.copy(built(tiny)["wheel"], tmp_path)
    (tiny.project / "recipes/tiny.yaml").rename(tiny.project / "recipes/huge.yaml")
    done = tiny("reproduce", str(wheel))
    assert done.returncode == 3
    assert "error[recipe-missing]" in done.stderr


def test_what_is_no_wheel_and_no_key(run, tmp_path):
    for what in ("deadbeef00", "ab", str(tmp_path / "x.whl")):
        done = run("--cache", str(tmp_path), "reproduce", what)
        assert done.returncode == 3
        assert "error[artifact-missing]" in done.stderr


@pytest.mark.build
def test_line_tables_hold_no_time_of_this_build(tiny):
    """nvcc -lineinfo writes the date of each source file; an edited file is a new one."""
    cmake = FILES["project/CMakeLists.txt"]
    lines = "target_compile_options(tiny PRIVATE -lineinfo)\n"
    (tiny.project / "project/CMakeLists.txt").write_text(cmake + lines)
    source = '{path: project, edits: [{file: tiny.cu, find: "*= by", replace: "+= by"}]}'
    recipe = tiny.project / "recipes/tiny.yaml"
    recipe.write_text(recipe.read_text().replace("{path: project}", source))
    done = tiny("reproduce", built(tiny)["key"])
    assert done.returncode == 0, done.stdout + done.stderr
