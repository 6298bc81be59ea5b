"""Names, paths, addresses, commits, memory: what is taken, and what is said of the rest."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernforge.errors import RecipeError
from kernforge.recipe import values

COMMIT = "0bcd822377da7b5718e674eaf9c870d349424dd1"


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (values.read_name, "sgl-kernel_2.0"),
        (values.read_path, "."),
        (values.read_path, "a b/ü/*.so"),
        (values.read_git_url, "https://github.com/sgl-project/sglang"),
        (values.read_git_url, "ssh://git@host:22/x"),
        (values.read_git_url, "file:///srv/a.git"),
        (values.read_git_url, "git@github.com:a/b.git"),
        (values.read_archive, "https://host/a.tar.gz"),
        (values.read_archive, "vendor/a.tar.gz"),
        (values.read_commit, COMMIT),
        (values.read_torch, "2.15.0rc1"),
        (values.read_python, "3.14"),
        (values.read_requirement, "ninja>=1.11; python_version > '3'"),
        (values.read_line, "one line"),
    ],
)
def test_taken(read, text):
    assert read(text) == text


@pytest.mark.parametrize(
    ("read", "text", "word", "hint"),
    [
        (values.read_name, "..", "recipe-name", "no two dots"),
        (values.read_name, "a..b", "recipe-name", "no two dots"),
        (values.read_name, "../a", "recipe-name", "no two dots"),
        (values.read_name, "Demo", "recipe-name", "lower-case"),
        (values.read_name, "-demo", "recipe-name", "begin with"),
        (values.read_name, "", "recipe-name", "begin with"),
        (values.read_path, "../a", "recipe-path", "inside the folder"),
        (values.read_path, "a/../../b", "recipe-path", "inside the folder"),
        (values.read_path, "/etc", "recipe-path", "inside the folder"),
        (values.read_path, "~/a", "recipe-path", "inside the folder"),
        (values.read_path, "./a//b/", "recipe-path", "write a/b"),
        (values.read_path, "a\\b", "recipe-path", "joined by '/'"),
        (values.read_path, "a\nb", "recipe-path", "joined by '/'"),
        (values.read_path, "", "recipe-path", "joined by '/'"),
        (values.read_git_url, "ext::sh -c id", "recipe-url", "https://"),
        (values.read_git_url, "ftp://host/a", "recipe-url", "https://"),
        (values.read_git_url, "-u@host:a", "recipe-url", "https://"),
        (values.read_git_url, "a/b", "recipe-url", "https://"),
        (values.read_git_url, "https:///a", "recipe-url", "https://HOST"),
        (values.read_git_url, "ssh://-oProxyCommand=id/a", "recipe-url", "https://HOST"),
        (values.read_git_url, "https://me@host/a", "recipe-url-secret", "credential helper"),
        (values.read_git_url, "ssh://me:pw@host/a", "recipe-url-secret", "credential helper"),
        (values.read_archive, "ftp://host/a", "recipe-url", "path of a file"),
        (values.read_archive, "https://u:p@host/a", "recipe-url-secret", "netrc"),
        (values.read_archive, "../a.tar", "recipe-path", "inside the folder"),
        (values.read_commit, COMMIT[:7], "recipe-commit", "all 40 digits"),
        (values.read_commit, COMMIT.upper(), "recipe-commit", f"write {COMMIT}"),
        (values.read_commit, "main", "recipe-commit", "branches and tags move"),
        (values.read_torch, "2.14", "recipe-value", "write it as 2.14.1"),
        (values.read_python, "3.11.2", "recipe-value", "write it as 3.11"),
        (values.read_python, "2.7", "recipe-value", "write it as 3.11"),
        (values.read_requirement, "--index-url=x", "recipe-value", "write it as ninja"),
        (values.read_requirement, "a @ https://host/a.whl", "recipe-value", "write it as ninja"),
        (values.read_line, " ", "recipe-value", "on one line"),
        (values.read_line, "a\nb", "recipe-value", "on one line"),
        (values.read_memory, "4", "recipe-value", "as 4 GiB"),
        (values.read_memory, "0 GiB", "recipe-value", "as 4 GiB"),
        (values.read_memory, "lots", "recipe-value", "as 4 GiB"),
        (values.read_memory, "-1 GiB", "recipe-value", "as 4 GiB"),
    ],
)
def test_refused(read, text, word, hint):
    with pytest.raises(RecipeError, match=r".") as caught:
        read(text)
    assert caught.value.word == word
    assert hint in (caught.value.hint or "")
    assert "pw" not in caught.value.message
    assert not caught.value.message.endswith(".")


@pytest.mark.parametrize(
    ("text", "size"),
    [("4 GiB", 4 * 2**30), ("4GB", 4 * 10**9), ("512 MiB", 2**29), ("1 MB", 10**6), ("7 B", 7)],
)
def test_memory(text, size):
    assert values.read_memory(text) == size


@settings(deadline=None)
@given(st.integers(min_value=1, max_value=2**49))
def test_memory_reads_back(size):
    assert values.read_memory(values.show_memory(size)) == size


@settings(deadline=None)
@given(st.lists(st.sampled_from(["a", "b c", "..", ".", "", "~", "*"]), min_size=1))
def test_no_path_leaves_its_folder(parts):
    text = "/".join(parts)
    try:
        read = values.read_path(text)
    except RecipeError as error:
        assert error.word == "recipe-path"  # noqa: PT017 - the other outcome is asserted below
    else:
        assert read == text
        assert ".." not in parts
        assert not text.startswith(("/", "~"))
