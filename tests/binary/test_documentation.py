"""`docs/inspect.md` names every finding and every member of the documents, and no others."""

import ast
import re
from pathlib import Path

import pytest

import kernforge.binary
from kernforge.binary.codec import to_json
from kernforge.binary.thing import read_thing
from kernforge.binary.wheel import read_wheel
from kernforge.report.inspect import KernelChoice, inspect_document

from .forge import EXIT, Dynamic, make_container, make_cubin, make_entry, make_library, make_wheel

ROOM = Path(kernforge.binary.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "inspect.md"
ERRORS = {"facts-invalid", "thing-missing", "wheel-unreadable"}  # of docs/errors.md


def words_of_code():
    found = set()
    for path in ROOM.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= (
                    {node.value} if re.fullmatch(r"[a-z]+-[a-z]+(-[a-z]+)?", node.value) else set()
                )
    return found - ERRORS


def test_every_finding_is_documented():
    page = PAGE.read_text()
    table = page[page.index("## Findings") : page.index("Limits:")]
    documented = set(re.findall(r"`([a-z]+-[a-z-]+)`", table))
    assert words_of_code() == documented


@pytest.fixture
def documents(tmp_path):
    library = make_library(
        fatbin=make_container(make_entry(make_cubin({"k": EXIT}), 90)),
        extra=Dynamic(needed=("libc.so.6",)).parts(),
    )
    (tmp_path / "a.so").write_bytes(library)
    wheel = make_wheel(tmp_path, {"a.so": library})
    choice = KernelChoice(demangled=True)
    things = [wheel, tmp_path, tmp_path / "a.so"]
    return [inspect_document(str(t), read_thing(str(t)), kernels=choice) for t in things]


def members(value):
    """Names of members at any depth, leaving out objects whose keys are data."""
    if isinstance(value, list):
        return set().union(*map(members, value)) if value else set()
    if not isinstance(value, dict):
        return set()
    found = set(value)
    for key, inner in value.items():
        if key in {"archs", "relocatable"}:
            found |= members(list(inner.values()))
        elif key not in {"kernel_archs", "demangled", "floors"}:
            found |= members(inner)
    return found


def test_every_member_is_documented(documents, tmp_path):
    page = PAGE.read_text()
    full = to_json(read_wheel(next(tmp_path.glob("*.whl"))))
    for member in members(documents) | members(full):
        assert f"`{member}`" in page or member in {"word", "text"}, member
