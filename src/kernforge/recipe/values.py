"""Reads the single values of a recipe from text: names, paths, addresses, commits, memory. Pure."""

from __future__ import annotations

import re

from kernforge.errors import RecipeError
from kernforge.recipe.fault import near_hint

VERSION = r"(\d+!)?\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?"
"""A public version in the normal form of the version specifiers (PEP 440)."""

EXPECTED_VERSION = VERSION + r"|(\d+\.)+\*"
"""A version, or its beginning as ``0.4.*``."""

TORCH = r"\d+\.\d+\.\d+((a|b|rc)\d+|\.dev\d+)?"
PYTHON = r"3\.([89]|[1-9]\d)"
MEMORY = r"(\d{1,15}) ?(B|MB|GB|MiB|GiB)"

_UNITS = {"B": 1, "MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_URL = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#]*)(.*)", re.ASCII | re.IGNORECASE)
_SCP = re.compile(r"[\w.][\w.-]*@[\w.][\w.-]*:[^:].*", re.ASCII)


def invalid(message: str, hint: str, word: str = "recipe-value") -> RecipeError:
    """A fault of one value."""
    return RecipeError(word, message, hint=hint)


def read_match(text: str, pattern: str, what: str, example: str, word: str = "recipe-value") -> str:
    """Give the text back if the whole of it matches.

    Args:
        text: the value.
        pattern: a regular expression over ASCII.
        what: what the value should be, for the message.
        example: how it is written, for the hint.
        word: the word of the error.

    Raises:
        RecipeError: it does not match.
    """
    if re.fullmatch(pattern, text, re.ASCII):
        return text
    raise invalid(f"{text!r} is not {what}", f"write it as {example}", word)


def read_word(text: str, known: tuple[str, ...]) -> str:
    """Give the text back if it is one of a closed list.

    Raises:
        RecipeError: word ``recipe-value``, with the nearest known word.
    """
    if text in known:
        return text
    raise invalid(f"{text!r} is not one of {', '.join(known)}", near_hint(text, known))


def read_torch(text: str) -> str:
    """Check a version of torch, all of it.

    Raises:
        RecipeError: word ``recipe-value``.
    """
    return read_match(text, TORCH, "a whole version of torch", "2.14.1")


def read_python(text: str) -> str:
    """Check a Python version, MAJOR.MINOR.

    Raises:
        RecipeError: word ``recipe-value``.
    """
    return read_match(text, PYTHON, "a Python version MAJOR.MINOR", "3.11")


def read_name(text: str) -> str:
    """Check a recipe's name.

    Raises:
        RecipeError: word ``recipe-name``.
    """
    if ".." in text or not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", text, re.ASCII):
        raise invalid(
            f"{text!r} is not a recipe name",
            "begin with a letter or digit; then lower-case letters, digits, '.', '_' and '-', "
            "no two dots together",
            "recipe-name",
        )
    return text


def read_path(text: str) -> str:
    """Check a path, or pattern of paths, that stays inside its folder.

    Raises:
        RecipeError: word ``recipe-path``.
    """
    if text == ".":
        return text
    if _CONTROL.search(text) or "\\" in text or not text.strip():
        hint = "write names joined by '/', as src/kernels"
        raise invalid(f"{text!r} is not a path", hint, "recipe-path")
    parts = text.split("/")
    if text.startswith(("/", "~")) or ".." in parts:
        hint = "write a path inside the folder"
        raise invalid(f"{text!r} leaves its folder", hint, "recipe-path")
    if "" in parts or "." in parts:
        short = "/".join(part for part in parts if part not in {"", "."}) or "."
        raise invalid(f"{text!r} is not the shortest path", f"write {short}", "recipe-path")
    return text


def read_lock_path(text: str) -> str:
    """Check where a Cargo.lock is: a source's name and the file's path in it.

    Raises:
        RecipeError: word ``recipe-path``.
    """
    if not read_path(text).endswith("/Cargo.lock"):
        raise invalid(
            f"{text!r} is no Cargo.lock in a source",
            "write the source's name, then the path in it, as my-source/rust/Cargo.lock",
            "recipe-path",
        )
    return text


def read_git_url(text: str) -> str:
    """Check the address of a git repository: no secret, no helper program, no option.

    Raises:
        RecipeError: words ``recipe-url``, ``recipe-url-secret``.
    """
    match = _URL.fullmatch(text)
    if match and match[1] in {"https", "http", "ssh", "git", "file"}:
        return _whole_url(match)
    if match is None and _SCP.fullmatch(text) and not _CONTROL.search(text):
        return text
    raise invalid(
        f"{text!r} is not a git address that is allowed here",
        "write https://HOST/REPOSITORY, ssh://, git://, file:// or user@HOST:REPOSITORY",
        "recipe-url",
    )


def read_archive(text: str) -> str:
    """Check the address of an archive, or its path in the project.

    Raises:
        RecipeError: words ``recipe-url``, ``recipe-url-secret``, ``recipe-path``.
    """
    match = _URL.fullmatch(text)
    if match is None:
        return read_path(text)
    if match[1] in {"https", "http", "file"}:
        return _whole_url(match)
    raise invalid(
        f"{text!r} is not an address that is allowed here",
        "write https:// or a path of a file in the project",
        "recipe-url",
    )


def _whole_url(match: re.Match[str]) -> str:
    user, at, host = match[2].rpartition("@")
    if at and (match[1] != "ssh" or ":" in user):
        raise invalid(
            f"the address of {host!r} holds a user or password",
            "leave it out; git's credential helper or ~/.netrc supplies it",
            "recipe-url-secret",
        )
    missing = not host and match[1] != "file"
    if missing or host.startswith("-") or re.search(r"\s", match[0]) or _CONTROL.search(match[0]):
        raise invalid(f"{match[0]!r} is no whole address", "write https://HOST/...", "recipe-url")
    return match[0]


def read_commit(text: str) -> str:
    """Check a git commit, all of it.

    Raises:
        RecipeError: word ``recipe-commit``.
    """
    if re.fullmatch(r"[0-9a-f]{40}", text, re.ASCII):
        return text
    if re.fullmatch(r"[0-9a-fA-F]{40}", text, re.ASCII):
        hint = f"write {text.lower()}"
    elif re.fullmatch(r"[0-9a-fA-F]{4,39}", text, re.ASCII):
        hint = "a short commit can come to mean another one; write all 40 digits"
    else:
        hint = "branches and tags move; write the 40 digits that git rev-parse prints"
    raise invalid(f"{text!r} is not a commit of 40 hexadecimal digits", hint, "recipe-commit")


def read_memory(text: str) -> int:
    """Bytes from a text such as ``4 GiB``.

    Raises:
        RecipeError: word ``recipe-value``.
    """
    match = re.fullmatch(MEMORY, text, re.ASCII)
    if match is None or int(match[1]) == 0:
        hint = "write a whole number and B, MB, GB, MiB or GiB, as 4 GiB"
        raise invalid(f"{text!r} is not an amount of memory", hint)
    return int(match[1]) * _UNITS[match[2]]


def show_memory(size: int) -> str:
    """The shortest text that :func:`read_memory` reads back."""
    unit = next(u for u in ("GiB", "MiB", "GB", "MB", "B") if size % _UNITS[u] == 0)
    return f"{size // _UNITS[unit]} {unit}"


def read_line(text: str) -> str:
    """Check a text of one line, not empty.

    Raises:
        RecipeError: word ``recipe-value``.
    """
    if not text.strip() or _CONTROL.search(text):
        raise invalid("must be one line of text", "write a value on one line")
    return text


def read_requirement(text: str) -> str:
    """Check a requirement by name: no option, no address.

    Raises:
        RecipeError: word ``recipe-value``.
    """
    if not re.match(r"[A-Za-z0-9]", text) or _CONTROL.search(text) or "://" in text:
        raise invalid(f"{text!r} is not a requirement by name", "write it as ninja or ninja>=1.11")
    return text
