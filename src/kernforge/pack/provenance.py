"""The statement beside a wheel: in-toto Statement 1 with SLSA provenance 1. Pure.

It holds everything that varies from build to build and may therefore not stand in the wheel, and
names what went in by package URLs and digests; no address of an index. Sources: in-toto attestation
framework, Statement v1; SLSA v1.0, build provenance.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kernforge.pack.purl import pypi_purl, source_address
from kernforge.recipe.matrix import Job
from kernforge.toolchain.lock import Pin

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:kernforge:build:1"
_BUILDER = "urn:kernforge:builder:local"
_DIGESTS = (("commit", "gitCommit"), ("sha256", "sha256"), ("tree", "kernforgeTree"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUse:
    """Which compile cache a compile had (``none``, ``local`` or ``network``), and its hits."""

    kind: str
    hits: int


NO_CACHE = CacheUse(kind="none", hits=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRun:
    """One run of a build: what of it is in no key.

    Attributes:
        build_id: unique to the run.
        kernforge: our version.
        finished: UTC time as ``2026-11-30T12:00:00Z``.
        seconds: that the compile took.
        jobs: how many compiles ran at once.
        tree: hash of the placed and patched sources.
        sandbox: what held: layout, whether the network was cut, and why.
        compile_cache: what the compile took from a cache of compiles.
    """

    build_id: str
    kernforge: str
    finished: str
    seconds: float
    jobs: int
    tree: str
    sandbox: tuple[tuple[str, str | bool], ...]
    compile_cache: CacheUse = NO_CACHE


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltWheel:
    """The wheel that a statement is about: file name, SHA-256, BuildKey and recipe key."""

    name: str
    sha256: str
    key: str
    recipe_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingredients:
    """What went in: pins of each source (canonical JSON), locked packages, the machine's parts."""

    sources: tuple[tuple[str, str], ...]
    pins: tuple[Pin, ...]
    machine: Mapping[str, object]


def provenance_text(wheel: BuiltWheel, job: Job, ingredients: Ingredients, run: BuildRun) -> str:
    """The statement of a wheel, one JSON document."""
    target = job.target
    definition = {
        "buildType": BUILD_TYPE,
        "externalParameters": {
            "recipe": job.recipe.name,
            "job": job.id,
            "target": {
                "archs": [str(arch) for arch in target.archs],
                "cuda": target.cuda,
                "torch": target.torch,
                "python": target.python,
                "platform": target.platform,
            },
        },
        "internalParameters": {
            "recipeKey": wheel.recipe_key,
            "buildKey": wheel.key,
            "machine": dict(ingredients.machine),
            "tree": run.tree,
            "compileSeconds": run.seconds,
            "jobs": run.jobs,
            "sandbox": dict(run.sandbox),
            "compileCache": asdict(run.compile_cache),
        },
        "resolvedDependencies": [*_sources(job, ingredients), *map(_package, ingredients.pins)],
    }
    details = {
        "builder": {"id": _BUILDER, "version": {"kernforge": run.kernforge}},
        "metadata": {"invocationId": run.build_id, "finishedOn": run.finished},
    }
    statement = {
        "_type": STATEMENT,
        "subject": [{"name": wheel.name, "digest": {"sha256": wheel.sha256}}],
        "predicateType": PREDICATE,
        "predicate": {"buildDefinition": definition, "runDetails": details},
    }
    return json.dumps(statement, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def cache_use(statement: bytes) -> CacheUse | None:
    """What a statement says of a compile cache; None where it says nothing that can be read.

    A statement of a build before there was a cache does not name one.
    """
    try:
        inner = json.loads(statement)["predicate"]["buildDefinition"]["internalParameters"]
        said = inner.get("compileCache", {"kind": "none", "hits": 0})
        kind, hits = said["kind"], said["hits"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if not isinstance(kind, str) or type(hits) is not int or hits < 0:
        return None
    return CacheUse(kind=kind, hits=hits)


def _sources(job: Job, ingredients: Ingredients) -> list[dict[str, Any]]:
    known = dict(job.recipe.sources)
    found = []
    for name, text in ingredients.sources:
        pins = json.loads(text)
        digest = {theirs: pins[ours] for ours, theirs in _DIGESTS if ours in pins}
        address = source_address(name, known[name])
        found.append({"name": name, "uri": address, "digest": digest})
    return found


def _package(pin: Pin) -> dict[str, Any]:
    """A locked package. Where several files may answer it, which one did depends on the machine."""
    about: dict[str, Any] = {"name": pin.name, "uri": pypi_purl(pin.name, pin.version)}
    if len(pin.hashes) == 1:
        return {**about, "digest": {"sha256": pin.hashes[0]}}
    return {**about, "annotations": {"sha256OneOf": list(pin.hashes)}}
