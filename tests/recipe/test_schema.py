"""The JSON Schema and the reference page agree with the model and with the files in docs."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from kernforge.recipe import model
from kernforge.recipe.load import read_recipe
from kernforge.recipe.schema import recipe_schema, reference_text, schema_text

ROOT = Path(__file__).parents[2]
EXAMPLE = """\
format: 1
name: sgl-kernel
version: {from: upstream, expect: 0.4.*}
sources:
  sglang:
    git: https://github.com/sgl-project/sglang
    commit: 0bcd822377da7b5718e674eaf9c870d349424dd1
    sparse: [python/sglang/kernels]
    patches: [sgl-kernel/0001-what.patch]
    submodules: false
  flashmla:
    archive: https://host.example/flashmla.tar.gz
    sha256: 77d3f1714b5903dc8f7a99fbc3a5d9a2b886e449f994b6c4b1d2feeacb467b1e
    strip: 1
    into: sglang/flashmla
build:
  source: sglang
  cmake: {ENABLE_BELOW_SM90: OFF, JOBS: 4, CUDA_VERSION: "{cuda}"}
  gencode: {default: replace, "*/flashmla/*": upstream}
  memory: 4 GiB
  timeout: 60
matrix:
  archs: [12.0a, 9.0, "9.0;12.0a"]
  cuda: [13.0]
  torch: [2.14.1]
  python: [3.11]
verify:
  extensions: {"sgl_kernel/a*.so": target, "sgl_kernel/b*.so": [9.0a, 10.0]}
  loaders: [{"9.0": "sgl_kernel/sm90/*.so", default: "sgl_kernel/sm100/*.so"}]
  import: [sgl_kernel]
  allow_jit: false
publish: {local_version: "cu{cuda}.sm{archs}"}
"""


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(recipe_schema())
    return jsonschema.Draft202012Validator(recipe_schema())


def as_editors_read(text: str) -> dict:
    """YAML with booleans and numbers, as an editor's YAML reader gives it."""
    return yaml.safe_load(text)


def test_the_files_in_docs_are_up_to_date():
    """If this fails: write schema_text() and reference_text() to these files."""
    assert (ROOT / "docs/recipe.schema.json").read_text() == schema_text()
    assert (ROOT / "docs/recipe-reference.md").read_text() == reference_text()


def test_an_example_is_valid_as_an_editor_reads_it(schema):
    found = as_editors_read(EXAMPLE)
    assert isinstance(found["matrix"]["cuda"][0], float)
    schema.validate(found)


def test_what_a_recipe_says_of_itself_is_valid(schema, make_recipe):
    schema.validate(make_recipe().to_dict())


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*.yaml")), ids=lambda p: p.stem)
def test_shipped_recipes_are_valid(schema, path):
    schema.validate(as_editors_read(path.read_text()))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("format: 1", "format: 2"),
        ("name: sgl", "nmae: sgl"),
        ("patches:", "patchs:"),
        ("0bcd822377da7b5718e674eaf9c870d349424dd1", "0bcd822"),
        ("submodules: false", "submodules: 'no'"),
        ("strip: 1", "strip: -1"),
        ("12.0a, 9.0", "sm_120"),
        ("[13.0]", "13.0"),
        ("memory: 4 GiB", "memory: 4"),
        ("default: replace", "default: keep"),
        (": target", ": tagret"),
        ("ENABLE_BELOW_SM90", "ENABLE BELOW"),
        ("allow_jit: false", "allow_jit: maybe"),
    ],
)
def test_what_is_wrong_is_wrong_in_editors_too(schema, old, new):
    assert old in EXAMPLE
    assert not schema.is_valid(as_editors_read(EXAMPLE.replace(old, new, 1)))


def test_defaults_are_plain_and_read_back(make_recipe):
    recipe = make_recipe()
    properties = recipe_schema()["$defs"]["Build"]["properties"]
    build = {key: item["default"] for key, item in properties.items() if "default" in item}
    assert build["gencode"] == {"default": "replace"}
    assert build["memory"] == "4 GiB"
    assert read_recipe(recipe.to_dict() | {"build": build}, where="x") == recipe


def test_every_key_has_a_text_and_stands_in_the_reference():
    page, schema = reference_text(), recipe_schema()
    for block in (schema, *schema["$defs"].values()):
        for key, item in block["properties"].items():
            assert item["description"], key
            assert f"| `{key}` |" in page


def test_every_link_of_the_reference_has_its_heading():
    page = reference_text()
    for name in recipe_schema()["$defs"]:
        assert f"[{name}](#{name.lower()})" in page
        assert f"\n## {name}\n" in page


def test_null_is_no_value():
    assert '"null"' not in schema_text()


def test_the_schema_is_json_and_names_its_dialect():
    assert json.loads(schema_text())["$schema"].endswith("2020-12/schema")
    assert set(recipe_schema()["properties"]) == {
        field.alias or name for name, field in model.Recipe.model_fields.items()
    }
