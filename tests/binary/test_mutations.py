"""Changed libraries are read without an error, in bounded memory, whatever was changed.

KERNFORGE_FUZZ_MUTATIONS sets how many changes the real libraries get in all (2,000 by default;
100,000 is the long run).
"""

import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kernforge.binary.library import read_library

from .forge import EXIT, TRAP, Dynamic, make_container, make_cubin, make_entry, make_library
from .mutation import Target, check, edits, raw, shorten
from .published import unpacked

_COUNT = int(os.environ.get("KERNFORGE_FUZZ_MUTATIONS", "2000"))
_SETTINGS = settings(
    max_examples=max(1, _COUNT // 20),
    deadline=None,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)

CUBIN = make_cubin({"k1": EXIT * 9, "k2": EXIT + TRAP}, device_functions=("helper",))
PTX = b".version 8.7\n.visible .entry k1()\n{ ret; }\n" * 9
CONTAINER = make_container(
    make_entry(CUBIN, 90, suffix="a"),
    make_entry(CUBIN, 120, suffix="f", pack="zstd"),
    make_entry(CUBIN, 86, pack="lz4"),
    make_entry(PTX, 90, kind=1, pack="zstd"),
)
DYNAMIC = Dynamic(
    needed=("libc.so.6", "libcudart.so.13"),
    soname="x",
    runpath="$ORIGIN",
    defined=("PyInit_x",),
    undefined=(("puts", "GLIBC_2.17", "libc.so.6", False), ("w", "GLIBC_2.34", "libc.so.6", True)),
)
FORGED = Target(
    "forged",
    make_library(fatbin=CONTAINER * 2, relfatbin=CONTAINER, extra=DYNAMIC.parts()),
)


def cuts(most):
    """How many bytes to cut off the end: mostly none."""
    return st.tuples(st.integers(0, 15), st.integers(1, most)).map(
        lambda t: t[1] if t[0] == 15 else 0
    )


@settings(max_examples=400, deadline=None)
@given(changes=edits, cut=cuts(len(FORGED.data)))
def test_forged_libraries(changes, cut):
    FORGED.check(changes, cut)


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=300))
@pytest.mark.parametrize("head", [b"\x7fELF\x02\x01", b"\x50\xed\x55\xba\x01\x00\x10\x00", b""])
def test_any_bytes(head, data):
    check(read_library(head + data, "x"))


@settings(max_examples=200, deadline=None)
@given(noise=st.binary(min_size=1, max_size=40), place=st.integers(0, len(CONTAINER)))
def test_noise_between_and_inside_containers(noise, place):
    data = CONTAINER[:place] + noise + CONTAINER[place:] + CONTAINER
    library = read_library(make_library(fatbin=data), "x")
    check(library)
    # Whatever the noise hit, the last container is whole and is read.
    assert [str(i.arch) for i in library.images[-4:]] == ["9.0a", "12.0f", "8.6", "9.0"]


REAL = [
    ("sglang-kernel==0.4.10", "sgl_kernel/spatial_ops.abi3.so"),
    ("sgl-kernel==0.3.21", "sgl_kernel/spatial_ops.abi3.so"),
    ("torchao==0.18.0", "torchao/_C_mxfp8.cpython-310-x86_64-linux-gnu.so"),
    ("torchao==0.18.0", "torchao/_C_cutlass_90a.abi3.so"),
    ("sgl-kernel==0.3.21", "lib/mscclpp.so.0.6.0"),
    ("sgl-kernel==0.3.21", "sgl_kernel/flashmla_ops.abi3.so"),
    ("torchvision==0.29.1", "torchvision/_C_stable.so"),
    ("torchvision==0.29.1", "torchvision.libs/libnvjpeg.36e11081.so.13"),
    ("bitsandbytes==0.50.2", "bitsandbytes/libbitsandbytes_cuda130.so"),
    ("xformers==0.0.35", "xformers/_C.so"),
]


@pytest.mark.network
@pytest.mark.parametrize("stored", ["as published", "raw"])
@pytest.mark.parametrize(("spec", "path"), REAL)
def test_real_libraries(spec, path, stored):
    data = (unpacked(spec) / path).read_bytes()
    target = Target(path, raw(data) if stored == "raw" else shorten(data))

    @_SETTINGS
    @given(changes=edits, cut=cuts(len(data) // 2))
    def run(changes, cut):
        target.check(changes, cut)

    run()
    print(f"{path} {stored}: {target.past_magic} of {target.count} past the magic")
    assert target.past_magic > 0.5 * target.count
