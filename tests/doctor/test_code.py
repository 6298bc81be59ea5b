"""A distribution's libraries against a device and a recipe, on libraries described by hand."""

import pytest
from doctor.places import ROOT
from images import TORN, device, image, library

from kernforge.doctor.code import Standing, answer
from kernforge.doctor.targets import load_recipes

COMMON = "sgl_kernel/sm100/common_ops.abi3.so"
HOPPER = "sgl_kernel/sm90/common_ops.abi3.so"
MLA = "sgl_kernel/flashmla_ops.abi3.so"


@pytest.fixture(scope="module")
def recipe():
    found, troubles = load_recipes([ROOT / "recipes"])
    assert troubles == ()
    return next(known for known in found if known.recipe.name == "sgl-kernel")


def standing(*libraries, on="12.0", known=None):
    return answer(libraries, device(on), known, evidence=True)


@pytest.mark.parametrize(
    ("images", "wanted"),
    [
        ([image("12.0a", "k")], Standing.SERVES),
        ([image("12.0f", "k")], Standing.SERVES),
        ([image("9.0a", "k")], Standing.NONE),
        ([image("9.0+PTX", "k")], Standing.JIT),
        ([image("12.0a", "k"), image("9.0a", "k", "other")], Standing.PARTLY),
        ([image("12.0a", "k", linked=False)], Standing.NONE),
        ([image("12.0a")], Standing.NONE),
    ],
)
def test_one_library(images, wanted):
    assert standing(library(*images)).standing is wanted


def test_a_library_that_is_torn_leaves_all_open():
    good = library(image("12.0a", "k"), path="a.so")
    torn = library(image("12.0a", "k"), path="b.so", findings=(TORN,))
    assert standing(good, torn).standing is Standing.UNREAD


@pytest.mark.parametrize(
    ("on", "wanted", "spared"),
    [
        ("12.0", Standing.SERVES, (MLA,)),
        ("12.1", Standing.NONE, (MLA,)),
        ("9.0", Standing.PARTLY, ()),
    ],
)
def test_what_a_recipe_builds_and_loads(recipe, on, wanted, spared):
    """On 9.0 the file for 9.0 is loaded, and FlashMLA is built for it: a gap there is a gap."""
    libraries = (
        library(image("12.0a", "k"), path=COMMON),
        library(image("9.0a", "k"), path=HOPPER),
        library(image("10.0f", "k"), path=MLA),
    )
    found = standing(*libraries, on=on, known=recipe)
    assert (found.standing, found.spared) == (wanted, spared)
    assert found.loaded == ((HOPPER if on == "9.0" else COMMON),)


def test_gaps_that_the_recipe_accepts_are_counted_apart(recipe):
    from dataclasses import replace

    names = ("_ZN7cutlass13device_kernelINS_4gemm14MainloopSm90TmaGmmaEEEvT_", "k")
    made = image("12.0a", *names)
    kernels = tuple(replace(k, traps=9 if k.name != "k" else 0) for k in made.kernels)
    one = library(replace(made, kernels=kernels), path=COMMON)
    plain, known = standing(one), standing(one, known=recipe)
    assert (plain.refusing, plain.accepted, plain.standing) == (1, 0, Standing.PARTLY)
    assert (known.refusing, known.accepted, known.standing) == (0, 1, Standing.SERVES)
