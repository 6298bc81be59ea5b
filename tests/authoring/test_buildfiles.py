"""What is read of a tree's build files."""

import pytest
from projects import ROOT

from kernforge.authoring.buildfiles import (
    MAX_BYTES,
    cached_options,
    declared,
    mentioned,
    near_option,
    options,
    read_build_files,
    revision,
)

STANDIN = ROOT / "tests/fixtures/standin/upstream/kernels/aot"


def test_build_files_are_read_and_others_are_not(tmp_path):
    for name in ("CMakeLists.txt", "cmake/a.cmake", "setup.py", ".gitmodules", "README.md", "a.cu"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "large.cmake").write_text("#" * (MAX_BYTES + 1))
    (tmp_path / "link.cmake").symlink_to("CMakeLists.txt")
    assert set(read_build_files(tmp_path)) == {
        "CMakeLists.txt", "cmake/a.cmake", "setup.py", ".gitmodules",
    }  # fmt: skip


def test_the_stand_ins_options_are_found():
    found = options(read_build_files(STANDIN))
    assert found == {
        "STANDIN_REAL_TORCH", "STANDIN_ENABLE_FP4", "STANDIN_ENABLE_FA3", "STANDIN_COMPILE_THREADS",
        "STANDIN_ARTIFACTORY",
    }  # fmt: skip
    assert {"CUDA_VERSION", "STANDIN_ENABLE_FP4"} <= mentioned(read_build_files(STANDIN))


@pytest.mark.parametrize(
    ("details", "named"),
    [
        ("GIT_REPOSITORY https://example.org/x GIT_TAG v1.0", "v1.0"),
        ("URL https://${HOST}/o/x/archive/abc123.tar.gz", "abc123"),
        ("URL https://example.org/o/x/archive/refs/tags/v2.0.zip", "v2.0"),
        ("URL https://example.org/x-3.0.tar.gz", ""),
    ],
)
def test_the_revision_is_in_the_pin_or_in_the_address(details, named):
    (each,) = declared({"CMakeLists.txt": f"FetchContent_Declare(x {details})"})
    assert revision(each) == named


def test_a_cache_knows_what_was_declared():
    text = "# a comment\n//help\nA:BOOL=ON\nB:UNINITIALIZED=1\nC-ADVANCED:INTERNAL=1\n"
    assert cached_options(text) == {"A", "C-ADVANCED"}


def test_the_nearest_option_is_named_and_a_far_one_is_not():
    assert (
        near_option("SGL_ENABLE_FA3", {"SGL_KERNEL_ENABLE_FA3", "OTHER"}) == "SGL_KERNEL_ENABLE_FA3"
    )
    assert near_option("ZZZ", {"OTHER"}) is None
