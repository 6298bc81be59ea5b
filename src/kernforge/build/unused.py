"""Hears from a build's output which CMake variables nothing read, in time to stop it. Pure."""

from __future__ import annotations

_BEGINS = "Manually-specified variables were not used by the project:"
_OURS = ("CMAKE_", "FETCHCONTENT_")


class UnusedOptions:
    """Follows the lines of one build.

    CMake (4.4) ends its configuring with a warning: a headline, a blank line, one indented name a
    line, and a blank line. Variables that steer CMake itself, or dependencies that an option
    switches off, may stand there rightly.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = frozenset(name for name in names if not name.startswith(_OURS))
        self._found: list[str] | None = None

    def hear(self, line: str) -> tuple[str, ...]:
        """Take a line; answers those of the names that the list names, once, when it ends."""
        text = line.strip()
        if text.endswith(_BEGINS):
            self._found = []
        elif self._found is not None and text:
            self._found.append(text)
        elif self._found:
            found, self._found = self._found, None
            return tuple(name for name in found if name in self._names)
        return ()
