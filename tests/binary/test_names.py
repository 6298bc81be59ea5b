import pytest

from kernforge.binary.names import family, plain_name


def _mangled(space, kernel="6Kernel"):
    return f"_ZN3cub{len(space)}{space}{kernel}IiEEvv"


@pytest.mark.parametrize(
    "space",
    [
        "CUB_200200_SM_900_NS",
        "CUB_300001_SM_800_890_900_1000_1200",
        "CUB_300001_SM_1200",
        "CUB_101702_800_900_NS",
    ],
)
@pytest.mark.parametrize("kernel", ["6Kernel", "20BlockReduceAlgorithm", "_6Kernel"])
def test_the_arch_list_of_cub_is_taken_out(space, kernel):
    assert plain_name(_mangled(space, kernel)) == _mangled("CUB", kernel)


def test_the_arch_list_of_thrust_is_taken_out():
    name = "_ZN6thrust24THRUST_300001_SM_800_9008cuda_cub3runEv"
    assert plain_name(name) == "_ZN6thrust6THRUST8cuda_cub3runEv"


@pytest.mark.parametrize(
    "name",
    [
        "_Z1kv",
        "_Z17CUB_only_by_namev",
        "_ZN3cub31CUB_200200_SM_900_NS_of_my_ownEv",  # an identifier that only begins so
        "_ZN3cub99CUB_300001_SM_80E",  # a length that is not its own
        "_ZN3cub0CUB_300001_SM_80E",
    ],
)
def test_other_names_stay_as_they_are(name):
    assert plain_name(name) == name


def test_kernels_of_libraries_for_other_archs_compare_equal():
    ours = _mangled("CUB_300001_SM_1200")
    theirs = _mangled("CUB_300001_SM_800_900_1000_1200")
    assert plain_name(ours) == plain_name(theirs)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("_Z5scalePfi", "scale"),
        ("_ZN5flash7combineILi32ELb0EEEviPKi", "flash::combine"),
        (
            "_ZN7cutlass13device_kernelIN5flash8MainloopILi2EEEEEvNT_6ParamsE",
            "cutlass::device_kernel<flash::Mainloop>",
        ),
        (
            "_ZN7cutlass13device_kernelIN5flash4SafeINS1_3FwdIfEEEEEEvNT_6ParamsE",
            "cutlass::device_kernel<flash::Safe<flash::Fwd>>",
        ),
        ("_ZN12_GLOBAL__N_14pickIN2ns1AEEEPKT_S4_", "(anonymous namespace)::pick<ns::A>"),
        (_mangled("CUB_300001_SM_1200"), "cub::CUB::Kernel"),
        ("plain_c_name", "plain_c_name"),
        ("_ZQQ", "_ZQQ"),
    ],
)
def test_families(name, expected):
    assert family(name) == expected
