"""Fixtures for real builds of small setuptools projects."""

import pytest
from pipeline.trials import Trial, make_trial


@pytest.fixture
def trial(run, tmp_path, compiler_cache) -> Trial:
    """A plain project that builds, and the command line on it."""
    return make_trial(tmp_path, compiler_cache, run)
