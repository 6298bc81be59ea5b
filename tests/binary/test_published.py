"""Golden values of published wheels, and agreement with NVIDIA's cuobjdump on every library."""

import subprocess
from collections import Counter

import pytest

from kernforge.binary.codec import from_json, to_json
from kernforge.binary.facts import ImageKind, State
from kernforge.binary.library import read_library_file
from kernforge.binary.summary import arch_summaries, kernel_names
from kernforge.binary.thing import read_thing
from kernforge.binary.wheel import read_wheel

from .published import cuobjdump, unpacked, wheel

pytestmark = pytest.mark.network

OLD, MIDDLE, NEW = "sgl-kernel==0.2.0", "sgl-kernel==0.3.21", "sglang-kernel==0.4.10"
SIX = ("8.0", "8.9", "9.0", "9.0a", "10.0a", "12.0a")


def library(spec, path):
    return read_library_file(unpacked(spec) / path, path)


def kernels(facts):
    return {row.label: row.kernels for row in arch_summaries(facts)}


def test_sgl_kernel_0_2_0_has_ten_kernels_without_7_5_though_every_module_lists_it():
    facts = library(OLD, "sgl_kernel/common_ops.abi3.so")
    assert (facts.modules, len(kernel_names(facts))) == (45, 518)
    assert kernels(facts) == {"7.5": 508, "8.0": 518, "8.9": 518, "9.0": 518, "9.0a": 518}
    assert {row.images for row in arch_summaries(facts)} == {45}


def test_sgl_kernel_0_3_21_has_every_kernel_for_six_archs():
    facts = library(MIDDLE, "sgl_kernel/sm100/common_ops.abi3.so")
    assert facts.modules == 74
    assert kernels(facts) == dict.fromkeys(SIX, 2534)


def test_sgl_kernel_0_3_21_flash_ops_has_nothing_for_12_0():
    facts = library(MIDDLE, "sgl_kernel/flash_ops.abi3.so")
    assert kernels(facts) == dict.fromkeys(("8.0", "8.6", "9.0a"), 3605)


def test_sgl_kernel_0_3_21_spatial_ops_has_images_and_no_kernel():
    facts = library(MIDDLE, "sgl_kernel/spatial_ops.abi3.so")
    assert kernels(facts) == dict.fromkeys(SIX, 0)
    assert (len(facts.images), facts.state) == (6, State.DEVICE_CODE)


def test_sglang_kernel_0_4_10_is_for_the_family_of_10_0_and_not_for_10_0():
    facts = library(NEW, "sgl_kernel/sm100/common_ops.abi3.so")
    assert kernels(facts) == dict.fromkeys(("8.0", "8.9", "9.0", "9.0a", "10.0f", "12.0a"), 995)
    assert kernels(library(NEW, "sgl_kernel/flashmla_ops.abi3.so"))["10.3a"] == 105


def test_sglang_kernel_0_4_10_has_128_kernels_with_traps_for_12_0a():
    facts = library(NEW, "sgl_kernel/sm100/common_ops.abi3.so")
    assert {row.label: row.trapping for row in arch_summaries(facts)}["12.0a"] == 128


def test_a_module_of_one_python_under_an_abi3_tag_is_found():
    facts = read_wheel(wheel(NEW), kernels=False)
    assert [f.word for f in facts.findings] == ["tag-python"]
    assert "infllm_ops.cpython-310" in facts.findings[0].text


@pytest.mark.parametrize("spec", [OLD, MIDDLE, NEW])
def test_a_wheel_reads_as_its_unpacked_files_do(spec):
    facts = read_wheel(wheel(spec))
    folder = {lib.path: lib for lib in read_thing(str(unpacked(spec))).libraries}
    assert {lib.path: lib for lib in facts.libraries} == folder
    assert from_json(to_json(facts)) == facts


def listed(path):
    """(kind, arch, entry functions) of every image, as cuobjdump tells them."""
    command = (cuobjdump(), "-all", "--dump-elf-symbols", path)
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    images = []
    for line in done.stdout.splitlines():
        words = line.split()
        if line.startswith("Fatbin "):
            images.append([words[1], "", []])
        elif line.startswith("arch = "):
            images[-1][1] = words[2]
        elif line.startswith("FUNC") and " ENTRY " in line:
            images[-1][2].append(words[-1])
    return [(kind, arch, tuple(sorted(names))) for kind, arch, names in images], done


def ours(facts):
    kinds = {ImageKind.CUBIN: "elf", ImageKind.PTX: "ptx"}
    for image in facts.images:
        names = image.kernels if image.kind is ImageKind.CUBIN else ()
        yield kinds[image.kind], f"sm_{image.arch.code}", tuple(k.name for k in names)


# CUDA 11.8 (spconv, bitsandbytes), 12.1 to 12.9 (sgl-kernel, bitsandbytes, curand, cusparse,
# ctranslate2, nccl), 13.0 to 13.2 (torch, torchvision, torchao, bitsandbytes).
TEN = (
    "torch==2.14.1",
    "torchvision==0.29.1",
    "bitsandbytes==0.50.2",
    "ctranslate2==4.8.5",
    "nvidia-curand-cu12==10.3.10.19",
    "nvidia-nccl-cu12==2.32.3",
    "nvidia-cusparse-cu12==12.5.10.65",
    "spconv-cu118==2.3.8",
    "torchao==0.18.0",
    "xformers==0.0.35",
)
# cuobjdump 13.5 stops at the third image of this one; see below.
REFUSED = {"bitsandbytes/libbitsandbytes_cuda121.so"}


@pytest.mark.parametrize("spec", [OLD, MIDDLE, NEW, *TEN])
def test_every_library_agrees_with_cuobjdump(spec):
    facts = read_thing(str(unpacked(spec)))
    assert facts.findings == ()
    compared = 0
    for each in facts.libraries:
        assert each.findings == ()
        theirs, done = listed(unpacked(spec) / each.path)
        if each.path in REFUSED:
            assert "Invalid ELF" in done.stdout + done.stderr
            continue
        assert Counter(theirs) == Counter(ours(each)), each.path
        compared += bool(theirs)
        if each.state is State.HOST_ONLY:
            assert "does not contain device code" in done.stdout + done.stderr
    assert compared


def test_a_library_that_cuobjdump_refuses_reads_as_its_sibling_of_another_release():
    """The same sources compiled by CUDA 11.8 and 12.1 give the same kernels for each arch."""
    spec = "bitsandbytes==0.50.2"
    refused, sibling = (
        library(spec, f"bitsandbytes/libbitsandbytes_cuda{release}.so") for release in (121, 118)
    )
    assert kernels(refused) == kernels(sibling)
    assert kernel_names(refused) == kernel_names(sibling)
