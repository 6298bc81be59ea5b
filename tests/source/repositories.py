"""Real repositories for the tests, and trees as plain values."""

import os
import subprocess
from pathlib import Path

import pytest

from kernforge.errors import SourceError
from kernforge.process import SystemRunner
from kernforge.recipe.model import GitSource

WHEN = "2024-02-03T04:05:06 +0000"
EPOCH = 1706933106
GONE = "0123456789abcdef0123456789abcdef01234567"


def git(folder: Path, *words: str, when: str = WHEN) -> str:
    """Run git in a repository of the tests, with nothing of the user's."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ALLOW_PROTOCOL": "file",
    }
    for who in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{who}_NAME": "t", f"GIT_{who}_EMAIL": "t@t", f"GIT_{who}_DATE": when}
    done = subprocess.run(
        ["git", *words], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class Repository:
    """A repository of the tests, with a work tree."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        git(folder, "init", "-q", "-b", "main")
        for key in ("uploadpack.allowFilter", "http.getanyfile"):
            git(folder, "config", key, "true")

    @property
    def url(self) -> str:
        return f"file://{self.folder}"

    def commit(self, files: dict[str, str | bytes] | None = None, *words: str) -> str:
        """Write files and commit all; answers the commit."""
        for name, content in (files or {}).items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        git(self.folder, "add", "-A", "-f")
        git(self.folder, "commit", "-q", "--allow-empty", "-m", "c", *words)
        return git(self.folder, "rev-parse", "HEAD")

    def history(self, commits: list[dict[str, str]]) -> str:
        """Many commits, or many files, at once and into one pack; answers the last commit."""
        lines = []
        for number, files in enumerate(commits):
            lines += ["commit refs/heads/main", f"committer t <t@t> {EPOCH + number} +0000"]
            lines += ["data 1", "c"]
            for name, content in files.items():
                lines += [f"M 100644 inline {name}", f"data {len(content)}", content]
        stream = "\n".join([*lines, "done", ""]).encode()
        words = ["git", "fast-import", "--quiet", "--force", "--done"]
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        subprocess.run(words, cwd=self.folder, env=env, input=stream, check=True)
        return git(self.folder, "rev-parse", "main")

    def submodule(self, path: str, commit: str, url: str) -> None:
        """Name a submodule, of any address, without fetching it."""
        modules = self.folder / ".gitmodules"
        text = modules.read_text() if modules.exists() else ""
        modules.write_text(f'{text}[submodule "{path}"]\n\tpath = {path}\n\turl = {url}\n')
        self.gitlink(path, commit)

    def gitlink(self, path: str, commit: str) -> None:
        (self.folder / path).mkdir(parents=True, exist_ok=True)
        git(self.folder, "update-index", "--add", "--cacheinfo", f"160000,{commit},{path}")


class Counting(SystemRunner):
    """Runs for real and remembers what it ran."""

    def __init__(self) -> None:
        self.commands = []

    def run(self, command, *, timeout=None):
        self.commands.append(command)
        return super().run(command, timeout=timeout)

    def network(self) -> int:
        """How many calls could use the network."""
        words = ("fetch", "ls-remote", "lfs")
        return sum(any(word in command.argv for word in words) for command in self.commands)


def tree_of(root: Path) -> dict[str, bytes | str]:
    """Files by path; links as ``-> target``."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file() and ".git" not in path.relative_to(root).parts:
            found[name] = path.read_bytes()
    return found


def source(url, commit, **more) -> GitSource:
    """A git source as a recipe gives it."""
    return GitSource.model_validate({"git": url, "commit": commit, **more})


def refusal(word, call, *words, **options) -> SourceError:
    """The fault of a call that must be refused with this word."""
    with pytest.raises(SourceError, match=r"\w") as caught:
        call(*words, **options)
    assert caught.value.word == word, caught.value.message
    return caught.value


def cache_text(settings) -> bytes:
    """All that the cache holds, names too, packs unpacked no further."""
    parts = []
    for path in sorted(settings.cache.rglob("*")):
        parts.append(os.fsencode(path))
        if path.is_file():
            parts.append(path.read_bytes())
    return b"\n".join(parts)
