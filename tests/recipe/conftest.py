"""Recipes made from small dicts and texts."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kernforge.errors import ManyErrors, RecipeError
from kernforge.recipe.load import load_recipe, read_recipe
from kernforge.recipe.model import Recipe

DEMO = """\
format: 1
name: demo
version: {from: upstream, expect: "0.1.*"}
sources:
  demo: {path: examples/demo}
matrix:
  archs: ["12.0a"]
  cuda: ["13.0"]
  python: ["3.11"]
"""


@pytest.fixture
def demo() -> str:
    """The text of the shortest useful recipe."""
    return DEMO


@pytest.fixture
def make_recipe() -> Callable[..., Recipe]:
    """Give a checked recipe; keyword arguments replace or add top-level keys."""

    def make(**changes: object) -> Recipe:
        plain = {
            "format": 1,
            "name": "demo",
            "version": "1.2.3",
            "sources": {"demo": {"path": "examples/demo"}},
            "matrix": {"archs": ["12.0a"], "cuda": ["13.0"], "python": ["3.11"]},
        }
        return read_recipe(plain | changes, where="demo.yaml")

    return make


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a recipe file and give its path."""

    def save(content: str | bytes, name: str = "demo.yaml") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return save


@pytest.fixture
def faults(write: Callable[..., Path], tmp_path: Path) -> Callable[..., list[tuple[str, ...]]]:
    """Load a faulty text and give word, message (without the folder) and hint of each error."""

    def load(content: str | bytes, name: str = "demo.yaml") -> list[tuple[str, ...]]:
        with pytest.raises(RecipeError, match=name.split("/", maxsplit=1)[0]) as caught:
            load_recipe(write(content, name))
        found = caught.value
        errors = found.errors if isinstance(found, ManyErrors) else (found,)
        return [(e.word, e.message.removeprefix(f"{tmp_path}/"), e.hint or "") for e in errors]

    return load
