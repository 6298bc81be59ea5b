"""Where crates come from: our configuration, else cargo's own."""

import pytest

from kernforge.cli.userconfig import read_user_config
from kernforge.errors import RecipeError

NEAR = '[source.crates-io]\nreplace-with = "near"\n'
ADDRESS = "sparse+https://crates.example/index/"


@pytest.fixture
def env(tmp_path):
    """A user's environment; texts are written where the tools look for them."""

    def make(ours=None, cargo=None, name="config.toml"):
        if ours is not None:
            (tmp_path / ".config/kernforge").mkdir(parents=True, exist_ok=True)
            (tmp_path / ".config/kernforge/config.toml").write_text(ours)
        if cargo is not None:
            (tmp_path / ".cargo").mkdir(exist_ok=True)
            (tmp_path / f".cargo/{name}").write_text(cargo)
        return {"HOME": str(tmp_path)}

    return make


def crates(env):
    return read_user_config(env).crates


def test_nobody_names_any(env):
    assert crates(env()) == ()


def test_ours_comes_first(env):
    cargo = f'{NEAR}[source.near]\nregistry = "{ADDRESS}"\n'
    assert crates(env('crates = ["https://a.example/"]', cargo)) == ("https://a.example/",)


@pytest.mark.parametrize("name", ["config.toml", "config"])
@pytest.mark.parametrize(
    "text",
    [
        f'{NEAR}[source.near]\nregistry = "{ADDRESS}"\n',
        f'{NEAR}[registries.near]\nindex = "{ADDRESS}"\n',
        f'{NEAR}[source.near]\nreplace-with = "far"\n[source.far]\nregistry = "{ADDRESS}"\n',
    ],
)
def test_what_cargo_takes_instead_of_the_default_registry(env, text, name):
    assert crates(env(cargo=text, name=name)) == (ADDRESS,)


def test_cargo_home_is_heeded(env, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    text = f'{NEAR}[source.near]\nregistry = "{ADDRESS}"\n'
    (tmp_path / "elsewhere/config.toml").write_text(text)
    assert crates({**env(), "CARGO_HOME": str(tmp_path / "elsewhere")}) == (ADDRESS,)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not TOML [",
        NEAR,
        f'{NEAR}[source.near]\nregistry = "https://git.example/index"\n',
        f'{NEAR}[source.near]\ndirectory = "vendor"\n',
        '[source.crates-io]\nreplace-with = "crates-io"\n',
        f'[source.near]\nregistry = "{ADDRESS}"\n',
        "source = 3\n",
        '[source]\ncrates-io = "x"\n',
    ],
)
def test_what_is_no_sparse_registry_names_none(env, text):
    assert crates(env(cargo=text)) == ()


@pytest.mark.parametrize("value", ['"https://a.example/"', "[3]"])
def test_crates_is_a_list_of_addresses(env, value):
    with pytest.raises(RecipeError, match="crates is a list of addresses"):
        crates(env(f"crates = {value}"))
