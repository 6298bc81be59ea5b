"""How the command line shows progress and faults."""

import click
import pytest

from kernforge.cli import output
from kernforge.cli.place import progress_mode
from kernforge.errors import RecipeError
from kernforge.events import StageEnded, UnitEnded
from kernforge.report.progress import Plain

UNIT = UnitEnded(
    job="demo", done=1, total=2, what="a.cu", archs=(), seconds=1.0, peak=None, cache=None,
    failed=False,
)  # fmt: skip
CASES = [
    ({}, True, "live"),
    ({}, False, "plain"),
    ({"TERM": "dumb"}, True, "plain"),
    ({"GITHUB_ACTIONS": "true"}, False, "github"),
    ({"GITHUB_ACTIONS": "false"}, False, "plain"),
]


@pytest.mark.parametrize(("env", "terminal", "mode"), CASES)
def test_the_mode_where_nobody_names_one(monkeypatch, env, terminal, mode):
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    for name, value in {"TERM": "xterm", **env}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    assert progress_mode() == mode


def stages(*, fail=False):
    """A command that shows a unit and a stage."""

    @click.command()
    @output.progress_option
    def command():
        show = output.open_display()
        show(UNIT)
        if fail:
            raise RecipeError("usage", "100 % wrong")
        show(StageEnded(job="demo", stage="build", seconds=1.0))

    return command


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch):
    for name in ("GITHUB_ACTIONS", "KERNFORGE_PROGRESS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("words", "env", "said"),
    [
        ([], {}, ["[1/2] a.cu  1.0 s", "demo: build     1.0 s"]),
        (["--progress", "none"], {}, []),
        ([], {"KERNFORGE_PROGRESS": "none"}, []),
        (["--progress", "plain"], {"GITHUB_ACTIONS": "true"},
         ["[1/2] a.cu  1.0 s", "demo: build     1.0 s"]),
        ([], {"GITHUB_ACTIONS": "true"},
         ["::group::demo: compiler calls", "[1/2] a.cu  1.0 s", "::endgroup::",
          "demo: build     1.0 s"]),
    ],
)  # fmt: skip
def test_the_option_and_its_variable(monkeypatch, capsys, words, env, said):
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    stages().main(words, standalone_mode=False)
    answer = capsys.readouterr()
    assert answer.err.splitlines() == said
    assert answer.out == ""


def test_another_mode_is_a_fault():
    with pytest.raises(click.BadParameter, match="'loud' is not one of 'auto', 'live'"):
        stages().main(["--progress", "loud"], standalone_mode=False)


def test_a_display_is_closed_when_its_command_fails(capsys):
    with pytest.raises(RecipeError, match="wrong"):
        stages(fail=True).main(["--progress", "github"], standalone_mode=False)
    assert capsys.readouterr().err.splitlines()[-1] == "::endgroup::"


def test_faults_reach_githubs_page(monkeypatch, capsys):
    error = RecipeError("usage", "100 % wrong")
    output.say_fault(error)
    assert capsys.readouterr().err == "error[usage]: 100 % wrong\n"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    output.say_fault(error)
    assert capsys.readouterr().err.splitlines() == [
        "error[usage]: 100 % wrong",
        "::error title=usage::100 %25 wrong",
    ]


def test_progress_is_said_on_standard_error(capsys):
    Plain(output.say)(UNIT)
    assert capsys.readouterr() == ("", "[1/2] a.cu  1.0 s\n")
