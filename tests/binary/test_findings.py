from kernforge.binary.facts import Finding
from kernforge.binary.findings import FindingLog, GarbledError


def test_findings_keep_their_order():
    log = FindingLog()
    log.note("one", "first")
    log.add(GarbledError("two", "second").finding)
    assert log.all == (Finding(word="one", text="first"), Finding(word="two", text="second"))


def test_a_hundred_are_kept_and_the_rest_counted():
    log = FindingLog()
    for number in range(103):
        log.note("w", str(number))
    assert len(log.all) == 101
    assert log.all[-1] == Finding(word="findings-many", text="3 more findings are not listed")
