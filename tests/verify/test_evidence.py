"""Kernels weighed: small cases for each rule, and the published wheels as calibration."""

import dataclasses

import pytest
from binary.forge import EXIT, TRAP, make_container, make_cubin, make_entry, make_library
from binary.published import unpacked
from hypothesis import given, settings
from hypothesis import strategies as st

from kernforge.arch import Arch, parse_arch, parse_device
from kernforge.binary.codec import from_json, to_json
from kernforge.binary.facts import Compression, Image, ImageKind, Kernel, Library
from kernforge.binary.library import read_library, read_library_file
from kernforge.verify.evidence import Service, grouped, tally, weigh

TEXT = "Attempting to use wgmma.fence without CUTE_ARCH_MMA_SM90A_ENABLED"
GEMM = "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalI21MainloopSm90TmaGmmaWarpEEEvv"
HMMA = bytes.fromhex("3c72000000000000") + bytes(8)
BLACKWELL = parse_device("12.0")


def image(arch, *, name="k", size=4096, traps=0, matrix=False, texts=(), kind=ImageKind.CUBIN):
    return Image(
        kind=kind,
        arch=parse_arch(arch),
        linked=kind is ImageKind.CUBIN,
        module=0,
        size=1,
        unpacked=1,
        compression=Compression.NONE,
        kernels=(Kernel(name=name, code_bytes=size, traps=traps, matrix=matrix),),
        refusals=tuple(texts),
    )


def library(*images):
    return Library(path="x.so", size=1, modules=1, images=images, elf=None, findings=())


def answer(*images, device=BLACKWELL):
    (only,) = weigh(library(*images), [device])
    return only


REAL = image("9.0a", size=40_000, matrix=True)


@pytest.mark.parametrize(
    ("here", "others", "service"),
    [
        (image("12.0a"), [], "serves"),
        (image("12.0a", traps=3), [], "serves"),
        (image("12.0a", traps=3), [REAL], "refuses"),
        (image("12.0a", size=256), [REAL], "refuses"),
        (image("12.0a", size=896), [REAL], "serves"),
        (image("12.0a", size=768), [image("9.0a", size=4000, matrix=True)], "serves"),
        (image("12.0a", texts=[TEXT]), [REAL], "doubtful"),
        (image("12.0a"), [REAL], "serves"),
        (image("12.0a", matrix=True, traps=3, texts=[TEXT]), [REAL], "doubtful"),
        (image("12.0a", matrix=True, traps=3), [REAL], "serves"),
        (
            image("12.0a", matrix=True, traps=3, texts=[TEXT]),
            [image("9.0a", matrix=True, traps=3)],
            "serves",
        ),
        (image("12.0a", matrix=True, traps=3, texts=[TEXT]), [], "serves"),
        (image("12.0a", traps=9, texts=[TEXT]), [], "doubtful"),
        (image("12.0a", traps=9, texts=[TEXT]), [image("9.0a", traps=9)], "serves"),
        (image("12.0a", traps=9, texts=[TEXT]), [image("9.0a", traps=2)], "doubtful"),
        (image("12.0a", size=640, traps=1, texts=[TEXT]), [], "refuses"),
        (image("12.0a", size=256), [image("9.0a", size=9000)], "doubtful"),
        (image("12.0a", size=256), [image("9.0a", size=900)], "serves"),
        (image("12.0a", name=GEMM, traps=9, texts=[TEXT]), [], "refuses"),
        (image("12.0a", name=GEMM, size=384), [], "refuses"),
        (image("12.0a", name=GEMM, traps=9), [], "serves"),
    ],
)
def test_each_rule(here, others, service):
    others = [dataclasses.replace(o, kernels=_renamed(o, here)) for o in others]
    assert answer(here, *others).service == service


def _renamed(other, like):
    return tuple(dataclasses.replace(k, name=like.kernels[0].name) for k in other.kernels)


def test_an_ordinary_assertion_accuses_nobody():
    """The same traps for every arch and no text of refusal: `assert` in device code."""
    archs = ("8.0", "9.0a", "12.0a")
    for device in ("8.0", "9.0", "12.0"):
        images = [image(arch, traps=4) for arch in archs]
        assert answer(*images, device=parse_device(device)).service is Service.SERVES


def test_the_reason_names_the_evidence():
    reason = answer(image("12.0a", traps=2, texts=[TEXT]), REAL).reason
    for part in ("4096 bytes", "12.0a", "2 traps", "9.0a has them in 40000 bytes", TEXT):
        assert part in reason


def test_the_narrowest_code_for_the_very_device_is_judged():
    bad = image("12.0a", traps=3)
    good = image("12.0", matrix=True)
    assert answer(bad, good).service is Service.REFUSES


def test_code_of_a_lower_minor_is_judged_where_nothing_nearer_is():
    images = (image("12.0", traps=3), REAL)
    assert answer(*images, device=parse_device("12.1")).service is Service.REFUSES


def test_the_worst_copy_of_a_kernel_counts():
    assert answer(image("12.0a"), image("12.0a", traps=3), REAL).service is Service.REFUSES


def test_ptx_alone_waits_for_the_driver():
    found = answer(image("9.0", kind=ImageKind.PTX))
    assert (found.service, found.reason) == (Service.JIT, "PTX of 9.0")


def test_code_for_other_devices_is_none():
    found = answer(image("9.0a"), image("9.0a", kind=ImageKind.PTX))
    assert (found.service, found.reason) == (Service.NONE, "only 9.0a, 9.0a+PTX")


def test_relocatable_code_does_not_count():
    loose = dataclasses.replace(image("12.0a"), linked=False)
    assert weigh(library(loose), [BLACKWELL]) == ()


ARCHS = st.sampled_from(["8.0", "9.0", "9.0a", "10.0f", "12.0", "12.0a", "12.0f"])
IMAGES = st.builds(
    image,
    ARCHS,
    size=st.sampled_from([256, 768, 4096, 60_000]),
    traps=st.integers(0, 30),
    matrix=st.booleans(),
    texts=st.sampled_from([(), (TEXT,)]),
    kind=st.sampled_from([ImageKind.CUBIN, ImageKind.PTX]),
)


@settings(deadline=None)
@given(st.lists(IMAGES, min_size=1, max_size=6))
def test_nothing_serves_a_device_without_code_for_it(images):
    exact = [i for i in images if i.kind is ImageKind.CUBIN and i.arch.number == (12, 0)]
    service = answer(*images).service
    assert (service in {Service.SERVES, Service.DOUBTFUL, Service.REFUSES}) == bool(exact)


@settings(deadline=None)
@given(st.lists(IMAGES, min_size=1, max_size=6))
def test_the_order_of_images_does_not_matter(images):
    assert answer(*images) == answer(*reversed(images))


def test_groups_are_by_family_and_the_largest_come_first():
    names = ("_Z4gemmILi1EEvv", "_Z4gemmILi2EEvv", "_Z3addv")
    found = weigh(library(*(image("9.0a", name=n) for n in names)), [BLACKWELL])
    groups = grouped(found)
    assert [(g.family, len(g.names)) for g in groups] == [("gemm", 2), ("add", 1)]


def test_the_tally_counts_every_answer():
    found = weigh(library(image("12.0a"), image("9.0a", name="other")), [BLACKWELL])
    counts = tally(found)[BLACKWELL]
    assert counts == {Service.SERVES: 1, Service.NONE: 1} | {
        s: 0 for s in Service if s not in {Service.SERVES, Service.NONE}
    }


def test_traps_and_matrix_instructions_are_read_from_code():
    code = {"a": TRAP + EXIT, "b": HMMA + EXIT, "c": EXIT}
    fatbin = make_container(make_entry(make_cubin(code), 120, suffix="a"))
    facts = read_library(make_library(fatbin=fatbin), "x.so")
    kernels = facts.images[0].kernels
    assert [(k.name, k.traps, k.matrix) for k in kernels] == [
        ("a", 1, False),
        ("b", 0, True),
        ("c", 0, False),
    ]
    assert from_json(to_json(facts)) == facts


def test_texts_of_refusal_survive_the_document():
    facts = library(image("12.0a", matrix=True, texts=[TEXT]))
    assert from_json(to_json(facts)) == facts


# What published wheels hold; each family was looked at with nvdisasm once.
CALIBRATION = [
    ("sglang-kernel==0.4.10", "sgl_kernel/sm100/common_ops.abi3.so", "12.0", (867, 0, 128)),
    ("sglang-kernel==0.4.10", "sgl_kernel/sm100/common_ops.abi3.so", "10.0", (899, 0, 96)),
    ("sglang-kernel==0.4.10", "sgl_kernel/sm100/common_ops.abi3.so", "9.0", (945, 2, 48)),
    ("sglang-kernel==0.4.10", "sgl_kernel/flashmla_ops.abi3.so", "9.0", (42, 0, 63)),
    ("sglang-kernel==0.4.10", "sgl_kernel/flashmla_ops.abi3.so", "10.0", (89, 0, 16)),
    ("sgl-kernel==0.3.21", "sgl_kernel/sm100/common_ops.abi3.so", "12.0", (2411, 0, 123)),
    ("sgl-kernel==0.3.21", "sgl_kernel/sm100/common_ops.abi3.so", "9.0", (2460, 16, 58)),
    ("bitsandbytes==0.50.2", "bitsandbytes/libbitsandbytes_cuda130.so", "12.0", (196, 0, 6)),
]


@pytest.mark.network
@pytest.mark.parametrize(("spec", "path", "device", "expected"), CALIBRATION)
def test_published_kernels(spec, path, device, expected):
    facts = read_library_file(unpacked(spec) / path, path)
    counts = tally(weigh(facts, [parse_device(device)]))[parse_device(device)]
    serving = (counts[Service.SERVES], counts[Service.DOUBTFUL], counts[Service.REFUSES])
    assert serving == expected


@pytest.mark.network
@pytest.mark.parametrize(
    ("spec", "suffix"), [("sglang-kernel==0.4.10", "a"), ("sgl-kernel==0.3.21", "a")]
)
def test_a_wheel_for_one_arch_is_judged_like_one_for_six(spec, suffix):
    """What kernforge itself builds holds no other arch to compare with."""
    path = "sgl_kernel/sm100/common_ops.abi3.so"
    facts = read_library_file(unpacked(spec) / path, path)
    arch = Arch(major=12, minor=0, suffix=suffix)
    alone = dataclasses.replace(facts, images=tuple(i for i in facts.images if i.arch == arch))
    services = {a.name: a.service for a in weigh(facts, [BLACKWELL])}
    assert {a.name: a.service for a in weigh(alone, [BLACKWELL])} == services


@pytest.mark.network
@pytest.mark.parametrize(
    ("spec", "path", "device"),
    [
        ("torchao==0.18.0", "torchao/_C_cutlass_90a.abi3.so", "9.0"),
        ("ctranslate2==4.8.5", "ctranslate2.libs/libctranslate2-a7a60d30.so.4.8.5", "8.0"),
    ],
)
def test_ordinary_libraries_are_not_accused(spec, path, device):
    facts = read_library_file(unpacked(spec) / path, path)
    counts = tally(weigh(facts, [parse_device(device)]))[parse_device(device)]
    assert counts[Service.SERVES] > 0
    assert counts[Service.REFUSES] == 0
