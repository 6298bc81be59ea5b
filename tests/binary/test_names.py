import pytest

from kernforge.binary.names import plain_name


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("_Z1kv", "_Z1kv"),
        (
            "_ZN3cub17CUB_200200_SM_900_NS11EmptyKernelIvEEvv",
            "_ZN3cub3CUB11EmptyKernelIvEEvv",
        ),
        (
            "_ZN3cub17CUB_200200_SM_90_NS_6KernelE",
            "_ZN3cub17CUB_200200_SM_90_NS_6KernelE",  # another identifier that only begins so
        ),
        (
            "_ZN3cub35CUB_300001_SM_800_890_900_1000_120020BlockReduceE",
            "_ZN3cub3CUB20BlockReduceE",
        ),
        (
            "_ZN6thrust24THRUST_300001_SM_800_9008cuda_cubE",
            "_ZN6thrust6THRUST8cuda_cubE",
        ),
        ("_ZN3cub99CUB_300001_SM_80E", "_ZN3cub99CUB_300001_SM_80E"),
    ],
)
def test_the_arch_list_of_cub_is_taken_out(name, plain):
    assert plain_name(name) == plain


def test_kernels_of_libraries_for_other_archs_compare_equal():
    ours = "_ZN3cub20CUB_300001_SM_100_NS6KernelIiEEvv"
    theirs = "_ZN3cub26CUB_300001_SM_800_1200_NS6KernelIiEEvv"
    assert plain_name(ours.replace("20CUB", "21CUB")) == plain_name(
        theirs.replace("26CUB", "26CUB")
    )
