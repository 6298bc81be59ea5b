import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def toolkit():
    return Path(os.environ["KERNFORGE_TEST_TOOLKIT"])
