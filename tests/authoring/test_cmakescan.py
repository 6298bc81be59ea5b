import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernforge.authoring.cmakescan import calls, downloads

TEXT = """\
# FetchContent_Declare(commented GIT_REPOSITORY https://example.org/no GIT_TAG main)
#[[ FetchContent_Declare(bracket GIT_REPOSITORY https://example.org/no GIT_TAG main) ]]
include(FetchContent)
FetchContent_Declare(
    repo-cutlass
    GIT_REPOSITORY https://example.org/cutlass  # (a remark)
    GIT_TAG        57e3cfb47a2d9e0d46eb6335c3dc411498efa198
    GIT_SHALLOW    OFF
)
fetchcontent_declare(moving GIT_REPOSITORY "https://example.org/moving.git" GIT_TAG sgl)
FetchContent_Declare(packed
  URL "https://${HOST}/a.tar.gz"
  URL_HASH SHA256=77d3f1714b5903dc8f7a99fbc3a5d9a2b886e449f994b6c4b1d2feeacb467b1e)
FetchContent_Populate(direct URL https://example.org/b.zip)
ExternalProject_Add(ext GIT_REPOSITORY https://example.org/ext GIT_TAG v1)
if((A) AND (B))
  message("FetchContent_Declare(quoted GIT_REPOSITORY x GIT_TAG y)")
endif()
"""


def test_what_a_file_would_download():
    found = downloads(TEXT, "CMakeLists.txt")
    assert [(d.name, d.kind, d.pinned, d.line) for d in found] == [
        ("repo-cutlass", "git", True, 4),
        ("moving", "git", False, 10),
        ("packed", "archive", True, 11),
        ("direct", "archive", False, 14),
        ("ext", "git", False, 15),
    ]
    assert found[0].url == "https://example.org/cutlass"
    assert found[2].url == "https://${HOST}/a.tar.gz"
    assert found[3].command == "fetchcontent_populate"


def test_calls_nest_parentheses():
    found = {call.name: call.arguments for call in calls(TEXT)}
    assert found["if"] == ("(", "A", ")", "AND", "(", "B", ")")
    assert found["message"] == ("FetchContent_Declare(quoted GIT_REPOSITORY x GIT_TAG y)",)


@pytest.mark.parametrize("text", ["", "(", ")", 'f("', "f(a", "[==[", "f(#[[\n", '"\\'])
def test_broken_files_end(text):
    assert list(calls(text)) == []


@given(st.text(alphabet='f(){}"\\#[]= \n', max_size=60))
def test_any_text_ends(text):
    assert all(call.line >= 1 for call in calls(text))
