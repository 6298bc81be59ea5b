"""Requires-Dist gets torch's minor release: added, kept where stricter, refused where it excludes."""

import pytest

from kernforge.errors import VerifyError
from kernforge.pack.metadata import header, with_torch

HEAD = "Metadata-Version: 2.1\nName: tiny\nVersion: 1.2.3\n"


def pinned(*lines, torch="2.14.1", tail="\n"):
    text = HEAD + "".join(f"Requires-Dist: {line}\n" for line in lines) + tail
    return header(with_torch(text, torch, "tiny"), "Requires-Dist")


@pytest.mark.parametrize(
    "line",
    ["torch", "torch>=2.4", "torch (>=2.4)", "Torch", "torch<3", "torch!=2.13.0", "torch~=2.14",
     "torch>=2.14.1,<2.15", "torch; python_version >= '3.9'"],
)  # fmt: skip
def test_a_looser_one_stays_and_the_minor_comes_beside(line):
    """`~=2.14` admits 2.15; so does a range, for all that this rule reads."""
    assert pinned(line) == [line, "torch==2.14.*"]


@pytest.mark.parametrize(
    "line",
    ["torch==2.14.1", "torch==2.14.*", "torch~=2.14.0", "torch==2.14.1,>=2", "torch===2.14.1",
     "torch >=2.4, ==2.14.*"],
)  # fmt: skip
def test_a_stricter_one_is_kept_alone(line):
    assert pinned(line) == [line]


@pytest.mark.parametrize(
    "line", ["torch==2.9.*", "torch<2.14", "torch>=2.15", "torch~=2.9.0", "torch!=2.14.*"]
)
def test_one_that_excludes_the_target_is_an_error(line):
    with pytest.raises(VerifyError, match=r"the wheel is compiled for torch 2\.14\.1") as caught:
        pinned("numpy", line)
    assert caught.value.word == "requires-conflict"
    assert repr(line) in caught.value.message


def test_none_is_added():
    assert pinned() == ["torch==2.14.*"]
    assert pinned("numpy>=1", "torchvision", "pytorch-lightning") == [
        "numpy>=1",
        "torchvision",
        "pytorch-lightning",
        "torch==2.14.*",
    ]


@pytest.mark.parametrize("line", ["torch==2.9.0; extra == 'old'", "torch; extra == 'train'"])
def test_extras_are_left_alone(line):
    assert pinned(line) == [line, "torch==2.14.*"]


def test_a_marker_alone_pins_nothing_elsewhere():
    """A pin that holds on other systems only says nothing of this wheel."""
    line = "torch==2.14.*; sys_platform == 'win32'"
    assert pinned(line) == [line, "torch==2.14.*"]


def test_a_conflict_on_another_system_is_none():
    line = "torch==2.9.*; sys_platform == 'darwin'"
    assert pinned(line) == [line, "torch==2.14.*"]


@pytest.mark.parametrize("tail", ["", "\n", "\n# Title\n\nRequires-Dist: torch==1.0\n", "\nText"])
def test_the_body_stays(tail):
    text = HEAD + "Requires-Dist: numpy\n" + tail
    found = with_torch(text, "2.14.1", "tiny")
    assert found == f"{HEAD}Requires-Dist: numpy\nRequires-Dist: torch==2.14.*\n{tail}"


def test_windows_line_ends():
    text = (HEAD + "Requires-Dist: torch\n\nBody\n").replace("\n", "\r\n")
    assert "\nRequires-Dist: torch==2.14.*\n\nBody" in with_torch(text, "2.14.1", "tiny")


def test_again_changes_nothing():
    once = with_torch(HEAD + "\nBody\n", "2.14.1", "tiny")
    assert with_torch(once, "2.14.1", "tiny") == once


def test_a_prerelease_of_torch():
    assert pinned("torch>=2.4", torch="2.15.0rc1") == ["torch>=2.4", "torch==2.15.*"]


def test_nonsense_is_told():
    with pytest.raises(VerifyError, match=r"which is no requirement") as caught:
        pinned("torch >>> 2")
    assert caught.value.word == "metadata-invalid"
