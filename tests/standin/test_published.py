"""The flagship's verify blocks, held against the published wheels of the same library.

The sources cannot be built here; that the published wheels are judged rightly shows that the
recipes demand what is really there. What published wheels hold beyond a recipe is added by name.
"""

from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache

import pytest
from binary.published import wheel
from projects import ROOT

from kernforge.arch import parse_archs, parse_device
from kernforge.binary.wheel import read_wheel
from kernforge.pipeline.judging import job_rules
from kernforge.recipe.load import load_recipe
from kernforge.recipe.matrix import expand
from kernforge.verify.coverage import Service, serve
from kernforge.verify.gaps import parse_baseline
from kernforge.verify.policy import judge

pytestmark = pytest.mark.network

OLD, FITS = "sgl-kernel==0.3.21", "sglang-kernel==0.4.6.post1"
"""What the published sglang 0.5.9 and 0.5.19 require."""
NEAR, NEW = "sglang-kernel==0.4.7", "sglang-kernel==0.4.10"
RECIPE = {OLD: "sgl-kernel-0.3", FITS: "sgl-kernel", NEAR: "sgl-kernel", NEW: "sgl-kernel"}
BEYOND = {
    OLD: (("_mscclpp*.so", ()),),
    FITS: (("sgl_kernel/flash_ops*.so", parse_archs("8.0;8.6;9.0a")),),
    NEAR: (("sgl_kernel/flash_ops*.so", parse_archs("8.0;8.6;9.0a")),),
    NEW: (("sgl_kernel/flash_ops*.so", parse_archs("8.0;8.6;9.0a")),),
}
BLACKWELL = parse_device("12.0")
COMMON = "sgl_kernel/sm100/common_ops.abi3.so"


@cache
def libraries(spec):
    return {library.path: library for library in read_wheel(wheel(spec)).libraries}


def recipe(spec):
    return load_recipe(ROOT / f"recipes/{RECIPE[spec]}.yaml")


@cache
def verdict(spec):
    (job,) = expand(recipe(spec))
    text = (ROOT / recipe(spec).verify.kernels.accepted_gaps).read_text()
    rules = job_rules(job, parse_baseline(text))
    rules = replace(rules, require="code", extensions=(*rules.extensions, *BEYOND[spec]))
    return judge(tuple(libraries(spec).values()), (BLACKWELL,), rules)


@pytest.mark.parametrize("spec", [OLD, FITS, NEAR])
def test_what_serves_passes(spec):
    assert verdict(spec).faults == ()
    assert verdict(spec).passed


def test_0_4_10_no_longer_holds_the_kernels_of_speculative_decoding():
    """They are compiled when first used there; the recipe's demand says so of each."""
    faults = verdict(NEW).faults
    assert {fault.word for fault in faults} == {"kernel-missing"}
    assert len(faults) == len(recipe(NEW).verify.kernels.required) == 6


@pytest.mark.parametrize("spec", [OLD, FITS, NEAR, NEW])
def test_flash_and_flashmla_serve_no_12_0_device(spec):
    served = {row.path: row.service for row in verdict(spec).served}
    names = {path.rpartition("/")[2].split(".")[0]: service for path, service in served.items()}
    assert names["flash_ops"] is names["flashmla_ops"] is Service.NONE
    assert names["common_ops"] is Service.REFUSES  # all have code; what refuses is accepted


@pytest.mark.parametrize("spec", [OLD, FITS, NEAR, NEW])
@pytest.mark.parametrize("device", ["9.0", "12.0"])
def test_the_loaders_file_is_there_and_serves(spec, device):
    (loader,) = recipe(spec).verify.loaders
    chosen = dict(loader)
    glob = chosen.get(device, chosen["default"])
    (path,) = [path for path in libraries(spec) if fnmatchcase(path, glob)]
    assert ("sm90" in path) is (device == "9.0")
    assert serve(libraries(spec)[path], parse_device(device)).service is Service.SERVES


@pytest.mark.parametrize("spec", [OLD, FITS, NEAR, NEW])
def test_the_accepted_gaps_are_exactly_the_kernels_that_trap(spec):
    lines = (ROOT / recipe(spec).verify.kernels.accepted_gaps).read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    found = [
        kernel
        for image in libraries(spec)[COMMON].images
        if str(image.arch) == "12.0a"
        for kernel in image.kernels
    ]
    trapping = {kernel.name for kernel in found if kernel.traps}
    accepted = {k.name for k in found if any(fnmatchcase(k.name, p) for p in patterns)}
    assert accepted == trapping
    if spec in {OLD, FITS}:
        assert all(any(fnmatchcase(name, p) for name in trapping) for p in patterns)
    assert len(trapping) == {OLD: 123, FITS: 136, NEAR: 124, NEW: 128}[spec]
