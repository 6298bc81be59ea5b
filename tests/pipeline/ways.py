"""Ways to build one thing that differ in all that must not matter, and what holds them together."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from projects import CMAKE, share_toolchain, write_project


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a build is started; nothing of it may be seen in its bytes.

    Attributes:
        name: for messages.
        folder: where checkout and cache lie, below the test's own.
        umask: of the build.
        jobs: compiles at once.
        env: variables of the shell.
        words: more options of `build`.
        user: the number that the build is told to be its user's.
        before: what is there already: ``compile`` of the same in the store, for another local
            version, so that only the packing is new; ``cache``: every object in the compile cache.
    """

    name: str
    folder: str
    umask: int
    jobs: int
    env: tuple[tuple[str, str], ...]
    words: tuple[str, ...] = ()
    user: int | None = None
    before: str = ""


PLAIN = Way(
    name="plain", folder="a", umask=0o022, jobs=1, env=(("LC_ALL", "C.UTF-8"), ("TZ", "UTC"))
)
ELSEWHERE = Way(
    name="elsewhere",
    folder="one deeper/checkout of 'mine' ü",
    umask=0o077,
    jobs=3,
    env=(("LC_ALL", "POSIX"), ("LANG", "tr_TR.UTF-8"), ("TZ", "Pacific/Kiritimati"),
         ("HOME", "/nonexistent"), ("USER", "nobody"), ("HOSTNAME", "elsewhere"),
         ("SOURCE_DATE_EPOCH", "1"), ("PYTHONHASHSEED", "77"), ("CFLAGS", "-O0")),
    words=("--no-compile-cache",),
    user=54321,
)  # fmt: skip
WARM = Way(
    name="warm",
    folder="w",
    umask=0o002,
    jobs=2,
    env=(("LC_ALL", "C"), ("TZ", "America/St_Johns")),
    user=1,
    before="compile",
)
CACHED = Way(
    name="cached", folder="c/c", umask=0o027, jobs=2, env=(("TZ", "Asia/Kolkata"),), before="cache"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A project that is built in several ways.

    ``project`` is copied for each way; ``local`` is the local version of its recipe.
    """

    root: Path
    project: Path
    shared: Path
    recipe: str
    local: str

    def build(self, way: Way) -> dict[str, Any]:
        """Build in a checkout and a store of the way's own; the answer of `build --json`."""
        home = self.root / way.folder
        checkout = home / "checkout"
        shutil.copytree(self.project, checkout)
        cache = share_toolchain(home / "cache", self.shared)
        if way.before == "compile":
            recipe = checkout / f"recipes/{self.recipe}.yaml"
            text = recipe.read_text()
            assert text.count(self.local) == 1
            recipe.write_text(text.replace(self.local, f"{self.local}.first"))
            self._run(way, checkout, cache)
            recipe.write_text(text)
        elif way.before == "cache":
            self._run(way, checkout, cache)
            shutil.rmtree(cache / "store")
        return self._run(way, checkout, cache)

    def _run(self, way: Way, checkout: Path, cache: Path) -> dict[str, Any]:
        place = ("--project", str(checkout), "--cache", str(cache))
        words = ("build", self.recipe, "--arch", "12.0a", "--jobs", str(way.jobs), "--json")
        words += ("--memory", "16GiB")  # else what is free here decides what is compiled at once
        done = subprocess.run(
            [*as_user(way.user), sys.executable, "-m", "kernforge", *place, *words, *way.words],
            cwd=checkout,
            env={**os.environ, **dict(way.env)},
            umask=way.umask,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        (answer,) = json.loads(done.stdout)
        assert answer["cached"] is False
        return answer


def as_user(number: int | None) -> tuple[str, ...]:
    """What makes a program believe that it belongs to another user, who has no name here."""
    if number is None:
        return ()
    return ("unshare", "--user", f"--map-user={number}", f"--map-group={number}")


def compiles(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The records of what was compiled, in the order of their beginnings."""
    lines = (Path(answer["wheel"]).parent / "ledger.jsonl").read_text().splitlines()
    found = [r for r in map(json.loads, lines) if r["kind"] == "compile" and not r["nested"]]
    return sorted(found, key=lambda record: record["start"])


def compiled(answer: dict[str, Any]) -> list[str]:
    """The sources, in that order."""
    return [record["sources"][0] for record in compiles(answer)]


def span(record: dict[str, Any]) -> tuple[float, float]:
    """When a compile began and ended.

    What waits starts as soon as a compile is over, while its record is still written: so it ended
    when the last of what it made was written, or a little before the record says.
    """
    start = record["start"] + record["waited"]
    made = [output["mtime_ns"] / 1e9 for output in record["outputs"]]
    return start, max(made, default=start + record["seconds"] - 0.1)


def at_once(answer: dict[str, Any]) -> bool:
    """Whether any compile began before the one before it had ended."""
    times = sorted(map(span, compiles(answer)))
    assert len(times) > 1
    return any(later[0] < earlier[1] for earlier, later in pairwise(times))


def hits(answer: dict[str, Any]) -> int:
    """How many compiles a cache served, as the provenance says."""
    text = (Path(answer["wheel"]).parent / "provenance.json").read_text()
    inner = json.loads(text)["predicate"]["buildDefinition"]["internalParameters"]
    return int(inner["compileCache"]["hits"])


def check_equal(bench: Bench, *ways: Way) -> None:
    first = bench.build(PLAIN)
    assert not at_once(first)
    for way in ways:
        other = bench.build(way)
        assert way.jobs < 3 or at_once(other), way.name
        assert way.before != "cache" or hits(other) > hits(first)
        assert not way.words or hits(other) == 0
        assert (other["key"], other["sha256"]) == (first["key"], first["sha256"]), way.name
        assert Path(other["wheel"]).read_bytes() == Path(first["wheel"]).read_bytes()


TEMPLATES = """\
namespace {{ __device__ int counter; }}
template <class T> __global__ void {name}(T *x) {{ x[threadIdx.x] += counter++; }}
template <class T> void run_{name}(T *x) {{ {name}<T><<<1, 32>>>(x); }}
template void run_{name}<float>(float *);
"""


def templates_project(root: Path) -> Path:
    """A project of units that define no function by themselves: nvcc names what is internal there."""
    units = ("first", "second", "third")
    cmake = CMAKE.replace(" tiny.cu", "".join(f" {unit}.cu" for unit in units))
    files = {f"project/{unit}.cu": TEMPLATES.format(name=unit) for unit in units}
    return write_project(root, {**files, "project/CMakeLists.txt": cmake})
