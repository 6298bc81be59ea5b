"""What a torch says of itself, on small folders laid out as torch's own."""

import pytest

from kernforge.arch import parse_archs
from kernforge.errors import ToolchainError
from kernforge.toolchain.torchfacts import check_torch, torch_archs, torch_cuda, torch_folder

VERSION = """\
from typing import Optional
__version__ = '2.14.1+cu130'
debug = False
cuda: Optional[str] = {cuda}
hip: Optional[str] = None
"""
EXTENSION = """\
def _flags():
    named_arches = {{'Ada': '8.9+PTX'}}
    supported_arches = ['7.5', '8.0', '8.6',
                        '8.9', '9.0', '9.0a'{more}]
    valid = supported_arches + [s + "+PTX" for s in supported_arches]
"""
NEWER = ", '10.0', '10.0a',\n        '12.0', '12.0a'"


@pytest.fixture
def torch(tmp_path):
    """Write a torch into an environment; answers the environment."""

    def write(cuda="'13.0'", more=NEWER, version=VERSION, extension=EXTENSION):
        folder = tmp_path / "env/lib/python3.11/site-packages/torch"
        (folder / "utils").mkdir(parents=True)
        (folder / "version.py").write_text(version.format(cuda=cuda))
        (folder / "utils/cpp_extension.py").write_text(extension.format(more=more))
        return tmp_path / "env"

    return write


def check(env, archs="12.0a", cuda="13.0"):
    return check_torch(env, cuda=cuda, listed=parse_archs(archs))


def test_a_torch_that_fits(torch):
    env = torch()
    assert check(env) is None
    assert torch_cuda(torch_folder(env)) == "13.0"
    assert torch_archs(torch_folder(env))[-2:] == ("12.0", "12.0a")


@pytest.mark.parametrize(
    ("line", "cuda"),
    [
        ("cuda: Optional[str] = '13.0'\n", "13.0"),
        ("cuda = '12.1'\n", "12.1"),
        ("cuda: str | None = '12.8'\n", "12.8"),
        ("cuda: Optional[str] = None\n", None),
        ("cuda = None\n", None),
        ("git_version = 'cuda'\n", None),
    ],
)
def test_spellings_of_the_release(torch, line, cuda):
    assert torch_cuda(torch_folder(torch(version=line))) == cuda


def test_no_torch(tmp_path):
    assert torch_folder(tmp_path) is None
    with pytest.raises(ToolchainError, match="holds no torch") as caught:
        check(tmp_path)
    assert caught.value.word == "torch-missing"


def test_a_torch_without_cuda(torch):
    with pytest.raises(ToolchainError, match="build without CUDA") as caught:
        check(torch(cuda="None"))
    assert caught.value.word == "torch-without-cuda"
    assert "name its index" in caught.value.hint


@pytest.mark.parametrize(("built", "target"), [("12.8", "13.0"), ("13.0", "12.8")])
def test_another_major_stops(torch, built, target):
    """Field cases 34 and 41: another major is an error, with both releases."""
    with pytest.raises(
        ToolchainError, match=f"CUDA {built}, the target is CUDA {target}"
    ) as caught:
        check(torch(cuda=f"'{built}'"), cuda=target)
    assert caught.value.word == "torch-cuda-mismatch"
    assert f"--cuda {built}" in caught.value.hint


def test_another_minor_is_told(torch):
    """Field case 41: a minor difference is a warning."""
    said = check(torch(cuda="'12.8'"), cuda="12.9")
    assert said == "torch is built with CUDA 12.8, the toolkit is 12.9"


@pytest.mark.parametrize("archs", ["8.6;12.0+PTX", "12.0a", "9.0;12.1"])
def test_torchs_table_is_too_old_though_the_compiler_is_not(torch, archs):
    """Field case 1: which of the two is too old, before anything compiles."""
    unknown = parse_archs(archs)[-1]
    with pytest.raises(ToolchainError, match=r"ends at 9\.0a and lacks") as caught:
        check(torch(more=""), archs=archs)
    assert caught.value.word == "torch-arch-unknown"
    assert caught.value.message.endswith(f"lacks {unknown}")
    assert "torch is too old" in caught.value.hint


def test_ptx_is_no_arch_of_its_own(torch):
    assert check(torch(), archs="8.6+PTX;12.0a+PTX") is None


def test_a_table_that_is_not_found_stops_nothing(torch):
    assert check(torch(extension="# rewritten {more}\n")) is None
