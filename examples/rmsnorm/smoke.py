"""Smoke test of the installed `kernforge_rmsnorm`: on the CPU, and on a GPU where there is one.

Standard library only. Where CUDA sees no GPU, `python smoke.py` leaves the GPU part out and says
so; with `--gpu` that is a failure. Exit 0: all that ran agrees; 1: something does not, and one line
says what; 2: `--gpu` and no GPU.
"""

import math
import random
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import kernforge_rmsnorm as package

Call = TypeVar("Call", package.RmsnormCall, package.VerifyTreeCall)

EPSILON = 1e-5
# Rows of whole packs of 16, 8 and 4 bytes and of single elements, as the type has it; a longer one;
# rows of which a thread of a warp and one of a block hold ever more; the last is too long to hold.
SHAPES = (
    *((3, 256), (2, 36), (2, 38), (5, 31), (2, 9000)),
    *((5, 32 * packs + 1) for packs in range(1, 11)),
    *((1, 1024 * packs + 1) for packs in range(1, 11)),
)
# Largest accepted difference, relative to 1 + |expected|: two steps of each format.
TOLERANCES = {"fp32": 4e-6, "fp16": 2e-3, "bf16": 1.6e-2}
NODES = 24
BATCH = 200

# A tree by hand: 0 -> (1, 2), 2 -> (3, 4). The target says 20 after the root and 41 after node 2.
HAND_TREE = {
    "draft_tokens": (0, 10, 20, 30, 41),
    "first_child": (1, -1, 3, -1, -1),
    "next_sibling": (-1, 2, -1, 4, -1),
    "target_tokens": (20, 11, 41, 31, 7),
}
HAND_RESULT = ([2, 4, -1, -1], [2], [7])


@dataclass(frozen=True)
class Format:
    """How one element type lies in memory; bf16 is handled as the upper half of fp32."""

    name: str
    nbytes: int

    def packed(self, values: Sequence[float]) -> bytearray:
        """Encodes values; those used here are exact in every type, so rounding is no matter."""
        if self.name == "bf16":
            wide = struct.pack(f"<{len(values)}f", *values)
            return bytearray(b"".join(wide[i + 2 : i + 4] for i in range(0, len(wide), 4)))
        return bytearray(struct.pack(f"<{len(values)}{'e' if self.nbytes == 2 else 'f'}", *values))

    def unpacked(self, raw: bytes | bytearray) -> tuple[float, ...]:
        """Reads values back."""
        count = len(raw) // self.nbytes
        if self.name == "bf16":
            halves = (b"\0\0" + raw[i : i + 2] for i in range(0, len(raw), 2))
            return struct.unpack(f"<{count}f", b"".join(halves))
        return struct.unpack(f"<{count}{'e' if self.nbytes == 2 else 'f'}", raw)


FORMATS = (Format("fp32", 4), Format("fp16", 2), Format("bf16", 2))


@dataclass(frozen=True)
class Norm:
    """One case of RMSNorm in host memory."""

    label: str
    format: Format
    call: package.RmsnormCall

    def outputs(self) -> list[float]:
        """What the call wrote: the rows and, where there is one, the residual."""
        written = list(self.format.unpacked(self.call.out))
        if self.call.residual is not None:
            written += self.format.unpacked(self.call.residual)
        return written


def norm_case(kind: Format, shape: tuple[int, int], *, with_residual: bool) -> Norm:
    """Makes a case of small multiples of 1/8, which every format holds exactly, sums included."""
    rows, hidden = shape
    source = random.Random(f"{kind.name} {shape} {with_residual}")  # noqa: S311  # repeatable, not secret

    def array(count: int) -> bytearray:
        return kind.packed([source.randrange(-15, 16) / 8 for _ in range(count)])

    call = package.RmsnormCall(
        out=bytearray(rows * hidden * kind.nbytes),
        input=array(rows * hidden),
        weight=array(hidden),
        residual=array(rows * hidden) if with_residual else None,
        rows=rows,
        hidden=hidden,
        dtype=kind.name,
        epsilon=EPSILON,
    )
    return Norm(f"rmsnorm {kind.name} {rows}x{hidden} residual={with_residual}", kind, call)


def norm_cases() -> list[Norm]:
    """Every element type, every shape, with and without a residual."""
    return [
        norm_case(kind, shape, with_residual=with_residual)
        for kind in FORMATS
        for shape in SHAPES
        for with_residual in (False, True)
    ]


def expected_norm(case: Norm) -> list[float]:
    """The same by the formula, in doubles; to be taken before the call overwrites the residual."""
    call, unpacked = case.call, case.format.unpacked
    weight = unpacked(call.weight)
    x = list(unpacked(call.input))
    if call.residual is not None:
        x = [a + b for a, b in zip(x, unpacked(call.residual), strict=True)]
    out = []
    for start in range(0, len(x), call.hidden):
        row = x[start : start + call.hidden]
        rms = math.sqrt(math.fsum(v * v for v in row) / call.hidden + EPSILON)
        out += [v / rms * w for v, w in zip(row, weight, strict=True)]
    return out if call.residual is None else out + x


def expect_close(case: Norm, expected: Sequence[float], where: str) -> None:
    """Fails with the worst element where a result is off."""
    pairs = list(zip(case.outputs(), expected, strict=True))
    errors = [abs(got - want) / (1 + abs(want)) for got, want in pairs]
    # A NaN compares false with everything: "not within" catches it, "greater" would not.
    wrong = [i for i, error in enumerate(errors) if not error <= TOLERANCES[case.format.name]]
    if wrong:
        got, want = pairs[wrong[0]]
        raise AssertionError(
            f"{where}: {case.label}: element {wrong[0]} is {got!r}, expected {want!r}"
            f" ({len(wrong)} of {len(errors)} are off)"
        )


def tree_call(table: Mapping[str, Sequence[int]], batch: int) -> package.VerifyTreeCall:
    """Lays trees out in host memory; each entry of the table is [batch, nodes], flat."""

    def array(values: Sequence[int]) -> bytearray:
        return bytearray(struct.pack(f"<{len(values)}i", *values))

    nodes = len(table["draft_tokens"]) // batch
    return package.VerifyTreeCall(
        path=bytearray(4 * batch * (nodes - 1)),
        count=bytearray(4 * batch),
        next_token=bytearray(4 * batch),
        batch=batch,
        nodes=nodes,
        max_path=nodes - 1,
        **{name: array(values) for name, values in table.items()},
    )


def tree_results(call: package.VerifyTreeCall) -> tuple[list[int], ...]:
    """What a call wrote: path, count, next token."""
    return tuple(
        list(struct.unpack(f"<{len(raw) // 4}i", raw))
        for raw in (call.path, call.count, call.next_token)
    )


def random_trees() -> dict[str, list[int]]:
    """Trees whose children are drawn from four tokens, so that walks go several levels deep."""
    source = random.Random("trees")  # noqa: S311  # repeatable, not secret
    table: dict[str, list[int]] = {name: [] for name in HAND_TREE}
    for _ in range(BATCH):
        first, sibling = [-1] * NODES, [-1] * NODES
        for node in range(1, NODES):
            parent = source.randrange(max(0, node - 4), node)
            sibling[node], first[parent] = first[parent], node
        table["first_child"] += first
        table["next_sibling"] += sibling
        table["draft_tokens"] += [source.randrange(4) for _ in range(NODES)]
        table["target_tokens"] += [source.randrange(4) for _ in range(NODES)]
    return table


def on_gpu(call: Call, arrays: Sequence[str], run: Callable[[Call], None]) -> None:
    """Runs a host call's twin on the GPU and brings every array back into the host call."""
    with ExitStack() as stack:
        buffers: dict[str, Any] = {}
        for name in arrays:
            host = getattr(call, name)
            buffers[name] = stack.enter_context(package.DeviceBuffer(len(host)))
            buffers[name].upload(host)
        run(replace(call, **buffers))
        package.synchronize()
        for name, buffer in buffers.items():
            buffer.download(getattr(call, name))


def gpu_norm(call: package.RmsnormCall) -> None:
    """RMSNorm of host arrays by way of the GPU."""
    names = ["out", "input", "weight"] + (["residual"] if call.residual is not None else [])
    on_gpu(call, names, package.rmsnorm)


def gpu_tree(call: package.VerifyTreeCall) -> None:
    """Tree verification of host arrays by way of the GPU."""
    on_gpu(call, [*HAND_TREE, "path", "count", "next_token"], package.verify_tree)


def check(
    where: str,
    norm: Callable[[package.RmsnormCall], None],
    tree: Callable[[package.VerifyTreeCall], None],
) -> None:
    """Compares one side: RMSNorm with the formula, trees with a known and the CPU's answer."""
    for case in norm_cases():
        expected = expected_norm(case)
        norm(case.call)
        expect_close(case, expected, where)
    hand = tree_call(HAND_TREE, 1)
    tree(hand)
    if tree_results(hand) != HAND_RESULT:
        raise AssertionError(f"{where}: hand tree gives {tree_results(hand)}, not {HAND_RESULT}")
    table = random_trees()
    got, want = tree_call(table, BATCH), tree_call(table, BATCH)
    tree(got)
    package.verify_tree_cpu(want)
    if tree_results(got) != tree_results(want):
        raise AssertionError(f"{where}: random trees differ from the CPU's answer")


def main(arguments: Sequence[str]) -> int:
    """Runs the smoke test; see the module's text for the exit codes."""
    print(f"kernforge_rmsnorm {package.__version__}")
    try:
        check("cpu", package.rmsnorm_cpu, package.verify_tree_cpu)
        print("cpu: ok")
        if package.device_count() == 0:
            print("gpu: not run, CUDA sees no GPU")
            return 2 if "--gpu" in arguments else 0
        major, minor = package.device_capability()
        print(f"gpu: compute capability {major}.{minor}")
        check("gpu", gpu_norm, gpu_tree)
    except (AssertionError, package.CudaError) as error:
        print(f"failed: {error}", file=sys.stderr)
        return 1
    print("gpu: ok")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
