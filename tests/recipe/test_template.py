"""Placeholders: the closed list, literal braces, local versions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernforge.errors import RecipeError
from kernforge.recipe.template import (
    BUILD_NAMES,
    check_local_template,
    check_template,
    fill_template,
    names_in,
)


def test_fill():
    values = {"cuda": "13.0", "python": "3.11"}
    assert fill_template("a{cuda}-{{{python}}}-{{cuda}}", values) == "a13.0-{3.11}-{cuda}"


def test_names_in():
    assert names_in("{cuda} {{torch}} {python}{cuda}") == ("cuda", "python", "cuda")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("{cudda}", r"'\{cudda\}' is no placeholder", "did you mean 'cuda'?"),
        ("{}", r"'\{\}' is no placeholder", "known: archs"),
        ("{cuda!r}", "is no placeholder", "did you mean 'cuda'?"),
        ("{version}", "is no placeholder", "only after"),
        ("{", r"a lone '\{'", "write {{"),
        ("a}b", r"a lone '\}'", "write }}"),
        ("{cu{cuda}}", r"a lone '\{'", "write {{"),
    ],
)
def test_refused(text, message, hint):
    with pytest.raises(RecipeError, match=message) as caught:
        check_template(text, BUILD_NAMES)
    assert caught.value.word == "recipe-placeholder"
    expected = "the version is read from the built wheel" if text == "{version}" else hint
    assert expected in (caught.value.hint or "")


def test_a_placeholder_of_another_key_says_so():
    with pytest.raises(RecipeError, match="cmake_archs") as caught:
        check_local_template("{cmake_archs}")
    assert "build.cmake" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "text", ["cu{cuda}", "cu{cuda}.torch{torch_minor}.sm{archs}", "{torch}.py{python}", "a.0.1x"]
)
def test_local_versions(text):
    assert check_local_template(text) == text


@pytest.mark.parametrize("text", ["", "CU{cuda}", "cu-{cuda}", ".a", "a..b", "a_b", "007", "a b"])
def test_no_local_versions(text):
    with pytest.raises(RecipeError, match="no local version in its normal form") as caught:
        check_local_template(text)
    assert caught.value.word == "recipe-local-version"
    assert "cu{cuda}" in (caught.value.hint or "")


@settings(deadline=None)
@given(st.text())
def test_doubled_braces_give_any_text_back(text):
    doubled = text.replace("{", "{{").replace("}", "}}")
    assert fill_template(check_template(doubled, BUILD_NAMES), {}) == text
