"""GPUs beside those that a wheel was built for: only where every kernel of it has code that runs."""

import json
from pathlib import Path

import pytest
from projects import RECIPE, share_toolchain, write_project
from publish.servers_of_index import serving

from kernforge.publish.further import further_devices
from kernforge.recipe.load import load_recipe
from kernforge.recipe.matrix import expand


def job(tmp_path, archs):
    path = tmp_path / "tiny.yaml"
    path.write_text(RECIPE.replace('["12.0a"]', json.dumps([archs])))
    return expand(load_recipe(path))[0]


@pytest.mark.parametrize(
    ("archs", "further"),
    [
        ("8.0", ["8.6", "8.8", "8.9"]),
        ("8.0;8.6", ["8.8", "8.9"]),
        ("12.0", ["12.1"]),
        ("12.0f", ["12.1"]),
        ("12.0a", []),
        ("9.0", []),
        ("8.7", []),
        ("7.5;10.0", ["10.3"]),
    ],
)
def test_what_runs_by_the_rule(tmp_path, archs, further):
    assert [str(device) for device in further_devices(job(tmp_path, archs))] == further


@pytest.fixture
def tiny(run, tmp_path, compiler_cache, toolkit):
    project = write_project(
        tmp_path / "project", {"recipes/tiny.yaml": RECIPE.replace('["12.0a"]', '["8.0"]')}
    )
    cache = share_toolchain(tmp_path / "cache", compiler_cache)

    def call(*words, **options):
        return run("--project", str(project), "--cache", str(cache), *words, **options)

    call.project, call.index = project, tmp_path / "index"
    return call


def claims(done):
    assert done.returncode == 0, done.stderr
    (wheel,) = json.loads(done.stdout)[0]["wheels"]
    return {claim["device"]: claim["expected"] for claim in wheel["claims"]}


@pytest.mark.build
def test_an_8_6_card_gets_code_for_8_0_and_is_told(tiny, tmp_path):
    done = tiny("publish", "tiny", "--to", str(tiny.index), "--json")
    assert claims(done) == {"8.0": False, "8.6": True, "8.8": True, "8.9": True}
    with serving(tiny.index / "current") as (address, _):
        words = ("install", "tiny", "--index", address, "--dry-run", "--json", "--device")
        chosen = tiny(*words, "8.6")
        assert chosen.returncode == 0, chosen.stderr
        assert json.loads(chosen.stdout)[0]["expected_only"] is True
        assert "note: its code is for 8.0 and expected to run on 8.6 " in chosen.stderr
        made_for = tiny(*words, "8.0")
        assert json.loads(made_for.stdout)[0]["expected_only"] is False
        refused = tiny(*words, "8.7")
    assert refused.returncode == 8
    assert "serves GPUs 8.0, 8.6, 8.8, 8.9, not 8.7" in refused.stderr


@pytest.mark.build
def test_one_kernel_for_12_0_alone_and_12_1_is_not_promised(tiny):
    """Upstream's own list is kept for one file, so that its kernel has a code for 12.0a only."""
    text = RECIPE.replace('["12.0a"]', '["12.0"]').replace(
        "matrix:", 'build: {gencode: {default: replace, "*own.cu": upstream}}\nmatrix:'
    )
    (tiny.project / "recipes/tiny.yaml").write_text(text)
    project = Path(tiny.project, "project")
    cmake = (project / "CMakeLists.txt").read_text()
    own = "set_source_files_properties(own.cu PROPERTIES COMPILE_OPTIONS {})\n".format(
        '"-gencode=arch=compute_120a,code=sm_120a"'
    )
    wanted = cmake.replace("SHARED tiny.cu)", f"SHARED tiny.cu own.cu)\n{own}")
    assert wanted != cmake
    wanted += "set_property(TARGET tiny PROPERTY CUDA_ARCHITECTURES OFF)\n"
    (project / "CMakeLists.txt").write_text(wanted)
    kernel = (project / "tiny.cu").read_text().replace("tiny_scale", "own_scale")
    (project / "own.cu").write_text(
        kernel.replace("scale(float", "own(float").replace("scale<", "own<")
    )
    assert claims(tiny("publish", "tiny", "--to", str(tiny.index), "--json")) == {"12.0": False}
