"""The git program: how it is called, and what its complaints mean.

No call runs a hook, filter, pager, editor or prompt, looks outside the repository it is given, or
uses a transport but https, http, ssh, git and file. Calls without network see none of the user's
configuration; calls with network see it (credential helper, proxy, ``insteadOf``), ours above it.
An address is handed over in the environment: never as an argument, never in a config file.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from kernforge.errors import CacheError, SourceError
from kernforge.process import KILLED_FOR_TIME, Command, Result, Runner
from kernforge.source.redact import bare_url, redacted, secrets_of
from kernforge.source.settings import ENV_NAMES, FetchSettings, Told

REMOTE = "kernforge"
"""Name of the remote in every call."""

_ALWAYS = (
    ("LC_ALL", "C"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", ""),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "false"),
)
_ALONE = (
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_NO_LAZY_FETCH", "1"),
)
_CONFIG = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.attributesFile", "/dev/null"),
    ("core.excludesFile", "/dev/null"),
    ("core.autocrlf", "false"),
    ("protocol.version", "2"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("fetch.writeCommitGraph", "false"),
    ("fetch.prune", "false"),
    ("transfer.bundleURI", "false"),
    ("credential.interactive", "false"),
    ("fetch.unpackLimit", "1"),
    ("tar.umask", "0022"),
)
_FULL = b"No space left on device"
_TRANSPORTS = "https:http:ssh:git:file"

_MEANINGS = (
    ("unadvertised object", "by-hash-refused"),
    ("not our ref", "commit-gone"),
    ("is not valid", "by-hash-refused"),
    ("couldn't find remote ref", "commit-gone"),
    ("Authentication failed", "source-auth"),
    ("could not read Username", "source-auth"),
    ("could not read Password", "source-auth"),
    ("Permission denied (", "source-auth"),
    ("Host key verification failed", "source-auth"),
    ("The requested URL returned error: 403", "source-auth"),
    ("The requested URL returned error: 401", "source-auth"),
    ("not allowed", "source-refused"),
    ("detected dubious ownership", "source-refused"),
    ("epository not found", "source-missing"),
    ("' not found", "source-missing"),
    ("does not appear to be a git repository", "source-missing"),
    ("does not exist", "source-missing"),
    ("not exported", "source-missing"),
    ("no such repository", "source-missing"),
    ("is not a git command", "lfs-program"),
    ("No space left on device", "disk-full"),
)
_HINTS = {
    "lfs-program": "install git-lfs",
    "source-auth": "give git a credential helper or ssh an agent; nothing is asked for here",
    "source-missing": "mend the address; a private repository looks like a missing one",
    "source-unreachable": "check network and proxy, or name a mirror",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Git:
    """Calls of git.

    Attributes:
        runner: runs them.
        settings: the user's environment and limits.
        told: hears of tries that failed.
    """

    runner: Runner
    settings: FetchSettings
    told: Told

    def local(self, folder: Path, *words: str) -> Result:
        """A call that uses the repository ``folder`` alone; any exit status."""
        path = tuple(pair for pair in self.settings.env if pair[0] == "PATH")
        env = (*path, *_ALWAYS, *_ALONE, ("HOME", "/nonexistent"), *_config_env((), _CONFIG))
        argv = ("git", f"--git-dir={folder}", "--literal-pathspecs", *words)
        return self.runner.run(Command(argv=argv, env=env), timeout=self.settings.limits.git)

    def must(self, folder: Path, *words: str) -> bytes:
        """Output of a call that uses the repository alone.

        Raises:
            SourceError: ``git-failed``.
            CacheError: ``disk-full``.
        """
        result = self.local(folder, *words)
        if _FULL in result.stderr:
            raise CacheError(
                "disk-full",
                f"No space is left for what git {words[0]} writes",
                hint="free some (`kernforge cache gc`), or choose another folder with --cache",
            )
        if result.returncode:
            raise SourceError(
                "git-failed",
                f"git {words[0]} fails in {str(folder)!r}",
                hint="remove that folder and run `kernforge fetch` again",
                detail=tuple(redacted(result.complaint).splitlines()),
            )
        return result.stdout

    def remote(self, folder: Path, url: str, *words: str) -> bytes:
        """Output of a call that may use the network, tried again while that may help.

        Args:
            folder: the bare repository.
            url: what the remote :data:`REMOTE` is.
            words: the call.

        Raises:
            SourceError: a word of this module's table, ``source-timeout`` or
                ``source-unreachable``.
            CacheError: ``disk-full``.
        """
        limits = self.settings.limits
        pause = limits.pause
        for left in reversed(range(limits.tries)):
            result = self._call(folder, url, words)
            if not result.returncode:
                return result.stdout
            fault = fault_of(result, url, self.settings)
            if fault.word != "source-unreachable" or not left:
                raise fault
            self.told(f"{fault.message}; trying again")
            time.sleep(pause)
            pause *= 2
        raise AssertionError  # pragma: no cover - the last try returns or raises

    def _call(self, folder: Path, url: str, words: tuple[str, ...]) -> Result:
        given = tuple(
            pair
            for pair in self.settings.env
            if pair[0] in ENV_NAMES or pair[0].startswith(("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"))
        )
        config = (
            *_CONFIG,
            (f"remote.{REMOTE}.url", url),
            (f"remote.{REMOTE}.promisor", "true"),
        )
        limits = self.settings.limits
        env = (
            *given,
            *_ALWAYS,
            ("GIT_ALLOW_PROTOCOL", _TRANSPORTS),
            ("GIT_HTTP_LOW_SPEED_LIMIT", "1024"),
            ("GIT_HTTP_LOW_SPEED_TIME", str(max(1, int(limits.stall)))),
            *_config_env(given, config),
        )
        command = Command(argv=("git", f"--git-dir={folder}", *words), env=env)
        return self.runner.run(command, timeout=limits.git)


def _config_env(
    given: tuple[tuple[str, str], ...], config: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    """Configuration as variables: git's strongest layer, after the user's own of that kind."""
    counted = dict(given).get("GIT_CONFIG_COUNT", "0")
    first = int(counted) if counted.isascii() and counted.isdigit() else 0
    pairs = [("GIT_CONFIG_COUNT", str(first + len(config)))]
    for number, (key, value) in enumerate(config, first):
        pairs.append((f"GIT_CONFIG_KEY_{number}", key))
        pairs.append((f"GIT_CONFIG_VALUE_{number}", value))
    return tuple(pairs)


def fault_of(result: Result, url: str, settings: FetchSettings) -> SourceError | CacheError:
    """What a failed call with network means; what no entry of the table fits may pass by itself."""
    text = result.stderr.decode("utf-8", "replace")
    found = (word for mark, word in _MEANINGS if mark in text)
    word = next(found, "source-unreachable")
    if result.returncode == KILLED_FOR_TIME:
        word = "source-timeout"
    why = {
        "by-hash-refused": "does not serve commits by their hash",
        "commit-gone": "does not have it",
        "source-auth": "wants credentials that were not given or not accepted",
        "source-refused": "is refused",
        "source-missing": "is not there",
        "lfs-program": "keeps files in LFS, and the program git-lfs is not there",
        "source-timeout": f"did not answer within {settings.limits.git:g} s",
    }.get(word, "cannot be reached")
    if word == "disk-full":
        return CacheError(
            word,
            f"No space is left for repository {bare_url(url)!r} in {str(settings.cache)!r}",
            hint="free some (`kernforge cache gc`), or choose another folder with --cache",
        )
    secrets = (*settings.secrets, *secrets_of(url))
    detail = redacted(result.complaint, secrets).splitlines()
    return SourceError(
        word, f"Repository {bare_url(url)!r} {why}", hint=_HINTS.get(word), detail=tuple(detail)
    )
