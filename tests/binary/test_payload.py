import random
import struct

import pytest
import zstandard

from kernforge.binary.facts import Compression
from kernforge.binary.findings import GarbledError
from kernforge.binary.payload import Packed, check_size, unpacked

# 2 MB: unpacked into memory that is used again.
DATA = random.Random(1).randbytes(1000) * 2000 + random.Random(2).randbytes(100_000)


def packed(data, compression=Compression.ZSTD, size=None):
    return Packed(
        compression=compression,
        unpacked=len(data) if size is None else size,
        stored=memoryview(zstandard.ZstdCompressor().compress(data)),
    )


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9])
def test_each_payload_is_right_while_it_is_the_last_one_taken(count):
    """Memory is used again, so the bytes are compared before the next is taken."""
    sent = [bytes([n]) * 100 + DATA[: len(DATA) - n * 100_000] for n in range(count)]
    got = [bytes(content()) for _, content in unpacked([packed(d) for d in sent], whole=True)]
    assert got == sent


def test_an_error_of_one_payload_leaves_the_others():
    payloads = [packed(DATA), packed(DATA, size=len(DATA) + 1), packed(DATA)]
    results = []
    for _, content in unpacked(payloads, whole=True):
        try:
            results.append(len(content()))
        except GarbledError as error:
            results.append(error.word)
    assert results == [len(DATA), "image-unreadable", len(DATA)]


def test_the_reader_may_stop_early():
    iterator = unpacked([packed(DATA)] * 9, whole=True)
    _, content = next(iterator)
    assert len(content()) == len(DATA)
    iterator.close()


@pytest.mark.parametrize("size", [100, len(DATA)])
def test_the_head_is_enough_without_kernels(size):
    ((_, content),) = unpacked([packed(DATA[:size])], whole=False)
    assert bytes(content()[:64]) == DATA[:64]


@pytest.mark.parametrize("whole", [True, False])
def test_many_small_bombs_are_refused_together(whole):
    """A megabyte of zeros in 60 bytes is within the limit of one image, 1,100 of them are not."""
    bomb = packed(bytes(1 << 20))
    answers = []
    for _, content in unpacked([bomb] * 1100, whole=whole):
        try:
            content()
        except GarbledError as error:
            answers.append(error.word)
        else:
            answers.append("")
    assert set(answers[:1000]) == {""}
    assert set(answers[1050:]) == {"image-bomb"}


def _frame(declared):
    """A zstd frame of one empty raw block that declares another size."""
    return b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", declared) + b"\x01\x00\x00"


LIES = [
    (_frame(1 << 50), 100),
    (_frame(100), 100),
    (b"\x28\xb5\x2f\xfd\x00\x00", 100),
    (zstandard.ZstdCompressor().compress(DATA)[:9000], len(DATA)),
    (b"no zstd at all", 100),
    (b"", 0),
]


def _lie(stored, size):
    return Packed(compression=Compression.ZSTD, unpacked=size, stored=memoryview(stored))


@pytest.mark.parametrize(("stored", "size"), LIES)
def test_frames_that_lie_are_refused(stored, size):
    ((_, content),) = unpacked([_lie(stored, size)], whole=True)
    with pytest.raises(GarbledError, match=r"zstd|bytes unpacked"):
        content()


def test_a_head_that_is_no_zstd_is_refused():
    ((_, content),) = unpacked([_lie(b"no zstd at all", 100)], whole=False)
    with pytest.raises(GarbledError, match="zstd"):
        content()


def test_a_frame_that_does_not_say_its_size_is_bounded_by_the_entry():
    writer = zstandard.ZstdCompressor(write_content_size=False)
    stored = memoryview(writer.compress(DATA))
    payload = Packed(compression=Compression.ZSTD, unpacked=1 << 19, stored=stored)
    ((_, content),) = unpacked([payload], whole=True)
    with pytest.raises(GarbledError, match="zstd"):
        content()


@pytest.mark.parametrize(
    ("stored", "size"), [(1, 1 << 30), (1 << 29, 1 << 30), (10, (1 << 20) + 10_241)]
)
def test_sizes_of_no_real_image_are_refused(stored, size):
    with pytest.raises(GarbledError, match="claim to hold"):
        check_size(stored, size)


@pytest.mark.parametrize(("stored", "size"), [(0, 1 << 20), (1 << 20, 1 << 29), (10, 10)])
def test_sizes_of_real_images_pass(stored, size):
    assert check_size(stored, size) is None
