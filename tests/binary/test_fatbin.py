import struct

import pytest

from kernforge.arch import Arch
from kernforge.binary.facts import Compression, ImageKind, Kernel
from kernforge.binary.fatbin import FatbinReader
from kernforge.binary.findings import FindingLog

from .forge import EXIT, make_container, make_cubin, make_entry

CUBIN = make_cubin({"k": EXIT})
PTX = b".version 9.0\n.visible .entry k()\n{ ret; }\n" + b"// fill\n" * 20


def read(data, *, kernels=True, registered=True):
    log = FindingLog()
    reader = FatbinReader(log, kernels=kernels)
    reader.read(memoryview(data), registered=registered)
    return reader.modules, tuple(reader.images), [(f.word, f.text) for f in log.all]


@pytest.mark.parametrize("pack", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("kernels", [True, False])
def test_an_image_is_read_however_it_is_stored(pack, kernels):
    modules, (image,), findings = read(
        make_container(make_entry(CUBIN, 120, suffix="a", pack=pack)), kernels=kernels
    )
    assert (modules, findings) == (1, [])
    assert image.arch == Arch(major=12, minor=0, suffix="a")
    assert (image.kind, image.linked) == (ImageKind.CUBIN, True)
    assert image.compression == Compression(pack)
    assert image.unpacked == len(CUBIN)
    assert image.kernels == ((Kernel(name="k", code_bytes=16, traps=0),) if kernels else None)


@pytest.mark.parametrize(
    ("number", "suffix", "label"), [(75, "", "7.5"), (100, "f", "10.0f"), (121, "a", "12.1a")]
)
def test_arch_and_suffix(number, suffix, label):
    _, (image,), _ = read(make_container(make_entry(CUBIN, number, suffix=suffix)))
    assert image.label == label


def test_ptx_tells_version_and_entries():
    entry = make_entry(PTX, 90, kind=1, pack="zstd")
    _, (image,), findings = read(make_container(entry))
    assert not findings
    assert (image.label, image.isa, image.linked) == ("9.0+PTX", "9.0", False)
    assert [k.name for k in image.kernels] == ["k"]


def test_the_version_of_ptx_comes_from_the_header_where_the_text_is_not_read():
    entry = make_entry(PTX, 90, kind=1, major=8, minor=7)
    _, (image,), _ = read(make_container(entry), kernels=False)
    assert (image.isa, image.kernels) == ("8.7", None)


def test_relocatable_images_and_unregistered_sections_do_not_count_as_linked():
    relocatable = make_container(make_entry(make_cubin({"k": EXIT}, linked=False), 90))
    assert [i.linked for i in read(relocatable)[1]] == [False]
    assert [i.linked for i in read(make_container(make_entry(CUBIN, 90)), registered=False)[1]] == [
        False
    ]


def test_code_for_link_time_optimisation_is_told_apart():
    _, (image,), findings = read(make_container(make_entry(b"ir" * 40, 90, kind=8)))
    assert (image.kind, image.linked, image.kernels, findings) == (ImageKind.LTO, False, None, [])


def test_containers_follow_each_other_with_padding_between():
    one = make_container(make_entry(CUBIN, 90), make_entry(CUBIN, 120, suffix="a"))
    modules, images, findings = read(one + bytes(24) + one + bytes(8))
    assert (modules, findings) == (2, [])
    assert [(i.module, i.label) for i in images] == [
        (0, "9.0"),
        (0, "12.0a"),
        (1, "9.0"),
        (1, "12.0a"),
    ]


def test_many_large_images_are_unpacked_ahead_and_give_the_same():
    big = make_cubin({f"k{n}": bytes([n]) * 160_000 for n in range(8)})
    entries = [
        make_entry(big, 80 + n % 3, pack=("zstd", "lz4", "none")[n % 3], suffix="")
        for n in range(12)
    ]
    _, images, findings = read(make_container(*entries))
    assert not findings
    assert len({i.kernels for i in images}) == 1
    assert [i.arch.minor for i in images] == [n % 3 for n in range(12)]


GOOD = make_entry(CUBIN, 90)


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        (make_entry(CUBIN, 90, pack="zstd", unpacked=1 << 40), "image-bomb"),
        (make_entry(CUBIN, 90, pack="zstd", unpacked=1 << 21), "image-bomb"),
        (make_entry(CUBIN, 90, pack="zstd", unpacked=len(CUBIN) + 1), "image-unreadable"),
        (make_entry(CUBIN, 90, pack="lz4", unpacked=len(CUBIN) + 1), "image-unreadable"),
        (make_entry(CUBIN, 90, pack="lz4", unpacked=10), "image-unreadable"),
        (make_entry(CUBIN, 90, flags=0x8011, packed=100, unpacked=100), "image-unreadable"),
        (make_entry(CUBIN, 90, flags=0x2011, packed=100, unpacked=100), "image-unreadable"),
        (make_entry(CUBIN, 90, flags=0xA011, packed=100, unpacked=100), "image-garbled"),
        (make_entry(CUBIN, 90, packed=1 << 30), "image-garbled"),
        (make_entry(CUBIN, 0), "image-garbled"),
        (make_entry(CUBIN, 1 << 31), "image-garbled"),
        (make_entry(CUBIN[:300], 90), "elf-truncated"),
        (make_entry(b"not an ELF" * 20, 90), "elf-garbled"),
        (make_entry(CUBIN, 90, kind=77), "image-unknown"),
    ],
)
@pytest.mark.parametrize("kernels", [True, False])
def test_a_bad_entry_is_a_finding_and_the_rest_is_read(bad, word, kernels):
    _, images, findings = read(make_container(GOOD, bad, GOOD), kernels=kernels)
    words = [found for found, _ in findings]
    # Without kernels only the first bytes of an image are looked at.
    assert words in ([word], []) if not kernels else words == [word]
    assert images[0].linked
    assert images[-1].linked


def test_an_unreadable_image_covers_nothing():
    bad = make_entry(CUBIN, 90, flags=0x8011, packed=100, unpacked=100)
    _, (image,), _ = read(make_container(bad))
    assert (image.linked, image.kernels) == (False, None)


@pytest.mark.parametrize("wrong", [{"header": 8}, {"size": 1 << 60}, {"header": 1 << 31}])
def test_after_an_entry_of_impossible_size_the_next_container_is_read(wrong):
    bad = make_container(make_entry(CUBIN, 90, **wrong))
    modules, images, findings = read(bad + make_container(GOOD))
    assert (modules, [i.module for i in images]) == (2, [1])
    assert [word for word, _ in findings] == ["image-truncated"]


def test_a_container_that_ends_past_its_section_is_read_as_far_as_it_goes():
    _, images, findings = read(make_container(GOOD, size=1 << 50))
    assert len(images) == 1
    end = 16 + len(GOOD)
    text = f"container 0 ends at {(1 << 50) + 16}, what follows begins at {end}"
    assert findings == [("fatbin-truncated", text)]


@pytest.mark.parametrize("more", [-100, -1, 70, 1 << 40])
def test_a_container_that_lies_about_its_end_does_not_hide_the_next(more):
    size = len(GOOD) * 2 + more
    bad = make_container(GOOD, GOOD, size=size)
    modules, images, findings = read(bad + make_container(GOOD) * 2)
    assert modules == 3
    assert [i.module for i in images][-2:] == [1, 2]
    assert findings[0][0] in {"fatbin-truncated", "image-truncated"}


def test_a_header_of_another_size_is_no_container():
    modules, images, findings = read(make_container(GOOD, header=24) + make_container(GOOD))
    assert (modules, len(images)) == (1, 1)
    assert [word for word, _ in findings] == ["fatbin-garbled"]


@pytest.mark.parametrize(
    "data",
    [
        b"garbage" * 9,
        make_container(GOOD)[:12],
        b"\x50\xed\x55\xba",
        bytes(100) + b"x",
    ],
)
def test_bytes_that_are_no_fat_binary_are_told(data):
    modules, images, findings = read(data)
    assert (modules, images) == (0, ())
    assert [word for word, _ in findings] == ["fatbin-garbled"]


def test_nothing_at_all_is_fine():
    assert read(b"") == (0, (), [])
    assert read(bytes(64)) == (0, (), [])


def test_an_empty_container_counts_as_a_module():
    assert read(make_container()) == (1, (), [])


def test_a_flood_of_empty_containers_ends():
    modules, _, findings = read(make_container() * (1 << 18) + make_container(GOOD))
    assert modules == 1 << 18
    assert findings == [("images-many", "what follows 262144 images was not read")]


def test_findings_do_not_flood():
    bad = make_entry(CUBIN, 0)
    _, _, findings = read(make_container(*[bad] * 130))
    assert len(findings) == 101
    assert findings[-1] == ("findings-many", "30 more findings are not listed")


def test_the_size_of_an_image_leaves_padding_out():
    _, (image,), _ = read(make_container(make_entry(CUBIN + b"x", 90, pack="zstd")))
    packed = struct.unpack_from("<I", make_entry(CUBIN + b"x", 90, pack="zstd"), 16)[0]
    assert image.size == packed
