"""Fixtures of the room `doctor`."""

import pytest
from doctor.places import Place


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)
