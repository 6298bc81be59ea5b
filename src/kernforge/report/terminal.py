"""Answers for people."""

from __future__ import annotations

from kernforge.build.plan import Plan
from kernforge.pipeline.job import Outcome
from kernforge.report.verdict import verdict_lines
from kernforge.store.local import Entry

_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def amount(size: int) -> str:
    """Bytes for reading: ``12.3 MiB``."""
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"


def outcome_text(outcome: Outcome) -> str:
    """What a build gave."""
    how = "found in the store" if outcome.cached else "built"
    head = f"{outcome.job}: {how} in {outcome.seconds:.2f} s"
    lines = [
        f"wheel   {outcome.wheel}",
        f"sha256  {outcome.sha256}  ({amount(outcome.size)})",
        f"key     {outcome.key}",
        *verdict_lines(outcome.verdict),
    ]
    return "\n".join([head, *(f"  {line}" for line in lines)])


def plan_text(plan: Plan, probed: dict[str, object] | None) -> str:
    """A plan: keys, and the command with its environment."""
    lines = [plan.job.id, f"  recipe key  {plan.recipe_key}"]
    if probed:
        lines += [f"  {key.replace('_', ' '):<10}  {value}" for key, value in probed.items()]
    lines += [f"  {stage.name:<10}  {stage.key}" for stage in plan.stages]
    lines.append(f"  in {plan.call.cwd}")
    lines.append(f"  $ {' '.join(plan.call.argv)}")
    lines += [f"    {key}={value}" for key, value in plan.call.env]
    return "\n".join(lines)


def entry_line(entry: Entry) -> str:
    """One entry of the store."""
    facts = entry.facts()
    name = facts.get("wheel", "")
    return f"{entry.kind:<9} {entry.key[:16]}  {amount(entry.size):>10}  {name}"
