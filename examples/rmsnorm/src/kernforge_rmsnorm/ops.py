"""The two operations, each on the CPU and on the GPU.

What they compute is said once, in `csrc/kernforge_rmsnorm.h`. A call's arrays lie in host memory
for the `_cpu` functions and on the GPU for the others; `memory` says which objects serve as arrays.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernforge_rmsnorm.library import ArgumentError, call
from kernforge_rmsnorm.memory import device_address, host_address

_DTYPES = {"fp32": (0, 4), "fp16": (1, 2), "bf16": (2, 2)}  # name -> (number in the ABI, bytes)
_INT32_BYTES = 4

_Address = Callable[[Any, int], int]


@dataclass(frozen=True, kw_only=True)
class RmsnormCall:
    """One RMSNorm: `out = x / rms(x) * weight`, row by row.

    Attributes:
        out: [rows, hidden], written; may be `input`.
        input: [rows, hidden].
        weight: [hidden].
        residual: [rows, hidden] or None. If given, x is `input + residual`, written back.
        rows: how many rows, 0 or more.
        hidden: elements a row, 1 or more.
        dtype: element type of all four arrays: `fp32`, `fp16` or `bf16`.
        epsilon: added to the mean of squares.
    """

    out: Any
    input: Any
    weight: Any
    residual: Any = None
    rows: int
    hidden: int
    dtype: str = "fp32"
    epsilon: float = 1e-6


@dataclass(frozen=True, kw_only=True)
class VerifyTreeCall:
    """Greedy verification of drafted token trees, one a request; every array is int32.

    Attributes:
        path: [batch, max_path], written: accepted nodes in order without the root, then -1.
        count: [batch], written: accepted nodes, or -1 for links that form no tree.
        next_token: [batch], written: the target's token after the path's last node, or -1.
        draft_tokens: [batch, nodes]; node 0 is the root and its entry is not read.
        first_child: [batch, nodes], node indices, -1 for none.
        next_sibling: [batch, nodes], node indices, -1 for none.
        target_tokens: [batch, nodes]: the target model's choice after each node.
        batch: how many requests, 0 or more.
        nodes: nodes a tree, the root included, 1 or more.
        max_path: nodes after which a path is cut; `nodes - 1` never cuts one.
    """

    path: Any
    count: Any
    next_token: Any
    draft_tokens: Any
    first_child: Any
    next_sibling: Any
    target_tokens: Any
    batch: int
    nodes: int
    max_path: int


def rmsnorm_cpu(norm: RmsnormCall) -> None:
    """Runs one RMSNorm on the CPU; the reference of the GPU's.

    Raises:
        ArgumentError: a bad shape or element type, or an array that is too small.
        TypeError: an array that no address can be had from.
    """
    call("kfr_rmsnorm_cpu", ctypes.byref(_rmsnorm_arguments(norm, host_address)))


def rmsnorm(norm: RmsnormCall, stream: int = 0) -> None:
    """Enqueues one RMSNorm on a CUDA stream and does not wait for it; 0 is the default stream.

    Raises:
        ArgumentError: a bad shape or element type.
        CudaError: it could not be started; 209 where the library holds no code for this GPU.
        TypeError: an array that no device address can be had from.
    """
    arguments = _rmsnorm_arguments(norm, _device_address)
    call("kfr_rmsnorm", ctypes.byref(arguments), ctypes.c_void_p(stream))


def verify_tree_cpu(tree: VerifyTreeCall) -> None:
    """Verifies drafted trees on the CPU.

    Raises:
        ArgumentError: a bad shape, or an array that is too small.
        TypeError: an array that no address can be had from.
    """
    call("kfr_verify_tree_cpu", ctypes.byref(_verify_tree_arguments(tree, host_address)))


def verify_tree(tree: VerifyTreeCall, stream: int = 0) -> None:
    """Enqueues the verification on a CUDA stream and does not wait for it; 0 is the default stream.

    Raises:
        ArgumentError: a bad shape.
        CudaError: it could not be started; 209 where the library holds no code for this GPU.
        TypeError: an array that no device address can be had from.
    """
    arguments = _verify_tree_arguments(tree, _device_address)
    call("kfr_verify_tree", ctypes.byref(arguments), ctypes.c_void_p(stream))


class _RmsnormArguments(ctypes.Structure):
    """`kfr_rmsnorm_args` of the header."""

    _fields_ = (
        ("out", ctypes.c_void_p),
        ("residual", ctypes.c_void_p),
        ("input", ctypes.c_void_p),
        ("weight", ctypes.c_void_p),
        ("rows", ctypes.c_int64),
        ("hidden", ctypes.c_int64),
        ("epsilon", ctypes.c_float),
        ("dtype", ctypes.c_int32),
    )


class _VerifyTreeArguments(ctypes.Structure):
    """`kfr_verify_tree_args` of the header."""

    _fields_ = (
        ("path", ctypes.c_void_p),
        ("count", ctypes.c_void_p),
        ("next_token", ctypes.c_void_p),
        ("draft_tokens", ctypes.c_void_p),
        ("first_child", ctypes.c_void_p),
        ("next_sibling", ctypes.c_void_p),
        ("target_tokens", ctypes.c_void_p),
        ("batch", ctypes.c_int64),
        ("nodes", ctypes.c_int64),
        ("max_path", ctypes.c_int64),
    )


def _device_address(array: Any, _nbytes: int) -> int:
    return device_address(array)


def _rmsnorm_arguments(norm: RmsnormCall, address: _Address) -> _RmsnormArguments:
    if norm.dtype not in _DTYPES:
        raise ArgumentError(f"Element type {norm.dtype!r} is none of {', '.join(_DTYPES)}")
    number, element = _DTYPES[norm.dtype]
    row = max(norm.hidden, 0) * element
    matrix = max(norm.rows, 0) * row
    return _RmsnormArguments(
        out=address(norm.out, matrix),
        residual=None if norm.residual is None else address(norm.residual, matrix),
        input=address(norm.input, matrix),
        weight=address(norm.weight, row),
        rows=norm.rows,
        hidden=norm.hidden,
        epsilon=norm.epsilon,
        dtype=number,
    )


def _verify_tree_arguments(tree: VerifyTreeCall, address: _Address) -> _VerifyTreeArguments:
    batch = max(tree.batch, 0) * _INT32_BYTES
    table = batch * max(tree.nodes, 0)
    return _VerifyTreeArguments(
        path=address(tree.path, batch * max(tree.max_path, 0)),
        count=address(tree.count, batch),
        next_token=address(tree.next_token, batch),
        draft_tokens=address(tree.draft_tokens, table),
        first_child=address(tree.first_child, table),
        next_sibling=address(tree.next_sibling, table),
        target_tokens=address(tree.target_tokens, table),
        batch=tree.batch,
        nodes=tree.nodes,
        max_path=tree.max_path,
    )
