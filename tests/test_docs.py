"""Paths, options, words and exit codes that the documents name exist, and the other way round."""

import ast
import re
from pathlib import Path

import click
import pytest

from kernforge import errors
from kernforge.cli.main import command

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
NOT_YET = ROOT / "docs/design.md"  # the plan of the house names rooms that are to come
COMMENTED = re.compile(r"`([^`\n]+)`")
PATHS = re.compile(r"(?:src|tests|docs|recipes|patches|examples|benchmarks|cache|\.ci)/[\w./-]*")


def commands(group: click.Group, name: str = "kernforge") -> dict[str, click.Command]:
    found: dict[str, click.Command] = {}
    context = click.Context(group)
    for key in group.list_commands(context):
        sub = group.get_command(context, key)
        found[f"{name} {key}"] = sub
        if isinstance(sub, click.Group):
            found |= commands(sub, f"{name} {key}")
    return found


@pytest.mark.parametrize("page", [p for p in PAGES if p != NOT_YET], ids=lambda p: p.name)
def test_paths_named_exist(page):
    text = page.read_text(encoding="utf-8")
    named = {m for quoted in COMMENTED.findall(text) for m in PATHS.findall(quoted)}
    missing = [p for p in named if not (ROOT / p.rstrip("./")).exists() and "NAME" not in p
               and not p.startswith(("cache/", "src/kernforge/shipped"))]  # fmt: skip
    assert not missing


@pytest.mark.parametrize("page", [p for p in PAGES if p != NOT_YET], ids=lambda p: p.name)
def test_commands_and_options_named_exist(page):
    known = commands(command)
    options = {o for sub in (command, *known.values()) for p in sub.params for o in p.opts}
    options |= {"--help", "--version", "--arch", "--"}
    text = page.read_text(encoding="utf-8")
    for first in re.findall(r"(?:^    |`)kernforge ([a-z]+)", text, re.MULTILINE):
        assert f"kernforge {first}" in known
    for call in re.findall(r"kernforge [a-z]+[^`\n]*", text):
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", call):
            assert option in options, f"{page.name}: {option}"


OURS = {
    name for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.KernforgeError)
}  # fmt: skip


def words_raised() -> set[str]:
    found = set()
    for path in (ROOT / "src/kernforge").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                first = node.args[0] if node.args else None
                named = isinstance(first, ast.Constant) and isinstance(first.value, str)
                if node.func.id in OURS and named:
                    found.add(first.value)
    return found


def test_every_error_word_is_documented():
    page = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `([a-z0-9-]+)`", page, re.MULTILINE))
    assert words_raised() - documented == set()


def test_every_command_is_in_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    missing = [
        name for name in commands(command) if f"`{name}" not in readme and "cache " not in name
    ]
    assert not missing
