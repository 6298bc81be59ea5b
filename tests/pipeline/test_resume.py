"""What a killed program has left half-written never reaches a wheel."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from pipeline.trials import SETUP

pytestmark = pytest.mark.build

SLOW = """\
#include <cub/cub.cuh>
template <int N> __global__ void sum(float *x)
{
    __shared__ typename cub::BlockReduce<float, N>::TempStorage room;
    float all = cub::BlockReduce<float, N>(room).Sum(x[threadIdx.x]);
    if (threadIdx.x == 0) x[0] = all;
}
extern "C" void tiny_scale(float *x)
{
    sum<32><<<1, 32>>>(x); sum<64><<<1, 64>>>(x); sum<128><<<1, 128>>>(x);
}
"""
HOST = "    def build_extension(self, ext):\n"
STOCK = (
    f"{HOST}        if ext.name == 'plain.host':\n            return super().build_extension(ext)\n"
)
ALONE = 'ext_modules=[Extension("plain.code", sources)]'
EXTENSIONS = (
    "ext_modules=[Extension('plain.host', ['csrc/host.cpp']), "
    "Extension('plain.code', ['csrc/scale.cu'])]"
)


def test_setuptools_takes_no_torn_file_for_whole(trial):
    """It goes by dates alone: a library that ld was writing, a module that was being copied."""
    setup = SETUP.replace(HOST, STOCK).replace(ALONE, EXTENSIONS)
    trial.write(
        {
            "project/setup.py": setup,
            "project/csrc/host.cpp": 'extern "C" int plain_host() { return 7; }\n',
            "project/csrc/scale.cu": SLOW,
        }
    )
    words = [sys.executable, "-m", "kernforge", "--project", trial.root, "--cache", trial.cache]
    child = subprocess.Popen(
        [*words, "build", "plain", "--json", "--no-compile-cache"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not linked(trial.cache):
        assert child.poll() is None
        time.sleep(0.02)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    (library,) = trial.cache.glob("work/*/src/plain/build/lib*/plain/host*.so")
    (module,) = trial.cache.glob("work/*/src/plain/build/lib*/plain/__init__.py")
    (module.parent / "left.py").write_text("half = ")
    for path in (library, module):
        path.write_bytes(path.read_bytes()[:7])
    resumed = trial.build()
    assert "Goes on with the compile that stopped: " in resumed.said
    made = resumed.made
    for kind in ("artifact", "compiled"):
        shutil.rmtree(trial.cache / "store" / kind)
    assert trial.build("--no-compile-cache").made["sha256"] == made["sha256"]


def linked(cache):
    """Whether the first extension's library is in the ledger."""
    for ledger in cache.glob("work/*/ledger/calls.jsonl"):
        for line in ledger.read_text().splitlines(keepends=True):
            if line.endswith("\n") and json.loads(line)["kind"] == "link":
                return True
    return False
