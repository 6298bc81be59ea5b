"""A stranger's checkout runs no program when git is asked about it."""

import subprocess

import pytest

from kernforge.source.gitfilters import ASK_FILTERS, NO_PROGRAMS, without_filters


def test_each_program_is_taken_out_and_nothing_is_required():
    names = ["filter.lfs.clean", "filter.lfs.required", "filter.x.process", "filter.lfs.clean", ""]
    assert without_filters(names) == (
        "-c", "filter.lfs.clean=", "-c", "filter.lfs.required=false", "-c", "filter.x.process=",
    )  # fmt: skip


@pytest.mark.parametrize("words", [["status", "--porcelain"], ["diff", "--no-ext-diff", "HEAD"]])
def test_a_clean_filter_does_not_run(tmp_path, words):
    def git(*words):
        call = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
        return subprocess.run(call, cwd=tmp_path, capture_output=True, check=True, text=True).stdout

    git("init", "-q")
    (tmp_path / "f.cu").write_text("one")
    git("add", "f.cu")
    git("commit", "-qm", "one")
    git("config", "filter.evil.clean", "touch ran; cat")
    git("config", "filter.evil.required", "true")
    (tmp_path / ".gitattributes").write_text("* filter=evil\n")
    (tmp_path / "f.cu").write_text("two")
    names = git(*NO_PROGRAMS, *ASK_FILTERS).split("\0")
    git(*NO_PROGRAMS, *without_filters(names), *words)
    assert not (tmp_path / "ran").exists()
    git(*words)
    assert (tmp_path / "ran").exists()  # without them it does
