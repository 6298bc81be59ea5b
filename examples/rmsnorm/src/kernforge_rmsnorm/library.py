"""The shared library, and the two errors that a call of it can raise.

`csrc/kernforge_rmsnorm.h` is the truth about every function named in this package.
"""

import ctypes
from pathlib import Path

_LIBRARY = ctypes.CDLL(str(Path(__file__).with_name("libkernforge_rmsnorm.so")))


class CudaError(RuntimeError):
    """The CUDA runtime refused or failed a call.

    Attributes:
        number: the `cudaError_t`, such as 209: the library holds no code for this GPU.
        name: the same as CUDA spells it, such as `cudaErrorNoKernelImageForDevice`.
    """

    def __init__(self, number: int, name: str, text: str) -> None:
        super().__init__(f"CUDA error {number}: {text} ({name})")
        self.number = number
        self.name = name


class ArgumentError(ValueError):
    """Arguments that nothing can be started with: a shape, an element type, a small array."""


def call(function: str, *arguments: object) -> None:
    """Calls one function of the C ABI.

    The function is looked up here and not at import, so that a library made of the CPU units alone
    (as the tests build it, without CUDA) serves the CPU operations.

    Args:
        function: its name, such as `kfr_rmsnorm_cpu`.
        *arguments: ctypes values that agree with its prototype in the header.

    Raises:
        CudaError: the CUDA runtime answered anything but success.
        ArgumentError: the library refused the arguments.
    """
    status: int = getattr(_LIBRARY, function)(*arguments)
    if status > 0:
        name = _described("kfr_cuda_error_name", status)
        raise CudaError(status, name, _described("kfr_cuda_error_text", status))
    if status < 0:
        raise ArgumentError(f"{function}: {_described('kfr_fault_text', status)}")


def _described(function: str, status: int) -> str:
    """Asks the library for the words of a status."""
    describe = getattr(_LIBRARY, function)
    describe.restype = ctypes.c_char_p
    words: bytes = describe(ctypes.c_int32(status))
    return words.decode()
