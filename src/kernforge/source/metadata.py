"""One commit with a fixed author and date, for builds that ask git what they are built from."""

from __future__ import annotations

from pathlib import Path

from kernforge.process import Runner
from kernforge.source.cache import write_whole
from kernforge.source.git import Git
from kernforge.source.mirror import ATTRIBUTES
from kernforge.source.settings import FetchSettings

_CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
_WHO = "kernforge <kernforge>"


def make_repository(tree: Path, epoch: int, settings: FetchSettings, runner: Runner) -> str:
    """Make ``tree/.git``: one commit of all files on branch ``main``; answers its hash.

    The commit depends on the files and on ``epoch`` (seconds since 1970) alone. Submodules' files
    are in it as files.

    Raises:
        SourceError: ``git-failed``.
    """
    folder = tree / ".git"
    for name in ("objects/pack", "objects/info", "refs/heads", "info"):
        (folder / name).mkdir(parents=True)
    write_whole(folder / "config", _CONFIG)
    write_whole(folder / "info/attributes", ATTRIBUTES)
    write_whole(folder / "HEAD", b"ref: refs/heads/main\n")
    git = Git(runner=runner, settings=settings, told=lambda _line: None)
    here = ("-C", str(tree), f"--work-tree={tree}")
    git.must(folder, *here, "add", "--all", "--force")
    root = git.must(folder, *here, "write-tree").decode("ascii").strip()
    text = f"tree {root}\nauthor {_WHO} {epoch} +0000\ncommitter {_WHO} {epoch} +0000\n\nSource\n"
    draft = folder / "kernforge-commit"
    write_whole(draft, text.encode("ascii"))
    made = git.must(folder, "hash-object", "-t", "commit", "-w", str(draft))
    draft.unlink()
    commit = made.decode("ascii").strip()
    git.must(folder, "update-ref", "refs/heads/main", commit)
    return commit
