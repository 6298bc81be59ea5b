"""Wheels made by hand that are sound enough to be published, and the index they go to."""

import json
from pathlib import Path

from answers import verdict

from kernforge.pack.archive import write_wheel
from kernforge.publish.candidate import Candidate, make_candidate
from kernforge.publish.publication import Order, Published, publish

KEY = "ab" * 32
NOW = 1_796_000_000.0


def write_offer(folder: Path, **changes) -> Path:
    """A wheel with metadata, one module and a ``build.json``; ``changes`` override its facts."""
    facts = {
        "name": "tiny", "version": "1.2.3+cu130.sm120a", "build": "1kfabababab", "archs": ["12.0a"],
        "cuda": "13.0", "torch": None, "python": "3.11", "metadata": (), "text": "x = 1\n",
        "tag": "py3-none-any", "recipe": "tiny", "key": KEY, "requires_python": ">=3.10",
    } | changes  # fmt: skip
    stem = f"{facts['name']}-{facts['version']}"
    tree = folder / f"tree-{stem}-{facts['build']}"
    info = tree / f"{stem}.dist-info"
    info.mkdir(parents=True)
    (tree / f"{facts['name']}.py").write_text(facts["text"])
    head = ["Metadata-Version: 2.4", f"Name: {facts['name']}", f"Version: {facts['version']}"]
    head += ["Summary: A <tiny> wheel", f"Requires-Python: {facts['requires_python']}"]
    (info / "METADATA").write_text("\n".join([*head, *facts["metadata"]]) + "\n\nbody\n")
    words = ["Wheel-Version: 1.0", "Generator: kernforge", "Root-Is-Purelib: true"]
    words += [f"Tag: {facts['tag']}", f"Build: {facts['build']}"]
    (info / "WHEEL").write_text("\n".join(words) + "\n")
    build = {key: facts[key] for key in ("archs", "cuda", "torch")}
    stages = {"build": build, "env": {"python": facts["python"]}}
    document = {"recipe": facts["recipe"], "job": f"{facts['recipe']}-job",
                "build_key": facts["key"], "stages": stages}  # fmt: skip
    (info / "build.json").write_text(json.dumps(document))
    target = folder / f"{stem}-{facts['build']}-{facts['tag']}.whl"
    write_wheel(tree, target, info_dir=info.name, epoch=0)
    return target


def candidate(wheel: Path, **found) -> Candidate:
    """The wheel with a verdict that passes, unless told otherwise."""
    return make_candidate(wheel, verdict(**found), provenance=None)


def put(root: Path, *wheels: Path, **order) -> Published:
    """Publish wheels into a folder."""
    asked = Order(candidates=tuple(map(candidate, wheels)), **order)
    return publish(root, asked, waiting=lambda _seconds: None, now=NOW)
