"""GPUs and their memory, for callers that have no torch to ask."""

import ctypes
from types import TracebackType
from typing import Any, Self

from kernforge_rmsnorm.library import call
from kernforge_rmsnorm.memory import host_address


def device_count() -> int:
    """Answers how many GPUs CUDA sees: 0 where no driver or no GPU is present.

    Raises:
        CudaError: a driver is there but cannot serve, as one too old for the runtime linked in.
    """
    count = ctypes.c_int32()
    call("kfr_device_count", ctypes.byref(count))
    return count.value


def device_capability(device: int = 0) -> tuple[int, int]:
    """Answers a GPU's compute capability, as `(12, 0)`.

    Raises:
        CudaError: there is no such device.
    """
    major, minor = ctypes.c_int32(), ctypes.c_int32()
    call(
        "kfr_device_capability",
        ctypes.c_int32(device),
        ctypes.byref(major),
        ctypes.byref(minor),
    )
    return major.value, minor.value


def synchronize(stream: int = 0) -> None:
    """Waits until a stream's work is done; 0 is the default stream.

    Raises:
        CudaError: some work on the stream failed.
    """
    call("kfr_synchronize", ctypes.c_void_p(stream))


class DeviceBuffer:
    """Memory of the current GPU, freed on leaving its `with` block.

    Attributes:
        nbytes: its size.
    """

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._pointer = ctypes.c_void_p()
        call("kfr_allocate", ctypes.byref(self._pointer), ctypes.c_int64(nbytes))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Frees the memory; a second call does nothing.

        Raises:
            CudaError: earlier work on the GPU failed.
        """
        pointer, self._pointer = self._pointer, ctypes.c_void_p()
        call("kfr_free", pointer)

    def data_ptr(self) -> int:
        """Answers the device address, by the name that torch tensors use; 0 once closed."""
        return self._pointer.value or 0

    def upload(self, array: Any) -> None:
        """Fills the buffer from a host array of at least its size, and waits for it.

        Raises:
            ArgumentError: the array is smaller.
            CudaError: the copy failed.
        """
        source = ctypes.c_void_p(host_address(array, self.nbytes))
        call("kfr_copy_to_device", self._pointer, source, ctypes.c_int64(self.nbytes))

    def download(self, array: Any) -> None:
        """Copies the buffer to a host array of at least its size, after all work before it.

        Raises:
            ArgumentError: the array is smaller.
            CudaError: the copy, or earlier work on the GPU, failed.
        """
        destination = ctypes.c_void_p(host_address(array, self.nbytes))
        call("kfr_copy_to_host", destination, self._pointer, ctypes.c_int64(self.nbytes))
