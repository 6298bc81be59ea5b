"""What must never be shown is not, and what may be shown still says where."""

import base64
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernforge.source.cache import mirror_folder
from kernforge.source.git import Git
from kernforge.source.redact import bare_url, credentials_of, redacted, secrets_of
from kernforge.source.settings import FetchSettings

TOKEN = "T0KEN+s3cret"  # noqa: S105 - what must never show up
ENCODED = "T0KEN%2Bs3cret"
URL = f"https://alice:{ENCODED}@host.example/a/b.git"
PAIR = base64.b64encode(f"alice:{TOKEN}".encode()).decode()


@pytest.mark.parametrize(
    "text",
    [
        f"fatal: unable to access '{URL}/': 403",
        f"fatal: could not read from {URL.replace(ENCODED, TOKEN)}",
        f"fatal: Authentication failed for 'https://{TOKEN}@host/x'",
        f"> Authorization: Basic {PAIR}",
        f"http.extraHeader=AUTHORIZATION: bearer {TOKEN}",
        f"the password {TOKEN} of alice",
        f"the header was {PAIR.rstrip('=')}",
        f"GET https://host/x.tar?X-Amz-Signature={TOKEN}&a=b ended",
        f"PRIVATE-TOKEN: {TOKEN}",
    ],
)
def test_secret_is_gone(text):
    shown = redacted(text, secrets_of(URL))
    assert "s3cret" not in shown
    assert PAIR[:16] not in shown
    assert "***" in shown


@pytest.mark.parametrize(
    "text",
    [
        "fatal: 'https://host.example/a/b.git' not found",
        "ssh://git@host/x and git@host:x/y",
        "unable to access /home/a@b/x: 404",
        "commit 0123456789abcdef0123456789abcdef01234567",
    ],
)
def test_the_rest_stays(text):
    assert redacted(text, secrets_of(URL)) == text


def test_short_user_masks_no_common_words():
    assert redacted("git fetch", secrets_of("https://git:T0KENs3cret@h/x")) == "git fetch"


@pytest.mark.parametrize(
    ("url", "bare"),
    [
        (URL, "https://host.example/a/b.git"),
        ("https://TOKEN@host/x?sig=1#f", "https://host/x"),
        ("ssh://git@host/x", "ssh://git@host/x"),
        ("ssh://git:pw@host/x", "ssh://host/x"),
        ("git@host:x/y.git", "git@host:x/y.git"),
        ("file:///a@b/c", "file:///a@b/c"),
        ("https://a:p@ss@host/x", "https://host/x"),
    ],
)
def test_bare_url(url, bare):
    assert bare_url(url) == bare


def test_credentials():
    assert credentials_of(URL) == ("alice", TOKEN)
    assert credentials_of("https://host/x@y") is None


def test_secrets_in_settings(tmp_path):
    settings = FetchSettings(
        cache=tmp_path,
        project=tmp_path,
        env=(("https_proxy", "http://u:proxypass@p:1"), ("HOME", "/root")),
        mirrors=(("https://x/", "https://m:mirrorpass@h/"),),
        indexes=("https://i:indexpass@h/simple/",),
    )
    text = "proxypass mirrorpass indexpass /root"
    assert redacted(text, settings.secrets) == "*** *** *** /root"


def test_folder_of_a_mirror_does_not_depend_on_the_account(tmp_path):
    with_token, without = mirror_folder(tmp_path, URL), mirror_folder(tmp_path, bare_url(URL))
    assert with_token == without
    assert re.fullmatch(r"b-[0-9a-f]{16}", without.name)


@given(st.text(min_size=1))
def test_folder_of_a_mirror_is_one_name_for_any_address(url):
    from pathlib import Path

    folder = mirror_folder(Path("/c"), f"https://host/{url}")
    assert folder.parent == Path("/c/git")
    assert re.fullmatch(r"\w[\w.-]*-[0-9a-f]{16}", folder.name, re.ASCII)


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=4))
def test_any_password_is_gone_from_any_spelling(password):
    from urllib.parse import quote

    url = f"https://someone:{quote(password, safe='')}@h/x"
    said = f"a {url} b {quote(password)} c {password}"
    hidden = redacted(said, secrets_of(url))
    assert f"c {password}" not in hidden or set(password) <= set("*")
    assert "@h" not in hidden or "***@h" in hidden


class TestEnvironment:
    """What git is given of the user's environment."""

    def env(self, settings, *given):
        class Recorder:
            def run(self, command, *, timeout=None):
                from kernforge.process import Result

                self.env = dict(command.env)
                self.argv = command.argv
                return Result(returncode=0, stdout=b"", stderr=b"")

        from dataclasses import replace

        recorder = Recorder()
        git = Git(runner=recorder, settings=replace(settings, env=given), told=print)
        git.remote(settings.cache, URL, "fetch")
        return recorder

    def test_address_is_no_argument(self, settings):
        assert "s3cret" not in repr(self.env(settings).argv)

    def test_traces_and_prompts_do_not_go_through(self, settings):
        names = ("GIT_TRACE_CURL", "GIT_CURL_VERBOSE", "GIT_DIR", "SSH_ASKPASS", "DISPLAY")
        env = self.env(settings, *((name, "x") for name in names), ("GIT_ASKPASS", "/bin/x")).env
        assert not set(names) & set(env)
        assert env["GIT_ASKPASS"] == ""
        assert env["GIT_TERMINAL_PROMPT"] == "0"

    def test_ours_stands_after_the_users_own_configuration(self, settings):
        given = (("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "core.hooksPath"))
        env = self.env(settings, *given, ("GIT_CONFIG_VALUE_0", "/evil")).env
        keys = [env[f"GIT_CONFIG_KEY_{i}"] for i in range(int(env["GIT_CONFIG_COUNT"]))]
        last = len(keys) - 1 - keys[::-1].index("core.hooksPath")
        assert env[f"GIT_CONFIG_VALUE_{last}"] == "/dev/null"
