"""RMSNorm and greedy draft-tree verification, on the CPU and on NVIDIA GPUs.

Importing this package loads its library but touches no GPU and needs no driver: the CUDA runtime is
linked into it. Only `rmsnorm`, `verify_tree`, `synchronize` and `DeviceBuffer` need a GPU.
"""

from importlib import metadata

from kernforge_rmsnorm.device import DeviceBuffer, device_capability, device_count, synchronize
from kernforge_rmsnorm.library import ArgumentError, CudaError
from kernforge_rmsnorm.ops import (
    RmsnormCall,
    VerifyTreeCall,
    rmsnorm,
    rmsnorm_cpu,
    verify_tree,
    verify_tree_cpu,
)

__all__ = [
    "ArgumentError",
    "CudaError",
    "DeviceBuffer",
    "RmsnormCall",
    "VerifyTreeCall",
    "__version__",
    "device_capability",
    "device_count",
    "rmsnorm",
    "rmsnorm_cpu",
    "synchronize",
    "verify_tree",
    "verify_tree_cpu",
]

# What the wheel says, local part included: 0.1.0+cu130.sm120a where kernforge built it so.
__version__ = metadata.version("kernforge-rmsnorm-demo")
