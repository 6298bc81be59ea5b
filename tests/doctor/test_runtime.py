"""Run-time compilation: who does it, with what, and what is missing."""

import json

import pytest
from doctor.places import PATH, checkout

from kernforge.doctor.runtime import Where


def program(folder, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\nexit 1\n")
        (folder / name).chmod(0o755)
    return folder


def toolkit(root, release):
    program(root / "bin", "nvcc")
    (root / "version.json").write_text(json.dumps({"cuda": {"version": release}}))
    return root


@pytest.fixture
def sglang(place, tmp_path):
    project = checkout(tmp_path / "sglang") / "python"
    place.editable("sglang", "0.5.19", project, {"sglang": project / "sglang"})

    def look(*devices, path="", cuda=("", "")):
        found = place.look(
            *devices, sandbox=False, where=Where(path=path, cuda=cuda, system=tmp_path)
        )
        (one,) = found.compiling
        return one.troubles, {program.name: program for program in found.programs}

    return look


def test_all_is_there(sglang, tmp_path):
    root = toolkit(tmp_path / "cuda", "13.0.2")
    path = program(tmp_path / "bin", "g++", "ninja")
    troubles, programs = sglang("12.0", path=str(path), cuda=(str(root), ""))
    assert troubles == ()
    assert (programs["nvcc"].path, programs["nvcc"].release) == (str(root / "bin/nvcc"), "13.0")
    assert programs["c++"].path == str(path / "g++")


def test_nothing_is_there(sglang):
    troubles, _ = sglang("12.0")
    assert troubles[-2:] == ("c++ is not found", "ninja is not found")


def test_a_toolkit_that_does_not_know_the_card(sglang, tmp_path):
    root = toolkit(tmp_path / "cuda", "12.6.1")
    path = program(tmp_path / "bin", "c++", "ninja")
    troubles, _ = sglang("12.0", path=f"{root}/bin:{path}")
    assert troubles == (f"{root}/bin/nvcc: CUDA 12.6 is too old for 12.0a: it needs 12.8 or newer",)


def test_programs_of_the_environment_come_first(sglang, place, tmp_path):
    path = program(tmp_path / "bin", "ninja")
    program(place.root / "bin", "ninja")
    _, programs = sglang(path=str(path))
    assert programs["ninja"].path == str(place.root / "bin/ninja")


def test_a_compiler_of_wheels_that_nobody_names(place, tmp_path, sglang):
    place.write("nvidia/cu13/bin/nvcc", "")
    troubles, _ = sglang(path=str(program(tmp_path / "bin", "c++", "ninja")))
    assert troubles == (f"nvcc is not found (found only with CUDA_HOME={place.site}/nvidia/cu13)",)


def test_a_garbled_toolkit_has_no_release(sglang, tmp_path):
    root = toolkit(tmp_path / "cuda", "13.0")
    (root / "version.json").write_text("{")
    _, programs = sglang("12.0", cuda=(str(root), ""))
    assert programs["nvcc"].release is None


def test_a_package_without_kernels_of_its_own_compiles_nothing(place):
    place.install("sglang", "0.4.0", {"sglang/__init__.py": ""})
    place.install("triton", "3.8.0", {"triton/__init__.py": ""})
    found = place.look(sandbox=False, where=Where(path=PATH, cuda=()))
    assert [one.distribution for one in found.compiling] == ["triton"]
    assert [program.name for program in found.programs] == ["cc"]
