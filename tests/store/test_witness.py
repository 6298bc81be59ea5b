"""The first bytes of a key are remembered, whatever becomes of the entry."""

import pytest

from kernforge.errors import VerifyError
from kernforge.store.local import Store
from kernforge.store.witness import check_bytes

KEY, FIRST, OTHER = "ab" * 32, "12" * 32, "34" * 32


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "cache")


def test_equal_bytes_pass_and_others_raise_the_alarm(store):
    for _ in range(2):
        check_bytes(store, KEY, "demo", FIRST)
    with pytest.raises(VerifyError, match=r"demo: this key gave other bytes before: 121212121212"):
        check_bytes(store, KEY, "demo", OTHER)
    with pytest.raises(VerifyError, match=r"other bytes") as found:
        check_bytes(store, KEY, "demo", OTHER)
    assert found.value.word == "key-unstable"
    check_bytes(store, KEY, "demo", FIRST)
    check_bytes(store, "cd" * 32, "demo", OTHER)


def test_a_half_written_memory_is_none(store):
    check_bytes(store, KEY, "demo", FIRST)
    (store.root / "witness" / KEY).write_text("12")
    check_bytes(store, KEY, "demo", OTHER)
    assert (store.root / "witness" / KEY).read_text() == OTHER
