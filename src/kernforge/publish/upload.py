"""Uploading to an index server by twine, which runs as a program with the user's own settings.

Room `publish`. Accounts come from twine's variables, keyring or ``.pypirc``: never from an
argument, which others on the machine could read.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from html import unescape

from kernforge.errors import PublishError
from kernforge.process import Command, Runner
from kernforge.publish.candidate import Candidate
from kernforge.source.redact import bare_url, credentials_of, redacted, secrets_of

DEFAULT_LIMIT = 100_000_000
"""Bytes of one file that the public index takes where nobody has asked it for more."""
_MISSING = "No module named"
_WIDE = ("COLUMNS", "200")
_MARKS = re.compile(r"\x1b\[[0-9;]*m|<[^<>]*>")


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadOrder:
    """Where to, and how.

    Attributes:
        url: address of the server's upload interface.
        limit: the largest file in bytes that it is said to take.
        env: what twine may read of the user's environment.
    """

    url: str
    limit: int
    env: tuple[tuple[str, str], ...]


def check_upload(candidates: tuple[Candidate, ...], order: UploadOrder) -> None:
    """Tell what cannot be uploaded before a byte is sent.

    Raises:
        PublishError: ``file-too-large`` with every such file, or ``upload-account``.
    """
    if credentials_of(order.url) is not None:
        raise PublishError(
            "upload-account",
            f"The address of {bare_url(order.url)!r} holds a user or password",
            hint="set TWINE_USERNAME and TWINE_PASSWORD, or use .pypirc",
        )
    large = [c.listed for c in candidates if c.listed.size > order.limit]
    if large:
        raise PublishError(
            "file-too-large",
            f"{large[0].file} has {large[0].size} bytes; the server takes {order.limit} a file",
            hint="ask the server's owner for more and raise --max-size, or publish --to a folder",
            detail=tuple(f"{wheel.file}: {wheel.size} bytes" for wheel in large),
        )


def upload(candidates: tuple[Candidate, ...], order: UploadOrder, *, runner: Runner) -> None:
    """Upload wheels, one after the other.

    Raises:
        PublishError: as :func:`check_upload`; ``twine-missing`` or ``upload-failed``.
    """
    check_upload(candidates, order)
    secrets = secrets_of(order.url) + tuple(
        value for name, value in order.env if name in {"TWINE_PASSWORD", "TWINE_USERNAME"}
    )
    for candidate in candidates:
        words = ("upload", "--non-interactive", "--disable-progress-bar", "--verbose")
        argv = (sys.executable, "-m", "twine", *words, "--repository-url", order.url)
        done = runner.run(Command(argv=(*argv, str(candidate.path)), env=(*order.env, _WIDE)))
        if done.returncode == 0:
            continue
        said = _plain(done.text + done.stderr.decode("utf-8", "replace"))
        if _MISSING in "\n".join(said):
            raise PublishError(
                "twine-missing",
                "twine is not installed",
                hint="install kernforge with its extra publish: kernforge[publish]",
            )
        raise PublishError(
            "upload-failed",
            f"{candidate.listed.file} was not taken by {bare_url(order.url)!r}",
            hint="what went before it in this call is uploaded; a name never gets other bytes",
            detail=tuple(redacted(line, secrets) for line in said[-12:]),
        )


def _plain(text: str) -> list[str]:
    """What twine and the server said, without colours, markup and blank lines."""
    lines = (unescape(_MARKS.sub("", line)).strip() for line in text.splitlines())
    return [line for line in lines if line]
