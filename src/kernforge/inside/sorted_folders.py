"""Lets Python list folders by name, in whatever order the file system has them.

A `.pth` file of an environment imports it when an interpreter of it starts: standard library only,
nothing of kernforge imported, and its digest is part of the build key.

`os.listdir` and `os.scandir` promise no order. A setup.py that takes `os.listdir("csrc")` as it
comes links its units in the order of one disk, and another machine's disk makes another wheel of
the same sources (seen: ext4 against tmpfs). `os.walk`, `glob`, `shutil` and `pathlib` stand on
these two.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # as type checkers take it: every interpreter of a build runs this file
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Self

_listdir, _scandir = os.listdir, os.scandir


class Entries:
    """What `os.scandir` answers: an iterator that can be closed, and a context."""

    def __init__(self, found: list[os.DirEntry[Any]]) -> None:
        self.left = iter(found)

    def __iter__(self) -> Iterator[os.DirEntry[Any]]:
        """Itself."""
        return self

    def __next__(self) -> os.DirEntry[Any]:
        """The next entry by name."""
        return next(self.left)

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Answer no more."""
        self.left = iter(())


class Listdir:
    """`os.listdir`, sorted.

    No function: `pathlib` before 3.11 makes both attributes of a class, where one would bind.
    """

    def __call__(self, path: Any = None) -> list[Any]:
        """Names in a folder."""
        return sorted(_listdir(path))


class Scandir:
    """`os.scandir`, sorted by name."""

    def __call__(self, path: Any = None) -> Entries:
        """Entries of a folder."""
        with _scandir(path) as entries:
            return Entries(sorted(entries, key=lambda entry: entry.name))


def apply() -> None:
    """Put both in place, for all that imports `os`."""
    os.listdir = Listdir()
    os.scandir = Scandir()  # type: ignore[assignment]
    # `shutil.rmtree` asks whether they take file descriptors, and is less safe without
    os.supports_fd |= {os.listdir, os.scandir}
