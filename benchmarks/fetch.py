"""What a pinned fetch costs against the length of history, over real transports.

Makes repositories of the same content with ever longer histories, serves them by ``file`` and by
``git daemon``, and fetches the newest commit, and one from the middle, into an empty cache: seconds
(the median of several runs) and bytes on disk. Beside it: what a full bare clone costs.

Run: ``python benchmarks/fetch.py [--commits 100 1000 10000] [--files 200] [--runs 3]``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kernforge.process import SystemRunner
from kernforge.recipe.model import GitSource
from kernforge.source.fetch import fetch
from kernforge.source.settings import FetchSettings

GIT = shutil.which("git") or "git"
ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}


def git(folder: Path, *words: str, data: bytes | None = None) -> str:
    done = subprocess.run(
        [GIT, *words], cwd=folder, env=ENV, input=data, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


def make_repository(folder: Path, commits: int, files: int) -> tuple[str, str]:
    """Every commit changes two of the files; answers the commit in the middle, and the newest."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "--bare", "-b", "main")
    git(folder, "config", "uploadpack.allowFilter", "true")
    lines: list[str] = []
    for number in range(commits):
        lines += [f"commit refs/heads/main\nmark :{number + 1}"]
        lines += [f"committer t <t@t> {1_700_000_000 + number} +0000\ndata 1\nc"]
        changed = range(files) if not number else (number % files, number * 7 % files)
        for one in dict.fromkeys(changed):
            text = f"// {one} {number}\n" + f"line of file {one}\n" * 200
            lines += [f"M 100644 inline src/d{one % 20}/f{one}.cu\ndata {len(text)}\n{text}"]
    stream = "\n".join([*lines, "done", ""]).encode()
    git(folder, "fast-import", "--quiet", "--done", data=stream)
    git(folder, "repack", "-adq")
    return git(folder, "rev-parse", f"main~{commits // 2}"), git(folder, "rev-parse", "main")


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """``git daemon`` over a folder; gives the address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["--export-all", "--listen=127.0.0.1", f"--port={port}", f"--base-path={folder}"]
    child = subprocess.Popen(
        [GIT, "daemon", "--reuseaddr", *words, str(folder)],
        env=ENV,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    for _ in range(100):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            break
        time.sleep(0.05)
    try:
        yield f"git://127.0.0.1:{port}"
    finally:
        os.killpg(child.pid, 15)
        child.wait()


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measured(folder: Path, runs: int, call: Callable[[], object]) -> tuple[float, int]:
    """Median seconds, and bytes in the folder, which each run finds empty."""
    times = []
    for _ in range(runs):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times), size(folder)


def one_fetch(url: str, commit: str, cache: Path, sparse: tuple[str, ...] = ()) -> None:
    settings = FetchSettings(cache=cache, project=cache, env=tuple(ENV.items()))
    source = GitSource(git=url, commit=commit, sparse=sparse)
    fetch(source, settings, runner=SystemRunner(), told=lambda _line: None)


def show(*cells: object) -> None:
    print("  ".join(str(cell).rjust(width) for cell, width in zip(cells, WIDTHS, strict=True)))


WIDTHS = (8, 9, 16, 9, 11)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--commits", type=int, nargs="+", default=[100, 1000, 10000])
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    show("commits", "transport", "what", "seconds", "bytes")
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for commits in options.commits:
            middle, newest = make_repository(root / f"served/r{commits}", commits, options.files)
            with served(root / "served") as daemon:
                for transport, base in (("file", f"file://{root}/served"), ("daemon", daemon)):
                    url, cache = f"{base}/r{commits}", root / "cache"
                    calls = {
                        "newest": lambda u=url, c=cache, n=newest: one_fetch(u, n, c),
                        "middle": lambda u=url, c=cache, m=middle: one_fetch(u, m, c),
                        "newest, sparse": lambda u=url, c=cache, n=newest: one_fetch(
                            u, n, c, ("src/d3",)
                        ),
                        "full clone": lambda u=url, c=cache: git(c, "clone", "-q", "--bare", u),
                    }
                    for what, call in calls.items():
                        seconds, count = measured(cache, options.runs, call)
                        show(commits, transport, what, f"{seconds:.2f}", count)


if __name__ == "__main__":
    main()
