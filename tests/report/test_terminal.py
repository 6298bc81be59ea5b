import pytest
from answers import KEY, outcome, plan

from kernforge.report.terminal import (
    amount,
    entry_line,
    outcome_text,
    plan_text,
)
from kernforge.store.local import Store


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 << 20, "5.0 MiB"), (3 << 29, "1.5 GiB")],
)
def test_amount(size, text):
    assert amount(size) == text


def test_an_outcome():
    lines = outcome_text(outcome()).splitlines()
    assert lines[0] == "demo-cu130-cp311-sm120a: built in 1.23 s"
    assert lines[1:4] == [
        "  wheel   /cache/store/demo.whl",
        f"  sha256  {'ef' * 32}  (2.0 KiB)",
        f"  key     {KEY}",
    ]
    assert outcome_text(outcome(cached=True)).startswith(
        "demo-cu130-cp311-sm120a: found in the store"
    )


def test_a_plan():
    lines = plan_text(plan(), {"build_key": KEY, "in_store": False}).splitlines()
    assert lines[0] == "demo-cu130-cp311-sm90.120a"
    assert f"  build key   {KEY}" in lines
    assert f"  build       {KEY}" in lines
    assert lines[-3:] == ["  in /kf/src/demo", "  $ python -m build", "    CC=gcc"]


def test_an_entry(tmp_path):
    (tmp_path / "x.whl").write_text("wheel")
    entry = Store(tmp_path / "cache").put(
        "artifact", KEY, {"x.whl": tmp_path / "x.whl"}, {"wheel": "x.whl"}
    )
    assert entry_line(entry).split() == ["artifact", KEY[:16], "5", "B", "x.whl"]
