"""Indexes and mirrors come from the user's files and environment, in one order."""

import pytest

from kernforge.cli.userconfig import read_user_config
from kernforge.errors import RecipeError


@pytest.fixture
def write(tmp_path):
    def call(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return {"XDG_CONFIG_HOME": str(tmp_path)}

    return call


def test_ones_own_file_rules(write):
    text = 'indexes = ["https://a.example/simple"]\n[mirrors]\n"https://g.example/" = "https://m.example/"\n'
    env = write("kernforge/config.toml", text) | {"PIP_INDEX_URL": "https://other.example"}
    config = read_user_config(env)
    assert config.indexes == ("https://a.example/simple",)
    assert config.mirrors == (("https://g.example/", "https://m.example/"),)


def test_the_environment_comes_before_pips_files(write):
    env = write("pip/pip.conf", "[global]\nindex-url = https://pip.example/simple\n")
    assert read_user_config(env).indexes[0] == "https://pip.example/simple"
    named = env | {"UV_DEFAULT_INDEX": "https://uv.example/simple"}
    assert read_user_config(named).indexes[0] == "https://uv.example/simple"


def test_extra_indexes_stand_behind_the_first(write):
    env = write("pip/pip.conf", "") | {
        "UV_INDEX": "mine=https://x.example/simple https://y.example"
    }
    found = read_user_config(env).indexes  # the first is the machine's own, or the public one
    assert len(found) == 3
    assert found[1:] == ("https://x.example/simple", "https://y.example")


@pytest.mark.parametrize("text", ["indexes = 1", "mirrors = 1", "other = 1", "indexes = ["])
def test_a_file_that_is_not_as_it_must_be(write, text):
    with pytest.raises(RecipeError, match=r"config\.toml") as caught:
        read_user_config(write("kernforge/config.toml", text))
    assert caught.value.word == "config-invalid"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ('SCCACHE_REDIS_ENDPONT = "redis://h:1"', "did you mean SCCACHE_REDIS_ENDPOINT?"),
        ('SCCACHE_DIR = "/x"', "SCCACHE_"),
        ('SCCACHE_REGION = "eu"', "SCCACHE_BUCKET"),  # says where of nothing
        ('AWS_ACCESS_KEY_ID = "k"', "SCCACHE_BUCKET"),
        ('SCCACHE_BUCKET = ""', "SCCACHE_REDIS_ENDPOINT"),
        ('SCCACHE_BUCKET = "a\\u0000b"', "SCCACHE_REDIS_ENDPOINT"),
        ("SCCACHE_BUCKET = 1", "SCCACHE_REDIS_ENDPOINT"),
    ],
)
def test_a_storage_that_is_none_opens_no_network(write, lines, told):
    with pytest.raises(RecipeError, match=r"config\.toml: \[compile-cache\]") as caught:
        read_user_config(write("kernforge/config.toml", f"[compile-cache]\n{lines}\n"))
    assert caught.value.word == "config-invalid"
    assert told in caught.value.hint


def test_a_storage_and_what_goes_with_it(write):
    lines = 'SCCACHE_BUCKET = "b"\nSCCACHE_S3_USE_SSL = "false"\nAWS_ACCESS_KEY_ID = "k"\n'
    found = read_user_config(write("kernforge/config.toml", f"[compile-cache]\n{lines}"))
    assert dict(found.storage).keys() == {
        "SCCACHE_BUCKET", "SCCACHE_S3_USE_SSL", "AWS_ACCESS_KEY_ID",
    }  # fmt: skip
