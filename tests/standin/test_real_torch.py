"""The stand-in with the real torch, in the very environment that is locked for `sgl-kernel`.

Some five gigabytes are downloaded once. What it shows for the flagship: torch's CMake files find a
toolkit made of wheels, and what they put into CMAKE_CUDA_FLAGS and CUDA_VERSION changes nothing.
"""

import json
import shutil
from pathlib import Path

import pytest
from projects import ROOT, share_toolchain
from standin.maker import make_standin

from kernforge.binary.wheel import read_wheel
from kernforge.recipe.load import load_recipe

pytestmark = [pytest.mark.build, pytest.mark.network, pytest.mark.xdist_group("standin")]


@pytest.fixture
def standin(tmp_path):
    made = make_standin(tmp_path / "made")
    locks = made.project / "recipes/locks/standin"
    shutil.rmtree(locks)
    shutil.copytree(ROOT / "recipes/locks/sgl-kernel", locks)
    (needs,) = load_recipe(ROOT / "recipes/sgl-kernel.yaml").build.requires
    made.recipe(
        ("  toolkit: wheels\n", f'  toolkit: wheels\n  requires: ["{needs}"]\n'),
        ('    STANDIN_ENABLE_FA3: "OFF"\n', '    STANDIN_ENABLE_FA3: "OFF"\n    STANDIN_REAL_TORCH: "ON"\n'),
        ('  python: ["3.11"]\n', '  python: ["3.11"]\n  torch: ["2.14.1"]\n'),
    )  # fmt: skip
    return made


def test_it_builds_for_12_0_beside_the_real_torch(standin, run, tmp_path, compiler_cache):
    cache = share_toolchain(tmp_path / "cache", compiler_cache)
    place = ("--project", str(standin.project), "--cache", str(cache))
    done = run(*place, "build", "standin", "--arch", "12.0a", "--json")
    assert done.returncode == 0, done.stderr
    (answer,) = json.loads(done.stdout)
    (library,) = [
        lib for lib in read_wheel(Path(answer["wheel"])).libraries if "sm100/" in lib.path
    ]
    assert {image.label for image in library.images} == {"12.0a"}
    assert "libtorch.so" in library.elf.needed or "libc10.so" in library.elf.needed
    log = Path(answer["wheel"]).with_name("build.log").read_text()
    assert "PyTorch: CUDA detected: 13.0" in log
