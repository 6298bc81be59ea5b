"""Whole examinations of real environments: each has one thing wrong, or nothing."""

import shutil

import pytest
from binary.forge import TRAP
from doctor.places import ROOT, case_of, checkout, git, module, said, words

from kernforge.doctor.code import Standing
from kernforge.doctor.model import Action
from kernforge.verify.policy import Answer

NEEDS_SANDBOX = pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bubblewrap")
BUILT = {
    "recipe": "demo", "job": "demo-cu130-cp311-sm120a", "build_key": "ab" * 32,
    "stages": {"build": {"archs": ["12.0a"], "cuda": "13.0", "torch": None},
               "env": {"python": "3.11"}},
}  # fmt: skip


@NEEDS_SANDBOX
def test_a_healthy_environment_is_kept(place):
    links = place.torch()
    body = "extern void _ZN3c104lockEj(void); _ZN3c104lockEj();"
    place.kernels("good", "1.0", "12.0a", body=body, options=links)
    place.install("plain", "2.0", {"plain/__init__.py": ""})
    found = place.look("12.0")
    case = case_of(found, "good")
    assert (found.healthy, found.torch, found.cuda) == (True, "2.14.1", "13.0")
    assert case.answers[0].standing is Standing.SERVES
    assert case.imports.answer is Answer.REACHED
    assert case.imports.modules == (("good", str(place.site / "good/__init__.py")),)
    assert case.imports.versions == (("good", "1.0"),)
    assert (case.advice.action, case.remarks) == (Action.KEEP, ())
    assert found.others == 1


def test_a_wheel_of_kernforge_is_known_by_its_build_json(place):
    place.kernels("own", "1.0+cu130.sm120a", "12.0a", build=BUILT)
    case = place.case("own", "12.0")
    assert case.installed.built.build_key == "ab" * 32
    assert (case.built.cuda.value, case.built.cuda.source) == ("13.0", "build.json")


def test_kernels_for_another_gpu_are_rebuilt_by_the_recipe_that_fits(place):
    """The story: compiled for 10.0, the card is a 12.0."""
    place.torch()
    place.kernels("sglang-kernel", "0.4.7", "10.0f", package="sgl_kernel")
    case = place.case("sglang-kernel", "12.0")
    assert case.answers[0].standing is Standing.NONE
    assert "nothing that device 12.0 can run (compiled for 10.0f)" in said(case, "code-missing")
    assert case.advice.action is Action.REBUILD
    assert (case.advice.recipe, case.advice.exact) == ("sgl-kernel", True)
    assert case.advice.commands[0] == "kernforge build sgl-kernel --arch 12.0a"


def test_the_command_names_the_torch_that_is_here(place):
    place.torch("2.13.0")
    place.kernels("sglang-kernel", "0.4.7", "10.0f", package="sgl_kernel")
    command = place.case("sglang-kernel", "12.0", "9.0").advice.commands[0]
    assert command == "kernforge build sgl-kernel --arch '9.0a;12.0a' --torch 2.13.0"


def test_a_recipe_for_another_version_is_told_as_such(place):
    place.kernels("sglang-kernel", "0.2.0", "10.0f", package="sgl_kernel")
    advice = place.case("sglang-kernel", "12.0").advice
    assert (advice.recipe, advice.exact) == ("sgl-kernel", False)
    assert advice.commands[0].startswith("# recipe sgl-kernel builds version 0.4")


def test_the_file_that_the_loader_takes_decides(place):
    """Code for 12.0 in the file that only a 9.0 card loads serves no 12.0."""
    package = place.site / "sgl_kernel"
    module(package / "sm90/common_ops.abi3.so", "9.0a", "12.0a")
    module(package / "sm100/common_ops.abi3.so", "10.0a")
    files = ["sgl_kernel/sm90/common_ops.abi3.so", "sgl_kernel/sm100/common_ops.abi3.so"]
    place.record("sglang-kernel", "0.4.7", files)
    case = place.case("sglang-kernel", "12.0", sandbox=False)
    assert case.answers[0].loaded == ("sgl_kernel/sm100/common_ops.abi3.so",)
    assert (case.answers[0].standing, case.advice.action) == (Standing.NONE, Action.REBUILD)


def test_what_no_build_would_change_is_told_and_kept(place):
    """FlashMLA is for 9.0 and 10.0: the recipe builds it for those whatever is asked for."""
    package = place.site / "sgl_kernel"
    module(package / "sm100/common_ops.abi3.so", "12.0a")
    module(package / "flashmla_ops.abi3.so", "9.0a", "10.0f")
    files = ["sgl_kernel/sm100/common_ops.abi3.so", "sgl_kernel/flashmla_ops.abi3.so"]
    place.record("sglang-kernel", "0.4.7", files)
    case = place.case("sglang-kernel", "12.0", sandbox=False)
    assert case.answers[0].spared == ("sgl_kernel/flashmla_ops.abi3.so",)
    assert (case.answers[0].standing, case.advice.action) == (Standing.SERVES, Action.KEEP)


def test_only_ptx_is_no_code(place):
    place.kernels("virtual", "1.0", "9.0+PTX")
    case = place.case("virtual", "12.0", sandbox=False)
    assert (case.answers[0].standing, case.archs, case.ptx) == (Standing.JIT, (), ("9.0",))
    assert case.advice.action is Action.REBUILD


def test_code_that_only_refuses_is_none(place):
    text = 'asm(".section .x");'
    place.write("trap/__init__.py", "")
    names = ("_ZN7cutlass13device_kernelINS_4gemm14MainloopSm90TmaGmmaEEEvT_",)
    from doctor.places import fatbin

    data = place.write("code.fatbin", fatbin("12.0a", names=names, code=TRAP))
    section = f'.section .nv_fatbin,\\"a\\"\\n.incbin \\"{data}\\"\\n.previous'
    module(place.site / "trap/ops.abi3.so", before=f'asm("{section}");{text}')
    data.unlink()
    place.record("trap", "1.0", ["trap/__init__.py", "trap/ops.abi3.so"])
    case = place.case("trap", "12.0", sandbox=False)
    assert case.answers[0].refusing == 1
    assert (case.answers[0].standing, case.advice.action) == (Standing.NONE, Action.REBUILD)


def test_a_library_for_some_of_its_devices_is_told_and_kept(place):
    place.write("mix/__init__.py", "")
    module(place.site / "mix/new.abi3.so", "12.0a")
    module(place.site / "mix/old.abi3.so", "9.0a")
    place.record("mix", "1.0", ["mix/__init__.py", "mix/new.abi3.so", "mix/old.abi3.so"])
    case = place.case("mix", "12.0", sandbox=False)
    assert case.answers[0].standing is Standing.PARTLY
    assert said(case, "code-partly").endswith("mix/old.abi3.so has code of 0 of 2 kernels")
    assert case.advice.action is Action.KEEP


def test_without_a_device_nothing_is_said_of_devices(place):
    place.kernels("old", "1.0", "9.0a")
    case = place.case("old", sandbox=False)
    assert (case.answers, case.archs, case.advice.action) == ((), ("9.0a",), Action.KEEP)


def test_a_torn_library_serves_nobody_for_sure(place):
    place.kernels("torn", "1.0", "12.0a")
    library = place.site / "torn/ops.abi3.so"
    library.write_bytes(library.read_bytes()[:700])
    case = place.case("torn", "12.0", sandbox=False)
    assert case.answers[0].standing is Standing.UNREAD
    assert {"library-unreadable", "library-replaced"} <= set(words(case))
    assert case.advice.action is Action.REINSTALL


# ---- the torch that is there


def test_a_kernel_wheel_of_another_torch(place):
    """FIELD_CASES 32: the name fits, a function has other parameters here."""
    links = place.torch()
    place.library = place.site / "other/libc10.so"
    from verify.targets import compile_library

    compile_library(place.library, "void _ZN3c104lockEiPKc(void) {}", "-Wl,-soname,libc10.so")
    body = "extern void _ZN3c104lockEiPKc(void); _ZN3c104lockEiPKc();"
    options = (f"-L{place.library.parent}", "-l:libc10.so")
    place.kernels("skewed", "1.0", "12.0a", body=body, options=options)
    shutil.rmtree(place.library.parent)
    assert links
    for sandbox in (False, True):
        case = place.case("skewed", "12.0", sandbox=sandbox)
        assert "c10::lock(int, char const*)" in said(case, "abi-torch")
        assert "the target has c10::lock(unsigned int)" in said(case, "abi-torch")
        assert case.advice.action is Action.REBUILD


@pytest.mark.parametrize(
    ("version", "metadata", "text"),
    [
        ("1.0+cu130torch2.9", "", "built for torch 2.9 (by its version)"),
        ("1.0+cu130.torch2.9.sm120a", "", "built for torch 2.9 (by its version)"),
        ("1.0", "Requires-Dist: torch==2.13.0\n", "built for torch 2.13.0 (by its requirement)"),
        (
            "1.0+cu128",
            "",
            "built for CUDA 12.8 (by its version), torch here is built with CUDA 13.0",
        ),
    ],
)
def test_what_it_was_built_for_is_read_from_what_says_it(place, version, metadata, text):
    place.torch()
    place.kernels("skewed", version, "12.0a", metadata=metadata)
    case = place.case("skewed", "12.0", sandbox=False)
    assert text in said(case, "torch-differs")
    assert case.advice.action is Action.REBUILD


@pytest.mark.parametrize("version", ["1.0+cu130.torch2.14", "1.0+cu132", "1.0+git123"])
def test_what_fits_is_not_accused(place, version):
    place.torch()
    place.kernels("fitting", version, "12.0a", metadata="Requires-Dist: torch>=2\n")
    assert "torch-differs" not in words(place.case("fitting", "12.0", sandbox=False))


def test_a_library_of_the_other_cuda_major(place, tmp_path):
    """FIELD_CASES 34."""
    from verify.targets import compile_library

    place.torch(cuda="12.6")
    runtime = compile_library(tmp_path / "libcudart.so.13", "void cudaFree(void) {}",
                              "-Wl,-soname,libcudart.so.13")  # fmt: skip
    body = "extern void cudaFree(void); cudaFree();"
    options = (f"-L{runtime.parent}", "-l:libcudart.so.13")
    place.kernels("major", "1.0", "12.0a", body=body, options=options)
    case = place.case("major", "12.0", sandbox=False)
    assert (case.built.cuda.value, case.built.cuda.source) == ("13", "linkage")
    assert "needs 'libcudart.so.13'" in said(case, "library-missing")
    assert "built for CUDA 13 (by its linkage)" in said(case, "torch-differs")


def test_no_torch_at_all(place, tmp_path):
    other = type(place)(tmp_path / "other")
    links = other.torch()
    body = "extern void _ZN3c104lockEj(void); _ZN3c104lockEj();"
    place.kernels("lonely", "1.0", "12.0a", body=body, options=links)
    found = place.look("12.0")
    case = case_of(found, "lonely")
    assert (found.torch, found.cuda) == (None, None)
    assert said(case, "torch-missing") == "its libraries need torch, and there is none"
    assert not found.healthy


def test_a_library_that_a_run_path_leads_to_is_had(place):
    """Libraries of sibling packages are found by $ORIGIN; without a sandbox nobody is accused."""
    from verify.targets import compile_library

    other = compile_library(place.site / "kin/lib/libkin.so", "void kin(void) {}")
    options = (f"-L{other.parent}", "-l:libkin.so", "-Wl,-rpath,$ORIGIN/../kin/lib")
    place.kernels("near", "1.0", "12.0a", body="extern void kin(void); kin();", options=options)
    place.record("kin", "1.0", ["kin/lib/libkin.so"])
    for sandbox in (False, True):
        assert place.case("near", "12.0", sandbox=sandbox).advice.action is Action.KEEP


@NEEDS_SANDBOX
def test_a_crash_at_import_is_told(place):
    place.kernels("crash", "1.0", "12.0a", body="*(volatile int *)0 = 1;")
    case = place.case("crash", "12.0")
    assert case.imports.answer is Answer.FAILED
    assert "crashes with SIGSEGV" in case.remarks[0].text


@NEEDS_SANDBOX
def test_a_missing_module_is_told(place):
    place.kernels("needy", "1.0", "12.0a")
    place.install("needy", "1.0", {"needy/__init__.py": "import absent_thing\n"})
    module(place.site / "needy/ops.abi3.so", "12.0a")
    place.record("needy", "1.0", ["needy/__init__.py", "needy/ops.abi3.so"])
    case = place.case("needy", "12.0")
    assert "imports 'absent_thing'" in said(case, "module-missing")
    assert case.advice.action is Action.REINSTALL


def test_without_a_sandbox_nothing_is_executed(place, tmp_path):
    mark = tmp_path / "mark"
    code = f"open({str(mark)!r}, 'w')\n"
    place.kernels("loud", "1.0", "12.0a")
    place.write("loud/__init__.py", code)
    place.write("loud.pth", f"import os; {code}")
    place.write("sitecustomize.py", code)
    case = place.case("loud", "12.0", sandbox=False)
    assert case.imports.answer is Answer.NOT_VERIFIED
    assert "there is no sandbox" in said(case, "import-not-verified")
    assert not mark.exists()


@NEEDS_SANDBOX
def test_in_the_sandbox_nothing_is_changed(place, tmp_path):
    mark = tmp_path / "mark"
    place.kernels("loud", "1.0", "12.0a")
    code = f"for p in ({str(mark)!r}, {str(place.site / 'new')!r}):\n  try: open(p, 'w')\n  except OSError: pass\n"
    place.write("loud/__init__.py", code)
    before = sorted(path for path in place.root.rglob("*"))
    assert place.case("loud", "12.0").imports.answer is Answer.REACHED
    assert sorted(path for path in place.root.rglob("*")) == before
    assert not mark.exists()


# ---- editable checkouts


def test_an_editable_checkout_without_tags(place, tmp_path):
    """FIELD_CASES 102, and the story: 0.0.0, no `__version__`, and nobody knows the commit."""
    top = checkout(tmp_path / "sglang")
    project = top / "python"
    place.editable("sglang", "0.0.0.dev0", project, {"sglang": project / "sglang"})
    (project / "sglang/__init__.py").write_text("import os, sys\n")
    found = place.look("12.0", sandbox=False)
    case = case_of(found, "sglang")
    assert case.place.root == project
    assert case.git.commit == git(top, "rev-parse", "HEAD")
    assert case.git.changed == ("python/sglang/__init__.py",)
    assert (case.git.tag, case.git.tags, case.git.shallow) == (None, 0, False)
    assert case.git.remote == "https://git.example.org/sglang"
    assert case.spoken == ()
    assert "the clone has no tags" in said(case, "version-unknown")
    assert "falls back to '0.0.0.dev0'" in said(case, "version-unknown")
    assert case.advice.action is Action.REINSTALL
    assert case.advice.commands[0] == f"git -C {top} fetch --tags"
    assert case.advice.commands[1].endswith(f"--no-deps -e {project}")
    assert case.advice.commands[2].endswith(
        f"kernforge new --from {top} --subdir python --arch 12.0a --changes"
    )
    assert "secret" not in str(found)


def test_an_editable_kernel_library_for_another_gpu_is_rebuilt_from_its_checkout(place, tmp_path):
    top = tmp_path / "mine"
    module(top / "mykernels/ops.abi3.so", "10.0a")
    (top / "mykernels/__init__.py").write_text("")
    (top / "pyproject.toml").write_text('[project]\nname = "mykernels"\nversion = "1.0"\n')
    git(top, "init", "-q")
    git(top, "add", "pyproject.toml", "mykernels/__init__.py")
    git(top, "commit", "-q", "-m", "first")
    git(top, "remote", "add", "origin", "https://git.example.org/mine")
    place.editable("mykernels", "1.0", top, {"mykernels": top / "mykernels"})
    case = place.case("mykernels", "12.0")
    assert case.libraries[0].path == "mykernels/ops.abi3.so"
    assert case.advice.action is Action.REBUILD
    assert case.advice.commands == (f"kernforge new --from {top} --arch 12.0a",)


@NEEDS_SANDBOX
def test_an_editable_module_is_imported_from_its_checkout(place, tmp_path):
    project = checkout(tmp_path / "sglang") / "python"
    place.editable("sglang", "0.0.0.dev0", project, {"sglang": project / "sglang"})
    case = place.case("sglang")
    assert case.imports.modules == (("sglang", str(project / "sglang/__init__.py")),)


def test_a_wheel_beside_an_editable_of_the_same_name(place, tmp_path):
    project = tmp_path / "work"
    (project / "sgl_kernel").mkdir(parents=True)
    (project / "sgl_kernel/__init__.py").write_text("")
    place.kernels("sgl-kernel", "0.3.21", "12.0a", package="sgl_kernel")
    place.editable("sglang-kernel", "0.4.7", project, {"sgl_kernel": project / "sgl_kernel"})
    found = place.look("12.0")
    for name in ("sgl-kernel", "sglang-kernel"):
        case = case_of(found, name)
        text = said(case, "import-claimed")
        assert "'sgl_kernel' is editable at" in text
        assert text.endswith("Python takes the copy")
        assert case.advice.action is Action.REINSTALL
    editable = case_of(found, "sglang-kernel")
    assert any("which is not its own" in remark.text for remark in editable.remarks)
    assert editable.advice.commands[0].endswith("uninstall --python "
        f"{place.python} sglang-kernel sgl-kernel")  # fmt: skip
    assert editable.advice.commands[1].endswith(f"-e {project}")


# ---- several claims, ghosts, leftovers


def test_two_distributions_that_wrote_the_same_files(place):
    """FIELD_CASES 106 and 108: the later one's bytes lie there now."""
    place.kernels("sgl-kernel", "0.3.21", "12.0a", package="sgl_kernel")
    place.kernels("sglang-kernel", "0.4.7", "9.0a", "12.0a", package="sgl_kernel")
    found = place.look("12.0", sandbox=False)
    old = case_of(found, "sgl-kernel")
    text = said(old, "import-claimed")
    assert "2 files in the RECORD of both sgl-kernel and sglang-kernel" in text
    assert text.endswith("its files are those of sglang-kernel")
    assert (
        old.advice.commands[1] == "# sgl-kernel is called sglang-kernel now: install that one again"
    )


def test_a_namespace_that_is_shared_is_no_claim(place):
    place.install("nv-one", "1.0", {"nv/one/lib.py": ""})
    place.install("nv-two", "1.0", {"nv/two/lib.py": "", "nv/__init__.py": "x = 1"})
    place.install("nv-three", "1.0", {"nv/three/lib.py": "", "nv/__init__.py": "x = 1"})
    assert place.look("12.0", sandbox=False).healthy


def test_what_an_interrupted_uninstall_leaves(place):
    place.kernels("half", "1.0", "12.0a")
    (place.site / "half/__init__.py").unlink()
    (place.site / "~alf-1.0.dist-info").mkdir()
    (place.site / "half-1.0.dist-info/METADATA").unlink()
    found = place.look("12.0", sandbox=False)
    case = case_of(found, "half")
    assert {"files-missing", "metadata-missing"} <= set(words(case))
    assert case.advice.action is Action.REINSTALL
    assert [trouble.word for trouble in found.troubles] == ["installer-leftover"]


def test_ghost_folders(place):
    (place.site / "sglang/__pycache__").mkdir(parents=True)
    (place.site / "sglang/__pycache__/x.cpython-311.pyc").write_bytes(b"")
    place.write("lost/ops.so", b"")
    found = place.look("12.0", sandbox=False)
    texts = [trouble.text for trouble in found.troubles]
    assert [trouble.word for trouble in found.troubles] == ["ghost-folder"] * 2
    assert "a namespace package, with 1 libraries" in texts[0]
    assert "an empty namespace package (1 files, none of them code)" in texts[1]
    assert not found.healthy


def test_two_builds_of_one_module(place):
    """A leftover with a longer name wins over the new one: UPSTREAM's loader globs."""
    from verify.targets import SUFFIX

    place.kernels("twice", "1.0", "12.0a")
    module(place.site / f"twice/ops{SUFFIX}", "9.0a")
    case = place.case("twice", "12.0", sandbox=False)
    text = said(case, "library-stale")
    assert f"Python imports ops{SUFFIX}" in text
    assert "ops.abi3.so" in text
    assert "is in no RECORD" in said(case, "library-unlisted")
    assert case.advice.action is Action.REINSTALL


def test_a_library_that_was_replaced_by_hand(place):
    place.kernels("patched", "1.0", "9.0a")
    module(place.site / "patched/ops.abi3.so", "12.0a")
    case = place.case("patched", "12.0", sandbox=False)
    assert "not as installed, by the digests of RECORD" in said(case, "library-replaced")
    assert case.answers[0].standing is Standing.SERVES


def test_parts_of_one_library_in_different_versions(place):
    """FIELD_CASES 110: the parts refuse each other when they are imported."""
    for name, version in (("python", "0.6.16"), ("cubin", "0.6.12")):
        place.install(f"flashinfer-{name}", version, {f"flashinfer_{name}/__init__.py": ""})
    case = place.case("flashinfer-python", "12.0", sandbox=False)
    assert "flashinfer-python 0.6.16, flashinfer-cubin 0.6.12" in said(case, "companions-differ")
    assert case.advice.action is Action.REINSTALL


def test_recipes_that_cannot_be_read_are_told(place, tmp_path):
    shutil.copytree(ROOT / "recipes", tmp_path / "recipes", ignore=shutil.ignore_patterns("locks"))
    (tmp_path / "recipes/broken.yaml").write_text("format: 2\n")
    place.kernels("sglang-kernel", "0.4.7", "10.0f", package="sgl_kernel")
    found = place.look("12.0", sandbox=False, recipes=(tmp_path / "recipes",))
    assert found.notes[0].startswith("recipe 'broken' is not read")
    assert any(note.startswith("the accepted gaps of recipe 'sgl-kernel'") for note in found.notes)
    assert case_of(found, "sglang-kernel").advice.recipe == "sgl-kernel"


@NEEDS_SANDBOX
def test_a_ghost_that_is_imported_instead(place, tmp_path):
    """A folder that an uninstall left in site-packages answers for the editable package."""
    project = checkout(tmp_path / "sglang") / "python"
    place.editable("sglang", "0.5.19", project, {"sglang": project / "sglang"})
    (place.site / "sglang/__pycache__").mkdir(parents=True)
    found = place.look("12.0")
    case = case_of(found, "sglang")
    assert "empty namespace package" in said(case, "import-foreign")
    assert case.advice.action is Action.REINSTALL
    assert [trouble.word for trouble in found.troubles] == ["ghost-folder"]


@NEEDS_SANDBOX
def test_a_namespace_package_of_its_own_has_no_file(place, tmp_path):
    folder = tmp_path / "work/space"
    folder.mkdir(parents=True)
    (folder / "inner.py").write_text("")
    place.write("__editable__.space-1.0.pth", f"{folder.parent}\n")
    direct = {"url": folder.parent.as_uri(), "dir_info": {"editable": True}}
    files = ["__editable__.space-1.0.pth"]
    place.record("space", "1.0", files, direct=direct, **{"top_level.txt": "space\n"})
    case = place.case("space")
    assert case.imports.modules == (("space", None),)
    assert (case.imports.answer, case.remarks) == (Answer.REACHED, ())


def test_a_claim_is_settled_before_anything_is_rebuilt(place):
    """What is found of the files may be found of the other's."""
    place.kernels("sgl-kernel", "0.3.21", "12.0a", package="sgl_kernel")
    place.kernels("sglang-kernel", "0.4.7", "9.0a", package="sgl_kernel")
    case = place.case("sglang-kernel", "12.0", sandbox=False)
    assert "code-missing" in words(case)
    assert case.remarks[0].word == "import-claimed"
    assert case.advice.action is Action.REINSTALL


def test_what_was_not_looked_at_serves_nobody_for_sure(place, monkeypatch):
    from kernforge.doctor import files

    place.kernels("large", "1.0", "12.0a")
    monkeypatch.setattr(files, "WALK_LIMIT", 1)
    found = place.look("12.0", sandbox=False)
    case = case_of(found, "large")
    assert (case.answers, case.advice.action) == ((), Action.KEEP)
    assert "not verified" in said(case, "folder-unseen")
    assert not found.healthy


def test_a_library_that_is_older_than_its_commit(place, tmp_path):
    import os

    top = tmp_path / "mine"
    library = module(top / "mykernels/ops.abi3.so", "12.0a")
    (top / "mykernels/__init__.py").write_text("")
    git(top, "init", "-q")
    git(top, "add", "mykernels/__init__.py")
    git(top, "commit", "-q", "-m", "first")
    place.editable("mykernels", "1.0", top, {"mykernels": top / "mykernels"})
    os.utime(library, (1_800_000_000, 1_800_000_000))
    assert "library-older" not in words(place.case("mykernels", sandbox=False))
    os.utime(library, (1_700_000_000, 1_700_000_000))
    case = place.case("mykernels", sandbox=False)
    assert said(case, "library-older").startswith("ops.abi3.so: compiled before the commit")
    assert case.advice.action is Action.KEEP


def test_a_copy_that_names_no_version(place):
    place.kernels("mine", "0.0.0.dev7+g1936256e0", "12.0a")
    case = place.case("mine", sandbox=False)
    assert case.installed.named_commit == "1936256e0"
    assert "its metadata says no more" in said(case, "version-unknown")
    assert case.advice.commands == (
        "# its records name no version: install it again from where it came",
    )


@pytest.mark.parametrize(
    "name", ["torch/lib/libodd.so", "torch/version.py", "nvidia/cu13/lib/libx.so.1"]
)
def test_a_pipe_among_the_libraries_stops_nobody(place, name):
    import os

    links = place.torch()
    body = "extern void _ZN3c104lockEj(void); _ZN3c104lockEj();"
    place.kernels("good", "1.0", "12.0a", body=body, options=links)
    (place.site / name).parent.mkdir(parents=True, exist_ok=True)
    (place.site / name).unlink(missing_ok=True)
    os.mkfifo(place.site / name)
    for sandbox in (False, True):
        found = place.look("12.0", sandbox=sandbox)
        assert not found.healthy
        assert case_of(found, "good").imports.answer is Answer.NOT_VERIFIED or name.endswith(".py")
