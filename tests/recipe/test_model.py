"""The model as values: frozen, hashable, and the same again after a round through plain data."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from kernforge.recipe import model
from kernforge.recipe.load import read_recipe
from kernforge.recipe.model import Recipe

WORD = st.from_regex(r"[a-z](?:[a-z0-9_]{0,6}[a-z0-9])?", fullmatch=True)
PATH = st.lists(st.sampled_from(["a", "b c", "x.cu", "*.so"]), min_size=1, max_size=3).map("/".join)
LINE = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=9)
PLAIN_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="{}"), max_size=9)
HEX = st.integers(min_value=0, max_value=2**256 - 1).map("{:064x}".format)
ARCH = st.sampled_from(["9.0", "9.0a", "10.0f", "12.0", "12.0a+PTX", "8.6+PTX"])
ARCHS = st.lists(ARCH, min_size=1, max_size=3).map(";".join)


def block(needed: dict[str, object], /, **optional: object) -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries(needed, optional=optional)


SHARED = {
    "patches": st.lists(PATH, max_size=2),
    "edits": st.lists(
        block(
            {"file": PATH, "find": st.text(max_size=5), "replace": st.text(max_size=5)},
            count=st.integers(1, 9),
        ),
        max_size=2,
    ),
    "fetchcontent": WORD,
}
SOURCE = st.one_of(
    block(
        {"git": st.just("https://h.example/r"), "commit": HEX.map(lambda h: h[:40])},
        tag=WORD,
        sparse=st.lists(PATH),
        submodules=st.booleans(),
        lfs=st.booleans(),
        git_metadata=st.booleans(),
        **SHARED,
    ),
    block({"archive": PATH, "sha256": HEX}, strip=st.integers(0, 3), **SHARED),
    block({"pypi": WORD, "version": st.just("1.2rc1"), "sha256": HEX}, **SHARED),
    block({"path": PATH}, exclude=st.lists(PATH), **SHARED),
)
BUILD = block(
    {"source": st.just("main")},
    subdir=PATH,
    backend=st.sampled_from(["scikit-build-core", "setuptools"]),
    requires=st.lists(WORD),
    toolkit=st.just("host"),
    cmake=st.dictionaries(WORD, PLAIN_TEXT | st.just("{cuda}{{x}}"), max_size=3),
    config_settings=st.dictionaries(LINE, PLAIN_TEXT, max_size=2),
    env=st.dictionaries(WORD, PLAIN_TEXT, max_size=2),
    gencode=st.dictionaries(PATH, st.sampled_from(["upstream", "filter", "replace"])).map(
        lambda found: found | {"default": "filter"}
    ),
    memory=st.integers(1, 2**45).map("{} B".format) | st.sampled_from(["4 GiB", "1500MB"]),
    timeout=st.integers(1, 10**6),
)
MATRIX = block(
    {
        "archs": st.lists(
            ARCHS, min_size=1, max_size=3, unique_by=lambda t: frozenset(t.split(";"))
        ),
        "cuda": st.just(["13.0"]),
        "python": st.lists(st.sampled_from(["3.11", "3.12"]), min_size=1, unique=True),
    },
    torch=st.lists(st.sampled_from(["2.14.1", "2.13.0"]), unique=True),
    platform=st.just(["linux_aarch64"]),
)
VERIFY = block(
    {},
    require=st.sampled_from(model.LEVELS),
    extensions=st.dictionaries(PATH, st.just("target") | st.lists(ARCH, max_size=3), max_size=3),
    loaders=st.lists(
        st.dictionaries(st.sampled_from(["9.0", "12.0", "default"]), PATH, min_size=1), max_size=2
    ),
    kernels=block({}, required=st.lists(LINE), accepted_gaps=PATH),
    smoke=PATH,
    allow_jit=st.booleans(),
) | st.lists(WORD).map(lambda modules: {"import": modules})
RECIPE = block(
    {
        "format": st.just(1),
        "name": st.just("demo"),
        "version": st.just("1.2") | st.just({"from": "upstream", "expect": "1.*"}),
        "sources": st.dictionaries(WORD, SOURCE, max_size=2).flatmap(
            lambda found: SOURCE.map(lambda main: found | {"main": main})
        ),
        "build": BUILD,
        "matrix": MATRIX,
    },
    distribution=WORD,
    summary=LINE,
    verify=VERIFY,
    publish=block({}, local_version=st.just("cu{cuda}.sm{archs}")),
    requires=st.lists(st.just("other")),
)


def as_text(value: object) -> object:
    """Plain data as the YAML loader gives it: every scalar is text."""
    match value:
        case dict():
            return {key: as_text(item) for key, item in value.items()}
        case list():
            return [as_text(item) for item in value]
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)


def structure_only(plain: dict[str, object]) -> Recipe:
    """Read without the checks between blocks: what hypothesis combines need not make sense."""
    return Recipe.from_dict(plain)


@settings(deadline=None, max_examples=50)
@given(RECIPE)
def test_to_dict_and_back_is_identity(plain):
    recipe = structure_only(plain)
    again = structure_only(recipe.to_dict())
    assert again == recipe
    assert hash(again) == hash(recipe)
    assert structure_only(json.loads(json.dumps(recipe.to_dict()))) == recipe


@settings(deadline=None, max_examples=50)
@given(RECIPE)
def test_texts_mean_what_their_values_mean(plain):
    assert structure_only(as_text(plain)) == structure_only(plain)


@settings(deadline=None, max_examples=50)
@given(RECIPE, st.randoms(use_true_random=False))
def test_the_order_of_keys_means_nothing(plain, random):
    def shuffled(value: object) -> object:
        if isinstance(value, list):
            return [shuffled(item) for item in value]
        if not isinstance(value, dict):
            return value
        keys = list(value)
        random.shuffle(keys)
        return {key: shuffled(value[key]) for key in keys}

    assert structure_only(shuffled(plain)) == structure_only(plain)


def blocks() -> list[type[BaseModel]]:
    found = [v for v in vars(model).values() if isinstance(v, type) and issubclass(v, BaseModel)]
    return [kind for kind in found if kind is not BaseModel]


@pytest.mark.parametrize("kind", blocks(), ids=lambda kind: kind.__name__)
def test_every_block_is_frozen_and_takes_no_other_key(kind):
    assert kind.model_config["frozen"]
    assert kind.model_config["extra"] == "forbid"


def test_a_field_cannot_be_set(make_recipe):
    with pytest.raises(ValidationError, match="frozen"):
        make_recipe().build.memory = 1


def test_every_default_is_hashable():
    for kind in blocks():
        hash(tuple(field.default for field in kind.model_fields.values()))


@pytest.mark.parametrize("value", [True, 1.0, "01", " 1", None, []])
def test_format_is_one(value, make_recipe):
    with pytest.raises(Exception, match="is not a format that this kernforge reads") as caught:
        make_recipe(format=value)
    assert caught.value.word == "recipe-format"


def test_main_source_is_the_named_or_the_only_one(make_recipe):
    sources = {"a": {"path": "a"}, "b": {"path": "b"}}
    assert make_recipe(sources=sources, build={"source": "b"}).main_source == "b"
    assert make_recipe().main_source == "demo"


def test_numbers_that_are_no_text_are_refused(make_recipe):
    with pytest.raises(Exception, match=r"must be text, not the float 12\.0"):
        read_recipe(make_recipe().to_dict() | {"summary": 12.0}, where="x")
