"""A driver made here that knows one card of capability 9.0, and libraries for it.

It reads the arch of the first entry of a fat binary and takes it where it is its own; every fat
binary it takes has the kernels ``_Z1av`` and ``_Z1bv``.
"""

from binary.forge import EXIT, make_container, make_cubin, make_entry, make_library
from verify.targets import compile_library

DRIVER = r"""
#include <string.h>
#include <stdlib.h>
typedef unsigned char u8;
static int cards = CARDS;
static int number(const u8 *code) { int n; memcpy(&n, code + 16 + 28, 4); return n; }
int cuInit(int f) { return cards ? 0 : 100; }
int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
int cuDeviceGetCount(int *n) { *n = cards; return 0; }
int cuDeviceGet(int *d, int i) { *d = i; return 0; }
int cuDeviceGetName(char *t, int n, int d) { strcpy(t, "Stand-in"); return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { *v = a == 75 ? 9 : 0; return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = (void *)1; return 0; }
int cuCtxSetCurrent(void *c) { return 0; }
int cuGetErrorName(int e, const char **t) {
  *t = e == 209 ? "CUDA_ERROR_NO_BINARY_FOR_GPU" : "CUDA_ERROR_OTHER"; return 0; }
int cuLibraryLoadData(void **l, const u8 *code, void *a, void *b, int n, void *c, void *d, int m) {
  if (!getenv("CUDA_DISABLE_PTX_JIT") || !getenv("CUDA_CACHE_DISABLE")) abort();
  if (number(code) == 666) *(volatile int *)0 = 1;
  if (number(code) != 90) return 209;
  *l = (void *)1; return 0; }
int cuLibraryGetKernelCount(unsigned *n, void *l) { *n = 2; return 0; }
int cuLibraryEnumerateKernels(void **k, unsigned n, void *l) {
  k[0] = (void *)1; k[1] = (void *)2; return 0; }
int cuKernelGetName(const char **t, void *k) { *t = k == (void *)1 ? "_Z1av" : "_Z1bv"; return 0; }
int cuKernelGetFunction(void **f, void *k) { *f = k; return 0; }
int cuFuncLoad(void *f) { return f == (void *)2 ? BROKEN : 0; }
int cuLibraryUnload(void *l) { return 0; }
"""


def driver(tmp_path, *, cards=1, broken=0):
    source = DRIVER.replace("CARDS", str(cards)).replace("BROKEN", str(broken))
    return compile_library(tmp_path / "driver/libcuda.so.1", source).parent


def no_driver(tmp_path):
    """A folder that hides the driver of this machine, if it has one: what is first cannot be loaded."""
    folder = tmp_path / "no driver"
    folder.mkdir(exist_ok=True)
    for name in ("libcuda.so.1", "libcuda.so"):
        (folder / name).touch()
    return folder


def fat(*numbers):
    cubin = make_cubin({"_Z1av": EXIT, "_Z1bv": EXIT})
    entries = b"".join(make_container(make_entry(cubin, number)) for number in numbers)
    return make_library(fatbin=entries)
