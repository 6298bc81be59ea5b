"""Collect what could not be read, up to a limit, so that hostile input cannot flood a report."""

from __future__ import annotations

from kernforge.binary.facts import Finding

_LIMIT = 100


class GarbledError(Exception):
    """Internal: a structure does not fit its bytes; the reader turns it into a finding.

    Attributes:
        word: word of the finding.
    """

    def __init__(self, word: str, text: str) -> None:
        super().__init__(text)
        self.word = word

    @property
    def finding(self) -> Finding:
        """The same as a value."""
        return Finding(word=self.word, text=str(self))


class FindingLog:
    """An ordered list of findings that stops growing at a limit and says so once."""

    def __init__(self) -> None:
        self._items: list[Finding] = []
        self._dropped = 0

    def add(self, finding: Finding) -> None:
        """Keep a finding, or count it where there are too many."""
        if len(self._items) < _LIMIT:
            self._items.append(finding)
        else:
            self._dropped += 1

    def note(self, word: str, text: str) -> None:
        """Keep a finding made of a word and a sentence."""
        self.add(Finding(word=word, text=text))

    @property
    def all(self) -> tuple[Finding, ...]:
        """Everything kept, with a last line for what was not."""
        if not self._dropped:
            return tuple(self._items)
        more = Finding(word="findings-many", text=f"{self._dropped} more findings are not listed")
        return (*self._items, more)
