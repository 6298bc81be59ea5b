"""Reads CMake files as text for what they would download: FetchContent, ExternalProject. Pure.

Commands and arguments are taken apart by CMake's own lexical rules (comments, quotes, brackets);
variables stay as written, for nothing is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
    (?P<comment>\#\[(?P<ceq>=*)\[.*?\](?P=ceq)\]|\#[^\n]*)
  | (?P<bracket>\[(?P<eq>=*)\[.*?\](?P=eq)\])
  | "(?P<quoted>(?:[^"\\]|\\.)*)"
  | (?P<open>\()
  | (?P<close>\))
  | (?P<word>(?:[^\s()#"\\]|\\.)+)
    """,
    re.VERBOSE | re.DOTALL,
)
_DECLARING = ("fetchcontent_declare", "fetchcontent_populate", "externalproject_add")
_FULL_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One command call: name in lower case, arguments as written, line counted from 1."""

    name: str
    arguments: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """What a CMake file would download.

    Attributes:
        command: the declaring command, in lower case.
        name: the dependency's name, as declared.
        url: address of repository or archive, variables unexpanded; empty where none is named.
        kind: ``git`` or ``archive``.
        pin: commit, tag, branch or hash as written; empty where there is none.
        file: the CMake file.
        line: line of the call.
    """

    command: str
    name: str
    url: str
    kind: str
    pin: str
    file: str
    line: int

    @property
    def pinned(self) -> bool:
        """Whether the pin names bytes: a full commit, or a hash."""
        if self.kind == "git":
            return bool(_FULL_COMMIT.fullmatch(self.pin))
        return self.pin.upper().startswith("SHA256=")


def calls(text: str) -> Iterator[Call]:
    """Every command call of a CMake file, in order; a call that is cut off is left out."""
    name, line, depth = "", 1, 0
    arguments: list[str] = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if match["comment"] is not None:
            continue
        if match["open"] is not None:
            depth += 1
            arguments = [] if depth == 1 else [*arguments, "("]
        elif match["close"] is not None:
            depth -= 1
            if depth == 0:
                yield Call(name=name.lower(), arguments=tuple(arguments), line=line)
            elif depth > 0:
                arguments.append(")")
            depth = max(depth, 0)
        elif depth == 0:
            name, line = match[0], text.count("\n", 0, match.start()) + 1
        else:
            arguments.append(_value(match, kind))


def _value(match: re.Match[str], kind: str | None) -> str:
    if match["quoted"] is not None:
        return match["quoted"].replace('\\"', '"').replace("\\\\", "\\")
    if kind == "eq" or match["bracket"] is not None:
        return match["bracket"].strip("[]=")
    return match[0]


def _after(arguments: tuple[str, ...], key: str) -> str:
    for number, word in enumerate(arguments[:-1]):
        if word.upper() == key:
            return arguments[number + 1]
    return ""


def downloads(text: str, file: str) -> tuple[Download, ...]:
    """What a CMake file would download, in order.

    Args:
        text: the file's text.
        file: its name, kept in the answers.
    """
    found = []
    for call in calls(text):
        if call.name not in _DECLARING or not call.arguments:
            continue
        repository, url = _after(call.arguments, "GIT_REPOSITORY"), _after(call.arguments, "URL")
        if not repository and not url:
            continue
        pin = _after(call.arguments, "GIT_TAG") if repository else _hash(call.arguments)
        found.append(
            Download(
                command=call.name,
                name=call.arguments[0],
                url=repository or url,
                kind="git" if repository else "archive",
                pin=pin,
                file=file,
                line=call.line,
            )
        )
    return tuple(found)


def _hash(arguments: tuple[str, ...]) -> str:
    written = _after(arguments, "URL_HASH")
    md5 = _after(arguments, "URL_MD5")
    return written or (f"MD5={md5}" if md5 else "")
