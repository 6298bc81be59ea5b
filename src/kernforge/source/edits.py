"""Exact replacements of text, for changes that a patch would only carry someone's lines for.

The text must be found as often as the recipe says, byte for byte; all edits are made, or none.
"""

from __future__ import annotations

from pathlib import Path

from kernforge.errors import SourceError
from kernforge.recipe.model import Edit
from kernforge.source.draft import Content, Draft, Touched, path_problem
from kernforge.source.patch import LINK

_MOST_LINES = 5


def apply_edits(tree: Path, edits: tuple[Edit, ...]) -> tuple[Touched, ...]:
    """Make edits in order; an edit sees what those before it have made. The files changed, by path.

    Raises:
        SourceError: ``edit-missing`` (no such file), ``edit-path``, ``edit-noop``,
            ``edit-count``, ``edit-applied``, ``edit-line-ends``, or a fault of the tree.
    """
    if not tree.is_dir():
        raise SourceError("source-missing", f"{str(tree)!r} is not a folder")
    draft = Draft(tree)
    for number, edit in enumerate(edits, 1):
        content = _read(draft, edit, number)
        data = _edited(content.data, edit, number)
        draft.write(edit.file, Content(data=data, mode=content.mode))
    touched = draft.changes(Draft(tree))
    draft.land()
    return touched


def _read(draft: Draft, edit: Edit, number: int) -> Content:
    problem = path_problem(edit.file)
    if problem is not None:
        raise SourceError("edit-path", f"edit {number}: {edit.file!r} {problem}")
    content = draft.read(edit.file)
    if content is None:
        raise SourceError(
            "edit-missing",
            f"edit {number}: {edit.file!r} is not a file of the tree",
            hint="paths count from the top of the source",
        )
    if content.mode == LINK:
        raise SourceError(
            "edit-path",
            f"edit {number}: {edit.file!r} is a link",
            hint="name the file that it points to",
        )
    return content


def _edited(data: bytes, edit: Edit, number: int) -> bytes:
    find, replace = _bytes(edit.find), _bytes(edit.replace)
    if not find or find == replace:
        raise SourceError(
            "edit-noop",
            f"edit {number} of {edit.file!r} changes nothing",
            hint="give 'find' and 'replace' different texts, 'find' not empty",
        )
    places = _places(data, find)
    if len(places) == edit.count and data.count(find) == edit.count:
        return data.replace(find, replace)
    raise _miscounted(data, edit, number, places)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _places(data: bytes, text: bytes) -> list[int]:
    """Where a text begins, places that overlap too: then which one is meant is not said."""
    places, at = [], data.find(text)
    while at >= 0:
        places.append(at)
        at = data.find(text, at + 1)
    return places


def _miscounted(data: bytes, edit: Edit, number: int, places: list[int]) -> SourceError:
    find, replace = _bytes(edit.find), _bytes(edit.replace)
    place = f"edit {number} of {edit.file!r}"
    if len(places) == edit.count:
        return SourceError(
            "edit-count",
            f"{place}: the {edit.count} places where the text is found overlap",
            hint="make 'find' longer",
        )
    if places:
        lines = ", ".join(str(data.count(b"\n", 0, at) + 1) for at in places[:_MOST_LINES])
        more = ", ..." if len(places) > _MOST_LINES else ""
        return SourceError(
            "edit-count",
            f"{place}: text found {len(places)} times, {edit.count} expected (lines {lines}{more})",
            hint="make 'find' longer, or mend 'count'",
        )
    if replace and data.count(replace) == edit.count:
        return SourceError(
            "edit-applied",
            f"{place}: the new text is there already, the old one is not",
            hint="start from the pristine source, or remove the edit from the recipe",
        )
    if _unix(find) in _unix(data):
        ends = "CRLF" if b"\r\n" in data else "LF"
        return SourceError(
            "edit-line-ends",
            f"{place}: the text is there, but the lines of the file end with {ends}",
            hint=r"write the line ends in 'find' and 'replace' as the file has them ('\r\n')",
        )
    hint = "copy the text from the file at the pinned commit, blanks and all"
    if find.strip() and find.strip() in data:
        hint = "it is there without the blanks or line end around it ('|-' keeps none at the end)"
    return SourceError(
        "edit-count", f"{place}: text found 0 times, {edit.count} expected", hint=hint
    )


def _unix(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n")
