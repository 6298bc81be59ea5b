"""The texts are those of libstdc++ (`__cxa_demangle`, GCC 12), which the last tests ask itself."""

import ctypes

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernforge.binary.demangle import demangle
from kernforge.binary.summary import kernel_names
from kernforge.binary.thing import read_thing

NAMES = [
    ("_Z5scalePfi", "scale(float*, int)"),
    ("_Z1kv", "k()"),
    ("_Z3varz", "var(...)"),
    ("_ZN2ns4dataE", "ns::data"),
    ("_ZL6hiddenPKc", "hidden(char const*)"),
    ("_ZN12_GLOBAL__N_11kEv", "(anonymous namespace)::k()"),
    ("_Z1kIfEvPT_", "void k<float>(float*)"),
    ("_Z1kIfEPT_v", "float* k<float>()"),
    ("_Z1kIJfiEEvDpT_", "void k<float, int>(float, int)"),
    ("_Z1kIJEEvDpT_", "void k<>()"),
    ("_Z1kIJfiEEvDpRKT_", "void k<float, int>(float const&, int const&)"),
    ("_Z1kILi3ELj4ELl5ELm6ELx7ELy8EEvv", "void k<3, 4u, 5l, 6ul, 7ll, 8ull>()"),
    ("_Z1kILb1ELb0ELin3ELs2ELc65EEvv", "void k<true, false, -3, (short)2, (char)65>()"),
    ("_Z1kILN2ns4ModeE2EEvv", "void k<(ns::Mode)2>()"),
    (
        "_Z1kISt6vectorIiSaIiEEEvT_",
        "void k<std::vector<int, std::allocator<int> > >(std::vector<int, std::allocator<int> >)",
    ),
    ("_Z1kSsRSo", "k(std::string, std::ostream&)"),
    (
        "_Z1kNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        "k(std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >)",
    ),
    ("_Z1kPFviE", "k(void (*)(int))"),
    ("_Z1kRFviE", "k(void (&)(int))"),
    ("_Z1kPPFvvE", "k(void (**)())"),
    ("_Z1kPFvPFvvEE", "k(void (*)(void (*)()))"),
    ("_Z1kPA3_f", "k(float (*) [3])"),
    ("_Z1kRA3_Kf", "k(float const (&) [3])"),
    ("_Z1kM1Af", "k(float A::*)"),
    ("_Z1kM1AKFviE", "k(void (A::*)(int) const)"),
    ("_Z1kRVKPrf", "k(float restrict* const volatile&)"),
    ("_Z1kIRfEvOT_", "void k<float&>(float&)"),
    ("_Z1kIOfEvOT_", "void k<float&&>(float&&)"),
    ("_Z1kDv4_fDn", "k(float __vector(4), decltype(nullptr))"),
    ("_ZNK1A1kEv", "A::k() const"),
    ("_ZNKR1A1kEv", "A::k() const &"),
    ("_ZN1AC1Ei", "A::A(int)"),
    ("_ZN1AD2Ev", "A::~A()"),
    ("_ZN1AIiEC1Ev", "A<int>::A()"),
    ("_ZN1AcvbEv", "A::operator bool()"),
    ("_ZN1AplERKS_", "A::operator+(A const&)"),
    ("_ZN1AnwEm", "A::operator new(unsigned long)"),
    ("_ZN1A1kB5cxx11Ev", "A::k[abi:cxx11]()"),
    ("_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()() const"),
    ("_ZZ4mainENKUlvE10_clEv", "main::{lambda()#12}::operator()() const"),
    ("_ZZ3fooIiEvvENKUlvE_clEv", "foo<int>()::{lambda()#1}::operator()() const"),
    ("_ZZ1kvENKUlT_E_clIiEEDaS_", "auto k()::{lambda(auto:1)#1}::operator()<int>(int) const"),
    ("_ZZ1kvE4data", "k()::data"),
    ("_ZZ1kvE4data_0", "k()::data"),
    ("_ZZ1kvEs", "k()::string literal"),
    ("_ZN1AUt_E", "A::{unnamed type#1}"),
    ("_Z1kIXadL_ZN2ns1fEiEEEvv", "void k<&ns::f>()"),
    ("_Z1kIXadL_Z1fiEEEvv", "void k<&(f(int))>()"),
    ("_Z1kIXtlN2ns1CELi1ELb1EEEEvv", "void k<ns::C{1, true}>()"),
    ("_Z1kIiEv1AIXstT_EE", "void k<int>(A<sizeof (int)>)"),
    ("_Z1kIiEv1AIXsr1BIT_E5valueEE", "void k<int>(A<B<int>::value>)"),
    ("_Z1kIiEv1AIXsr1B5valueIT_EEE", "void k<int>(A<B::value<int> >)"),
    ("_Z1kILi2EEv1AIXplT_Li1EEE", "void k<2>(A<(2)+(1)>)"),
    ("_Z1kILi2EEv1AIXgtT_Li1EEE", "void k<2>(A<((2)>(1))>)"),
    ("_Z1kILi2EEv1AIXngT_EE", "void k<2>(A<-(2)>)"),
    ("_Z1kILb1EEvNSt9enable_ifIXT_EvE4typeE", "void k<true>(std::enable_if<true, void>::type)"),
    ("_Z1kIiEvDTstT_E", "void k<int>(decltype (sizeof (int)))"),
    ("_Z1kPDoFvvE", "k(void (*)() noexcept)"),
    ("_Z1kU3fooi", "k(int foo)"),
    ("_Z1kPK3fooU3barPi", "k(foo const*, int* bar)"),
    ("_Z1kM1AFviEM1Bf", "k(void (A::*)(int), float B::*)"),
    ("_Z1kKFvvE", "k(void () const)"),
    ("_ZN1A2opIiEEvv", "void A::op<int>()"),
    ("_ZN1AIiE1kIfEEvT_", "void A<int>::k<float>(float)"),
    ("_ZZN1AIiE1kEvE1x__10_", "A<int>::k()::x"),
    ("_ZN1AIJiJfEEE1kEv", "A<int, float>::k()"),
    ("_ZTVN2ns1AE", "vtable for ns::A"),
    ("_ZTIPKc", "typeinfo for char const*"),
    ("_ZGVZ1kvE4data", "guard variable for k()::data"),
    ("_Z1kv.kd", "k() [clone .kd]"),
    (
        "_ZSt4moveIRiEONSt16remove_referenceIT_E4typeEOS2_",
        "std::remove_reference<int&>::type&& std::move<int&>(int&)",
    ),
]


@pytest.mark.parametrize(("name", "text"), NAMES)
def test_names(name, text):
    assert demangle(name) == text


def _library():
    library = ctypes.CDLL("libstdc++.so.6")
    call = library.__cxa_demangle
    call.restype = ctypes.c_void_p
    call.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]

    def ask(name):
        place = call(name.encode(), None, None, None)
        if place is None:
            return None
        text = ctypes.string_at(place).decode()
        free(place)
        return text

    return ask


def test_libstdcpp_says_the_same():
    ask = _library()
    assert [(name, ask(name)) for name, _ in NAMES] == NAMES


def test_types_newer_than_the_installed_libstdcpp():
    assert demangle("_Z1kDF16_") == "k(_Float16)"


@pytest.mark.network
@pytest.mark.parametrize(
    ("spec", "most_unknown"),
    [("sglang-kernel==0.4.10", 0), ("sgl-kernel==0.3.21", 0), ("torch==2.14.1", 4)],
)
def test_published_kernels_read_as_libstdcpp_reads_them(spec, most_unknown):
    from .published import unpacked

    ask = _library()
    names = frozenset().union(*map(kernel_names, read_thing(str(unpacked(spec))).libraries))
    told = {name: ask(name) for name in names}
    ours = {name: demangle(name) for name in names}
    known = [n for n in names if told[n] is not None and ours[n] is not None]
    assert [n for n in known if ours[n] != told[n]] == []
    unknown = [n for n in names if told[n] is not None and ours[n] is None]
    assert len(unknown) <= most_unknown
    assert len(known) > 900


@pytest.mark.parametrize(
    "name",
    [
        "",
        "_Z",
        "_ZN",
        "_Z0k",
        "_Z99999999999999999999k",
        "_Z5ab",
        "_Z1kS_",
        "_Z1kT_",
        "data",
        "_ZN1aE1",
        "_Z1kIXE",
        "_Z1kLi",
        "_Z" + "N" * 5000,
        "_Z1k" + "P" * 5000 + "v",
        "_Z1kI" + "J" * 5000,
        "_Z1kv#",
        "_Z1kILi2EEvRAplT_Li1E_f",  # a size that is computed
        "_Z1kIiEvDTplfp_fp_E",  # a type told by parameters
        "_ZTc1kv",
        "_ZZ1kvEd_1a",
        "_ZN1AqqEv",
        "_Z1kDx",
        "_Z1kQ",
    ],
)
def test_what_is_no_name_is_none(name):
    assert demangle(name) is None


def test_a_name_that_unfolds_without_end_is_given_up():
    """Each pair holds the one before twice: 2 to the 60th members in 400 characters."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

    def number(n):
        return (digits[n // 36] if n >= 36 else "") + digits[n % 36]

    pairs = "".join(f"S_IS{number(n)}_S{number(n)}_E" for n in range(60))
    assert demangle("_Z1kSt4pairIiiE" + pairs[:40]) is not None
    assert demangle("_Z1kSt4pairIiiE" + pairs) is None


def test_a_long_type_said_many_times_is_given_up():
    """A type of a thousand characters, fifty thousand times, would be fifty megabytes."""
    long = f"_Z1k1000{'a' * 1000}"
    assert demangle(long + "S_" * 30) == f"k({', '.join(['a' * 1000] * 31)})"
    assert demangle(long + "S_" * 50_000) is None


@settings(max_examples=500, deadline=None)
@given(rest=st.text(alphabet="NZSTIEJLXKPRODptdvbijlmfsacUuC_0123456789B.xk", max_size=80))
def test_any_text_is_a_name_or_none(rest):
    text = demangle("_Z" + rest)
    assert text is None or len(text) < 1 << 18


_CHANGES = st.tuples(st.integers(0, 200), st.sampled_from("NZSTIEJLXKPDpv_0129"))


@settings(max_examples=300, deadline=None)
@given(name=st.sampled_from([n for n, _ in NAMES]), changes=st.lists(_CHANGES, max_size=4))
def test_changed_names_are_names_or_none(name, changes):
    for place, sign in changes:
        at = place % (len(name) + 1)
        name = name[:at] + sign + name[at + 1 :]
    assert demangle(name) is None or isinstance(demangle(name), str)
