"""The demo extension's CPU side, built with the host compiler and held against Python.

The real package runs over a library made of its CPU units alone, so no CUDA is needed. The references
below are written from the definition, by other means than the C++: doubles and `fsum`, exact
fractions, trees as lists of children.
"""

import ctypes
import importlib
import importlib.util
import math
import re
import shutil
import struct
import subprocess
import sys
from array import array
from fractions import Fraction
from itertools import chain
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

EXAMPLE = Path(__file__).parents[2] / "examples" / "rmsnorm"
CPU_UNITS = ("arguments.cpp", "cpu_rmsnorm.cpp", "cpu_verify_tree.cpp")
VERSION = "0.1.0+cu130.sm120a"
SIZES = {"fp32": 4, "fp16": 2, "bf16": 2}
# Relative: a whole step of the type, twice what the one rounding to it may cost.
STEPS = {"fp32": 2.0**-23, "fp16": 2.0**-10, "bf16": 2.0**-7}
TINIEST = {"fp32": 2.0**-149, "fp16": 2.0**-24, "bf16": 2.0**-133}

COMPILER = shutil.which("g++") or ""

pytestmark = pytest.mark.skipif(not COMPILER, reason="no host compiler")


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    site = tmp_path_factory.mktemp("site")
    folder = site / "kernforge_rmsnorm"
    shutil.copytree(EXAMPLE / "src" / "kernforge_rmsnorm", folder)
    units = [str(EXAMPLE / "csrc" / name) for name in CPU_UNITS]
    flags = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    library = folder / "libkernforge_rmsnorm.so"
    subprocess.run([COMPILER, *flags, *units, "-o", str(library)], check=True)
    info = site / "kernforge_rmsnorm_demo.dist-info"
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: kernforge-rmsnorm-demo\nVersion: {VERSION}\n"
    (info / "METADATA").write_text(metadata)
    sys.path.insert(0, str(site))
    yield importlib.import_module("kernforge_rmsnorm")
    sys.path.remove(str(site))
    for name in [name for name in sys.modules if name.split(".")[0] == "kernforge_rmsnorm"]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def smoke(package) -> ModuleType:
    spec = importlib.util.spec_from_file_location("rmsnorm_smoke", EXAMPLE / "smoke.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their own module up by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


# --- element types, by definition


def fp32(value: float) -> float:
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def bf16(value: float) -> float:
    """The nearer of the two bf16 neighbours of an fp32, the even one of two equally near."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    if not math.isfinite(value):
        return value
    low = bits & 0xFFFF0000
    near, far = (struct.unpack("<f", struct.pack("<I", b))[0] for b in (low, low + 0x10000))
    # Beyond the largest finite value the next step counts as if the exponent went on.
    edge = Fraction(2) ** 128 if math.isinf(far) else abs(Fraction(far))
    below, above = abs(Fraction(value)) - abs(Fraction(near)), edge - abs(Fraction(value))
    if below == above:
        return far if low & 0x10000 else near
    return near if below < above else far


def fp16(value: float) -> float:
    try:
        return struct.unpack("<e", struct.pack("<e", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


ROUNDED = {"fp32": fp32, "fp16": fp16, "bf16": bf16}


def decode(dtype: str, raw: bytes) -> list[float]:
    if dtype == "bf16":
        raw = b"".join(b"\0\0" + raw[i : i + 2] for i in range(0, len(raw), 2))
    code = "e" if dtype == "fp16" else "f"
    return list(struct.unpack(f"<{len(raw) // struct.calcsize(code)}{code}", raw))


def encode(dtype: str, values: list[float]) -> bytearray:
    code = "e" if dtype == "fp16" else "f"
    raw = struct.pack(f"<{len(values)}{code}", *(ROUNDED[dtype](v) for v in values))
    if dtype == "bf16":
        raw = b"".join(raw[i + 2 : i + 4] for i in range(0, len(raw), 4))
    return bytearray(raw)


def same(got: float, want: float) -> bool:
    return got == want or (math.isnan(got) and math.isnan(want))


# --- RMSNorm


def norm_call(package, kind, arrays, **changes):
    """A call over lists of numbers; `rows` and `hidden` follow from them."""
    hidden = len(arrays["weight"])
    encoded = {name: encode(kind, values) for name, values in arrays.items()}
    values = {
        "out": bytearray(len(encoded["input"])),
        "rows": len(arrays["input"]) // hidden,
        "hidden": hidden,
        "dtype": kind,
        **encoded,
        **changes,
    }
    return package.RmsnormCall(**values)


def norm_by_definition(x: list[float], weight: list[float], epsilon: float) -> list[float]:
    out = []
    for start in range(0, len(x), len(weight)):
        row = x[start : start + len(weight)]
        rms = math.sqrt(math.fsum(v * v for v in row) / len(row) + epsilon)
        out += [v / rms * w for v, w in zip(row, weight, strict=True)]
    return out


@st.composite
def norm_problems(draw):
    dtype = draw(st.sampled_from(sorted(SIZES)))
    rows, hidden = draw(st.integers(0, 3)), draw(st.integers(1, 24))
    number = st.floats(-64, 64, width=32).map(ROUNDED[dtype])

    def numbers(count):
        return draw(st.lists(number, min_size=count, max_size=count))

    arrays = {"input": numbers(rows * hidden), "weight": numbers(hidden)}
    if draw(st.booleans()):
        arrays["residual"] = numbers(rows * hidden)
    return dtype, arrays


@given(problem=norm_problems())
def test_rmsnorm_equals_the_definition(package, problem):
    dtype, arrays = problem
    call = norm_call(package, dtype, arrays, epsilon=1e-3)
    package.rmsnorm_cpu(call)
    x = arrays["input"]
    if "residual" in arrays:
        x = [ROUNDED[dtype](fp32(a + b)) for a, b in zip(x, arrays["residual"], strict=True)]
        assert decode(dtype, call.residual) == x
    want = norm_by_definition(x, arrays["weight"], fp32(1e-3))
    for got, expected in zip(decode(dtype, call.out), want, strict=True):
        assert abs(got - expected) <= STEPS[dtype] * abs(expected) + TINIEST[dtype]


@given(pair=st.tuples(st.integers(0, 0xFFFF), st.integers(0, 0xFFFF)))
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_a_residual_sum_is_rounded_to_the_nearest_even(package, dtype, pair):
    raw_input, raw_residual = (bytearray(struct.pack("<H", bits)) for bits in pair)
    (a,), (b,) = decode(dtype, raw_input), decode(dtype, raw_residual)
    call = norm_call(
        package, dtype, {"input": [0], "weight": [1]}, input=raw_input, residual=raw_residual
    )
    package.rmsnorm_cpu(call)
    assert same(decode(dtype, call.residual)[0], ROUNDED[dtype](fp32(a + b)))


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_every_16_bit_number_passes_unchanged(package, dtype):
    """Rows of ones have the root mean square 1, so the weight itself comes out."""
    weight = bytearray(struct.pack("<65536H", *range(65536)))
    ones = {"input": [1.0] * 65536, "weight": [1.0] * 65536}
    call = norm_call(package, dtype, ones, weight=weight, epsilon=0.0)
    package.rmsnorm_cpu(call)
    pairs = zip(decode(dtype, call.out), decode(dtype, weight), strict=True)
    assert [want for got, want in pairs if not same(got, want)] == []


def test_fp32_is_worked_in_place(package):
    values = array("f", [3.0, 4.0, -3.0, 4.0])
    weight = array("f", [1.0, 2.0])
    call = package.RmsnormCall(
        out=values, input=values, weight=weight, rows=2, hidden=2, epsilon=0.0
    )
    package.rmsnorm_cpu(call)
    rms = math.sqrt(12.5)
    assert list(values) == pytest.approx([3 / rms, 8 / rms, -3 / rms, 8 / rms], rel=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": "fp8"}, "Element type 'fp8' is none of fp32, fp16, bf16"),
        ({"hidden": 0}, "kfr_rmsnorm_cpu: a count is negative, zero or too large"),
        ({"rows": -1}, "kfr_rmsnorm_cpu: a count is negative, zero or too large"),
        ({"weight": 0}, "kfr_rmsnorm_cpu: a required pointer is null"),
        ({"rows": 3}, "Array of 8 bytes where 12 are needed"),
        ({"residual": bytearray(7)}, "Array of 7 bytes where 8 are needed"),
    ],
)
def test_bad_norms_are_refused(package, changes, message):
    call = norm_call(package, "fp16", {"input": [1.0] * 4, "weight": [1.0] * 2}, **changes)
    with pytest.raises(package.ArgumentError, match=message):
        package.rmsnorm_cpu(call)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (b"\0\0\0\0", "A host array must be writable and contiguous"),
        (memoryview(bytearray(8))[::2], "A host array must be writable and contiguous"),
        ([1.0, 1.0], "No address can be had from 'list'"),
    ],
)
def test_what_is_no_host_array_is_refused(package, weight, message):
    arrays = {"input": [1.0] * 4, "weight": [1.0] * 2}
    with pytest.raises(TypeError, match=message):
        package.rmsnorm_cpu(norm_call(package, "fp16", arrays, weight=weight))


def test_host_memory_never_reaches_a_gpu(package):
    call = norm_call(package, "fp16", {"input": [1.0], "weight": [1.0]})
    with pytest.raises(TypeError, match="No device address can be had from 'bytearray'"):
        package.rmsnorm(call)


# --- draft trees


def tree_call(package, trees, max_path=None):
    """A call over trees, each a tuple of draft, first child, next sibling and target lists."""
    nodes, batch = len(trees[0][0]), len(trees)
    longest = nodes - 1 if max_path is None else max_path
    names = ("draft_tokens", "first_child", "next_sibling", "target_tokens")
    tables = [array("i", chain(*(tree[part] for tree in trees))) for part in range(4)]
    return package.VerifyTreeCall(
        path=array("i", [99] * (batch * longest)),
        count=array("i", [99] * batch),
        next_token=array("i", [99] * batch),
        batch=batch,
        nodes=nodes,
        max_path=longest,
        **dict(zip(names, tables, strict=True)),
    )


def verified(package, trees, max_path=None):
    """Each request's (path, count, next token)."""
    call = tree_call(package, trees, max_path)
    package.verify_tree_cpu(call)
    width = call.max_path
    paths = [list(call.path[i * width : (i + 1) * width]) for i in range(len(trees))]
    return list(zip(paths, call.count, call.next_token, strict=True))


def walk_by_definition(tree, parents, max_path):
    """The same from parents alone: children in order of their number, first match taken."""
    draft, _, _, target = tree
    path, node = [], 0
    while len(path) < max_path:
        children = [child for child, parent in parents.items() if parent == node]
        matching = [child for child in children if draft[child] == target[node]]
        if not matching:
            break
        node = matching[0]
        path.append(node)
    return path + [-1] * (max_path - len(path)), len(path), target[node]


def linked(draft, target, parents):
    """First-child and next-sibling links from a mapping child -> parent."""
    first, sibling = [-1] * len(draft), [-1] * len(draft)
    for child in sorted(parents, reverse=True):
        sibling[child], first[parents[child]] = first[parents[child]], child
    return draft, first, sibling, target


@st.composite
def tree_batches(draw):
    nodes = draw(st.integers(1, 12))
    max_path = draw(st.integers(0, nodes + 1))
    tokens = st.lists(st.integers(0, 2), min_size=nodes, max_size=nodes)
    trees = []
    for _ in range(draw(st.integers(1, 3))):
        parents = {child: draw(st.integers(0, child - 1)) for child in range(1, nodes)}
        trees.append((linked(draw(tokens), draw(tokens), parents), parents))
    return trees, max_path


@given(batch=tree_batches())
def test_verification_equals_the_definition(package, batch):
    trees, max_path = batch
    got = verified(package, [tree for tree, _ in trees], max_path)
    assert got == [walk_by_definition(tree, parents, max_path) for tree, parents in trees]


# Two accepted nodes in a chain of three; the others break one link of it.
SOUND = ([0, 5, 6], [1, 2, -1], [-1, -1, -1], [5, 6, 7])


@pytest.mark.parametrize(
    "broken",
    [
        ([0, 5, 6], [1, 1, -1], [-1, -1, -1], [5, 5, 7]),
        ([0, 5, 6], [1, -1, -1], [-1, 2, 1], [9, 6, 7]),
        ([0, 5, 6], [1, 0, -1], [-1, -1, -1], [5, 6, 7]),
        ([0, 5, 6], [1, 3, -1], [-1, -1, -1], [5, 6, 7]),
        ([0, 5, 6], [1, -2, -1], [-1, -1, -1], [5, 6, 7]),
    ],
    ids=["own-child", "sibling-ring", "back-to-root", "beyond-the-tree", "below-minus-one"],
)
def test_links_that_form_no_tree_are_told_and_spoil_no_other_request(package, broken):
    got = verified(package, [SOUND, broken, SOUND])
    assert got == [([1, 2], 2, 7), ([-1, -1], -1, -1), ([1, 2], 2, 7)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": 0}, "kfr_verify_tree_cpu: a count is negative, zero or too large"),
        ({"batch": -1}, "kfr_verify_tree_cpu: a count is negative, zero or too large"),
        ({"max_path": -1}, "kfr_verify_tree_cpu: a count is negative, zero or too large"),
        ({"path": 0}, "kfr_verify_tree_cpu: a required pointer is null"),
        ({"first_child": 0}, "kfr_verify_tree_cpu: a required pointer is null"),
        ({"batch": 2}, "Array of 8 bytes where 16 are needed"),
    ],
)
def test_bad_tree_calls_are_refused(package, changes, message):
    sound = tree_call(package, [SOUND])
    fields = {name: getattr(sound, name) for name in sound.__dataclass_fields__}
    with pytest.raises(package.ArgumentError, match=message):
        package.verify_tree_cpu(package.VerifyTreeCall(**{**fields, **changes}))


# --- the units


def test_cmake_compiles_every_unit():
    listed = re.findall(r"csrc/\S+\.(?:cpp|cu)\b", (EXAMPLE / "CMakeLists.txt").read_text())
    there = [f"csrc/{p.name}" for p in (EXAMPLE / "csrc").iterdir() if p.suffix in {".cpp", ".cu"}]
    assert sorted(listed) == sorted(there)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize(("dtype", "size"), sorted(SIZES.items()))
def test_a_unit_instantiates_what_its_name_says_for_every_pack(dtype, size, residual):
    """A pack that no unit has would be an undefined symbol, one that two have a doubled kernel."""
    family = "add_rmsnorm" if residual else "rmsnorm"
    found = {p.name: p.read_text() for p in (EXAMPLE / "csrc").glob(f"{family}_{dtype}_*.cu")}
    packs = [size << n for n in range(5) if size << n <= 16]
    assert set(found) == {f"{family}_{dtype}_{pack}.cu" for pack in packs}
    for pack in packs:
        kind = f"<KFR_{dtype.upper()}, {pack}, {str(residual).lower()}>"
        assert found[f"{family}_{dtype}_{pack}.cu"].count(f"launch_rmsnorm{kind}") == 1


# What a call was sent to, told as a number: element type, bytes of a pack, residual.
RECORDER = """\
#include "rmsnorm_units.hpp"
template <std::int32_t kDtype, int kPackBytes, bool kResidual>
std::int32_t kfr::launch_rmsnorm(const kfr_rmsnorm_args &, void *) {
  return 1000 * kDtype + 10 * kPackBytes + kResidual;
}
"""


@pytest.fixture(scope="module")
def sent(package, tmp_path_factory):
    """`kfr_rmsnorm` over units that only say which they are: addresses, hidden size, type."""
    folder = tmp_path_factory.mktemp("sent")
    units = [path.read_text() for path in (EXAMPLE / "csrc").glob("*rmsnorm_*_*.cu")]
    made = [line for unit in units for line in unit.splitlines() if line.startswith("template")]
    (folder / "recorder.cpp").write_text("\n".join([RECORDER, *made, ""]))
    sources = [EXAMPLE / "csrc" / name for name in ("arguments.cpp", "rmsnorm.cpp")]
    flags = ["-std=c++17", "-fPIC", "-shared", "-Wl,--no-undefined", f"-I{EXAMPLE / 'csrc'}"]
    words = [*flags, *map(str, sources), str(folder / "recorder.cpp"), "-o", str(folder / "x.so")]
    subprocess.run([COMPILER, *words], check=True)
    library = ctypes.CDLL(str(folder / "x.so"))
    layout = importlib.import_module("kernforge_rmsnorm.ops")._RmsnormArguments

    def send(address, hidden, dtype, residual):
        arrays = {"out": address, "input": 4096, "weight": 4096, "residual": residual}
        arguments = layout(**arrays, rows=1, hidden=hidden, epsilon=0, dtype=dtype)
        return library.kfr_rmsnorm(ctypes.byref(arguments), None)

    return send


@pytest.mark.parametrize("residual", [0, 8192])
@pytest.mark.parametrize(
    ("call", "pack"),
    [
        ((4096, 64, 0), 16), ((4096, 66, 0), 8), ((4096, 67, 0), 4), ((4100, 64, 0), 4),
        ((4096, 64, 1), 16), ((4096, 68, 1), 8), ((4096, 66, 1), 4), ((4096, 67, 1), 2),
        ((4096, 8, 2), 16), ((4104, 8, 2), 8), ((4100, 8, 2), 4), ((4098, 8, 2), 2),
    ],
)  # fmt: skip
def test_a_call_takes_the_widest_pack_that_all_its_rows_allow(sent, call, pack, residual):
    assert sent(*call, residual) == 1000 * call[2] + 10 * pack + bool(residual)


def test_a_residual_narrows_the_pack_too(sent):
    assert sent(4096, 64, 1, 4098) == 1000 + 10 * 2 + 1


@pytest.mark.parametrize(("address", "dtype"), [(4097, 1), (4097, 2), (4098, 0)])
def test_an_array_that_is_not_aligned_to_its_elements_is_refused(sent, address, dtype):
    assert sent(address, 64, dtype, 0) == -3  # KFR_BAD_POINTER


# --- the package around them


def test_the_local_version_is_seen(package):
    assert package.__version__ == VERSION


def test_the_header_is_plain_c():
    header = EXAMPLE / "csrc" / "kernforge_rmsnorm.h"
    flags = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c"]
    subprocess.run([COMPILER, *flags, str(header)], check=True)


def test_the_smoke_test_passes_on_the_cpu(package, smoke):
    smoke.check("cpu", package.rmsnorm_cpu, package.verify_tree_cpu)


def test_the_smoke_test_sees_a_norm_that_does_nothing(package, smoke):
    with pytest.raises(AssertionError, match="x: rmsnorm fp32 3x256 residual=False: element 0 is"):
        smoke.check("x", lambda call: None, package.verify_tree_cpu)


def test_the_smoke_test_sees_a_tree_walk_that_does_nothing(package, smoke):
    with pytest.raises(AssertionError, match="x: hand tree gives"):
        smoke.check("x", package.rmsnorm_cpu, lambda call: None)
