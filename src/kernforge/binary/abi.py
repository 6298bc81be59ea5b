"""What the symbols and needs of a host library say of its ABIs. Pure: facts in, facts out.

Room `binary`. Whether they suit a target is judged in `verify`.
"""

from __future__ import annotations

import re

from kernforge.binary.facts import ElfFacts, Symbol

# These carry the CUDA major in their version; cuSPARSE, cuSOLVER, cuRAND and cuFFT count apart.
_CUDA_LIBRARY = re.compile(
    r"lib(?:cudart|cublas|cublasLt|nvrtc|nvJitLink|cupti)(?:-[0-9a-f]+)?\.so\.(\d{2})(?:\.\d+)*",
    re.ASCII,
)
_NEW_STRING = ("__cxx11", "B5cxx11")
_OLD_STRING = re.compile(r"RKSs|^_ZNK?Ss|PSs|ISs[ES]|vSs$")
_TORCH = re.compile(r"^_Z.*(?:3c10|5torch|2at|6caffe2)[A-Z0-9]|^(?:aoti_)?torch_|^c10_")
_INIT = "PyInit_"


def cuda_majors(elf: ElfFacts) -> tuple[int, ...]:
    """The CUDA majors of the libraries needed, sorted; more than one is a mixed build."""
    matches = (_CUDA_LIBRARY.fullmatch(name) for name in elf.needed)
    return tuple(sorted({int(match[1]) for match in matches if match}))


def cxx11_abi(elf: ElfFacts) -> bool | None:
    """Whether `std::string` in undefined symbols is the C++11 one; None where none is in them.

    True where both occur: the C++11 ABI keeps old names for a few functions of libstdc++.
    """
    names = [symbol.name for symbol in elf.undefined]
    if any(mark in name for name in names for mark in _NEW_STRING):
        return True
    return False if any(_OLD_STRING.search(name) for name in names) else None


def torch_symbols(elf: ElfFacts) -> tuple[Symbol, ...]:
    """The undefined symbols that torch and its libraries have to define, sorted."""
    return tuple(symbol for symbol in elf.undefined if _TORCH.search(symbol.name))


def python_symbols(elf: ElfFacts) -> tuple[str, ...]:
    """The undefined symbols of CPython's C API, sorted."""
    names = (symbol.name for symbol in elf.undefined)
    return tuple(name for name in names if name.startswith(("Py", "_Py")))


def module_names(elf: ElfFacts) -> tuple[str, ...]:
    """The Python modules that the library can be imported as, sorted."""
    return tuple(name.removeprefix(_INIT) for name in elf.defined if name.startswith(_INIT))
