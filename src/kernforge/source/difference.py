"""The patch between two trees, in git's format: text as hunks, the rest as whole binary blocks.

What it writes, `kernforge.source.patches` and `git apply` turn the old tree into the new one with.
Renames are written as a removal and a new file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path

from kernforge.source.draft import Content
from kernforge.source.gitbinary import encode, git_hash
from kernforge.source.patch import FILE, LINK, PROGRAM
from kernforge.source.patchlines import split_lines
from kernforge.source.quoting import write_name
from kernforge.source.tree import Entry, entries

_CONTEXT = 3
_NOTHING = "0" * 40
_SLOW = 4_000_000
"""Product of line counts from which lines that stand often are no anchors (it would take long)."""

Lines = tuple[bytes, ...]
Change = tuple[int, int, int, int]
"""Old lines [0, 1) become new lines [2, 3)."""


def diff_trees(old: Path, new: Path) -> bytes:
    """The patch that makes ``new`` of ``old``; empty where they are equal.

    Version control folders and Python's caches are left out, as of a tree's hash.

    Raises:
        SourceError: as :func:`kernforge.source.tree.entries`.
    """
    before = {entry.path: entry for entry in entries(old)}
    after = {entry.path: entry for entry in entries(new)}
    sections = []
    for path in _ordered(before, after):
        was, now = _content(old, before.get(path)), _content(new, after.get(path))
        if was is not None and now is not None and (was.mode == LINK) != (now.mode == LINK):
            sections += [_section(path, was, None), _section(path, None, now)]
        elif was != now:
            sections.append(_section(path, was, now))
    return b"".join(sections)


def _ordered(before: dict[str, Entry], after: dict[str, Entry]) -> list[str]:
    """Removals first: a file may make room for a folder, or a folder for a file."""
    return sorted(before.keys() - after.keys()) + sorted(after)


def _content(root: Path, entry: Entry | None) -> Content | None:
    if entry is None:
        return None
    if entry.link is not None:
        return Content(data=os.fsencode(entry.link), mode=LINK)
    mode = PROGRAM if entry.executable else FILE
    return Content(data=(root / entry.path).read_bytes(), mode=mode)


def _section(path: str, old: Content | None, new: Content | None) -> bytes:
    was, now = old.data if old else b"", new.data if new else b""
    heads = [b"diff --git %b %b\n" % (write_name(f"a/{path}"), write_name(f"b/{path}"))]
    heads += _modes(old, new)
    if was != now:
        hashes = [git_hash(side.data, _NOTHING) if side else _NOTHING for side in (old, new)]
        kept = f" {old.mode:o}" if old and new and old.mode == new.mode else ""
        heads.append(f"index {hashes[0]}..{hashes[1]}{kept}\n".encode("ascii"))
        if b"\0" in was or b"\0" in now:
            heads += [b"GIT binary patch\n", encode(now), encode(was)]
        else:
            heads += [_side(b"--- ", f"a/{path}", old), _side(b"+++ ", f"b/{path}", new)]
            heads += _hunks(split_lines(was), split_lines(now))
    return b"".join(heads)


def _modes(old: Content | None, new: Content | None) -> list[bytes]:
    if old is None and new is not None:
        return [b"new file mode %o\n" % new.mode]
    if new is None and old is not None:
        return [b"deleted file mode %o\n" % old.mode]
    if old is not None and new is not None and old.mode != new.mode:
        return [b"old mode %o\nnew mode %o\n" % (old.mode, new.mode)]
    return []


def _side(mark: bytes, name: str, content: Content | None) -> bytes:
    written = b"/dev/null" if content is None else write_name(name)
    # a tab ends a name with blanks, as git and GNU diff write it
    return mark + written + (b"\t\n" if b" " in written and written[:1] != b'"' else b"\n")


def _changes(old: Lines, new: Lines) -> list[Change]:
    """What differs, between the lines that both begin and end with."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    inner_old, inner_new = old[head : len(old) - tail], new[head : len(new) - tail]
    many = len(inner_old) * len(inner_new) > _SLOW
    matcher = SequenceMatcher(None, inner_old, inner_new, autojunk=many)
    return [
        (head + a, head + b, head + c, head + d)
        for tag, a, b, c, d in matcher.get_opcodes()
        if tag != "equal"
    ]


def _grouped(changes: list[Change]) -> Iterator[list[Change]]:
    """Changes so near that their context meets are one hunk."""
    group: list[Change] = []
    for change in changes:
        if group and change[0] - group[-1][1] > 2 * _CONTEXT:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _hunks(old: Lines, new: Lines) -> Iterator[bytes]:
    for group in _grouped(_changes(old, new)):
        lead = min(_CONTEXT, group[0][0])
        trail = min(_CONTEXT, len(old) - group[-1][1])
        first, last = group[0][0] - lead, group[-1][1] + trail
        new_first, new_last = group[0][2] - lead, group[-1][3] + trail
        yield b"@@ -%b +%b @@\n" % (_range(first, last), _range(new_first, new_last))
        at = first
        for old_from, old_to, new_from, new_to in group:
            yield from _lines(b" ", old[at:old_from])
            yield from _lines(b"-", old[old_from:old_to])
            yield from _lines(b"+", new[new_from:new_to])
            at = old_to
        yield from _lines(b" ", old[at:last])


def _range(first: int, last: int) -> bytes:
    count = last - first
    start = first + 1 if count else first
    return b"%d" % start if count == 1 else b"%d,%d" % (start, count)


def _lines(mark: bytes, lines: Lines) -> Iterator[bytes]:
    for line in lines:
        yield mark + line
        if not line.endswith(b"\n"):
            yield b"\n\\ No newline at end of file\n"
