"""Sources of kind `cargo` and programs of the host, as a recipe names them."""

import pytest

from kernforge.errors import ManyErrors, RecipeError
from kernforge.recipe.load import read_recipe
from kernforge.recipe.model import CargoSource, Recipe

SHA = "1" * 64


def data(**changes):
    found = {
        "format": "1",
        "name": "p",
        "version": "1.0",
        "sources": {
            "up": {"path": "project"},
            "crates": {"cargo": "up/rust/Cargo.lock", "sha256": SHA},
        },
        "build": {"source": "up", "backend": "setuptools", "programs": ["protoc"]},
        "matrix": {"archs": ["12.0a"], "cuda": ["13.0"], "python": ["3.11"]},
    }
    return {**found, **changes}


def faults(found):
    with pytest.raises(RecipeError, match=r"p\.yaml") as caught:
        read_recipe(found, where="p.yaml")
    error = caught.value
    return [
        (e.word, e.message) for e in (error.errors if isinstance(error, ManyErrors) else [error])
    ]


def crates(**changes):
    return {
        "up": {"path": "project"},
        "crates": {"cargo": "up/Cargo.lock", "sha256": SHA, **changes},
    }


def test_it_reads_and_reads_back():
    recipe = read_recipe(data(), where="p.yaml")
    found = dict(recipe.sources)["crates"]
    assert isinstance(found, CargoSource)
    assert (found.cargo, found.sha256) == ("up/rust/Cargo.lock", SHA)
    assert recipe.build.programs == ("protoc",)
    assert Recipe.from_dict(recipe.to_dict()) == recipe
    assert hash(recipe)


@pytest.mark.parametrize(
    "path",
    ["Cargo.lock", "up", "up/rust", "up/cargo.lock", "/up/Cargo.lock", "up/../Cargo.lock", ""],
)
def test_where_a_lock_is(path):
    ((word, message),) = faults(data(sources=crates(cargo=path)))
    assert word == "recipe-path"
    assert "sources.crates.cargo" in message


def test_a_lock_of_no_source_is_told_with_the_nearest():
    ((word, message),) = faults(data(sources=crates(cargo="upp/Cargo.lock")))
    assert word == "recipe-source"
    assert "begins with no other source" in message


def test_a_source_cannot_hold_its_own_lock():
    assert faults(data(sources=crates(cargo="crates/Cargo.lock")))[0][0] == "recipe-source"


def test_crates_are_pinned():
    found = crates()
    del found["crates"]["sha256"]
    assert faults(data(sources=found))[0][0] == "recipe-unpinned"


def test_one_lock_a_recipe():
    found = {**crates(), "more": {"cargo": "up/b/Cargo.lock", "sha256": SHA}}
    ((word, message),) = faults(data(sources=found))
    assert word == "recipe-source"
    assert "second source of crates beside 'crates'" in message


def test_crates_are_no_project():
    ((word, message),) = faults(data(build={"source": "crates"}))
    assert word == "recipe-source"
    assert "holds crates, no project" in message


@pytest.mark.parametrize("name", ["", "../protoc", "/usr/bin/protoc", "a b", "-x"])
def test_a_program_is_a_name(name):
    assert faults(data(build={"source": "up", "programs": [name]}))[0][0] == "recipe-value"


def test_cmake_variables_that_no_cmake_sees():
    build = {"source": "up", "backend": "setuptools", "cmake": {"FAST": "ON"}}
    assert "does nothing" in faults(data(build=build))[0][1]
