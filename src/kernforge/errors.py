"""One root error, one exit code a class, one stable word a fault. Bottom layer: imports nothing.

Every fault that a user can meet is a subclass of :class:`KernforgeError`. The message says what,
where and which rule; the hint, printed on a line of its own, says what to do.
`docs/errors.md` lists every word.
"""

from __future__ import annotations

from typing import ClassVar


class KernforgeError(Exception):
    """Root of every fault that kernforge reports.

    Attributes:
        word: stable lower-case identifier of the fault, as ``arch-invalid``.
        message: one sentence: what, where, the rule.
        hint: what to do about it, or None.
        detail: lines of a program's own output, shown before the message.
    """

    exit_code: ClassVar[int] = 1

    def __init__(
        self, word: str, message: str, *, hint: str | None = None, detail: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.word = word
        self.message = message
        self.hint = hint
        self.detail = detail


class RecipeError(KernforgeError):
    """A recipe, arch or option says something that is not valid (exit 2)."""

    exit_code = 2


class SelectionError(KernforgeError):
    """Nothing, or no such thing, was selected (exit 3)."""

    exit_code = 3


class SourceError(KernforgeError):
    """A source or patch is missing, changed or refused (exit 4)."""

    exit_code = 4


class ToolchainError(KernforgeError):
    """Lock, environment, compiler or sandbox cannot do what the job needs (exit 5)."""

    exit_code = 5


class CompileError(KernforgeError):
    """The backend or a compiler failed (exit 6)."""

    exit_code = 6


class VerifyError(KernforgeError):
    """The wheel cannot be read, is not honest, or does not reach what it must (exit 7)."""

    exit_code = 7


class PublishError(KernforgeError):
    """The wheel may not, or could not, be published (exit 8)."""

    exit_code = 8


class CacheError(KernforgeError):
    """The cache cannot be read or written (exit 9)."""

    exit_code = 9


class Interrupted(KernforgeError):  # noqa: N818 - it is no fault of anything
    """The user, or a signal, stopped the run (exit 130)."""

    exit_code = 130


class ManyErrors(RecipeError):  # noqa: N818 - reads as what it is
    """Several faults of one document, reported together.

    Attributes:
        errors: the faults, in the order of the document.
    """

    def __init__(self, errors: tuple[RecipeError, ...]) -> None:
        super().__init__(errors[0].word, "\n".join(e.message for e in errors))
        self.errors = errors
