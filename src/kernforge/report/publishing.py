"""What publishing and reproducing gave, as text and as a document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kernforge.publish.listing import Claim
from kernforge.publish.publication import Published
from kernforge.report.errors import printable
from kernforge.report.terminal import amount
from kernforge.reproduce.rebuild import Reproduction


def published_document(published: Published) -> dict[str, Any]:
    """What an index shows now, and which of it is new."""
    return {
        "folder": str(published.folder),
        "new": [wheel.file for wheel in published.new],
        "wheels": [asdict(wheel) for wheel in published.wheels],
    }


def published_text(published: Published) -> str:
    """One line a new wheel, then what the index holds."""
    lines = []
    for wheel in published.new:
        lines.append(f"{wheel.leaf}/  {wheel.file}  ({amount(wheel.size)})")
        lines += [f"  device {claim.device}: {_claimed(claim)}" for claim in wheel.claims]
    offered = sum(wheel.yanked is None for wheel in published.wheels)
    taken_back = len(published.wheels) - offered
    lines.append(
        f"{len(published.new)} new, {offered} offered, {taken_back} taken back: {published.folder}"
    )
    return "\n".join(lines)


def _claimed(claim: Claim) -> str:
    reached = claim.reached or "nothing"
    return f"expected to reach {reached}" if claim.expected else f"reaches {reached}"


def reproduction_document(done: Reproduction) -> dict[str, Any]:
    """What a rebuild gave, held against the original."""
    original = done.prospect.original
    return {
        "job": done.prospect.job.id,
        "original": {"wheel": original.wheel.name, "sha256": original.sha256, "own": original.own},
        "rebuilt": {"wheel": done.wheel, "sha256": done.sha256},
        "seconds": round(done.seconds, 3),
        "equal": done.comparison.equal,
        "inputs": [asdict(difference) for difference in done.prospect.inputs],
        "differences": [asdict(difference) for difference in done.comparison.differences],
    }


def reproduction_text(done: Reproduction) -> str:
    """The level that is equal, then each difference on a line."""
    original, equal = done.prospect.original, done.comparison.equal
    said = {
        "bytes": "equal bytes",
        "normalised": "equal after normalisation, other bytes",
        "device code": "equal device code, other content",
        None: "not equal",
    }
    lines = [
        f"{done.prospect.job.id}: {said[equal]}, built again in {done.seconds:.1f} s",
        f"  was  {original.sha256}  {original.wheel.name}",
        f"  now  {done.sha256}  {done.wheel}",
    ]
    lines += [f"  input {difference}" for difference in done.prospect.inputs]
    lines += [f"  {d.level}: {d}" for d in done.comparison.differences]
    return "\n".join(printable(line) for line in lines)
