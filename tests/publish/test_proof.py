"""What a compile cache served is built again without it before it is published, once."""

import json
import re
import shutil
from pathlib import Path

import pytest
from projects import share_toolchain, write_project

from kernforge.pack.archive import unpack, write_wheel
from kernforge.store.local import Entry, Store

pytestmark = pytest.mark.build


@pytest.fixture
def tiny(run, tmp_path, compiler_cache, toolkit):
    project = write_project(tmp_path / "project")

    def call(*words, where, **options):
        cache = tmp_path / where
        if not cache.exists():
            share_toolchain(cache, compiler_cache)
        return run("--project", str(project), "--cache", str(cache), *words, **options)

    call.project, call.index, call.home = project, tmp_path / "index", tmp_path
    return call


def publish(tiny, what, where):
    return tiny("publish", str(what), "--to", str(tiny.index), where=where)


def compiles(done) -> int:
    """How often a call compiled: its stage `build` took time."""
    return len(re.findall(r": build +\d", done.stderr))


def shown(tiny) -> list[str]:
    return sorted(path.name for path in (tiny.index / "current").rglob("*.whl"))


@pytest.fixture(scope="module")
def compiled(run, tmp_path_factory, compiler_cache, toolkit) -> Entry:
    """What a compile without any cache left."""
    home = tmp_path_factory.mktemp("compiled")
    project = write_project(home / "project")
    cache = share_toolchain(home / "cache", compiler_cache)
    words = ("--project", str(project), "--cache", str(cache), "build", "tiny")
    done = run(*words, "--no-compile-cache")
    assert done.returncode == 0, done.stderr
    (entry,) = [entry for entry in Store(cache).entries() if entry.kind == "compiled"]
    return entry


@pytest.fixture
def served(tiny, tmp_path, compiled):
    """A store whose compile says that a cache served it; answers the wheel that `build` packs."""

    def make(where, hits, change=None) -> Path:
        tiny("list", where=where)
        put_again(compiled, Store(tmp_path / where), hits, change, tmp_path / f"work-{where}")
        done = tiny("build", "tiny", "--json", where=where)
        assert done.returncode == 0, done.stderr
        assert compiles(done) == 0, done.stderr
        return Path(json.loads(done.stdout)[0]["wheel"])

    return make


def put_again(entry: Entry, store: Store, hits: int, change, work: Path) -> None:
    """The compile's entry in another store, with hits, and its wheel changed where asked."""
    shutil.copytree(entry.path, work)
    facts = entry.facts() | {"compile_cache": {"kind": "local", "hits": hits}}
    if change is not None:
        unpack(work / facts["wheel"], work / "tree")
        change(work / "tree")
        (info,) = (work / "tree").glob("*.dist-info")
        write_wheel(work / "tree", work / facts["wheel"], info_dir=info.name, epoch=0)
    files = {file.name: work / file.name for file in entry.files}
    store.put("compiled", entry.key, files, facts)


def test_without_hits_it_is_published_as_it_is(tiny, served):
    wheel = served("none", 0)
    done = publish(tiny, "tiny", "none")
    assert done.returncode == 0, done.stderr
    assert "built again" not in done.stderr
    assert shown(tiny) == [wheel.name]
    statement = json.loads((wheel.parent / "provenance.json").read_text())
    inner = statement["predicate"]["buildDefinition"]["internalParameters"]
    assert inner["compileCache"] == {"kind": "local", "hits": 0}


def test_with_hits_it_is_built_again_once(tiny, served):
    wheel = served("hit", 3)
    first = publish(tiny, "tiny", "hit")
    assert first.returncode == 0, first.stderr
    assert "built again without a compile cache: a local one served 3 of its compiles" in (
        first.stderr
    )
    assert compiles(first) == 1
    assert shown(tiny) == [wheel.name]
    again = publish(tiny, wheel, "hit")
    assert again.returncode == 0, again.stderr
    assert compiles(again) == 0


def poisoned(tree: Path) -> None:
    (tree / "tiny/__init__.py").write_text("import os\n")


@pytest.mark.parametrize("by", ["name", "path"])
def test_a_cache_that_gave_other_code_is_found_out(tiny, served, by):
    wheel = served("bad", 1, poisoned)
    done = publish(tiny, "tiny" if by == "name" else wheel, "bad")
    assert done.returncode == 8
    assert "error[cache-differs]" in done.stderr
    assert "do not use it" in done.stderr
    assert not tiny.index.exists()


def from_elsewhere(wheel: Path, into: Path) -> Path:
    """The wheel and its statement, as a release machine gets them."""
    into.mkdir()
    shutil.copyfile(wheel.parent / "provenance.json", into / f"{wheel.name}.provenance.json")
    return Path(shutil.copy(wheel, into))


def test_a_wheel_from_elsewhere_is_proven_by_reproducing_it(tiny, served):
    wheel = from_elsewhere(served("theirs", 2), tiny.home / "dist")
    done = publish(tiny, wheel, "release")
    assert done.returncode == 8
    assert "error[cache-unproven]" in done.stderr
    assert f"`kernforge reproduce {wheel} --yes-run-it`" in done.stderr
    assert not tiny.index.exists()
    proven = tiny("reproduce", str(wheel), "--yes-run-it", where="release")
    assert proven.returncode == 0, proven.stderr
    done = publish(tiny, wheel, "release")
    assert done.returncode == 0, done.stderr
    assert shown(tiny) == [wheel.name]


def test_what_cannot_be_built_again_is_not_published(tiny, served):
    wheel = served("old", 2)
    (tiny.project / "project/tiny/__init__.py").write_text("x = 1\n")
    done = publish(tiny, wheel, "old")
    assert done.returncode == 8
    assert "error[cache-unproven]" in done.stderr
    assert "would now build it from other inputs" in done.stderr


def test_where_nothing_is_known_it_is_said(tiny, served):
    wheel = shutil.copy(served("theirs", 0), tiny.home)
    done = publish(tiny, wheel, "release")
    assert done.returncode == 0, done.stderr
    assert "whether a compile cache served it is not known" in done.stderr
