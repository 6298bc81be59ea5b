"""Answers as JSON documents: stable keys, documented in `docs/json.md`."""

from __future__ import annotations

import json
from typing import Any

from kernforge.build.plan import Plan
from kernforge.pipeline.job import Outcome
from kernforge.store.local import Entry
from kernforge.verify.gaps import KernelTable
from kernforge.verify.policy import Verdict


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    """A verdict: devices with their levels, libraries with their service, faults."""
    return {
        "require": verdict.require,
        "passed": verdict.passed,
        "devices": [
            {
                "device": str(device.device),
                "reached": device.reached,
                "levels": {level: answer.value for level, answer in device.levels},
            }
            for device in verdict.devices
        ],
        "libraries": _libraries(verdict),
        "host_only": list(verdict.host_only),
        "faults": [
            {"word": f.word, "text": f.text, "device": str(f.device) if f.device else None}
            for f in verdict.faults
        ],
        "notes": list(verdict.notes),
    }


def _libraries(verdict: Verdict) -> list[dict[str, Any]]:
    tables = {(table.path, table.device): table for table in verdict.tables}
    return [
        {
            "path": row.path,
            "device": str(row.device),
            "service": row.service.value,
            "kernels": row.kernels,
            "total": row.total,
            "missing": list(row.missing),
            "absent": list(row.absent),
            "archs": list(row.archs),
            "images": list(row.images),
            "image_count": row.image_count,
            **_kernels(tables.get((row.path, row.device))),
        }
        for row in verdict.served
    ]


def _kernels(table: KernelTable | None) -> dict[str, Any]:
    """What the kernels of a library do on a device; null where they could not be read."""
    if table is None:
        return {"answers": None, "families": None, "accepted": None, "code_bytes": None}
    return {
        "answers": {service.value: count for service, count in table.counts},
        "families": [
            {
                "family": group.family,
                "answer": group.service.value,
                "kernels": list(group.names),
                "reason": group.reason,
            }
            for group in table.groups
        ],
        "accepted": table.accepted,
        "code_bytes": dict(table.code),
    }


def outcome_document(outcome: Outcome) -> dict[str, Any]:
    """What a build gave."""
    return {
        "job": outcome.job,
        "key": outcome.key,
        "recipe_key": outcome.recipe_key,
        "wheel": str(outcome.wheel),
        "sha256": outcome.sha256,
        "size": outcome.size,
        "cached": outcome.cached,
        "build_id": outcome.build_id,
        "seconds": round(outcome.seconds, 3),
        "sandbox": {"layout": outcome.sandbox[0], "reason": outcome.sandbox[1]},
        "verdict": verdict_document(outcome.verdict),
    }


def plan_document(plan: Plan, probed: dict[str, Any] | None) -> dict[str, Any]:
    """A plan; ``probed`` is what the machine said, or None where it was not asked."""
    return {
        "job": plan.job.id,
        "recipe_key": plan.recipe_key,
        "archs": [str(arch) for arch in plan.job.target.archs],
        "stages": [
            {
                "name": stage.name,
                "key": stage.key,
                "parts": json.loads(stage.parts),
                "argv": list(stage.command.argv) if stage.command else None,
                "env": dict(stage.command.env) if stage.command else None,
                "cwd": stage.command.cwd if stage.command else None,
            }
            for stage in plan.stages
        ],
        "probed": probed,
    }


def entry_document(entry: Entry) -> dict[str, Any]:
    """One entry of the store."""
    return {
        "kind": entry.kind,
        "key": entry.key,
        "bytes": entry.size,
        "path": str(entry.path),
        **entry.facts(),
    }
