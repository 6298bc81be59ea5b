"""The statement: in-toto and SLSA by their own library, digests and package URLs, no index."""

import json

import pytest

from kernforge.canonical import canonical_json
from kernforge.pack.provenance import (
    NO_CACHE,
    BuildRun,
    BuiltWheel,
    CacheUse,
    Ingredients,
    cache_use,
    provenance_text,
)
from kernforge.pack.purl import source_address
from kernforge.recipe.load import read_recipe
from kernforge.recipe.matrix import expand
from kernforge.recipe.model import ArchiveSource, GitSource, PathSource, PypiSource
from kernforge.toolchain.lock import Pin

COMMIT, HASH = "0bcd822377da7b5718e674eaf9c870d349424dd1", "12" * 32
RECIPE = {
    "format": 1,
    "name": "tiny",
    "version": "1.2.3",
    "sources": {
        "tiny": {"git": "https://host.example/x/tiny.git", "commit": COMMIT},
        "cutlass": {"archive": "https://host.example/c.tar.gz", "sha256": HASH},
    },
    "build": {"source": "tiny"},
    "matrix": {"archs": ["9.0;12.0a"], "cuda": ["13.0"], "python": ["3.11"]},
}


def statement() -> str:
    (job,) = expand(read_recipe(RECIPE, where="tiny.yaml"))
    ingredients = Ingredients(
        sources=(
            ("tiny", canonical_json({"kind": "git", "commit": COMMIT})),
            ("cutlass", canonical_json({"kind": "archive", "sha256": HASH, "strip": 1})),
        ),
        pins=(
            Pin(name="ninja", version="1.13", hashes=("a" * 64,)),
            Pin(name="cmake", version="4.4.5", hashes=("b" * 64, "c" * 64)),
        ),
        machine={"host": {"machine": "x86_64"}, "layout": ["kf", "/kf"]},
    )
    run = BuildRun(build_id="id", kernforge="0.1.0", finished="2026-11-30T12:00:00Z", seconds=1.5,
                   jobs=2, tree="ef" * 32, sandbox=(("layout", "kf"), ("network_cut", True)))  # fmt: skip
    wheel = BuiltWheel(name="tiny.whl", sha256="cd" * 32, key="ab" * 32, recipe_key="cd" * 32)
    return provenance_text(wheel, job, ingredients, run)


def test_in_totos_own_library_accepts_it():
    pytest.importorskip("in_toto_attestation", reason="no in-toto-attestation")
    from google.protobuf import json_format
    from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
    from in_toto_attestation.v1 import statement as intoto
    from in_toto_attestation.v1 import statement_pb2

    data = json.loads(statement())
    parsed = json_format.ParseDict(data, statement_pb2.Statement())
    intoto.Statement.copy_from_pb(parsed).validate()
    predicate = json_format.ParseDict(data["predicate"], provenance_pb2.Provenance())
    assert len(predicate.build_definition.resolved_dependencies) == 4
    assert predicate.run_details.metadata.invocation_id == "id"


def test_subject_and_ingredients():
    data = json.loads(statement())
    assert data["subject"] == [{"name": "tiny.whl", "digest": {"sha256": "cd" * 32}}]
    by_name = {
        part["name"]: part for part in data["predicate"]["buildDefinition"]["resolvedDependencies"]
    }
    assert by_name["tiny"]["digest"] == {"gitCommit": COMMIT}
    assert by_name["cutlass"]["digest"] == {"sha256": HASH}
    assert by_name["ninja"]["uri"] == "pkg:pypi/ninja@1.13"
    assert by_name["cmake"]["annotations"] == {"sha256OneOf": ["b" * 64, "c" * 64]}


def test_addresses_are_of_sources_only():
    text = statement()
    assert "simple" not in text
    assert f"git+https://host.example/x/tiny.git@{COMMIT}" in text


@pytest.mark.parametrize(
    ("source", "address"),
    [
        (GitSource(git="https://github.com/NVIDIA/cutlass.git", commit=COMMIT),
         f"pkg:github/nvidia/cutlass@{COMMIT}"),
        (GitSource(git="git@github.com:NVIDIA/cutlass", commit=COMMIT),
         f"pkg:github/nvidia/cutlass@{COMMIT}"),
        (ArchiveSource(archive=f"https://github.com/NVIDIA/cutlass/archive/{COMMIT}.tar.gz", sha256=HASH),
         f"pkg:github/nvidia/cutlass@{COMMIT}"),
        (ArchiveSource(archive="https://host.example/c.zip?token=x", sha256=HASH),
         "https://host.example/c.zip"),
        (ArchiveSource(archive="archives/c.tar.gz", sha256=HASH), f"pkg:generic/c@{HASH}"),
        (PypiSource(pypi="Torch_Scatter", version="2.1.2", sha256=HASH),
         "pkg:pypi/torch-scatter@2.1.2"),
        (PathSource(path="own"), "pkg:generic/c"),
    ],
)  # fmt: skip
def test_addresses(source, address):
    assert source_address("c", source) == address


def inner(**said) -> bytes:
    document = {"predicate": {"buildDefinition": {"internalParameters": said}}}
    return json.dumps(document).encode()


def test_what_a_compile_cache_served_is_read_back():
    assert cache_use(statement().encode()) == NO_CACHE
    assert cache_use(inner(compileCache={"kind": "network", "hits": 7})) == CacheUse(
        kind="network", hits=7
    )
    assert cache_use(inner()) == NO_CACHE, "a build before there was a cache"


@pytest.mark.parametrize(
    "text",
    [b"", b"{}", b"[]", b"\xff", b'{"predicate": 3}', inner(compileCache=None),
     inner(compileCache={"kind": "local"}), inner(compileCache={"kind": "local", "hits": "0"}),
     inner(compileCache={"kind": "local", "hits": -1}),
     inner(compileCache={"kind": "local", "hits": False}), inner(compileCache={"hits": 0})],
)  # fmt: skip
def test_a_statement_that_does_not_say_is_never_taken_for_one_without_a_cache(text):
    assert cache_use(text) is None
