"""Interpreters of all kinds, broken ones too; real ones answer, none loads a package."""

import os
import shutil
import sys
import venv
from pathlib import Path

import pytest
from doctor.places import PATH

from kernforge.doctor.interpreter import ask
from kernforge.errors import ToolchainError
from kernforge.process import SystemRunner

ENV = (("PATH", PATH),)


def asked(python, env=ENV):
    return ask(Path(python), env=env, runner=SystemRunner())


def script(place: Path, text: str) -> Path:
    place.write_text(f"#!/bin/sh\n{text}\n")
    place.chmod(0o755)
    return place


def test_a_virtual_environment(place):
    found = asked(place.python)
    assert (found.program, found.prefix, found.venv) == (place.python, place.root, True)
    assert found.sites == (place.site,)
    assert found.version == sys.version.split()[0]
    assert found.python == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert found.user_site is None
    assert found.suffixes[0].startswith(".cpython-")


def test_the_same_folders_as_the_interpreter_itself_has(place):
    """The oracle is the interpreter, started as a user does."""
    import subprocess

    ask_it = "import sys; print('\\n'.join(p for p in sys.path if p))"
    done = subprocess.run([place.python, "-c", ask_it], capture_output=True, text=True, check=True)
    real = [Path(line) for line in done.stdout.splitlines()]
    found = asked(place.python)
    assert list(found.path) == [path for path in real if path.name.endswith("-packages")]


def test_one_that_shares_the_system_packages(tmp_path):
    venv.create(tmp_path / "env", with_pip=False, symlinks=True, system_site_packages=True)
    found = asked(tmp_path / "env/bin/python")
    assert found.sites[0].is_relative_to(tmp_path)
    assert any(not site.is_relative_to(tmp_path) for site in found.sites)


def test_the_user_site_comes_first_outside_an_environment(tmp_path):
    real = Path(sys.executable).resolve()
    site = (
        tmp_path
        / f".local/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    )
    site.mkdir(parents=True)
    found = asked(real, (*ENV, ("HOME", str(tmp_path))))
    assert (found.user_site, found.sites[0], found.venv) == (site, site, False)


def test_pth_files_are_read_and_not_executed(place, tmp_path):
    (tmp_path / "more").mkdir()
    mark = tmp_path / "mark"
    text = f"# note\n{tmp_path / 'more'}\n/nowhere\nimport os; open({str(mark)!r}, 'w')\n\0bad\n"
    place.write("a.pth", text)
    place.write(".hidden.pth", f"{tmp_path}\n")
    place.write("binary.pth", b"\xff\xfe\0" * 100)
    found = asked(place.python)
    assert found.added == (tmp_path / "more",)
    (pth,) = [pth for pth in found.pths if pth.path.name == "a.pth"]
    assert len(pth.code) == 1
    assert not mark.exists()


def test_a_pth_file_that_is_a_pipe_or_a_loop(place):
    os.mkfifo(place.site / "pipe.pth")
    (place.site / "loop.pth").symlink_to("loop.pth")
    place.write("round.pth", str(place.site / "round") + "\n")
    (place.site / "round").symlink_to("round")
    found = asked(place.python)
    assert found.added == ()
    assert [pth.path.name for pth in found.pths] == ["round.pth"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("exit 3", "status 3"),
        ("echo nonsense", "status 0"),
        ("echo '[]'", "status 0"),
        ('echo \'{"implementation": "pypy"}\'', "it is 'pypy', not CPython"),
        ('echo \'{"implementation": "cpython"}\'', "not understood"),
        ('echo \'{"implementation": "cpython", "site": 3}\'', "not understood"),
        ("kill -9 $$", "status -9"),
    ],
)
def test_a_broken_interpreter_gets_one_clear_line(tmp_path, text, why):
    with pytest.raises(ToolchainError, match="does not answer") as found:
        asked(script(tmp_path / "python", text))
    assert (found.value.word, found.value.hint) == (
        "interpreter-broken",
        "name another with --python",
    )
    assert why in found.value.message


def test_an_interpreter_that_is_not_there(tmp_path):
    with pytest.raises(ToolchainError, match="is not there") as found:
        asked(tmp_path / "python")
    assert found.value.word == "interpreter-broken"


def test_an_environment_that_outlived_its_interpreter(tmp_path):
    """The usual end of a virtual environment: the Python it was made from was upgraded away."""
    (tmp_path / "env/bin").mkdir(parents=True)
    (tmp_path / "env/bin/python").symlink_to("/opt/gone/bin/python3.9")
    (tmp_path / "env/pyvenv.cfg").write_text("home = /opt/gone/bin\nversion = 3.9.1\n")
    with pytest.raises(ToolchainError, match="env/bin/python") as found:
        asked(tmp_path / "env/bin/python")
    assert "'/opt/gone/bin', which is gone" in found.value.hint


def test_a_folder_that_cannot_be_listed_is_told(place):
    """Root reads everything: a folder with more names than anybody looks at stands in."""
    from kernforge.doctor import files

    for number in range(files.LISTING_LIMIT + 1):
        (place.site / f"f{number}").touch()
    found = place.look(sandbox=False)
    assert [trouble.word for trouble in found.troubles] == ["folder-unreadable"]
    assert not found.healthy
    shutil.rmtree(place.site)
