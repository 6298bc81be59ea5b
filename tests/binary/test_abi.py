import pytest

from kernforge.binary.abi import (
    cuda_majors,
    cxx11_abi,
    module_names,
    python_symbols,
    torch_symbols,
)
from kernforge.binary.facts import ElfFacts, Symbol


def elf(*undefined, needed=(), defined=()):
    return ElfFacts(
        kind="shared",
        machine="x86_64",
        soname=None,
        needed=needed,
        runpath=(),
        rpath=(),
        floors=(),
        defined=defined,
        undefined=tuple(Symbol(name=name) for name in undefined),
    )


@pytest.mark.parametrize(
    ("needed", "majors"),
    [
        (("libcudart.so.13", "libcublas.so.13", "libc.so.6"), (13,)),
        (("libcudart.so.12", "libnvrtc.so.11.2"), (11, 12)),
        (("libcudart-d0da41ae.so.11.8.89",), (11,)),  # as auditwheel renames it
        (("libcusparse.so.12", "libcuda.so.1", "libcufft.so.11"), ()),  # counted by themselves
    ],
)
def test_cuda_majors(needed, majors):
    assert cuda_majors(elf(needed=needed)) == majors


@pytest.mark.parametrize(
    ("names", "answer"),
    [
        (("_ZN3c106detail14torchCheckFailERKNSt7__cxx1112basic_stringIcEE",), True),
        (("_ZNK5torch8Library4nameB5cxx11Ev",), True),
        (("_ZN5torch3jit17parseSchemaOrNameERKSs",), False),
        (("_ZNSs6appendEPKc",), False),
        (("_ZNSs6appendEPKc", "_ZNSt7__cxx1112basic_stringIcE6appendEPKc"), True),
        (("_ZN3c1011SymIntTypeSsizeEv", "memcpy"), None),
    ],
)
def test_the_abi_of_strings(names, answer):
    assert cxx11_abi(elf(*names)) is answer


def test_symbols_of_torch():
    names = (
        "_ZN2at4_ops5empty4callEv",
        "_ZN3c1015SmallVectorBaseIjE8grow_podEv",
        "_ZN3cat3dogEv",
        "_ZN5torch7LibraryD1Ev",
        "aoti_torch_get_device_type",
        "malloc",
        "torch_call_dispatcher",
    )
    assert [s.name for s in torch_symbols(elf(*names))] == [
        name for name in names if name not in {"_ZN3cat3dogEv", "malloc"}
    ]


def test_symbols_of_python_and_module_names():
    facts = elf("PyLong_FromLong", "_Py_NoneStruct", "pyro", defined=("PyInit_ops", "Py_x"))
    assert python_symbols(facts) == ("PyLong_FromLong", "_Py_NoneStruct")
    assert module_names(facts) == ("ops",)
