import json
import zipfile

import pytest

from kernforge.errors import CacheError, SelectionError
from kernforge.pipeline.explain import Difference, components, differences, find_artifact
from kernforge.store.local import Store

DOCUMENT = {
    "format": 1,
    "build_key": "x",
    "recipe_key": "y",
    "job": "j",
    "recipe": "tiny",
    "stages": {"env": {"lock": [["ninja", "1.13", ["aa"]]], "python": "3.11"}},
    "machine": {"host": {"compiler version": "12.2.0"}},
}


def artifact(store, key, document):
    wheel = store.folder("incoming") / "t.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("t-1.dist-info/build.json", json.dumps(document))
    return store.put("artifact", key, {"t.whl": wheel}, {"wheel": "t.whl"})


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "cache")
    artifact(store, "aa" * 32, DOCUMENT)
    other = json.loads(json.dumps(DOCUMENT))
    other["stages"]["env"]["lock"] = [["ninja", "1.14", ["aa"]]]
    del other["machine"]["host"]["compiler version"]
    artifact(store, "bb" * 32, other)
    return store


def test_components_are_named(store):
    assert components(find_artifact(store, "aaaaaaaa")) == {
        "machine.host.compiler version": '"12.2.0"',
        "recipe": '"tiny"',
        "stages.env.lock[ninja]": '["1.13", ["aa"]]',
        "stages.env.python": '"3.11"',
    }


def test_what_differs(store):
    one, two = (components(find_artifact(store, k)) for k in ("aaaaaaaa", "bbbbbbbb"))
    assert differences(one, two) == (
        Difference(component="machine.host.compiler version", before='"12.2.0"', after=None),
        Difference(
            component="stages.env.lock[ninja]",
            before='["1.13", ["aa"]]',
            after='["1.14", ["aa"]]',
        ),
    )
    assert differences(one, one) == ()


@pytest.mark.parametrize(
    ("prefix", "word"),
    [("aa", "key-short"), ("cccccccc", "key-missing"), ("aaaaaaaa", "key-ambiguous")],
)
def test_keys_that_are_none(store, prefix, word):
    artifact(store, "aa" * 10 + "0" * 44, DOCUMENT)
    with pytest.raises(SelectionError) as caught:
        find_artifact(store, prefix)
    assert caught.value.word == word
    assert caught.value.hint
    if word == "key-ambiguous":
        assert "aa" * 10 in caught.value.hint


@pytest.mark.parametrize("spelled", ["AAAAAAAA", "1kfaaaaaaaaaaaa"])
def test_a_key_as_it_stands_in_a_wheels_name(store, spelled):
    assert find_artifact(store, spelled).key == "aa" * 32


def test_a_damaged_artifact_is_told(store):
    entry = find_artifact(store, "aaaaaaaa")
    whole = (entry.path / "t.whl").read_bytes()
    for data in (b"PK", whole.replace(b'"format"', b"\xff\xff\xff\xff\xff\xff\xff\xff")):
        (entry.path / "t.whl").write_bytes(data)
        with pytest.raises(CacheError, match="cannot be read"):
            components(entry)


def test_a_document_that_is_none_is_told(store):
    artifact(store, "dd" * 32, ["no mapping"])
    with pytest.raises(CacheError, match="cannot be read"):
        components(find_artifact(store, "dddddddd"))


def test_the_command(run, store):
    done = run("--cache", str(store.root), "explain", "aaaaaaaa", "bbbbbbbb")
    assert done.returncode == 0, done.stderr
    assert 'stages.env.lock[ninja]\n  - ["1.13"' in done.stdout
