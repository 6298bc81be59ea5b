import pytest
from images import device, image, library

from kernforge.verify.fault import Fault
from kernforge.verify.ladder import climb, merged, rung
from kernforge.verify.policy import Answer, Rules, judge

NEW, OLD = device("12.0"), device("9.0")
GOOD = judge((library(image("12.0a", "k")),), (NEW,), Rules(require="imports"))
BAD = Fault(word="x", text="something is wrong")


def levels(verdict, one=NEW):
    return next(dict(d.levels) for d in verdict.devices if d.device == one)


def test_a_level_without_faults_is_reached():
    verdict = climb(GOOD, [rung("links", [NEW], []), rung("imports", [NEW], [])])
    assert verdict.passed
    assert verdict.devices[0].reached == "imports"


def test_a_fault_fails_its_level_and_those_above_stay_open():
    verdict = climb(GOOD, [rung("links", [NEW], [BAD]), rung("imports", [NEW], [])])
    assert (levels(verdict)["links"], levels(verdict)["imports"]) == ("failed", "not verified")
    assert not verdict.passed
    assert verdict.faults == (BAD,)


def test_what_is_unknown_is_never_reached():
    step = rung("links", [NEW], [], unknown="no target")
    assert dict(step.answers)[NEW] is Answer.NOT_VERIFIED
    assert step.notes == ("no target",)
    assert not climb(GOOD, [step, rung("imports", [NEW], [])]).passed


def test_a_fault_counts_even_where_the_rest_is_unknown():
    assert dict(rung("links", [NEW], [BAD], unknown="no target").answers)[NEW] is Answer.FAILED


def test_a_fault_of_one_device_leaves_the_other():
    mine = Fault(word="x", text="no", device=OLD)
    assert dict(rung("loads", [NEW, OLD], [mine]).answers) == {
        NEW: Answer.REACHED,
        OLD: Answer.FAILED,
    }


def test_more_faults_of_code_fail_it():
    verdict = climb(GOOD, [rung("code", [NEW], [BAD])])
    assert levels(verdict)["code"] is Answer.FAILED


def test_failed_code_stays_failed():
    nothing = judge((library(image("9.0a", "k")),), (NEW,), Rules(require="code"))
    assert levels(climb(nothing, [rung("code", [NEW], [])]))["code"] is Answer.FAILED


@pytest.mark.parametrize("level", ["links", "imports", "loads", "runs"])
def test_no_level_is_reached_over_one_that_is_open(level):
    verdict = climb(GOOD, [rung(level, [NEW], [])])
    expected = "links" if level == "links" else "code"
    assert verdict.devices[0].reached == expected


def test_a_device_that_no_rung_names_is_not_verified():
    assert levels(climb(GOOD, [rung("links", [OLD], [])]))["links"] is Answer.NOT_VERIFIED


def test_what_is_not_needed_bears_the_levels_above_it():
    plain = judge((), (NEW,), Rules(require="links", device_code=False))
    verdict = climb(plain, [rung("code", [NEW], []), rung("links", [NEW], [])])
    assert levels(verdict)["code"] is Answer.NOT_NEEDED
    assert verdict.devices[0].reached == "links"
    assert verdict.passed


def test_notes_of_rungs_reach_the_verdict():
    step = rung("links", [NEW], [], unknown="no target", notes=("loose",))
    assert climb(GOOD, [step]).notes == ("no target", "loose")


def test_answers_of_several_devices_become_one_rung():
    bad = Fault(word="x", text="no", device=OLD)
    steps = [
        rung("loads", [NEW], [], notes=("same",)),
        rung("loads", [OLD], [bad], notes=("same", "own")),
    ]
    one = merged(steps)
    assert (one.level, one.faults, one.notes) == ("loads", (bad,), ("same", "own"))
    assert dict(one.answers) == {NEW: Answer.REACHED, OLD: Answer.FAILED}
