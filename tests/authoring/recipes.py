"""A recipe in the shape of the stand-in's, as text that tests change."""

from kernforge.recipe.load import read_recipe
from kernforge.recipe.model import Recipe
from kernforge.recipe.yamltext import parse_document

OLD, OTHER = "a" * 40, "b" * 40
TEXT = f"""\
format: 1
name: shape
version: "0.4.2"   # also in version.py
sources:
  up:
    git: https://example.org/up
    commit: {OLD}   # the release
    tag: v0.4.2
    sparse: [kernels/aot]
    edits: [{{file: kernels/aot/setup.cfg, find: "x = 1", replace: "x = 2"}}]
  repo-table:
    archive: https://example.org/table/archive/1.0.tar.gz
    sha256: {"1" * 64}
    fetchcontent: repo-table
build:
  source: up
  subdir: kernels/aot
  cmake: {{UP_FAST: "ON", CUDA_VERSION: "{{cuda}}"}}
matrix: {{archs: ["12.0a"], cuda: ["13.0"], python: ["3.11"]}}
verify:
  extensions: {{"up/ops*.so": target}}
"""


def recipe(text: str = TEXT, *changes: tuple[str, str]) -> Recipe:
    """The recipe with each ``(old, new)`` done once."""
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    document = parse_document(text.encode(), "shape.yaml")
    return read_recipe(document.value, where="shape.yaml", document=document)
