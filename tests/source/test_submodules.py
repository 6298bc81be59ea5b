"""Addresses of submodules."""

import pytest

from kernforge.errors import SourceError
from kernforge.source.submodules import resolved


@pytest.mark.parametrize(
    ("parent", "url", "whole"),
    [
        ("https://h/a/b.git", "../c.git", "https://h/a/c.git"),
        ("https://h/a/b.git/", "../c.git", "https://h/a/c.git"),
        ("https://h/a/b", "./c", "https://h/a/b/c"),
        ("https://h/a/b", "../../x/c", "https://h/x/c"),
        ("https://h/b", "../c", "https://h/c"),
        ("git@h:a/b.git", "../c.git", "git@h:a/c.git"),
        ("git@h:b.git", "../c.git", "git@h:c.git"),
        ("ssh://git@h:22/a/b", "../c", "ssh://git@h:22/a/c"),
        ("file:///srv/b", "../c", "file:///srv/c"),
        ("https://h/a", "https://o/x.git", "https://o/x.git"),
        ("https://h/a", "git@o:x/y.git", "git@o:x/y.git"),
    ],
)
def test_whole_address(parent, url, whole):
    assert resolved(parent, url, "s") == whole


@pytest.mark.parametrize("url", ["../../c", "../../../etc", "../..", "../c/../../d"])
@pytest.mark.parametrize("parent", ["https://h/b", "git@h:b", "file:///b"])
def test_above_the_server(parent, url):
    with pytest.raises(SourceError, match=r"leads (above|upwards)"):
        resolved(parent, url, "s")


@pytest.mark.parametrize(
    "url", ["ext::sh -c x", "/srv/x", "file:///srv/x", "-x", "fd::7", "https://", "a b@h:x", ""]
)
def test_refused(url):
    with pytest.raises(SourceError, match="Submodule 's'") as caught:
        resolved("https://h/a", url, "s")
    assert caught.value.word == "submodule-refused"


def test_message_holds_no_token():
    with pytest.raises(SourceError, match=r"Submodule 's'") as caught:
        resolved("https://h/a", "file://u:s3cret@h/x", "s")
    assert "s3cret" not in caught.value.message
