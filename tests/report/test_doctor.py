"""What `doctor` prints and documents: every word and every member is in its page."""

import io
import re
from pathlib import Path

import pytest
from doctor.places import Place, checkout
from rich.console import Console

from kernforge.report import doctor
from kernforge.report.diagnosis import diagnosis_document

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/doctor.md").read_text()


def words_used() -> set[str]:
    found = set()
    for path in (ROOT / "src/kernforge/doctor").glob("*.py"):
        text = path.read_text()
        found |= set(re.findall(r'word="([a-z-]+)"', text))
        found |= set(re.findall(r'log\.note\(\s*"([a-z-]+)"', text))
    return found | {f"requirement-{state}" for state in ("absent", "other", "unknown")}


def test_every_word_is_in_the_page():
    assert {word for word in words_used() if f"`{word}`" not in PAGE} == set()


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    root = tmp_path_factory.mktemp("place")
    place = Place(root)
    project = checkout(root / "sglang") / "python"
    place.torch()
    place.editable("sglang", "0.0.0.dev0", project, {"sglang": project / "sglang"})
    place.kernels("sglang-kernel", "0.4.7", "10.0f", package="sgl_kernel")
    (place.site / "ghost").mkdir()
    return place.look("12.0", sandbox=False)


def members(value, above=""):
    if isinstance(value, dict):
        for key, inner in value.items():
            if above not in {"modules", "versions"}:
                yield key
            yield from members(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from members(inner, above)


def test_every_member_is_in_the_page(found):
    missing = {key for key in members(diagnosis_document(found)) if f"`{key}`" not in PAGE}
    assert missing == set()


def printed(found, monkeypatch, **options):
    sink = io.StringIO()
    monkeypatch.setattr(doctor, "Console", lambda **more: Console(file=sink, **options, **more))
    doctor.print_diagnosis(found)
    return sink.getvalue()


def test_plain_where_there_is_no_terminal(found, monkeypatch):
    text = printed(found, monkeypatch)
    assert "\x1b" not in text
    assert "imports    not verified: bubblewrap" in text
    assert "belongs to no distribution" in " ".join(text.split())


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_but_commands_is_wider_than_the_terminal(found, monkeypatch, width):
    text = printed(found, monkeypatch, force_terminal=True, width=width, color_system=None)
    lines = [line for line in text.splitlines() if not line.startswith(("    $ ", "    # "))]
    assert max(map(len, lines)) <= min(width, 110)
    assert "kernforge build sgl-kernel --arch 12.0a" in text


def test_commands_can_be_copied_whole(found, monkeypatch):
    text = printed(found, monkeypatch)
    commands = [command for case in found.cases for command in case.advice.commands]
    assert commands
    assert all(command in text for command in commands)
