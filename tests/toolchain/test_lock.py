import contextlib
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernforge.errors import ToolchainError
from kernforge.process import Command, Result, SystemRunner
from kernforge.toolchain.lock import (
    HEAD,
    LockOrder,
    Uv,
    check_needs,
    load_lock,
    normalised,
    read_lock,
    resolve,
)

PATH = Path("recipes/locks/demo/py311.lock")
A, B = "a" * 64, "b" * 64
NEEDS = ("build>=1.5", "cuda-toolkit[nvcc]==13.0.*")
TEXT = f"""\
{HEAD}
# for: demo py311
# needs: build>=1.5
# needs: cuda-toolkit[nvcc]==13.0.*
cuda-toolkit==13.0.3 --hash=sha256:{B}
Build==1.6.1 \\
    --hash=sha256:{B} \\
    --hash=sha256:{A}
"""


def test_a_lock_is_read():
    lock = read_lock(PATH, TEXT)
    assert lock.needs == NEEDS
    assert [(pin.name, pin.version) for pin in lock.pins] == [
        ("build", "1.6.1"), ("cuda-toolkit", "13.0.3")
    ]  # fmt: skip
    assert lock.content == [["build", "1.6.1", [A, B]], ["cuda-toolkit", "13.0.3", [B]]]
    assert (lock.version_of("build"), lock.version_of("torch")) == ("1.6.1", None)


def test_comments_blank_lines_order_and_line_ends_mean_nothing():
    head, *pins = TEXT.partition("cuda-toolkit==")
    other = f"{head}\n# a comment\n" + "".join(pins).replace("\n", "\r\n")
    assert read_lock(PATH, other).content == read_lock(PATH, TEXT).content


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        (HEAD, "# somebody's lock", 1, f"the first line is not '{HEAD}'"),
        (TEXT, "", 1, "the first line is not"),
        ("Build==1.6.1", "Build>=1.6.1", 6, "'Build>=1.6.1' is not NAME==VERSION"),
        ("Build==1.6.1", "-r other.txt", 6, "'-r' is not NAME==VERSION"),
        ("Build==1.6.1", "--index-url=x", 6, "'--index-url=x' is not NAME==VERSION"),
        ("Build==1.6.1", "build @ file:///x", 6, "'build' is not NAME==VERSION"),
        (f"13.0.3 --hash=sha256:{B}", "13.0.3", 5, "'cuda-toolkit' has no SHA-256"),
        (f"sha256:{B}\n", f"sha256:{B[1:]}\n", 5, "'cuda-toolkit' has no SHA-256"),
        (f"sha256:{B}\n", f"md5:{B}\n", 5, "'cuda-toolkit' has no SHA-256"),
        (f"sha256:{B}\n", f"sha256:{B} --pre\n", 5, "'cuda-toolkit' has no SHA-256"),
        (f"sha256:{B}\n", f"sha256:{B} ; python_version\n", 5, "'cuda-toolkit' has no SHA"),
        ("cuda-toolkit==13.0.3", "build==1.0", 6, "'build' is pinned twice"),
    ],
)
def test_a_garbled_lock_names_file_and_line(old, new, line, said):
    assert old in TEXT
    with pytest.raises(ToolchainError, match=r"recipes/locks/demo/py311\.lock") as caught:
        read_lock(PATH, TEXT.replace(old, new, 1))
    assert caught.value.word == "lock-invalid"
    assert caught.value.message.startswith(f"{PATH}:{line}: {said}")
    assert "kernforge lock" in caught.value.hint


@given(st.text(max_size=200))
def test_any_text_is_a_lock_or_one_fault(text):
    with contextlib.suppress(ToolchainError):
        assert read_lock(PATH, f"{HEAD}\n{text}").path == PATH


def test_a_missing_lock_names_the_command(tmp_path):
    with pytest.raises(ToolchainError, match="is not there") as caught:
        load_lock(tmp_path / "no.lock", make="kernforge lock demo")
    assert (caught.value.word, caught.value.hint) == ("lock-missing", "run `kernforge lock demo`")


@pytest.mark.parametrize("content", [b"\xff\xfe", None])
def test_a_lock_that_cannot_be_read(tmp_path, content):
    path = tmp_path / "x.lock"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(ToolchainError, match="cannot be read") as caught:
        load_lock(path, make="")
    assert caught.value.word == "lock-invalid"


def test_a_lock_that_matches():
    check_needs(read_lock(PATH, TEXT), tuple(reversed(NEEDS)), make="")


@pytest.mark.parametrize(
    ("needs", "said"),
    [
        ((*NEEDS, "torch==2.14.1"), "it lacks torch==2.14.1$"),
        (NEEDS[:1], "it holds cuda-toolkit\\[nvcc\\]==13.0.\\*$"),
        (("build>=1.6", NEEDS[1]), "it lacks build>=1.6; it holds build>=1.5$"),
    ],
)
def test_a_lock_that_does_not(needs, said):
    with pytest.raises(ToolchainError, match=said) as caught:
        check_needs(read_lock(PATH, TEXT), needs, make="kernforge lock demo")
    assert caught.value.word == "lock-mismatch"
    assert caught.value.hint == "run `kernforge lock demo`"


def test_a_lock_whose_pin_was_taken_out():
    text = TEXT.replace(f"cuda-toolkit==13.0.3 --hash=sha256:{B}\n", "")
    with pytest.raises(ToolchainError, match="it pins no cuda-toolkit") as caught:
        check_needs(read_lock(PATH, text), NEEDS, make="")
    assert caught.value.word == "lock-mismatch"


def test_a_need_of_another_platform_is_not_missed():
    text = TEXT.replace(HEAD, f"{HEAD}\n# needs: odd; sys_platform == 'win32'")
    lock = read_lock(PATH, text)
    check_needs(lock, lock.needs, make="")


@pytest.mark.parametrize("name", ["Flash_Attn", "flash.attn", "FLASH--attn"])
def test_names_have_one_spelling(name):
    assert normalised(name) == "flash-attn"


class Scripted:
    """Answers each command with one result and keeps what was asked."""

    def __init__(self, status, out=b"", err=b""):
        self.result = Result(returncode=status, stdout=out, stderr=err)
        self.asked: list[Command] = []

    def run(self, command, *, timeout=None):
        self.asked.append(command)
        return self.result


ORDER = LockOrder(needs=NEEDS, python="3.11", platform="linux_x86_64", title="demo py311")


def test_what_uv_answers_reads_back_with_its_head(tmp_path):
    pins = TEXT.split("13.0.*\n")[1].encode()
    uv = Uv(program="uv", cache=tmp_path / "uv", env=())
    runner = Scripted(0, pins)
    text = resolve(ORDER, uv=uv, scratch=tmp_path, runner=runner)
    lock = read_lock(PATH, text)
    assert lock == read_lock(PATH, TEXT)
    check_needs(lock, NEEDS, make="")
    (asked,) = runner.asked
    assert (tmp_path / "requirements.in").read_text().splitlines() == list(NEEDS)
    for words in (("--python-version", "3.11"), ("--only-binary", ":all:")):
        assert asked.argv[asked.argv.index(words[0]) + 1] == words[1]
    assert {"--generate-hashes", "--no-progress"} <= set(asked.argv)


def test_uvs_reason_is_shown(tmp_path):
    uv = Uv(program="uv", cache=tmp_path / "uv", env=())
    with pytest.raises(ToolchainError, match=r"No set of packages answers demo py311$") as caught:
        resolve(ORDER, uv=uv, scratch=tmp_path, runner=Scripted(1, err=b"no\n build>=99\n"))
    assert caught.value.word == "lock-unresolvable"
    assert caught.value.detail == ("no", " build>=99")


def test_the_real_uv_resolves_from_a_folder_of_wheels(tmp_path, run):
    """No network: one wheel of ours, found by uv's own settings."""
    from kernforge.pack.archive import write_wheel

    info = "own-2.0.dist-info"
    (tmp_path / "tree" / info).mkdir(parents=True)
    (tmp_path / "tree" / info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: own\nVersion: 2.0\n"
    )
    (tmp_path / "tree" / info / "WHEEL").write_text("Wheel-Version: 1.0\nTag: py3-none-any\n")
    (tmp_path / "links").mkdir()
    wheel = tmp_path / "links/own-2.0-py3-none-any.whl"
    write_wheel(tmp_path / "tree", wheel, info_dir=info, epoch=0)
    env = (("UV_FIND_LINKS", str(tmp_path / "links")), ("UV_NO_INDEX", "1"), ("UV_OFFLINE", "1"))
    uv = Uv(program=str(Path(sys.executable).parent / "uv"), cache=tmp_path / "uv", env=env)
    order = LockOrder(needs=("own>=1",), python="3.11", platform="linux_x86_64", title="own")
    lock = read_lock(PATH, resolve(order, uv=uv, scratch=tmp_path, runner=SystemRunner()))
    import hashlib

    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert json.dumps(lock.content) == json.dumps([["own", "2.0", [digest]]])
    assert str(tmp_path) not in json.dumps(lock.content)
