"""Addresses of arrays, whoever owns them.

Accepted everywhere: an address as an `int`, or an object with `data_ptr()` (a torch tensor, a
`DeviceBuffer`). Accepted for host memory besides: a ctypes array and any writable buffer, such as
`bytearray`, `array.array` or a numpy array. Nothing here imports torch or numpy.
"""

import ctypes
from typing import Any

from kernforge_rmsnorm.library import ArgumentError


def host_address(array: Any, nbytes: int) -> int:
    """Answers where a host array starts.

    Args:
        array: see the module's text; it must outlive the use of the address.
        nbytes: how much will be read or written; checked wherever the object tells its size.

    Raises:
        ArgumentError: the array is known to be smaller.
        TypeError: no address can be had from such an object.
    """
    known = _declared_address(array)
    if known is not None:
        return known
    try:
        view = memoryview(array)
    except TypeError:
        raise TypeError(f"No address can be had from {type(array).__name__!r}") from None
    with view:
        if view.nbytes < nbytes:
            raise ArgumentError(f"Array of {view.nbytes} bytes where {nbytes} are needed")
        if view.readonly or not view.c_contiguous:
            raise TypeError("A host array must be writable and contiguous")
    return ctypes.addressof((ctypes.c_char * nbytes).from_buffer(array))


def device_address(array: Any) -> int:
    """Answers where a device array starts; its size is the caller's word.

    Raises:
        TypeError: the object is neither an address nor has `data_ptr()`, as memory of the host.
    """
    known = _declared_address(array)
    if known is None:
        raise TypeError(f"No device address can be had from {type(array).__name__!r}")
    return known


def _declared_address(array: Any) -> int | None:
    """The address that an object states itself, None where it states none."""
    if isinstance(array, int):
        return array
    if hasattr(array, "data_ptr"):
        return int(array.data_ptr())
    return None
