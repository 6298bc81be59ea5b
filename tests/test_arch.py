"""Architectures: the grammar, order, coverage, JIT, and which CUDA compiles what."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernforge import arch as module
from kernforge.arch import (
    Arch,
    Coverage,
    Device,
    canonical,
    covers,
    cuda_problem,
    format_archs,
    jit_serves,
    parse_arch,
    parse_archs,
    parse_cuda,
    parse_device,
)
from kernforge.errors import RecipeError

KNOWN = [
    "7.5", "8.0", "8.6", "8.7", "8.8", "8.9", "9.0", "9.0a", "10.0", "10.0a", "10.0f", "10.3",
    "10.3a", "10.3f", "11.0", "11.0a", "11.0f", "12.0", "12.0a", "12.0f", "12.1", "12.1a", "12.1f",
]  # fmt: skip
WITH_PTX = [text + ptx for text in KNOWN for ptx in ("", "+PTX")]
ARCH = st.sampled_from(WITH_PTX).map(parse_arch)
DEVICES = [Device(major=a, minor=b) for a, b in sorted({parse_arch(t).number for t in KNOWN})]
DEVICE = st.sampled_from(DEVICES)


@pytest.mark.parametrize("text", WITH_PTX)
def test_text_of_an_arch_reads_back(text):
    assert str(parse_arch(text)) == text


def test_parts():
    found = parse_arch("12.0a+PTX")
    assert (found.major, found.minor, found.suffix, found.ptx) == (12, 0, "a", True)
    assert found.device == Device(major=12, minor=0)
    assert str(found.device) == "12.0"


@pytest.mark.parametrize(
    ("text", "code", "cmake", "token", "gencode"),
    [
        ("9.0", "90", "90-real", "90", ["arch=compute_90,code=sm_90"]),
        ("12.0a", "120a", "120a-real", "120a", ["arch=compute_120a,code=sm_120a"]),
        ("10.0f", "100f", "100f-real", "100f", ["arch=compute_100f,code=sm_100f"]),
        (
            "12.0a+PTX",
            "120a",
            "120a",
            "120aptx",
            ["arch=compute_120a,code=sm_120a", "arch=compute_120a,code=compute_120a"],
        ),
    ],
)
def test_spellings(text, code, cmake, token, gencode):
    found = parse_arch(text)
    assert (found.code, found.cmake, found.token) == (code, cmake, token)
    assert found.gencode == tuple(f"-gencode={option}" for option in gencode)


@pytest.mark.parametrize(
    ("text", "word", "hint"),
    [
        ("120", "arch-invalid", "write 12.0"),
        ("120a", "arch-invalid", "write 12.0a"),
        ("90", "arch-invalid", "write 9.0"),
        ("sm_120", "arch-invalid", "write 12.0"),
        ("sm_120a", "arch-invalid", "write 12.0a"),
        ("compute_90", "arch-invalid", "write 9.0"),
        ("120a-real", "arch-invalid", "write 12.0a"),
        ("Blackwell", "arch-invalid", "names mean other chips"),
        ("hopper", "arch-invalid", "as 9.0a"),
        ("", "arch-invalid", "name at least one arch"),
        (" ", "arch-invalid", "name at least one arch"),
        ("12", "arch-invalid", "give the minor number too, as 12.0 or 12.1"),
        ("77", "arch-invalid", "give the minor number too, as 12.0"),
        ("12.0A", "arch-invalid", "write 12.0a"),
        ("12.0+ptx", "arch-invalid", "write 12.0+PTX"),
        ("12.0A+ptx", "arch-invalid", "write 12.0a+PTX"),
        ("'12.0'", "arch-invalid", "leave the inner quotes out: 12.0"),
        ('"12.0a"', "arch-invalid", "leave the inner quotes out: 12.0a"),
        ("12.0b", "arch-invalid", "write it as"),
        ("12.00", "arch-invalid", "write it as"),
        ("12.0af", "arch-invalid", "write it as"),
        ("12.0a ", "arch-invalid", "write it as"),
        ("१२.0", "arch-invalid", "write it as"),
        ("native", "arch-invalid", "write it as"),
        ("12.0\n", "arch-invalid", "write it as"),
        ("13.0", "arch-unknown", "known: 5.0"),
        ("9.1", "arch-unknown", "known: 5.0"),
        ("9.0f", "arch-unknown", "write 9.0"),
        ("8.9a", "arch-unknown", "write 8.9"),
    ],
)
def test_no_arch(text, word, hint):
    with pytest.raises(RecipeError, match=r"is not an arch|is no known GPU|has no ") as caught:
        parse_arch(text)
    assert caught.value.word == word
    assert hint in (caught.value.hint or "")
    assert repr(text) in caught.value.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12.0a", "12.0a"),
        ("12.0a 9.0 12.0a", "9.0;12.0a"),
        ("9.0;12.0a", "9.0;12.0a"),
        ("12.0a,9.0", "9.0;12.0a"),
        (" 12.0a ;, 9.0 ", "9.0;12.0a"),
        ("10.0 9.0 12.0", "9.0;10.0;12.0"),
        ("9.0 9.0+PTX", "9.0+PTX"),
        ("9.0a+PTX 9.0", "9.0;9.0a+PTX"),
        ("12.0f 12.0a 12.0", "12.0;12.0a;12.0f"),
    ],
)
def test_lists_have_one_form(text, expected):
    assert format_archs(parse_archs(text)) == expected


@pytest.mark.parametrize("text", ["", " ", ";", " ;, "])
def test_an_empty_list(text):
    with pytest.raises(RecipeError, match="is not an arch") as caught:
        parse_archs(text)
    assert (caught.value.word, caught.value.hint) == (
        "arch-invalid",
        "name at least one arch, as 12.0a",
    )


def test_a_list_names_the_entry_that_is_wrong():
    with pytest.raises(RecipeError, match=r"^'sm_90' is not an arch"):
        parse_archs("12.0a;sm_90")


@settings(deadline=None)
@given(st.lists(ARCH), st.randoms(use_true_random=False))
def test_canonical_knows_no_order_and_is_stable(archs, random):
    found = canonical(archs)
    mixed = archs + archs[:2]
    random.shuffle(mixed)
    assert canonical(mixed) == found == canonical(found)
    assert list(found) == sorted(set(found))


@settings(deadline=None)
@given(st.lists(ARCH, min_size=1))
def test_canonical_loses_no_code_and_no_ptx(archs):
    found = canonical(archs)
    assert {a.code for a in found} == {a.code for a in archs}
    assert {a.code for a in found if a.ptx} == {a.code for a in archs if a.ptx}
    assert len({a.code for a in found}) == len(found)


@settings(deadline=None)
@given(st.lists(ARCH, min_size=1))
def test_the_text_of_a_list_reads_back(archs):
    found = canonical(archs)
    assert parse_archs(format_archs(found)) == found
    assert hash(parse_archs(format_archs(found))) == hash(found)


@settings(deadline=None)
@given(ARCH, ARCH)
def test_order_is_total(one, two):
    assert (one < two) + (two < one) + (one == two) == 1


def test_order_is_by_number_not_by_text():
    assert parse_arch("9.0") < parse_arch("10.0")
    assert Device(major=9, minor=0) < Device(major=10, minor=0)


@settings(deadline=None)
@given(st.text(max_size=12))
def test_any_text_is_an_arch_or_one_of_our_errors(text):
    try:
        found = parse_arch(text)
    except RecipeError as error:
        assert error.word in {"arch-invalid", "arch-unknown"}  # noqa: PT017
        assert error.hint  # noqa: PT017
    else:
        assert str(found) == text


@pytest.mark.parametrize(("text", "expected"), [("12.0", (12, 0)), (" 9.0 ", (9, 0))])
def test_devices(text, expected):
    assert parse_device(text).number == expected


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("12.0a", "write 12.0"),
        ("12.0f+PTX", "write 12.0"),
        ("sm_120a", "write 12.0"),
        ("120", "write 12.0"),
        ("hopper", "as 9.0"),
        ("'12.0'", "inner quotes"),
        ("", "as 12.0"),
        ("gpu", "as 12.0"),
    ],
)
def test_no_device(text, hint):
    with pytest.raises(RecipeError, match="is not a device") as caught:
        parse_device(text)
    assert caught.value.word == "device-invalid"
    said = caught.value.hint or ""
    assert hint in said
    assert not any(word in said for word in ("0a", "0f", "PTX", "arch")), said


@pytest.mark.parametrize(("text", "expected"), [("13.0", (13, 0)), ("12.8", (12, 8))])
def test_cuda(text, expected):
    assert parse_cuda(text) == expected


@pytest.mark.parametrize("text", ["13", "cu130", "13.0.1", "", "13.0 "])
def test_no_cuda(text):
    with pytest.raises(RecipeError, match="is not a CUDA release") as caught:
        parse_cuda(text)
    assert (caught.value.word, caught.value.hint) == ("cuda-invalid", "as 13.0")


@pytest.mark.parametrize(
    ("image", "device", "expected"),
    [
        # plain: exactly, or newer within the major number
        ("12.0", "12.0", "exact"),
        ("12.0", "12.1", "expected"),
        ("12.1", "12.0", "none"),
        ("8.0", "8.6", "expected"),
        ("8.0", "8.9", "expected"),
        ("8.9", "8.6", "none"),
        ("9.0", "10.0", "none"),
        ("10.0", "12.0", "none"),
        # Tegra chips only exactly, in both directions
        ("8.0", "8.7", "none"),
        ("8.7", "8.9", "none"),
        ("8.7", "8.7", "exact"),
        ("11.0", "11.0", "exact"),
        # a: exactly its own
        ("9.0a", "9.0", "exact"),
        ("12.0a", "12.0", "exact"),
        ("12.0a", "12.1", "none"),
        ("10.0a", "10.3", "none"),
        # f: its family, at or above
        ("12.0f", "12.0", "exact"),
        ("12.0f", "12.1", "expected"),
        ("12.1f", "12.0", "none"),
        ("10.0f", "10.3", "expected"),
        ("10.3f", "10.0", "none"),
        ("10.0f", "11.0", "none"),
        ("10.0f", "12.0", "none"),
        # PTX beside the code changes nothing here
        ("9.0+PTX", "12.0", "none"),
    ],
)
def test_covers(image, device, expected):
    assert covers(parse_arch(image), parse_device(device)) == Coverage(expected)


@settings(deadline=None)
@given(ARCH)
def test_every_image_covers_its_own_device(image):
    assert covers(image, image.device) is Coverage.EXACT


@settings(deadline=None)
@given(ARCH, DEVICE)
def test_nothing_covers_another_major_or_an_older_device(image, device):
    if device.major != image.major or device < image.device:
        assert covers(image, device) is Coverage.NONE


@pytest.mark.parametrize("device", DEVICES, ids=str)
@pytest.mark.parametrize("number", ["9.0", "10.0", "10.3", "12.0", "12.1"])
def test_a_serves_no_more_than_f_and_f_no_more_than_plain(number, device):
    """Specific targets give up devices; they never win one."""
    served = [
        covers(parse_arch(number + suffix), device) is not Coverage.NONE
        for suffix in ("a", "f", "")
        if number != "9.0" or suffix != "f"
    ]
    assert served == sorted(served)


@pytest.mark.parametrize(
    ("ptx", "device", "expected"),
    [
        ("9.0", "12.0", True),
        ("12.0", "12.0", True),
        ("12.1", "12.0", False),
        ("9.0a", "9.0", True),
        ("9.0a", "10.0", False),
        ("12.0f", "12.1", True),
        ("12.0f", "12.0", True),
        ("10.0f", "12.0", False),
        ("8.7", "9.0", True),
    ],
)
def test_jit_serves(ptx, device, expected):
    assert jit_serves(parse_arch(ptx), parse_device(device)) is expected


@settings(deadline=None)
@given(ARCH, DEVICE)
def test_what_code_covers_its_ptx_serves_too(image, device):
    if covers(image, device) is not Coverage.NONE:
        assert jit_serves(image, device)


@pytest.mark.parametrize(
    ("text", "cuda", "said"),
    [
        ("12.0", "12.8", None),
        ("12.0", "12.6", "CUDA 12.6 is too old for 12.0: it needs 12.8 or newer"),
        ("12.0a", "12.8", None),
        ("12.0f", "12.8", "CUDA 12.8 is too old for 12.0f: it needs 12.9 or newer"),
        ("12.0f", "12.9", None),
        ("12.1", "12.8", "CUDA 12.8 is too old for 12.1: it needs 12.9 or newer"),
        ("9.0a", "11.8", "CUDA 11.8 is too old for 9.0a: it needs 12.0 or newer"),
        ("9.0", "11.8", None),
        ("7.0", "12.9", None),
        ("7.0", "13.0", "CUDA 13.0 is too new for 7.0: 13.0 dropped it"),
        ("7.5", "13.0", None),
        ("10.1", "12.9", None),
        ("10.1", "13.0", "CUDA 13.0 is too new for 10.1: 13.0 dropped it"),
        ("11.0", "12.9", "CUDA 12.9 is too old for 11.0: it needs 13.0 or newer"),
        ("11.0", "13.0", None),
    ],
)
def test_cuda_problem(text, cuda, said):
    assert cuda_problem(parse_arch(text), parse_cuda(cuda)) == said


@pytest.mark.parametrize("text", KNOWN)
def test_cuda_13_compiles_all_that_13_knows(text):
    assert cuda_problem(parse_arch(text), (13, 0)) is None


@settings(deadline=None)
@given(ARCH, st.tuples(st.integers(9, 14), st.integers(0, 9)))
def test_the_releases_that_compile_an_arch_are_one_stretch(found, cuda):
    releases = sorted({*itertools.product(range(9, 15), range(10)), cuda})
    fits = [cuda_problem(found, release) is None for release in releases]
    assert [key for key, _ in itertools.groupby(fits)].count(True) == 1


def test_every_family_and_tegra_chip_is_known():
    named = {n for first, rest in module._FAMILY.items() for n in (first, *rest)} | module._TEGRA
    assert named <= set(module._CUDA_OF)


def test_archs_are_values():
    assert len({parse_arch("12.0a"), Arch(major=12, minor=0, suffix="a")}) == 1
