"""CMake's list of variables that nothing read, as its 4.4 writes it."""

import pytest

from kernforge.build.unused import UnusedOptions

SAID = """\
-- Generating done (0.0s)
CMake Warning:
  Manually-specified variables were not used by the project:

    FETCHCONTENT_SOURCE_DIR_REPO-OLD
    PROJECT_FAST
    PROJECT_OTHER


-- Build files have been written to: /kf/build
"""


@pytest.mark.parametrize(
    ("ours", "found"),
    [
        (("PROJECT_FAST",), ("PROJECT_FAST",)),
        (("PROJECT_OTHER", "PROJECT_FAST"), ("PROJECT_FAST", "PROJECT_OTHER")),
        (("PROJECT_USED",), ()),
        (("FETCHCONTENT_SOURCE_DIR_REPO-OLD",), ()),
        ((), ()),
    ],
)
def test_what_is_ours_of_the_list(ours, found):
    listener = UnusedOptions(ours)
    heard = [names for line in SAID.splitlines() if (names := listener.hear(line))]
    assert heard == ([found] if found else [])


def test_names_elsewhere_in_the_output_are_none_of_it():
    listener = UnusedOptions(("PROJECT_FAST",))
    assert not any(listener.hear(line) for line in ["PROJECT_FAST", "", "  PROJECT_FAST", ""])
