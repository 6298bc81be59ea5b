"""Patch files: unified diffs as diff, git, quilt, Subversion and format-patch write them. Pure.

What stands between the sections (mail heads, diffstats, `Index:` lines, signatures) is passed
over; what would leave out a change without a word (context diffs, binary files without their
bytes, "Only in" lines) is an error.

Source: git-diff(1) "Generating patch text with -p", 2.39; the GNU diffutils manual, "Unified
Format".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NoReturn

from kernforge.errors import SourceError
from kernforge.source.gitbinary import decode_line, git_hash, inflate
from kernforge.source.patch import (
    FILE,
    LINK,
    PROGRAM,
    Binary,
    FilePatch,
    Kind,
    Patch,
    PatchPath,
)
from kernforge.source.patchlines import PatchLines, read_hunks
from kernforge.source.quoting import read_name, read_pair

_GIT = b"diff --git "
_EXTENDED = re.compile(
    rb"(old mode|new mode|deleted file mode|new file mode|copy from|copy to|rename from|rename to"
    rb"|similarity index|dissimilarity index|index) (.+)"
)
_INDEX = re.compile(r"([0-9a-f]{4,64})\.\.([0-9a-f]{4,64})(?: ([0-7]{6}))?")
_STAMP = re.compile(rb"[ \t]+(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?)(?: ([+-]\d{4}))?\s*$")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BLOCK = re.compile(rb"(literal|delta) (\d{1,12})")
_MODES = {f"{mode:06o}": mode for mode in (FILE, PROGRAM, LINK)}
_MAIL = re.compile(rb"(From |From: |Subject: |Date: )")
_LOST = (
    (
        re.compile(rb'(?:---|\+\+\+) "?(?:[ab]/|/dev/null)'),
        "'---' and '+++' lines belong together",
        "the patch may have been cut short",
    ),
    (re.compile(rb"@@ -\d"), "a hunk stands here, and no file is named before it", None),
    (
        re.compile(rb'\*{15}\s*$|\*\*\* "?(?:[ab]/|/dev/null)'),
        "this is a context diff",
        "make it with 'diff -u' or 'git diff'",
    ),
    (
        re.compile(rb"diff --(?:cc|combined) |@@@ "),
        "this is the combined diff of a merge",
        "compare with one parent: git diff COMMIT^1 COMMIT",
    ),
    (
        re.compile(rb"Property changes on: "),
        "Subversion properties are not files",
        "remove the section; modes are written as 'new mode 100755'",
    ),
)
_ONLY_IN = re.compile(rb"Only in [^:\n]+: .")
_WITHOUT_BYTES = re.compile(rb"Binary files .* differ\s*$|Cannot display: file marked as a binary")


def parse_patch(data: bytes, name: str) -> Patch:
    """Read a patch file.

    Args:
        data: its bytes.
        name: what messages call it.

    Raises:
        SourceError: ``patch-empty`` (holds no change), ``patch-noop`` (a section changes
            nothing), ``patch-binary`` (bytes missing or broken), ``patch-line-ends`` (the patch
            file itself has CRLF ends), ``patch-mode`` or ``patch-malformed``.
    """
    lines = PatchLines(data, name)
    _check_encoding(lines, data)
    mail = False
    files: list[FilePatch] = []
    while lines.peek():
        if lines.peek().startswith(_GIT):
            files.append(_git_section(lines))
        elif lines.names_ahead():
            files.append(_plain_section(lines))
        else:
            mail = mail or _MAIL.match(lines.peek()) is not None
            _check_remark(lines, lines.take(), mail=mail)
    if not files:
        raise SourceError(
            "patch-empty", f"{name!r} holds no change", hint="remove it, or make it anew"
        )
    return Patch(name=name, files=tuple(files))


def _check_encoding(lines: PatchLines, data: bytes) -> None:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        lines.fail("the patch is UTF-16", "write it as plain bytes: git diff --output=FILE")
    if data.startswith(b"\xef\xbb\xbf"):
        lines.fail("the patch begins with a byte order mark", "remove the mark")


def _check_remark(lines: PatchLines, line: bytes, *, mail: bool) -> None:
    for pattern, reason, hint in _LOST:
        if pattern.match(line):
            lines.fail(reason, hint)
    if _WITHOUT_BYTES.match(line) and not mail:
        _refuse_binary(lines, "the patch names a binary file without its bytes")
    if _ONLY_IN.match(line) and not mail:
        lines.fail("a file that stands on one side only is left out", "make it with 'diff -ruN'")


def _refuse_binary(lines: PatchLines, reason: str) -> NoReturn:
    raise SourceError(
        "patch-binary",
        f"{lines.name!r} line {lines.at}: {reason}",
        hint="make it with 'git diff --binary'",
    )


def _no_change(lines: PatchLines, at: int) -> SourceError:
    return SourceError(
        "patch-noop",
        f"{lines.name!r} line {at}: the section changes nothing",
        hint="remove the section",
    )


def _plain_section(lines: PatchLines) -> FilePatch:
    at = lines.at + 1
    old, new = (_side(lines, git=False) for _ in range(2))
    return _checked(lines, FilePatch(
        kind=_plain_kind(old, new), old=old, new=new, at=at, hunks=read_hunks(lines)
    ))  # fmt: skip


def _plain_kind(old: PatchPath | None, new: PatchPath | None) -> Kind:
    return Kind.CREATE if old is None else Kind.DELETE if new is None else Kind.MODIFY


def _side(lines: PatchLines, *, git: bool) -> PatchPath | None:
    """The name of a ``---`` or ``+++`` line; None for /dev/null and the time of no file."""
    text = lines.head()[4:]
    stamp = _STAMP.search(text)
    if stamp is not None and not git:
        text = text[: stamp.start()]
    name = read_name(text.partition(b"\t")[0])
    if not name:
        lines.fail("no file name stands here")
    absent = name == "/dev/null" or (stamp is not None and not git and _is_epoch(stamp))
    return None if absent else PatchPath(text=name)


def _is_epoch(stamp: re.Match[bytes]) -> bool:
    """Whether a stamp is second 0 of 1970, which diff -N writes for a file that is not there."""
    try:
        time = datetime.fromisoformat(stamp[1].decode("ascii") + (stamp[2] or b"+0000").decode())
    except ValueError:
        return False
    return time == _EPOCH


def _git_section(lines: PatchLines) -> FilePatch:
    at = lines.at + 1
    pair = read_pair(lines.head()[len(_GIT) :])
    heads = _extended(lines)
    sides: Sequence[PatchPath | None] = [PatchPath(text=name) for name in pair or ()]
    if lines.names_ahead():
        sides = [_side(lines, git=True) for _ in range(2)]
        _check_names(lines, pair, sides, heads)
        section = replace(_git_file(lines, heads, sides, at), hunks=read_hunks(lines))
    elif lines.peek().startswith(b"GIT binary patch"):
        binary = _binary(lines, heads)
        section = replace(_git_file(lines, heads, sides, at), binary=binary)
    elif _WITHOUT_BYTES.match(lines.peek()):
        lines.take()
        _refuse_binary(lines, "the patch names a binary file without its bytes")
    else:
        if lines.peek().startswith((b"--- ", b"+++ ")):
            lines.take()
            lines.fail("'---' and '+++' lines belong together", "the patch may be cut short")
        section = _git_file(lines, heads, sides, at)
        _check_whole(lines, section, _INDEX.fullmatch(heads.get("index", "")))
    return _checked(lines, section)


def _check_whole(lines: PatchLines, section: FilePatch, index: re.Match[str] | None) -> None:
    """An index line promises new content, unless an empty file comes or goes."""
    if index is None or index[1] == index[2]:
        return
    named = {Kind.CREATE: index[2], Kind.DELETE: index[1]}.get(section.kind, "content")
    if not any(git_hash(b"", like).startswith(named) for like in ("0" * 40, "0" * 64)):
        lines.fail("a file is named, and no hunk follows", "the patch may have been cut short")


def _extended(lines: PatchLines) -> dict[str, str]:
    heads: dict[str, str] = {}
    while match := _EXTENDED.match(lines.peek()):
        lines.head()
        key = match[1].decode("ascii")
        value = read_name(match[2]) if key.startswith(("rename", "copy")) else None
        if key in heads or (key.startswith(("rename", "copy")) and not value):
            lines.fail(f"{key!r} stands twice or names nothing")
        heads[key] = value or match[2].decode("ascii", "replace")
    return heads


def _check_names(
    lines: PatchLines,
    pair: tuple[str, str] | None,
    sides: Sequence[PatchPath | None],
    heads: dict[str, str],
) -> None:
    for side, head in zip(sides, ("new file mode", "deleted file mode"), strict=True):
        if (side is None) != (head in heads):
            lines.fail(f"'/dev/null' and {head!r} belong together")
    if "rename to" in heads or "copy to" in heads or pair is None:
        return
    for name, side in zip(pair, sides, strict=True):
        if side is not None and side.text != name:
            lines.fail(f"{side.text!r} is not the file that 'diff --git' names, {name!r}")


def _mode(lines: PatchLines, text: str | None) -> int | None:
    if text is None:
        return None
    if text not in _MODES:
        raise SourceError(
            "patch-mode",
            f"{lines.name!r} line {lines.at}: mode {text!r} is not one of a file or link",
            hint="submodules are pinned in the recipe, not by a patch"
            if text == "160000" else f"modes are {', '.join(_MODES)}",
        )  # fmt: skip
    return _MODES[text]


def _git_file(
    lines: PatchLines, heads: dict[str, str], sides: Sequence[PatchPath | None], at: int
) -> FilePatch:
    if not sides and not {"rename from", "copy from"} & heads.keys():
        lines.fail("the two file names cannot be told apart", "make it with quoted names")
    old, new = sides or (None, None)
    kind = _plain_kind(old, new)
    for verb, moved in (("rename", Kind.RENAME), ("copy", Kind.COPY)):
        if f"{verb} from" in heads or f"{verb} to" in heads:
            if not {f"{verb} from", f"{verb} to"} <= heads.keys():
                lines.fail(f"'{verb} from' and '{verb} to' belong together")
            kind = moved
            old = PatchPath(text=heads[f"{verb} from"], bare=True)
            new = PatchPath(text=heads[f"{verb} to"], bare=True)
    if "new file mode" in heads:
        kind, old = Kind.CREATE, None
    elif "deleted file mode" in heads:
        kind, new = Kind.DELETE, None
    index = _INDEX.fullmatch(heads.get("index", ""))
    return FilePatch(
        kind=kind,
        old=old,
        new=new,
        at=at,
        old_mode=_mode(lines, heads.get("old mode", heads.get("deleted file mode"))),
        new_mode=_mode(lines, heads.get("new mode", heads.get("new file mode"))),
        kept_mode=_mode(lines, index[3] if index else None),
    )


def _binary(lines: PatchLines, heads: dict[str, str]) -> Binary:
    lines.head()
    index = _INDEX.fullmatch(heads.get("index", ""))
    if index is None or len(index[1]) not in {40, 64} or len(index[1]) != len(index[2]):
        _refuse_binary(lines, "a binary patch without the full hashes of its file")
    block = _block(lines)
    if _BLOCK.match(lines.peek()):
        _block(lines)  # the way back; the hashes of the index line say more
    return Binary(before=index[1], after=index[2], delta=block[0], data=block[1])


def _block(lines: PatchLines) -> tuple[bool, bytes]:
    head = lines.head()
    match = _BLOCK.fullmatch(head)
    if match is None:
        lines.fail("a binary block begins with 'literal SIZE' or 'delta SIZE'")
    packed = bytearray()
    try:
        while lines.peek().strip():
            packed += decode_line(lines.head())
        data = inflate(bytes(packed), int(match[2]))
    except ValueError as error:
        raise SourceError(
            "patch-binary",
            f"{lines.name!r} line {lines.at}: the binary block is broken: {error}",
            hint="make the patch anew with 'git diff --binary'",
        ) from error
    lines.take()
    return match[1] == b"delta", data


def _checked(lines: PatchLines, section: FilePatch) -> FilePatch:
    """Refuse a section whose parts contradict each other, or that changes nothing."""
    moved = section.kind in {Kind.RENAME, Kind.COPY}
    same_mode = section.old_mode == section.new_mode
    if section.kind is Kind.MODIFY and not section.hunks and not section.binary and same_mode:
        raise _no_change(lines, section.at)
    same_bytes = section.binary is not None and section.binary.before == section.binary.after
    if same_bytes or (moved and section.old == section.new):
        raise _no_change(lines, section.at)
    first = section.hunks[0] if section.hunks else None
    if first and section.kind is Kind.CREATE and (len(section.hunks) > 1 or first.old_count):
        lines.fail("a file that the patch creates has no old lines")
    if first and section.kind is Kind.DELETE and (len(section.hunks) > 1 or first.new_count):
        lines.fail("a file that the patch deletes has no new lines")
    if (section.old_mode is None) != (section.new_mode is None) and section.kind in {
        Kind.MODIFY, Kind.RENAME, Kind.COPY,
    }:  # fmt: skip
        lines.fail("'old mode' and 'new mode' belong together")
    return section
