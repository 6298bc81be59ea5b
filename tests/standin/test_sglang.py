"""SGLang 0.5.9 itself, from its source distribution: the version it says, the kernels it asks for."""

import importlib.util
import json
import zipfile

import pytest

pytestmark = [pytest.mark.build, pytest.mark.network, pytest.mark.xdist_group("standin")]


def test_it_knows_its_version_and_asks_for_our_kernels(run, compiler_cache, tmp_path):
    done = run("--cache", str(compiler_cache), "build", "sglang-sdist", "--json")
    answer = json.loads(done.stdout)[0]
    assert "wheel" in answer, done.stderr
    with zipfile.ZipFile(answer["wheel"]) as archive:
        metadata = archive.read("sglang-0.5.9.dist-info/METADATA").decode()
        archive.extract("sglang/_version.py", tmp_path)
    assert "Requires-Dist: sgl-kernel==0.3.21+cu130.torch2.9.sm120a\n" in metadata
    spec = importlib.util.spec_from_file_location("_version", tmp_path / "sglang/_version.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.__version__ == "0.5.9"
