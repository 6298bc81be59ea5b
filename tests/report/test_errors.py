import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernforge.errors import CompileError, KernforgeError, ManyErrors, RecipeError
from kernforge.report.errors import (
    dump,
    error_documents,
    error_text,
    github_lines,
    one_line,
    printable,
)

ONE = RecipeError("arch-invalid", "'120' is not an arch", hint="write 12.0")
TWO = RecipeError("yaml-tab", "demo.yaml:3: a tab")
LONG = CompileError("compile-failed", "it failed", detail=("line 1", "line 2"))


def test_one_fault_as_text():
    assert error_text(ONE) == "error[arch-invalid]: '120' is not an arch\n  hint: write 12.0"
    assert error_text(TWO) == "error[yaml-tab]: demo.yaml:3: a tab"


def test_the_programs_own_lines_come_first():
    assert error_text(LONG).splitlines() == [
        "  | line 1", "  | line 2", "error[compile-failed]: it failed"
    ]  # fmt: skip


def test_several_faults_are_each_told():
    text = error_text(ManyErrors((ONE, TWO)))
    assert text == f"{error_text(ONE)}\n{error_text(TWO)}"


def test_one_fault_as_data():
    (document,) = error_documents(ONE, job="demo-x")
    assert document == {
        "job": "demo-x",
        "error": "arch-invalid",
        "message": "'120' is not an arch",
        "hint": "write 12.0",
        "exit": 2,
        "detail": [],
    }


def test_several_faults_as_data():
    documents = error_documents(ManyErrors((ONE, TWO)))
    assert [document["error"] for document in documents] == ["arch-invalid", "yaml-tab"]
    assert error_documents(LONG)[0]["detail"] == ["line 1", "line 2"]


def test_dump_is_one_array_that_reads_back():
    value = [{"name": "grün \N{SNOWMAN}", "none": None}]
    assert json.loads(dump(value)) == value
    assert "grün" in dump(value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain grün", "plain grün"),
        ("a\tb", "a\tb"),
        ("a\x1b[31mred", "a\\x1b[31mred"),
        ("a\rb\x00", "a\\rb\\x00"),
        ("\u202eevil", "\\u202eevil"),
        ("caf\udce9", "caf\\udce9"),
    ],
)
def test_printable(text, shown):
    assert printable(text) == shown


def test_faults_for_githubs_page():
    assert github_lines(ManyErrors((ONE, TWO))) == [
        "::error title=arch-invalid::'120' is not an arch%0Ahint: write 12.0",
        "::error title=yaml-tab::demo.yaml:3: a tab",
    ]


def test_a_fault_is_one_command_of_githubs_whatever_it_says():
    (line,) = github_lines(KernforgeError("system", "100 %\n::warning::x\r", hint="a\nb"))
    assert line == "::error title=system::100 %25%0A::warning::x\\r%0Ahint: a%0Ab"


def test_one_line():
    assert one_line("a\tb\nc\x1b") == "a b\\nc\\x1b"


@given(st.text())
def test_no_control_character_reaches_a_terminal(text):
    error = KernforgeError("system", text, detail=(text,))
    assert all(c.isprintable() or c in "\t\n" for c in error_text(error))
