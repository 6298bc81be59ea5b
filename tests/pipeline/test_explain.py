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


@pytest.mark.parametrize(("prefix", "word"), [("aa", "key-short"), ("cccccccc", "key-missing")])
def test_keys_that_are_none(store, prefix, word):
    with pytest.raises(SelectionError) as caught:
        find_artifact(store, prefix)
    assert caught.value.word == word


def test_a_damaged_artifact_is_told(store):
    entry = find_artifact(store, "aaaaaaaa")
    (entry.path / "t.whl").write_bytes(b"PK")
    with pytest.raises(CacheError, match="cannot be read"):
        components(entry)


def test_the_command(run, store):
    done = run("--cache", str(store.root), "explain", "aaaaaaaa", "bbbbbbbb")
    assert done.returncode == 0, done.stderr
    assert 'stages.env.lock[ninja]\n  - ["1.13"' in done.stdout
