"""A toolkit of the host: one root or a stop, hashed whole. Roots here are small, their nvcc a script.

A real root, and a real build with it, is in `tests/pipeline/test_toolkit_host.py`.
"""

import os
import shutil
from pathlib import Path

import pytest

from kernforge.errors import ToolchainError
from kernforge.process import SystemRunner
from kernforge.toolchain.host import Memory
from kernforge.toolchain.hostcuda import candidates, check_whole, choose_toolkit, link_toolkit

PATH = os.environ["PATH"]
NVCC = """\
#!/bin/sh
echo 'nvcc: NVIDIA (R) Cuda compiler driver'
echo 'Cuda compilation tools, release {release}, V{release}.93'
"""


def number(release):
    major, minor = release.split(".")
    return f"{major}{int(minor):02d}0"


def make_root(root, release, *, header=None, runtime=None, library=None):
    """A root whose parts say releases of their own."""
    for folder in ("bin", "nvvm/bin", "include", "lib64/stubs"):
        (root / folder).mkdir(parents=True)
    (root / "bin/nvcc").write_text(NVCC.format(release=release))
    (root / "bin/nvcc").chmod(0o755)
    for name in ("bin/ptxas", "bin/cudafe++", "bin/fatbinary", "bin/nvlink", "nvvm/bin/cicc"):
        (root / name).write_text(f"{name} {release}")
    for name, macro, said in (
        ("cuda.h", "CUDA_VERSION", header),
        ("cuda_runtime_api.h", "CUDART_VERSION", runtime),
    ):
        text = f"/* a header */\n#define {macro}  {number(said or release)}\n"
        (root / "include" / name).write_text(text)
    major = (library or release).split(".")[0]
    (root / f"lib64/libcudart.so.{major}").write_text(f"cudart {release}")
    (root / "lib64/stubs/libcuda.so").write_text("stub")
    return root


def choose(roots, release, tmp_path, path=PATH):
    memory = Memory(tmp_path / "memory")
    return choose_toolkit(tuple(roots), release, path=path, memory=memory, runner=SystemRunner())


def digest(root, tmp_path):
    return choose([root], "12.8", tmp_path).digest


@pytest.fixture
def root(tmp_path):
    return make_root(tmp_path / "cuda-12.8", "12.8")


def path_with(*folders):
    return os.pathsep.join([*(str(folder) for folder in folders), PATH])


# where roots are looked for


def test_a_named_root_comes_before_another_nvcc_on_path(tmp_path):
    """Field case 39: nvcc 11.5 of the distribution is first on PATH, CUDA_HOME names 12.8."""
    old = make_root(tmp_path / "distribution", "11.5")
    new = make_root(tmp_path / "local/cuda-12.8", "12.8")
    found = candidates((str(new), ""), path_with(old / "bin"), tmp_path / "local")
    assert found == (new,)
    assert choose(found, "12.8", tmp_path).root == new


def test_two_roots_in_the_system_and_none_named(tmp_path):
    """Field case 39, second variant: the release that the target asks for decides."""
    old = make_root(tmp_path / "local/cuda-11.5", "11.5")
    new = make_root(tmp_path / "local/cuda-12.8", "12.8")
    (tmp_path / "local/cuda").symlink_to("cuda-11.5")
    found = candidates(("", ""), str(tmp_path), tmp_path / "local")
    assert found == (old, new)
    assert choose(found, "12.8", tmp_path).root == new
    assert choose(found, "11.5", tmp_path).root == old


def test_the_root_of_nvcc_on_path_comes_before_the_systems(tmp_path):
    mine = make_root(tmp_path / "mine", "12.8")
    make_root(tmp_path / "local/cuda-12.8", "12.8")
    (tmp_path / "links").mkdir()
    (tmp_path / "links/nvcc").symlink_to(mine / "bin/nvcc")
    found = candidates(("", ""), str(tmp_path / "links"), tmp_path / "local")
    assert found[0] == mine


def test_a_script_that_calls_nvcc_is_no_root(tmp_path, root):
    (tmp_path / "tools/bin").mkdir(parents=True)
    script = tmp_path / "tools/bin/nvcc"
    script.write_text(f'#!/bin/sh\nexec {root}/bin/nvcc "$@"\n')
    assert candidates(("", ""), str(script.parent), tmp_path) == (root,)


def test_two_names_for_one_root_are_one(tmp_path, root):
    (tmp_path / "cuda").symlink_to(root)
    assert candidates((str(tmp_path / "cuda"), str(root)), "", tmp_path) == (root,)


def test_two_named_roots_are_a_stop(tmp_path):
    one, two = make_root(tmp_path / "one", "12.8"), make_root(tmp_path / "two", "12.8")
    with pytest.raises(ToolchainError, match="CUDA_HOME and CUDA_PATH name two toolkits") as caught:
        candidates((str(one), str(two)), "", tmp_path)
    assert caught.value.word == "toolkit-ambiguous"


# whether one holds together


def test_a_whole_root(root):
    assert check_whole(root, (("PATH", PATH),), SystemRunner()) == ("12.8", "lib64")


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"header": "11.5"}, "nvcc is 12.8, cuda.h is 11.5"),
        ({"runtime": "12.6"}, "nvcc is 12.8, cuda_runtime_api.h is 12.6"),
        ({"library": "11.5"}, "nvcc is 12.8, libcudart is 11"),
    ],
)
def test_parts_of_two_toolkits_are_a_stop(tmp_path, part, said):
    """Field case 39: nvcc 12 would compile while the link takes cudart 11."""
    root = make_root(tmp_path / "cuda", "12.8", **part)
    with pytest.raises(ToolchainError, match="is not one toolkit") as caught:
        choose([root], "12.8", tmp_path)
    assert caught.value.word == "toolkit-mixed"
    assert said in caught.value.message
    assert "CUDA_HOME" in caught.value.hint


@pytest.mark.parametrize("name", ["bin/nvcc", "bin/ptxas", "nvvm/bin/cicc", "include/cuda.h"])
def test_a_part_that_leads_elsewhere_is_a_stop(tmp_path, root, name):
    other = make_root(tmp_path / "other", "12.8")
    (root / name).unlink()
    (root / name).symlink_to(other / name)
    with pytest.raises(ToolchainError, match=f"{name} lies in {other}") as caught:
        choose([root], "12.8", tmp_path)
    assert caught.value.word == "toolkit-mixed"


def test_libraries_that_lie_elsewhere_are_a_stop(tmp_path, root):
    (tmp_path / "other").mkdir()
    shutil.move(root / "lib64", tmp_path / "other/lib64")
    (root / "lib64").symlink_to(tmp_path / "other/lib64")
    with pytest.raises(ToolchainError, match=f"lib64 lies in {tmp_path}/other/lib64"):
        choose([root], "12.8", tmp_path)


@pytest.mark.parametrize("name", ["bin/nvcc", "nvvm/bin/cicc", "include/cuda_runtime_api.h"])
def test_a_part_that_is_missing_is_a_stop(tmp_path, root, name):
    (root / name).unlink()
    with pytest.raises(ToolchainError, match=f"no whole toolkit: {name} is not there") as caught:
        choose([root], "12.8", tmp_path)
    assert caught.value.word == "toolkit-incomplete"


def test_no_runtime_library_is_a_stop(tmp_path, root):
    (root / "lib64/libcudart.so.12").unlink()
    with pytest.raises(ToolchainError, match="holds no libcudart") as caught:
        choose([root], "12.8", tmp_path)
    assert caught.value.word == "toolkit-incomplete"


def test_an_nvcc_that_does_not_say_its_release(tmp_path, root):
    (root / "bin/nvcc").write_text("#!/bin/sh\necho broken >&2; exit 1\n")
    with pytest.raises(ToolchainError, match="does not say its release: broken"):
        choose([root], "12.8", tmp_path)


def test_a_broken_one_does_not_stand_in_the_way_of_a_whole_one(tmp_path, root):
    broken = make_root(tmp_path / "broken", "11.5")
    (broken / "bin/nvcc").write_text("#!/bin/sh\nexit 1\n")
    assert choose([broken, root], "12.8", tmp_path).root == root


def test_none_of_the_release_names_what_is_there(tmp_path):
    """Field case 39: the choice is told, not guessed."""
    roots = [make_root(tmp_path / name, name) for name in ("11.5", "12.8")]
    with pytest.raises(ToolchainError, match=r"No CUDA 13\.0 toolkit is here: ") as caught:
        choose(roots, "13.0", tmp_path)
    assert caught.value.word == "toolkit-missing"
    assert f"11.5 in {roots[0]}; 12.8 in {roots[1]}" in caught.value.message
    assert "--cuda" in caught.value.hint


def test_the_only_one_of_another_release(tmp_path, root):
    with pytest.raises(ToolchainError, match=rf"No CUDA 13\.0 .*: 12\.8 in {root}"):
        choose([root], "13.0", tmp_path)


def test_none_at_all(tmp_path):
    with pytest.raises(ToolchainError, match="is here: none at all"):
        choose([], "13.0", tmp_path)


# its digest


@pytest.mark.parametrize(
    "name", ["bin/nvcc", "bin/ptxas", "nvvm/bin/cicc", "include/cuda.h", "lib64/libcudart.so.12"]
)
def test_any_byte_is_in_the_digest(tmp_path, root, name):
    before = digest(root, tmp_path)
    with (root / name).open("a") as file:
        file.write("\n")
    assert digest(root, tmp_path) != before


def test_a_file_more_or_a_link_elsewhere_is_in_the_digest(tmp_path, root):
    seen = [digest(root, tmp_path)]
    (root / "include/more.h").write_text("")
    seen.append(digest(root, tmp_path))
    (root / "include/link.h").symlink_to("more.h")
    seen.append(digest(root, tmp_path))
    (root / "include/link.h").unlink()
    (root / "include/link.h").symlink_to("cuda.h")
    seen.append(digest(root, tmp_path))
    assert len(set(seen)) == 4


def test_the_place_and_dates_are_not(tmp_path, root):
    before = digest(root, tmp_path)
    other = tmp_path / "elsewhere"
    shutil.copytree(root, other, symlinks=True)
    for path in other.rglob("*"):
        os.utime(path, (1, 1))
    assert digest(other, tmp_path) == before


def test_a_change_that_keeps_size_and_date_is_seen(tmp_path, root):
    """The kernel's time of the inode's change cannot be set back."""
    before = digest(root, tmp_path)
    path = root / "bin/ptxas"
    stamp, text = path.stat(), path.read_text()
    path.write_text(text.replace("ptxas", "PTXAS"))
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert digest(root, tmp_path) != before


def test_what_no_build_reads_is_not_hashed(tmp_path, root):
    before = digest(root, tmp_path)
    (root / "doc").mkdir()
    (root / "doc/manual.html").write_text("words")
    assert digest(root, tmp_path) == before


# what a build sees of it


def test_the_linked_root(tmp_path, root):
    toolkit = choose([root], "12.8", tmp_path)
    into = tmp_path / "linked"
    link_toolkit(
        toolkit, into, seen_as=str(root), compiler=shutil.which("gcc"), runner=SystemRunner()
    )
    assert "KERNFORGE_SHIMS" in (into / "bin/nvcc").read_text()
    assert (into / "bin/nvcc.real").read_bytes() == (root / "bin/nvcc").read_bytes()
    assert (into / "bin/ptxas").readlink() == root / "bin/ptxas"
    assert (into / "lib64/libcudart.so").resolve() == root / "lib64/libcudart.so.12"
    assert (into / "include/cuda.h").is_file()
    assert (into / "lib/stubs/libcuda.so").is_file()


def test_a_missing_driver_stub_is_made(tmp_path, root):
    shutil.rmtree(root / "lib64/stubs")
    header = root / "include/cuda.h"
    header.write_text(header.read_text() + "CUresult CUDAAPI cuInit(unsigned int Flags);\n")
    toolkit = choose([root], "12.8", tmp_path)
    into = tmp_path / "linked"
    link_toolkit(
        toolkit, into, seen_as=str(root), compiler=shutil.which("gcc"), runner=SystemRunner()
    )
    assert b"cuInit" in (into / "lib/stubs/libcuda.so").read_bytes()
    assert not (root / "lib64/stubs").exists()


def test_the_root_itself_is_never_written(tmp_path, root):
    before = {path: path.lstat().st_mtime_ns for path in root.rglob("*")}
    toolkit = choose([root], "12.8", tmp_path)
    link_toolkit(
        toolkit, tmp_path / "linked", seen_as=str(root), compiler=shutil.which("gcc"),
        runner=SystemRunner(),
    )  # fmt: skip
    assert {path: path.lstat().st_mtime_ns for path in root.rglob("*")} == before


def test_a_cuda_13_root_with_one_library_folder_for_targets(tmp_path, root):
    """The installer's layout: lib64 and include are links into targets."""
    targets = root / "targets/x86_64-linux"
    targets.mkdir(parents=True)
    for name, place in (("lib64", "lib"), ("include", "include")):
        shutil.move(root / name, targets / place)
        (root / name).symlink_to(Path("targets/x86_64-linux") / place)
    assert choose([root], "12.8", tmp_path).libraries == "lib64"
