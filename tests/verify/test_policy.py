from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from images import TORN, archs, device, image, library

from kernforge.arch import Coverage, covers, jit_serves
from kernforge.binary.facts import Finding, ImageKind, State
from kernforge.binary.names import plain_name
from kernforge.verify.coverage import Service
from kernforge.verify.gaps import parse_baseline
from kernforge.verify.policy import LEVELS, Answer, Rules, judge

D120 = (device("12.0"),)
SERVES = library(image("12.0a", "k"))
HOST = library(path="pkg/host.so")


def rules(**changes) -> Rules:
    return Rules(**({"require": "code"} | changes))


def words(*libraries, devices=D120, findings=(), **changes) -> list[str]:
    verdict = judge(libraries, devices, rules(**changes), findings)
    assert verdict.passed is not bool(verdict.faults)
    return [fault.word for fault in verdict.faults]


def texts(*libraries, devices=D120, **changes) -> str:
    verdict = judge(libraries, devices, rules(**changes))
    return "\n".join(fault.text for fault in verdict.faults)


def test_a_wheel_that_serves():
    verdict = judge((SERVES, HOST), D120, rules())
    assert verdict.passed
    assert verdict.host_only == ("pkg/host.so",)
    assert dict(verdict.devices[0].levels) == {
        "code": Answer.REACHED, **dict.fromkeys(LEVELS[1:], Answer.NOT_VERIFIED)
    }  # fmt: skip
    assert verdict.devices[0].reached == "code"


@pytest.mark.parametrize("level", LEVELS[1:])
def test_no_level_above_code_is_called_reached(level):
    verdict = judge((SERVES,), D120, rules(require=level))
    assert not verdict.passed
    assert not verdict.faults


def test_expected_is_a_pass():
    assert words(library(image("8.0", "k")), devices=(device("8.6"),)) == []


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (library(image("9.0", "k")), "no code (1 kernels for other devices)"),
        (library(image("9.0+PTX", "k")), "only PTX"),
        (library(image("12.0a")), "images without a single kernel"),
        (library(image("12.0", "k", linked=False)), "no code"),
        (library(image("9.0", "a", "b"), image("12.0", "b")), "code for 1 of 2 kernels only; none for a"),
    ],
)  # fmt: skip
def test_what_falls_short(held, said):
    assert words(held) == ["code-missing"]
    assert said in texts(held)
    assert "device 12.0" in texts(held)


def test_one_library_that_falls_short_fails_the_wheel():
    other = library(image("9.0", "k"), path="pkg/other.so")
    verdict = judge((SERVES, other), D120, rules())
    assert not verdict.passed
    assert verdict.devices[0].reached is None


def test_a_fault_of_one_device_leaves_the_other():
    verdict = judge((SERVES,), (device("9.0"), device("12.0")), rules())
    assert [d.reached for d in verdict.devices] == [None, "code"]
    assert not verdict.passed


@pytest.mark.parametrize(
    ("held", "passes"),
    [
        (library(image("9.0+PTX", "k")), True),
        (library(image("9.0", "a", "b"), image("9.0+PTX", "a")), False),
        (library(image("12.0", "a"), image("9.0+PTX", "b")), True),
        (library(image("12.0", "a"), image("9.0", "a", "b")), False),
        (library(image("9.0a+PTX", "k")), False),
        (library(image("9.0+PTX")), False),
        (library(image("9.0+PTX", "k"), findings=(TORN,)), False),
    ],
)
def test_allow_jit(held, passes):
    assert judge((held,), D120, rules(allow_jit=True)).passed is passes


@pytest.mark.parametrize("extensions", [(), (("pkg/*.so", None),), (("*", archs("12.0a")),)])
def test_what_could_not_be_read_never_passes(extensions):
    torn = library(image("12.0a", "k"), findings=(TORN,))
    assert words(torn, extensions=extensions) == ["code-unread"]
    assert "an entry ends early" in texts(torn, extensions=extensions)


def test_kernels_that_were_not_read_never_pass():
    assert words(library(image("12.0a", read=False))) == ["code-unread"]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("member-garbled", ["wheel-damaged"]),
        ("member-duplicate", ["wheel-damaged"]),
        ("member-unsafe", ["wheel-damaged"]),
        ("findings-many", ["wheel-damaged"]),
        ("tag-platform", []),
        ("record-ghost", []),
    ],
)
def test_a_wheel_that_may_hold_more_than_was_read_does_not_pass(word, expected):
    assert words(SERVES, findings=(Finding(word=word, text="so"),)) == expected


def test_a_wheel_without_device_code():
    assert words(HOST) == ["code-missing"]
    assert words() == ["code-missing"]


def test_no_device_is_no_pass():
    assert not judge((SERVES,), (), rules()).passed


def test_the_longest_pattern_rules():
    old = library(image("9.0a", "k"), path="pkg/sm90/ops.so")
    patterns = (("pkg/*.so", None), ("pkg/sm90/*.so", archs("9.0a")))
    assert words(SERVES, old, extensions=patterns) == []
    assert words(SERVES, old, extensions=tuple(reversed(patterns))) == []
    assert words(SERVES, old, extensions=patterns[:1]) == ["code-missing"]


def test_a_pattern_that_matches_nothing():
    assert words(SERVES, extensions=(("pkg/*.so", None), ("gone/*", None))) == ["extension-missing"]


def test_a_library_that_no_pattern_names():
    other = library(image("12.0a", "k"), path="more/ops.so")
    assert words(SERVES, other, extensions=(("pkg/*.so", None),)) == ["extension-unnamed"]


def test_a_host_library_needs_no_pattern():
    assert words(SERVES, HOST, extensions=(("pkg/ops.so", None),)) == []


def test_a_library_that_lost_its_device_code():
    assert words(SERVES, HOST, extensions=(("pkg/*.so", None),)) == ["code-missing"]
    assert "expects device code and there is none" in texts(HOST, extensions=(("*", None),))


def test_an_empty_list_demands_nothing():
    other = library(image("9.0", "k"), path="other.so")
    patterns = (("pkg/ops.so", None), ("pkg/host.so", ()), ("other.so", ()))
    assert words(SERVES, HOST, other, extensions=patterns) == []


def test_declared_archs_must_each_be_held():
    held = library(image("9.0a", "k"), image("10.0a"), path="old.so")
    patterns = (("pkg/*", None), ("old.so", archs("9.0a", "10.0a", "12.0a")))
    assert words(SERVES, held, extensions=patterns) == ["target-missing", "target-missing"]


@pytest.mark.parametrize("declared", [archs("9.0a"), ()])
def test_a_device_that_no_library_holds_code_for_is_not_reached(declared):
    old = library(image("9.0a", "k"))
    assert words(old, extensions=(("*", declared),)) == ["code-missing"]
    assert "device 12.0" in texts(old, extensions=(("*", declared),))


def test_ptx_alone_reaches_a_device_only_where_it_may():
    ptx = library(image("9.0+PTX", "k"))
    assert words(ptx, extensions=(("*", ()),)) == ["code-missing"]
    assert words(ptx, extensions=(("*", ()),), allow_jit=True) == []


def test_targets_that_were_asked_for_must_be_there():
    held = library(image("12.0", "k"))
    assert words(held, archs=archs("12.0a")) == ["target-missing"]
    assert words(held, archs=archs("12.0+PTX")) == ["ptx-missing"]
    assert words(library(image("12.0", "k"), image("12.0+PTX", "k")), archs=archs("12.0+PTX")) == []


def test_exact_refuses_what_nobody_asked_for():
    held = library(image("12.0a", "k"), image("9.0"), image("12.0a+PTX", "k"))
    assert words(held, archs=archs("12.0a")) == []
    assert words(held, archs=archs("12.0a"), exact=True) == ["target-unrequested"]
    assert "holds 9.0, 12.0a+PTX, asked for was 12.0a" in texts(
        held, archs=archs("12.0a"), exact=True
    )


def test_required_kernels():
    both = library(image("12.0a", "_Z7rmsnormv", "_Z4treev"))
    assert words(both, required=("*rmsnorm*", "*tree*")) == []
    assert words(both, required=("*rmsnorm*", "*softmax*")) == ["kernel-missing"]
    assert "No library holds a kernel like '*softmax*'" in texts(both, required=("*softmax*",))


def test_a_required_kernel_of_another_device_is_absent():
    held = library(image("9.0", "norm"), path="old.so")
    patterns = (("pkg/*", None), ("old.so", archs("9.0")))
    assert words(SERVES, held, extensions=patterns, required=("norm",)) == ["kernel-absent"]


def test_a_required_kernel_may_be_ptx_where_jit_is_allowed():
    ptx = library(image("9.0+PTX", "norm"))
    assert words(ptx, required=("norm",), allow_jit=True) == []


def refusing(arch, *names):
    made = image(arch, *names)
    kernels = tuple(replace(kernel, code_bytes=640, traps=1) for kernel in made.kernels)
    return replace(made, kernels=kernels, refusals=("not implemented",))


def test_a_kernel_that_refuses_is_a_gap():
    """Its code is there, for the very device, and does nothing but trap."""
    held = library(image("12.0a", "good"), refusing("12.0a", "bad"))
    assert words(held) == ["kernel-refuses"]
    assert judge((held,), D120, rules()).served[0].service is Service.REFUSES


def test_ordinary_assertions_are_no_gap():
    held = image("12.0a", "k")
    asserting = replace(held, kernels=(replace(held.kernels[0], code_bytes=4096, traps=4),))
    assert words(library(asserting)) == []


GAPPED = library(image("12.0a", "good"), refusing("12.0a", "bad"), image("9.0a", "old"))


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ("", ["code-missing", "kernel-refuses"]),
        ("old", ["kernel-refuses"]),
        ("bad", ["code-missing"]),
        ("bad\nold", []),
        ("12.0 bad\n12.0 old", []),
        ("9.0 bad\n9.0 old", ["code-missing", "kernel-refuses"]),
    ],
)
def test_what_the_baseline_accepts_is_no_fault(lines, left):
    assert words(GAPPED, accepted=parse_baseline(lines)) == left


def test_a_library_of_accepted_gaps_alone_does_not_reach_a_device():
    held = library(refusing("12.0a", "bad"))
    assert words(held, accepted=parse_baseline("bad")) == ["code-missing"]
    assert "No library holds code for device 12.0" in texts(held, accepted=parse_baseline("*"))


def test_a_required_kernel_is_demanded_though_its_gap_is_accepted():
    assert words(GAPPED, accepted=parse_baseline("*"), required=("bad",)) == ["kernel-refuses"]


def test_lines_without_effect_are_told():
    verdict = judge((GAPPED,), D120, rules(accepted=parse_baseline("bad\nold\nclosed*")))
    assert verdict.passed
    assert verdict.notes == ("accepted_gaps: no gap is like 'closed*'",)


@pytest.mark.parametrize("libraries", [(), (HOST,)])
def test_where_no_device_code_is_needed(libraries):
    verdict = judge(libraries, D120, rules(device_code=False))
    assert verdict.passed
    assert dict(verdict.devices[0].levels)["code"] is Answer.NOT_NEEDED
    assert verdict.devices[0].reached is None


@pytest.mark.parametrize("extensions", [(), (("*", ()),)])
def test_device_code_that_is_not_needed_is_a_fault(extensions):
    assert words(SERVES, device_code=False, extensions=extensions) == ["code-unexpected"]


def test_what_could_not_be_read_is_a_fault_where_no_code_is_needed():
    assert words(library(findings=(TORN,)), device_code=False) == ["code-unread"]


ARCHS = ("8.0", "8.6", "8.7", "9.0", "9.0a", "10.0f", "12.0", "12.0a", "12.0f", "12.1",
         "8.0+PTX", "9.0+PTX", "9.0a+PTX", "12.0+PTX", "12.0f+PTX")  # fmt: skip
IMAGES = st.builds(
    lambda arch, names, linked, read: image(arch, *names, linked=linked, read=read),
    st.sampled_from(ARCHS),
    st.sets(st.sampled_from("abc")),
    st.booleans(),
    st.sampled_from((True, True, True, False)),
)
LIBRARIES = st.lists(
    st.builds(
        lambda images, findings: library(*images, findings=findings),
        st.lists(IMAGES, max_size=4),
        st.sampled_from(((), (), (), (TORN,))),
    ),
    max_size=3,
)
DEVICES = st.sets(st.sampled_from(("8.6", "8.7", "9.0", "12.0", "12.1")), min_size=1).map(
    lambda found: tuple(sorted(map(device, found)))
)


def usable(held, asked, *, jit):
    """Kernels that a device gets from a library, reckoned in another way than the product's."""
    found = set()
    for entry in held.images:
        code = entry.kind is ImageKind.CUBIN and entry.linked
        if code and covers(entry.arch, asked) is not Coverage.NONE:
            found |= {plain_name(kernel.name) for kernel in entry.kernels or ()}
        if jit and entry.kind is ImageKind.PTX and jit_serves(entry.arch, asked):
            found |= {kernel.name for kernel in entry.kernels or ()}
    return found


@given(libraries=LIBRARIES, devices=DEVICES, jit=st.booleans())
def test_never_a_false_pass(libraries, devices, jit):
    verdict = judge(tuple(libraries), devices, rules(allow_jit=jit))
    if not verdict.passed:
        return
    coded = [held for held in libraries if held.state is not State.HOST_ONLY]
    assert coded
    for held in coded:
        assert not held.findings
        usable_images = [i for i in held.images if i.serves_code or i.kind is ImageKind.PTX]
        every = {kernel.name for entry in usable_images for kernel in entry.kernels or ()}
        assert every
        for asked in devices:
            assert usable(held, asked, jit=jit) == every


@given(libraries=LIBRARIES, devices=DEVICES)
def test_a_library_more_never_heals_a_fault(libraries, devices):
    """But for `No library holds device code`, which is about all of them."""
    if not libraries:
        return
    before = judge(tuple(libraries[:-1]), devices, rules())
    after = judge(tuple(libraries), devices, rules())
    lasting = [fault for fault in before.faults if fault.text[:10] != "No library"]
    assert set(lasting) <= set(after.faults)
