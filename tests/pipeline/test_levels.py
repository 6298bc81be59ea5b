"""What decides an answer that is kept, and that it comes back as it was."""

from dataclasses import replace
from pathlib import Path

import pytest
from images import device

from kernforge.binary.facts import WheelFacts
from kernforge.pipeline.levels import Trial, keep_levels, kept_levels, rung_document, rung_of
from kernforge.pipeline.machine import Machine
from kernforge.store.local import Store
from kernforge.toolchain.host import Host
from kernforge.toolchain.sandbox import KF, Sandbox
from kernforge.verify.fault import Fault
from kernforge.verify.ladder import rung

NEW, OLD = device("12.0"), device("9.0")
FACTS = WheelFacts(
    file="x.whl", size=1, name="x", version="1", build="", tags=(), metadata=(), wheel=(), members=0,
    libraries=(), findings=(),
)  # fmt: skip
TRIAL = Trial(
    wheel=Path("x.whl"), sha256="a" * 64, facts=FACTS, devices=(NEW,), imports=("x",),
    python="3.11", torch=False, target="b" * 64,
)  # fmt: skip
MACHINE = Machine(
    host=Host(programs=(), python=Path("/usr/bin/python3"), identity=(("gcc", "1"),)),
    sandbox=Sandbox(layout=KF, bwrap="/usr/bin/bwrap", reason="bubblewrap"),
    inside="c" * 64,
    toolkit=None,
)
RUNGS = (
    rung("links", (NEW, OLD), [Fault(word="x", text="no", device=OLD)], notes=("loose",)),
    rung("imports", (NEW, OLD), [Fault(word="y", text="all")], unknown="no sandbox"),
)


@pytest.mark.parametrize(
    "change",
    [
        {"sha256": "0" * 64},
        {"devices": (NEW, OLD)},
        {"imports": ("x", "x.more")},
        {"target": "0" * 64},
    ],
)
def test_each_part_of_a_trial_is_in_its_key(change):
    """Another environment above all: a new lock may break what linked before."""
    assert replace(TRIAL, **change).key(MACHINE) != TRIAL.key(MACHINE)


@pytest.mark.parametrize(
    "change",
    [
        {"host": replace(MACHINE.host, identity=(("gcc", "2"),))},
        {"sandbox": Sandbox(layout=KF, bwrap=None, reason="none")},
    ],
)
def test_the_machine_is_in_it_too(change):
    assert TRIAL.key(replace(MACHINE, **change)) != TRIAL.key(MACHINE)


def test_where_the_wheel_lies_is_not(tmp_path):
    assert replace(TRIAL, wheel=tmp_path / "x.whl").key(MACHINE) == TRIAL.key(MACHINE)


@pytest.mark.parametrize("found", RUNGS)
def test_a_rung_comes_back_as_it_was(found):
    assert rung_of(rung_document(found)) == found


def test_answers_are_kept_for_that_trial_alone(tmp_path):
    store = Store(tmp_path / "cache")
    assert kept_levels(TRIAL, MACHINE, store) is None
    keep_levels(TRIAL, RUNGS, MACHINE, store)
    assert kept_levels(TRIAL, MACHINE, store) == RUNGS
    assert kept_levels(replace(TRIAL, target=""), MACHINE, store) is None
