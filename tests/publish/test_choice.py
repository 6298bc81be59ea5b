"""The wheel that fits a machine, and the reason why each of the others does not."""

from dataclasses import replace

import pytest
from packaging.tags import parse_tag
from publish.offers import candidate, write_offer

from kernforge.errors import PublishError
from kernforge.publish.choice import Here, build_command, choose, expected_on, misfits
from kernforge.publish.listing import Claim

HERE = Here(
    devices=("12.0",),
    driver="13.1",
    python="3.11.7",
    tags=frozenset(parse_tag("py3-none-any") | parse_tag("cp311-cp311-linux_x86_64")),
    torch="2.14.1",
    torch_cuda="13.0",
)


@pytest.fixture
def wheel(tmp_path):
    return candidate(write_offer(tmp_path, torch="2.14.1")).listed


def claims(*devices, reached=1):
    levels = ("code", "links", "imports", "loads", "runs")
    answers = tuple((n, "reached" if i < reached else "not verified") for i, n in enumerate(levels))
    return tuple(Claim(device=device, levels=answers) for device in devices)


def test_it_fits(wheel):
    assert misfits(wheel, HERE) == ()
    assert choose("Tiny", (wheel,), HERE) == wheel


@pytest.mark.parametrize(
    ("change", "here", "reason"),
    [
        ({}, {"devices": ("10.0",)}, "serves GPUs 12.0, not 10.0"),
        ({}, {"devices": ("12.0", "9.0")}, "serves GPUs 12.0, not 9.0"),
        ({"require": "imports"}, {}, "does not reach 'imports' on 12.0"),
        ({}, {"driver": "12.9"}, "for CUDA 13.0, the driver is for 12.9"),
        ({}, {"torch_cuda": "12.9"}, "for CUDA 13.0, torch is built for 12.9"),
        ({}, {"torch_cuda": "none"}, "for CUDA 13.0, torch is built without CUDA"),
        ({}, {"torch": "2.13.0"}, "for torch 2.14, installed is 2.13.0"),
        ({}, {"python": "3.9.1"}, "for Python >=3.10, this is 3.9.1"),
        ({"file": "tiny-1-cp312-cp312-linux_x86_64.whl"}, {},
         "for cp312-cp312-linux_x86_64, which Python 3.11.7 does not take"),
        ({"yanked": "it hangs"}, {}, "taken back: it hangs"),
        ({"requires_python": "nonsense"}, {}, "for Python nonsense, this is 3.11.7"),
    ],
)  # fmt: skip
def test_why_it_does_not_fit(wheel, change, here, reason):
    assert misfits(replace(wheel, **change), replace(HERE, **here)) == (reason,)


def test_a_package_of_python_alone_fits_though_its_code_is_not_needed(wheel):
    """Its level `code` is nowhere reached, and nothing is missing."""
    (claim,) = claims("12.0", reached=0)
    plain = replace(claim, levels=(("code", "not needed"), *claim.levels[1:]))
    assert misfits(replace(wheel, require="code", claims=(plain,)), HERE) == ()


def test_what_is_not_known_is_no_reason(wheel):
    bare = replace(HERE, driver=None, torch=None, torch_cuda=None)
    assert misfits(wheel, bare) == ()


def test_a_newer_driver_and_another_minor_cuda_fit(wheel):
    assert misfits(replace(wheel, cuda="13.2"), HERE) == ()
    assert misfits(wheel, replace(HERE, driver="14.0")) == ()


def test_a_refusal_tells_every_reason_and_the_way_out(wheel):
    other = replace(wheel, file="tiny-2-py3-none-any.whl", claims=claims("9.0"))
    here = replace(HERE, devices=("10.3",))
    with pytest.raises(PublishError, match=r"None of 2 wheels of 'tiny' fits: GPU 10.3") as found:
        choose("tiny", (wheel, other), here)
    assert found.value.word == "no-wheel-fits"
    assert len(found.value.detail) == 2
    assert "`kernforge build tiny --arch 10.3a --torch 2.14.1 --python 3.11`" in found.value.hint


def test_the_newest_version_then_the_most_verified_then_the_narrowest(wheel):
    old = replace(wheel, file="tiny-1.9-py3-none-any.whl", claims=claims("12.0", reached=3))
    new = replace(wheel, file="tiny-1.10-py3-none-any.whl", claims=claims("12.0"))
    proven = replace(new, file="tiny-1.10+b-py3-none-any.whl", claims=claims("12.0", reached=2))
    wide = replace(proven, file="tiny-1.10+c-py3-none-any.whl", archs=("9.0", "12.0a"))
    assert choose("tiny", (new, old), HERE) == new
    assert choose("tiny", (new, old, proven, wide), HERE) == proven


def test_code_that_was_made_for_a_gpu_is_preferred_to_what_is_expected_to_run(wheel):
    here = replace(HERE, devices=("8.6",))
    (made,), (able,) = claims("8.6"), claims("8.6", reached=3)
    expected = replace(wheel, archs=("8.0",), claims=(replace(able, expected=True),))
    exact = replace(
        wheel, file="tiny-1.2.3+b-py3-none-any.whl", archs=("8.6", "9.0"), claims=(made,)
    )
    assert misfits(expected, here) == ()
    assert choose("tiny", (expected, exact), here) == exact
    assert expected_on(exact, here) is None
    assert choose("tiny", (expected,), here) == expected
    assert expected_on(expected, here).startswith("its code is for 8.0 and expected to run on 8.6 ")


def test_what_holds_no_device_code_serves_every_gpu(wheel):
    """As sglang itself: a wheel of Python alone."""
    levels = (("code", "not needed"), ("links", "reached"), ("imports", "reached"))
    pure = replace(wheel, require="imports", claims=(Claim(device="12.0", levels=levels),))
    assert misfits(pure, replace(HERE, devices=("9.0", "8.6"))) == ()
    kernels = replace(pure, claims=claims("12.0", reached=3))
    assert misfits(kernels, replace(HERE, devices=("9.0",))) == ("serves GPUs 12.0, not 9.0",)


def test_a_recipes_name_will_do(wheel):
    listed = replace(wheel, project="kernforge-tiny", recipe="tiny")
    assert choose("tiny", (listed,), HERE) == listed


def test_an_unknown_project_gets_the_nearest_name(wheel):
    with pytest.raises(PublishError, match="holds no 'tinny'") as found:
        choose("tinny", (wheel,), HERE)
    assert found.value.hint == "did you mean 'tiny'?"


def test_the_build_command_for_old_and_mixed_gpus():
    old = replace(HERE, devices=("8.6",), torch=None)
    assert build_command("demo", old) == "kernforge build demo --arch 8.6 --python 3.11"
    mixed = replace(HERE, devices=("8.6", "12.0"), torch=None)
    assert "--arch '8.6;12.0a'" in build_command("demo", mixed)
