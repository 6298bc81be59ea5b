"""Locations as text, near-misses, and what is kept from a message."""

import pytest

from kernforge.errors import RecipeError
from kernforge.recipe.fault import discreet, near_hint, nearest, redact, show_loc


@pytest.mark.parametrize(
    ("loc", "text"),
    [
        ((), ""),
        (("name",), "name"),
        (("matrix", "archs", 0), "matrix.archs[0]"),
        (("verify", "extensions", "a/*.so"), 'verify.extensions["a/*.so"]'),
        (("sources", "https://me@host/x"), 'sources["https://***@host/x"]'),
    ],
)
def test_show_loc(loc, text):
    assert show_loc(loc) == text


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("patchs", "patches"),
        ("Patches", "patches"),
        ("git-metadata", "git_metadata"),
        ("zebra", None),
        ("", None),
    ],
)
def test_nearest(word, near):
    assert nearest(word, ("git", "patches", "git_metadata")) == near


def test_near_hint_names_everything_when_nothing_is_near():
    assert near_hint("zebra", ("a", "b")) == "known: a, b"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see https://user:secret@host/x", "see https://***@host/x"),
        ("https://token@host", "https://***@host"),
        ("https://u:p/a@ss@host/x", "https://***@host/x"),
        ("https://host/x", "https://host/x"),
        ("git@host:x", "git@host:x"),
    ],
)
def test_redact(text, shown):
    assert redact(text) == shown


@pytest.mark.parametrize("key", ["API_TOKEN", "password", "my_secret", "AWS_AUTH", "apikey"])
def test_values_under_secret_keys_are_not_said(key):
    error = discreet(RecipeError("w", "'hush' is bad", hint="write 'hush2'"), ("build", "env", key))
    assert (error.message, error.hint) == ("'***' is bad", "write '***'")


def test_other_values_are_said():
    error = discreet(RecipeError("w", "'x' is bad"), ("build", "env", "MODE"))
    assert (error.word, error.message, error.hint) == ("w", "'x' is bad", None)
