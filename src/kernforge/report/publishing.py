"""What publishing gave, as text and as a document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kernforge.publish.publication import Published
from kernforge.report.terminal import amount


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
        lines += [f"  device {c.device}: reaches {c.reached or 'nothing'}" for c in wheel.claims]
    offered = sum(wheel.yanked is None for wheel in published.wheels)
    taken_back = len(published.wheels) - offered
    lines.append(
        f"{len(published.new)} new, {offered} offered, {taken_back} taken back: {published.folder}"
    )
    return "\n".join(lines)
