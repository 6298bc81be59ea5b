import json

from answers import KEY, outcome, plan, verdict
from images import TORN, image, library

from kernforge.binary.facts import Finding
from kernforge.report.documents import (
    entry_document,
    outcome_document,
    plan_document,
    verdict_document,
)
from kernforge.store.local import Store


def plain(value):
    """What a program reads of it: JSON there and back changes nothing."""
    assert json.loads(json.dumps(value)) == value
    return value


def test_a_verdict():
    host = library(path="pkg/host.so")
    made = verdict(library(image("12.0a", "a"), image("9.0", "a", "b")), host)
    document = plain(verdict_document(made))
    assert document["require"] == "code"
    assert document["passed"] is False
    assert document["host_only"] == ["pkg/host.so"]
    assert document["notes"] == []
    assert document["devices"] == [
        {
            "device": "12.0",
            "reached": None,
            "levels": {
                "code": "failed", "links": "not verified", "imports": "not verified",
                "loads": "not verified", "runs": "not verified",
            },
        }
    ]  # fmt: skip
    assert document["libraries"] == [
        {
            "path": "pkg/ops.so", "device": "12.0", "service": "partial", "kernels": 1, "total": 2,
            "missing": ["b"], "absent": ["b"], "archs": ["12.0a"], "images": ["9.0", "12.0a"],
            "image_count": 2,
            "answers": {"serves": 1, "doubtful": 0, "refuses": 0, "jit only": 0, "none": 1},
            "families": [
                {"family": "b", "answer": "none", "kernels": ["b"], "reason": "only 9.0"}
            ],
            "accepted": 0, "code_bytes": {"9.0": 256, "12.0a": 128},
        }
    ]  # fmt: skip
    (fault,) = document["faults"]
    assert (fault["word"], fault["device"]) == ("code-missing", "12.0")


def test_what_could_not_be_read_has_no_answers():
    (row,) = plain(verdict_document(verdict(library(findings=(TORN,)))))["libraries"]
    assert (row["service"], row["answers"], row["families"]) == ("not read", None, None)


def test_a_fault_of_all_devices_names_none():
    torn = Finding(word="member-garbled", text="bytes are missing")
    document = plain(verdict_document(verdict(findings=(torn,))))
    assert document["faults"] == [
        {
            "word": "wheel-damaged",
            "text": "The wheel is damaged: bytes are missing",
            "device": None,
        }
    ]
    assert document["passed"] is False


def test_an_outcome():
    document = plain(outcome_document(outcome()))
    assert {"job", "key", "recipe_key", "wheel", "sha256", "cached", "build_id", "verdict"} <= set(
        document
    )
    assert document["seconds"] == 1.235
    assert document["sandbox"] == {"layout": "kf", "reason": "bubblewrap"}
    assert document["verdict"]["passed"] is True


def test_a_plan():
    document = plain(plan_document(plan(), None))
    assert document["job"] == "demo-cu130-cp311-sm90.120a"
    assert document["archs"] == ["9.0", "12.0a"]
    assert document["recipe_key"] == KEY
    fetch, build = document["stages"]
    assert (fetch["argv"], fetch["env"], fetch["cwd"]) == (None, None, None)
    assert (build["argv"], build["env"]) == (["python", "-m", "build"], {"CC": "gcc"})
    assert build["parts"] == {"epoch": 7}
    assert document["probed"] is None
    assert plan_document(plan(), {"build_key": KEY})["probed"] == {"build_key": KEY}


def test_an_entry_of_the_store(tmp_path):
    (tmp_path / "x.whl").write_text("wheel")
    entry = Store(tmp_path / "cache").put(
        "artifact", KEY, {"x.whl": tmp_path / "x.whl"}, {"wheel": "x.whl"}
    )
    document = plain(entry_document(entry))
    assert document == {
        "kind": "artifact", "key": KEY, "bytes": 5, "path": str(entry.path), "wheel": "x.whl"
    }  # fmt: skip
