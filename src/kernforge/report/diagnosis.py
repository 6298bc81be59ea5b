"""A diagnosis of `kernforge doctor` as a JSON document; `docs/doctor.md` documents it.

Room `report`.
"""

from __future__ import annotations

from typing import Any

from kernforge.doctor.checkout import GitFacts
from kernforge.doctor.code import Answer
from kernforge.doctor.installed import unknown_version
from kernforge.doctor.model import Case, Diagnosis


def diagnosis_document(found: Diagnosis) -> dict[str, Any]:
    """The one object that ``--json`` prints."""
    python = found.interpreter
    return {
        "format": 1,
        "healthy": found.healthy,
        "python": {
            "path": str(python.program),
            "version": python.version,
            "prefix": str(python.prefix),
            "venv": python.venv,
            "folders": [str(folder) for folder in python.path],
        },
        "torch": found.torch,
        "cuda": found.cuda,
        "devices": [str(device) for device in found.devices],
        "devices_note": found.devices_note,
        "sandbox": {"used": found.sandbox is None, "reason": found.sandbox},
        "distributions": [_case_document(case) for case in found.cases],
        "others": found.others,
        "run_time": {
            "compiling": [
                {
                    "distribution": one.distribution,
                    "what": one.what,
                    "programs": list(one.programs),
                    "troubles": list(one.troubles),
                }
                for one in found.compiling
            ],
            "programs": [
                {"name": p.name, "path": p.path, "release": p.release, "note": p.note}
                for p in found.programs
            ],
        },
        "troubles": [{"word": t.word, "text": t.text, "hint": t.hint} for t in found.troubles],
        "notes": list(found.notes),
    }


def _case_document(case: Case) -> dict[str, Any]:
    one, place = case.installed, case.place
    return {
        "name": one.name,
        "version": None if unknown_version(one.version) else one.version,
        "metadata_version": one.version,
        "info": str(one.info),
        "installer": one.installer,
        "direct_url": one.direct.url if one.direct else None,
        "editable": None
        if place is None
        else {
            "root": str(place.root),
            "how": place.how,
            "modules": {name: str(path) for name, path in place.modules},
        },
        "named_commit": one.named_commit,
        "git": _git_document(case.git),
        "spoken": [
            {"file": x.file, "name": x.name, "value": x.value, "exposed": x.exposed}
            for x in case.spoken
        ],
        "built_for": {
            "torch": _known(case.built.torch),
            "cuda": _known(case.built.cuda),
            "uses_torch": case.built.uses_torch,
        },
        "kernforge": one.built.build_key if one.built else None,
        "archs": list(case.archs),
        "ptx": list(case.ptx),
        "devices": [_answer_document(answer) for answer in case.answers],
        "imports": {
            "answer": case.imports.answer.value,
            "modules": dict(case.imports.modules),
            "versions": dict(case.imports.versions),
        },
        "remarks": [
            {"word": r.word, "text": r.text, "calls": r.calls.value if r.calls else None}
            for r in case.remarks
        ],
        "advice": {
            "action": case.advice.action.value,
            "recipe": case.advice.recipe,
            "exact": case.advice.exact,
            "commands": list(case.advice.commands),
        },
    }


def _known(known: Any) -> dict[str, str] | None:
    return None if known is None else {"value": known.value, "source": known.source}


def _git_document(git: GitFacts | None) -> dict[str, Any] | None:
    if git is None:
        return None
    return {
        "folder": str(git.folder),
        "commit": git.commit or None,
        "date": git.date,
        "branch": git.branch or None,
        "remote": git.remote or None,
        "changed": list(git.changed),
        "shallow": git.shallow,
        "tag": git.tag,
        "ahead": git.ahead,
        "tags": git.tags,
        "trouble": git.trouble,
    }


def _answer_document(answer: Answer) -> dict[str, Any]:
    return {
        "device": str(answer.device),
        "standing": answer.standing.value,
        "refusing": answer.refusing,
        "doubtful": answer.doubtful,
        "accepted": answer.accepted,
        "loaded": list(answer.loaded),
        "spared": list(answer.spared),
        "libraries": [
            {
                "path": row.path,
                "service": row.service.value,
                "kernels": row.kernels,
                "total": row.total,
            }
            for row in answer.served
        ],
    }
