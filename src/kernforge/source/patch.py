"""What a patch file says, as values: files, modes, hunks, lines. Pure; reads and writes nothing.

Paths stand as the patch writes them, with the folders that `strip` takes away.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

FILE = 0o100644
PROGRAM = 0o100755
LINK = 0o120000


class Kind(StrEnum):
    """What one section of a patch does to its file."""

    MODIFY = "modify"
    CREATE = "create"
    DELETE = "delete"
    RENAME = "rename"
    COPY = "copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchPath:
    """A path as written. ``bare`` ones (rename and copy lines) lack the first folder."""

    text: str
    bare: bool = False

    def stripped(self, strip: int) -> str | None:
        """The path without its first ``strip`` folders, or None where it has no more than that."""
        parts = self.text.split("/")[max(strip - 1, 0) if self.bare else strip :]
        return "/".join(part for part in parts if part != ".") or None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a hunk. ``mark`` is a blank, ``-`` or ``+``; ``data`` holds the line end."""

    mark: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """Lines that stand together. Starts count from 1; ``at`` is its line in the patch file.

    A line that the patch marks with "No newline at end of file" has none in ``data``.
    """

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[Line, ...]
    at: int

    @property
    def old(self) -> tuple[bytes, ...]:
        """The lines that it expects."""
        return tuple(line.data for line in self.lines if line.mark != "+")

    @property
    def new(self) -> tuple[bytes, ...]:
        """The lines that it leaves."""
        return tuple(line.data for line in self.lines if line.mark != "-")

    @property
    def index(self) -> int:
        """How many lines of the old file stand before it."""
        return self.old_start - 1 if self.old_count else self.old_start

    @property
    def ends_file(self) -> bool:
        """Whether it says that the file ends with it: no unchanged line after its last change.

        So `git apply` reads it too. A line without newline says the same.
        """
        return self.lines[-1].mark != " " or not self.lines[-1].data.endswith(b"\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """New bytes of a file that is not text. Hashes are git's, in full, of the whole file."""

    before: str
    after: str
    delta: bool
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePatch:
    """One section of a patch: what becomes of one file.

    ``old`` is None where the file is created, ``new`` where it is deleted. Modes are None where
    the patch does not say; ``kept_mode`` is the one on git's index line. ``at`` is the line of
    the patch file at which the section begins.
    """

    kind: Kind
    old: PatchPath | None
    new: PatchPath | None
    at: int
    old_mode: int | None = None
    new_mode: int | None = None
    kept_mode: int | None = None
    hunks: tuple[Hunk, ...] = ()
    binary: Binary | None = None

    @property
    def paths(self) -> tuple[PatchPath, ...]:
        """Every path that it names."""
        return tuple(path for path in (self.old, self.new) if path is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A whole patch file; ``name`` is what messages call it."""

    name: str
    files: tuple[FilePatch, ...]
