"""The levels above `code` for a wheel in its target: `links` and `imports`, kept in the store.

Both follow from the wheel, its environment and what the recipe imports; they are judged once, kept
under a key of these, and taken from there by every later call.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from kernforge.arch import Device, parse_device
from kernforge.binary.facts import WheelFacts
from kernforge.canonical import canonical_json, digest
from kernforge.pipeline.machine import Machine
from kernforge.process import Runner
from kernforge.store.local import Entry, Store
from kernforge.verify.fault import Fault
from kernforge.verify.ladder import Rung
from kernforge.verify.policy import Answer

_VERSION = 2
_PROBE = Path(__file__).parent.parent / "inside/import_probe.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A wheel whose levels are asked for, and the target that it must fit.

    Attributes:
        wheel: the file.
        sha256: of the file.
        facts: what was read from it.
        devices: the devices asked about.
        imports: modules that must import.
        python: the target's Python, as ``3.11``.
        torch: whether the target has a torch.
        target: what decides the target's environment: the recipe key.
    """

    wheel: Path
    sha256: str
    facts: WheelFacts
    devices: tuple[Device, ...]
    imports: tuple[str, ...]
    python: str
    torch: bool
    target: str = ""

    def key(self, machine: Machine) -> str:
        """What decides the answers."""
        return digest(
            {
                "levels": _VERSION,
                "wheel": self.sha256,
                "imports": list(self.imports),
                "devices": [str(device) for device in self.devices],
                "target": self.target,
                "probe": sha256(_PROBE.read_bytes()).hexdigest(),
                "machine": machine.parts,
                "sandboxed": machine.sandbox.bwrap is not None,
            }
        )


def rung_document(rung: Rung) -> dict[str, Any]:
    """A rung as plain data."""
    return {
        "level": rung.level,
        "answers": [[str(device), answer.value] for device, answer in rung.answers],
        "faults": [
            {"word": f.word, "text": f.text, "device": str(f.device) if f.device else None}
            for f in rung.faults
        ],
        "notes": list(rung.notes),
    }


def rung_of(document: dict[str, Any]) -> Rung:
    """A rung from plain data."""
    return Rung(
        level=document["level"],
        answers=tuple((parse_device(d), Answer(a)) for d, a in document["answers"]),
        faults=tuple(
            Fault(
                word=f["word"],
                text=f["text"],
                device=parse_device(f["device"]) if f["device"] else None,
            )
            for f in document["faults"]
        ),
        notes=tuple(document["notes"]),
    )


def kept_levels(trial: Trial, machine: Machine, store: Store) -> tuple[Rung, ...] | None:
    """The answers of an earlier call, or None."""
    entry = store.get("levels", trial.key(machine), told=lambda _text: None)
    if entry is None:
        return None
    documents = json.loads((entry.path / "levels.json").read_bytes())
    return tuple(rung_of(document) for document in documents)


def judge_levels(
    trial: Trial, environment: Path, machine: Machine, store: Store, *, runner: Runner
) -> tuple[Rung, ...]:
    """Judge `links` and `imports` in an environment.

    Raises:
        CacheError: there is no room for what the trial needs.
    """
    from kernforge.verify.linkage import judge_links  # noqa: PLC0415 - a hit needs none of it
    from kernforge.verify.loading import (  # noqa: PLC0415 - likewise
        ImportOrder,
        ImportWorld,
        judge_imports,
        probe_imports,
    )
    from kernforge.verify.surroundings import Surroundings, target_of  # noqa: PLC0415 - likewise

    around = Surroundings(target_of(environment))
    order = ImportOrder(
        wheel=trial.wheel,
        facts=trial.facts,
        modules=trial.imports,
        python=trial.python,
        torch=trial.torch,
    )
    with store.scratch() as scratch:
        world = ImportWorld(
            environment=environment,
            sandbox=machine.sandbox,
            host=machine.host,
            runner=runner,
            scratch=scratch,
        )
        document = probe_imports(order, world, around)
    return (
        judge_links(trial.facts, trial.devices, around),
        judge_imports(document, order, trial.devices),
    )


def keep_levels(trial: Trial, rungs: tuple[Rung, ...], machine: Machine, store: Store) -> Entry:
    """Keep the answers for later calls.

    Raises:
        CacheError: they cannot be kept.
    """
    with store.scratch() as scratch:
        path = scratch / "levels.json"
        path.write_text(canonical_json([rung_document(r) for r in rungs]), encoding="utf-8")
        return store.put("levels", trial.key(machine), {path.name: path}, {})
