"""Real builds of tiny projects: hits, faults, and what holds of the wheel."""

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from projects import FILES, PYPROJECT, RECIPE, fatbin_archs, share_toolchain, write_project

pytestmark = pytest.mark.build


@pytest.fixture
def project(tmp_path):
    return write_project(tmp_path / "project of 'mine' ü")


@pytest.fixture
def build(run, project, tmp_path, compiler_cache, toolkit):
    cache = share_toolchain(tmp_path / "ca che", compiler_cache)

    def call(*words, where=project, **options):
        return run(
            "--project", str(where), "--cache", str(cache), "build", "tiny", *words, **options
        )

    call.cache = cache
    return call


def answer(done):
    assert done.returncode == 0, done.stderr
    (document,) = json.loads(done.stdout)
    return document


def test_a_build_then_a_hit(build):
    first = answer(build("--json"))
    assert first["cached"] is False
    assert first["verdict"]["passed"] is True
    assert first["verdict"]["devices"][0]["levels"]["imports"] == "not verified"
    assert first["sandbox"]["layout"] == "kf"
    second = answer(build("--json"))
    assert second["cached"] is True
    same = ("job", "key", "wheel", "sha256", "build_id")
    assert [second[key] for key in same] == [first[key] for key in same]


def test_the_wheel_tells_the_truth(build):
    document = answer(build("--json"))
    wheel = Path(document["wheel"])
    assert wheel.name == (
        f"tiny-1.2.3+cu130.sm120a-1kf{document['key'][:10]}-py3-none-linux_x86_64.whl"
    )
    with zipfile.ZipFile(wheel) as archive:
        info = "tiny-1.2.3+cu130.sm120a.dist-info"
        names = archive.namelist()
        assert names[-1] == f"{info}/RECORD"
        assert "Version: 1.2.3+cu130.sm120a" in archive.read(f"{info}/METADATA").decode()
        text = archive.read(f"{info}/WHEEL").decode()
        assert f"Build: 1kf{document['key'][:10]}" in text
        assert "Tag: py3-none-linux_x86_64" in text
        inside = json.loads(archive.read(f"{info}/build.json"))
    assert inside["build_key"] == document["key"]
    assert inside["recipe_key"] == document["recipe_key"]


def test_pip_installs_it(build, tmp_path):
    wheel = answer(build("--json"))["wheel"]
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-index", wheel], check=True)
    ask = "import tiny, importlib.metadata as m; print(m.version('tiny'))"
    done = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1.2.3+cu130.sm120a"


def test_bytes_are_equal_from_another_folder_cache_umask_and_job_count(
    build, run, tmp_path, compiler_cache
):
    first = answer(build("--json"))
    other = write_project(tmp_path / "elsewhere/deep")
    for path in other.rglob("*"):
        os.utime(path, (978307200, 978307200))
    cache = share_toolchain(tmp_path / "other cache", compiler_cache)
    old = os.umask(0o077)
    try:
        done = run(
            "--project", str(other), "--cache", str(cache), "build", "tiny", "--json",
            "--jobs", "1", env={"TZ": "Asia/Tokyo", "LANG": "C"},
        )  # fmt: skip
    finally:
        os.umask(old)
    second = answer(done)
    assert second["cached"] is False
    assert (second["key"], second["sha256"]) == (first["key"], first["sha256"])


def test_editing_verify_or_publish_compiles_nothing_again(build, project):
    first = answer(build("--json"))
    recipe = project / "recipes/tiny.yaml"
    recipe.write_text(RECIPE.replace("{require: code}", "{require: code, allow_jit: true}"))
    second = answer(build("--json"))
    assert second["cached"] is True
    recipe.write_text(RECIPE.replace("sm{archs}", "gpu{archs}"))
    third = build("--json")
    assert answer(third)["key"] != first["key"]
    assert "build    reused" in third.stderr


def test_imports_are_verified_where_they_are_required(build, project):
    text = RECIPE.replace("{require: code}", "{require: imports, import: [tiny]}")
    (project / "recipes/tiny.yaml").write_text(text)
    first = build("--json")
    levels = answer(first)["verdict"]["devices"][0]["levels"]
    assert [levels[n] for n in ("code", "links", "imports", "loads")] == [
        "reached", "reached", "reached", "not verified",
    ]  # fmt: skip
    assert ": verify " in first.stderr
    again = build("--json")
    assert answer(again)["verdict"] == answer(first)["verdict"]
    assert ": verify " not in again.stderr


def test_what_does_not_import_fails_only_where_it_is_required(build, project):
    (project / "project/tiny/__init__.py").write_text("import nowhere\n")
    recipe = project / "recipes/tiny.yaml"
    recipe.write_text(RECIPE.replace("{require: code}", "{require: code, import: [tiny]}"))
    document = answer(build("--json"))
    assert document["verdict"]["devices"][0]["levels"]["imports"] == "failed"
    assert any("nowhere" in note for note in document["verdict"]["notes"])
    recipe.write_text(RECIPE.replace("{require: code}", "{require: imports, import: [tiny]}"))
    done = build("--json")
    assert done.returncode == 7
    assert json.loads(done.stdout)[1]["error"] == "verdict-failed"


def test_a_level_that_cannot_be_verified_fails_closed(build, project):
    text = RECIPE.replace("{require: code}", "{require: loads}")
    (project / "recipes/tiny.yaml").write_text(text)
    done = build("--json")
    assert done.returncode == 7
    built, fault = json.loads(done.stdout)
    assert built["verdict"]["passed"] is False
    assert fault["error"] == "level-not-verified"


@pytest.mark.xdist_group("real")
def test_without_a_sandbox_nothing_is_imported(build, project):
    text = RECIPE.replace("{require: code}", "{require: imports, import: [tiny]}")
    (project / "recipes/tiny.yaml").write_text(text)
    done = build("--json", "--no-sandbox")
    assert done.returncode == 7
    built, fault = json.loads(done.stdout)
    assert built["verdict"]["devices"][0]["levels"]["imports"] == "not verified"
    assert fault["error"] == "level-not-verified"


def test_a_library_that_no_pattern_names_fails(build, project):
    text = RECIPE.replace("{require: code}", '{require: code, extensions: {"other/*.so": target}}')
    (project / "recipes/tiny.yaml").write_text(text)
    done = build("--json")
    assert done.returncode == 7
    words = {fault["word"] for fault in json.loads(done.stdout)[0]["verdict"]["faults"]}
    assert words == {"extension-missing", "extension-unnamed"}


def test_cuobjdump_agrees_on_two_archs(build, cuobjdump, tmp_path):
    wheel = answer(build("--json", "--arch", "12.0a 9.0"))["wheel"]
    with zipfile.ZipFile(wheel) as archive:
        archive.extract("tiny/libtiny.so", tmp_path)
    assert fatbin_archs(cuobjdump, tmp_path / "tiny/libtiny.so") == {"sm_90", "sm_120a"}


def test_a_compile_error_shows_the_tail_and_the_log(build, project):
    (project / "project/tiny.cu").write_text("__global__ void k() { nonsense; }\n")
    done = build()
    assert done.returncode == 6
    assert "nonsense" in done.stderr
    told = "error[compile-failed]: tiny-cu130-cp311-sm120a: nvcc on tiny/tiny.cu(1): error: "
    assert told in done.stderr
    log = done.stderr.split("log: ")[1].splitlines()[0]
    assert "nonsense" in Path(log).read_text()


@pytest.mark.parametrize(
    ("version", "word"), [("9.9.9", "version-mismatch"), ("0.0.0", "version-unknown")]
)
def test_another_version_than_the_recipes_fails(build, project, version, word):
    text = PYPROJECT.replace("1.2.3", version)
    (project / "project/pyproject.toml").write_text(text)
    done = build()
    assert done.returncode == 7
    assert f"error[{word}]" in done.stderr


def test_another_name_than_the_recipes_fails(build, project):
    (project / "project/pyproject.toml").write_text(
        PYPROJECT.replace('"tiny"\nversion', '"huge"\nversion')
    )
    done = build()
    assert done.returncode == 7
    assert "hint: write distribution: huge" in done.stderr


def test_no_network_inside(build, project):
    cmake = FILES["project/CMakeLists.txt"] + (
        "file(DOWNLOAD http://127.0.0.1:9/x ${CMAKE_BINARY_DIR}/x STATUS status)\n"
        "execute_process(COMMAND cat /proc/net/dev OUTPUT_VARIABLE devices)\n"
        'if(devices MATCHES "eth|ens|enp|wlan")\n  message(FATAL_ERROR "network")\nendif()\n'
        'if(EXISTS "$ENV{HOME}/.bashrc" OR EXISTS "/root/.ssh" OR EXISTS "/home/.")\n'
        '  message(FATAL_ERROR "home")\nendif()\n'
    )
    (project / "project/CMakeLists.txt").write_text(cmake)
    answer(build("--json"))


def test_an_object_compiled_past_the_shim_fails(build, project):
    cmake = FILES["project/CMakeLists.txt"] + (
        "add_custom_command(OUTPUT past.o COMMAND /usr/bin/g++ -c -fPIC "
        "${CMAKE_SOURCE_DIR}/past.cpp -o past.o)\ntarget_sources(tiny PRIVATE past.o)\n"
    )
    (project / "project/CMakeLists.txt").write_text(cmake)
    (project / "project/past.cpp").write_text("int past() { return 1; }\n")
    done = build()
    assert done.returncode == 6
    assert "error[object-unexplained]" in done.stderr
    assert "past.o" in done.stderr


def test_a_damaged_store_entry_is_built_again(build):
    first = answer(build("--json"))
    wheel = Path(first["wheel"])
    wheel.write_bytes(wheel.read_bytes()[:-10])
    done = build("--json")
    second = answer(done)
    assert "is damaged" in done.stderr
    assert second["cached"] is False
    assert second["sha256"] == first["sha256"]
    checked = subprocess.run(
        [sys.executable, "-m", "kernforge", "--cache", str(build.cache), "cache", "check"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert checked.returncode == 0
    assert "0 damaged" in checked.stdout


@pytest.mark.xdist_group("real")
def test_without_a_sandbox_the_real_folder_is_used_and_said(build):
    document = answer(build("--json", "--no-sandbox"))
    assert document["sandbox"]["layout"] == "real"
    assert document["sandbox"]["reason"] == "switched off by --no-sandbox"
    assert document["verdict"]["passed"]


@pytest.mark.xdist_group("real")
def test_a_forbidden_bubblewrap_is_told_apart(build, tmp_path):
    """In a user namespace that may make no further one, the real bubblewrap really is refused."""
    script = 'echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --bounding-set=-all "$@"'
    call = [sys.executable, "-m", "kernforge", "--project", str(tmp_path / "project of 'mine' ü"),
            "--cache", str(build.cache), "build", "tiny", "--json"]  # fmt: skip
    done = subprocess.run(
        ["unshare", "-r", "sh", "-c", script, "sh", *call],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    document = answer(done)
    assert document["sandbox"]["layout"] == "real"
    assert document["sandbox"]["reason"].startswith("bubblewrap is forbidden here")
    assert "network is not cut" in done.stderr


def test_a_cache_on_another_file_system(run, project, compiler_cache, toolkit, tmp_path):
    if os.stat("/dev/shm").st_dev == os.stat(compiler_cache).st_dev:
        pytest.fail("/dev/shm is no file system of its own here")
    import tempfile

    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        cache = share_toolchain(Path(folder) / "cache", compiler_cache)
        words = ("--project", str(project), "--cache", str(cache), "build", "tiny", "--json")
        assert answer(run(*words))["cached"] is False
        assert answer(run(*words))["cached"] is True
