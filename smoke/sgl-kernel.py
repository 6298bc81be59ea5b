"""Smoke test of an installed `sgl_kernel`: each op called by itself, held against plain torch.

Ops are called as ``torch.ops.sgl_kernel.NAME``: the package's Python functions may hand over to
FlashInfer, whose faults are not this wheel's. One line an op: `ok`, `absent` (this version has
moved it elsewhere) or `FAILED`. Exit 0: nothing failed and something ran; 1: otherwise; 2: no GPU.
"""

# ruff: noqa: INP001, T201, TID251 - a program for the target's own Python, which has torch

import sys
from collections.abc import Callable
from pathlib import Path

import sgl_kernel
import torch

OPS = torch.ops.sgl_kernel
DEVICE = "cuda"
TOLERANCE = 4e-3
"""Largest accepted difference, relative to 1 + the largest expected value: one step of bf16."""

Case = Callable[[], float]


def rand(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Values between -1 and 1."""
    return (torch.rand(*shape, device=DEVICE) * 2 - 1).to(dtype)


def ints(*values: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    """A vector of whole numbers."""
    return torch.tensor(values, device=DEVICE, dtype=dtype)


def gap(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Largest difference relative to 1 + the largest value wanted."""
    wanted = wanted.float()
    return ((found.float() - wanted).abs().max() / (1 + wanted.abs().max())).item()


def mean_gap(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Mean difference likewise, where a value on the edge may be rounded either way."""
    wanted = wanted.float()
    return ((found.float() - wanted).abs().mean() / (1 + wanted.abs().max())).item()


def differs(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """0 where two tensors are equal, else 1."""
    return 0.0 if torch.equal(found.cpu().long(), wanted.cpu().long()) else 1.0


def activation(name: str, act: Callable[[torch.Tensor], torch.Tensor]) -> Case:
    """An activation of one half of each row times the other half."""

    def case() -> float:
        x = rand(37, 512)
        out = torch.empty(37, 256, device=DEVICE, dtype=x.dtype)
        getattr(OPS, name)(out, x)
        a, b = x.float().chunk(2, dim=-1)
        return gap(out, act(a) * b)

    return case


def norm(name: str, offset: float) -> Case:
    """Root mean square norm with weight + offset."""

    def case() -> float:
        x, weight = rand(33, 4096), rand(4096)
        out = torch.empty_like(x)
        getattr(OPS, name)(out, x, weight, 1e-6, False)
        return gap(out, rms(x.float()) * (weight.float() + offset))

    return case


def rms(x: torch.Tensor) -> torch.Tensor:
    """Rows over their root mean square."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def fused_add_rmsnorm() -> float:
    """Adds in place, keeps the sum, and normalises it."""
    x, residual, weight = rand(33, 4096), rand(33, 4096), rand(4096)
    total = x.float() + residual.float()
    OPS.fused_add_rmsnorm(x, residual, weight, 1e-6, False)
    return max(gap(residual, total), gap(x, rms(total) * weight.float()))


def merge_state_v2() -> float:
    """Two attention results merged by their log-sum-exps."""
    va, vb = rand(17, 8, 128), rand(17, 8, 128)
    sa, sb = rand(17, 8, dtype=torch.float32), rand(17, 8, dtype=torch.float32)
    v, s = torch.empty_like(va), torch.empty_like(sa)
    OPS.merge_state_v2(va, sa, vb, sb, v, s)
    share = torch.sigmoid(sa - sb).unsqueeze(-1)
    wanted = va.float() * share + vb.float() * (1 - share)
    return max(gap(v, wanted), gap(s, torch.logaddexp(sa, sb)))


def topk_softmax() -> float:
    """The two most probable of 64 experts, their weights made to sum to 1."""
    gating = rand(19, 64, dtype=torch.float32) * 4
    weights = torch.empty(19, 2, device=DEVICE)
    chosen = torch.empty(19, 2, device=DEVICE, dtype=torch.int32)
    OPS.topk_softmax(weights, chosen, gating, True, 0.0, None)
    top = torch.topk(torch.softmax(gating, -1), 2)
    wanted = top.values / top.values.sum(-1, keepdim=True)
    return max(gap(weights, wanted), differs(chosen, top.indices))


def moe_sum() -> float:
    """Sums over the experts of each token."""
    x = rand(21, 2, 1024)
    out = torch.empty(21, 1024, device=DEVICE, dtype=x.dtype)
    OPS.moe_sum(x, out)
    return gap(out, x.float().sum(1))


def shuffle_rows() -> float:
    """Rows by index."""
    x = rand(16, 1024)
    order = torch.randperm(16, device=DEVICE).int()
    out = torch.empty_like(x)
    OPS.shuffle_rows(x, order, out)
    return gap(out, x[order.long()])


def sgl_per_token_quant_fp8() -> float:
    """Each row scaled to the largest 8-bit float, 448, and back."""
    x = rand(29, 1024)
    q = torch.empty(29, 1024, device=DEVICE, dtype=torch.float8_e4m3fn)
    scale = torch.empty(29, 1, device=DEVICE)
    OPS.sgl_per_token_quant_fp8(x, q, scale)
    wanted = x.float().abs().amax(-1, keepdim=True) / 448
    again = (x.float() / wanted).to(torch.float8_e4m3fn)
    return max(gap(scale, wanted), mean_gap(q.float() * scale, again.float() * wanted))


def fp8_scaled_mm() -> float:
    """A matrix product of 8-bit floats with a scale a row and a column."""
    a = rand(64, 512).to(torch.float8_e4m3fn)
    b = rand(256, 512).to(torch.float8_e4m3fn).t()
    sa, sb = torch.rand(64, 1, device=DEVICE), torch.rand(256, 1, device=DEVICE)
    out = OPS.fp8_scaled_mm(a, b, sa, sb, torch.bfloat16, None)
    return gap(out, (a.float() @ b.float()) * sa * sb.t())


def top_k_renorm_probs() -> float:
    """The ten largest probabilities made to sum to 1, the others 0."""
    probs = torch.softmax(rand(11, 1000, dtype=torch.float32) * 3, -1)
    out = torch.empty_like(probs)
    OPS.top_k_renorm_probs(probs, out, None, 10)
    kept = torch.where(
        probs >= torch.topk(probs, 10).values[:, -1:], probs, torch.zeros_like(probs)
    )
    return gap(out, kept / kept.sum(-1, keepdim=True))


def segment_packbits() -> float:
    """Truth values packed eight a byte, lowest bit first, each segment from a byte of its own."""
    sizes, values = (5, 16, 9), torch.rand(30, device=DEVICE) > 0.5
    ends, starts, wanted = [0], [0], []
    for size in sizes:
        bits = values[ends[-1] : ends[-1] + size].tolist()
        wanted += [
            sum(bit << n for n, bit in enumerate(bits[at : at + 8])) for at in range(0, size, 8)
        ]
        ends.append(ends[-1] + size)
        starts.append(len(wanted))
    out = torch.zeros(len(wanted), device=DEVICE, dtype=torch.uint8)
    stream = torch.cuda.current_stream().cuda_stream
    OPS.segment_packbits(values, ints(*ends), ints(*starts), out, len(sizes), stream)
    return differs(out, ints(*wanted))


# A draft tree of six nodes by hand: 0 -> (1, 2), 1 -> (3, 4), 4 -> 5. The target says 11, then 41,
# then 52: it takes 1, 4 and 5, and adds 63 of its own.
NEXT_TOKEN = (1, 3, -1, -1, 5, -1)
NEXT_SIBLING = (-1, 2, -1, 4, -1, -1)
CANDIDATES = (7, 11, 12, 40, 41, 52)
TARGET = (11, 41, 90, 91, 52, 63)
ACCEPTED = (0, 1, 4, 5)
PREDICTED = {0: 11, 1: 41, 4: 52, 5: 63}


def tree() -> tuple[torch.Tensor, ...]:
    """Candidates, own places, first children and siblings, as a batch of one."""
    rows = (CANDIDATES, range(6), NEXT_TOKEN, NEXT_SIBLING)
    return tuple(ints(*row, dtype=torch.int64).unsqueeze(0) for row in rows)


def accepted(call: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None]) -> float:
    """Whether a verification takes the path by hand."""
    predicts = torch.full((6,), -1, device=DEVICE, dtype=torch.int32)
    index = torch.full((1, 4), -1, device=DEVICE, dtype=torch.int32)
    count = torch.zeros(1, device=DEVICE, dtype=torch.int32)
    call(predicts, index, count)
    said = {n: int(predicts[n]) for n in PREDICTED}
    wrong = differs(index, ints(*ACCEPTED).unsqueeze(0)) + differs(count, ints(3))
    return wrong + (said != PREDICTED)


def verify_tree_greedy() -> float:
    """The target's own choice at each node."""
    target = ints(*TARGET, dtype=torch.int64).unsqueeze(0)
    return accepted(lambda p, i, n: OPS.verify_tree_greedy(p, i, n, *tree(), target))


def tree_speculative_sampling_target_only() -> float:
    """Where the target is certain, sampling takes the same path."""
    probs = torch.zeros(1, 6, 128, device=DEVICE)
    for node, token in enumerate(TARGET):
        probs[0, node, token] = 1.0
    half = torch.full((1, 6), 0.5, device=DEVICE)
    last = torch.full((1,), 0.5, device=DEVICE)
    rest = (half, last, probs, torch.zeros_like(probs), 1.0, 1.0, True)
    return accepted(
        lambda p, i, n: OPS.tree_speculative_sampling_target_only(p, i, n, *tree(), *rest)
    )


NODES, LENGTH = 4, 10


def chain_outputs() -> tuple[torch.Tensor, ...]:
    """Positions, places, children and siblings to be written, all -1."""
    flat = torch.full((NODES,), -1, device=DEVICE, dtype=torch.int64)
    return flat, *(flat.clone().unsqueeze(0) for _ in range(3))


def chain_gap(outputs: tuple[torch.Tensor, ...]) -> float:
    """Whether a draft without branches became a chain behind ten tokens."""
    wanted = (
        [LENGTH + n for n in range(NODES)],
        range(NODES),
        [*range(1, NODES), -1],
        [-1] * NODES,
    )
    return sum(
        differs(found.flatten(), ints(*row)) for found, row in zip(outputs, wanted, strict=True)
    )


def build_tree_kernel_efficient() -> float:
    """A draft without branches is a chain; every node sees the text and what leads to it."""
    parents = ints(-1, *range(NODES - 2), dtype=torch.int64).unsqueeze(0)
    selected = ints(*range(NODES - 1), dtype=torch.int64).unsqueeze(0)
    length = ints(LENGTH, dtype=torch.int64)
    mask = torch.ones(NODES * (LENGTH + NODES), device=DEVICE, dtype=torch.bool)
    outputs = chain_outputs()
    OPS.build_tree_kernel_efficient(
        parents, selected, length, mask, *outputs, 1, NODES - 1, NODES, 0
    )
    seen = torch.ones(NODES, LENGTH + NODES).tril(diagonal=LENGTH)
    return chain_gap(outputs) + differs(mask.reshape(NODES, -1), seen)


def reconstruct_indices_from_tree_mask() -> float:
    """The same chain read out of its mask."""
    mask = torch.ones(NODES, NODES, device=DEVICE).tril().bool().flatten()
    outputs = chain_outputs()
    OPS.reconstruct_indices_from_tree_mask(
        mask, ints(LENGTH, dtype=torch.int64), *outputs, 1, NODES
    )
    return chain_gap(outputs)


CASES: dict[str, Case] = {
    "silu_and_mul": activation("silu_and_mul", torch.nn.functional.silu),
    "gelu_and_mul": activation("gelu_and_mul", torch.nn.functional.gelu),
    "gelu_tanh_and_mul": activation(
        "gelu_tanh_and_mul", lambda x: torch.nn.functional.gelu(x, approximate="tanh")
    ),
    "rmsnorm": norm("rmsnorm", 0.0),
    "gemma_rmsnorm": norm("gemma_rmsnorm", 1.0),
    "fused_add_rmsnorm": fused_add_rmsnorm,
    "merge_state_v2": merge_state_v2,
    "topk_softmax": topk_softmax,
    "moe_sum": moe_sum,
    "shuffle_rows": shuffle_rows,
    "sgl_per_token_quant_fp8": sgl_per_token_quant_fp8,
    "fp8_scaled_mm": fp8_scaled_mm,
    "top_k_renorm_probs": top_k_renorm_probs,
    "segment_packbits": segment_packbits,
    "verify_tree_greedy": verify_tree_greedy,
    "tree_speculative_sampling_target_only": tree_speculative_sampling_target_only,
    "build_tree_kernel_efficient": build_tree_kernel_efficient,
    "reconstruct_indices_from_tree_mask": reconstruct_indices_from_tree_mask,
}


def outcome(name: str, case: Case) -> tuple[str, str]:
    """What became of one op, and the figure or the error."""
    if not hasattr(OPS, name):
        return "absent", ""
    try:
        torch.manual_seed(1)
        found = case()
        torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001 - whatever an op raises is its answer
        return "FAILED", str(error).splitlines()[0]
    return ("ok" if found <= TOLERANCE else "FAILED"), f"{found:.1e}"


def loaded_file() -> Path:
    """The `common_ops` that was really loaded, which must be this package's own."""
    path = Path(sgl_kernel.common_ops.__file__).resolve()
    if Path(sgl_kernel.__file__).resolve().parent not in path.parents:
        raise SystemExit(f"common_ops came from elsewhere: {path}")
    return path


def main() -> int:
    """Run every case on the current device."""
    if not torch.cuda.is_available():
        print("no GPU")
        return 2
    major, minor = torch.cuda.get_device_capability()
    ops = sum(name.startswith("sgl_kernel::") for name in torch._C._dispatch_get_all_op_names())  # noqa: SLF001
    print(f"sgl_kernel {sgl_kernel.__version__}, torch {torch.__version__}, device {major}.{minor}")
    print(f"loaded {loaded_file()}; {ops} ops registered")
    answers = {name: outcome(name, case) for name, case in CASES.items()}
    for name, (answer, told) in answers.items():
        print(f"{answer:<7} {name} {told}".rstrip())
    said = [answer for answer, _ in answers.values()]
    return 1 if "FAILED" in said or "ok" not in said else 0


if __name__ == "__main__":
    sys.exit(main())
