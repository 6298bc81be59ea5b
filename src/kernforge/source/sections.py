"""One section of a patch against a draft: the changes that it makes, or why it does not fit.

Decides only; the draft is left as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from kernforge.errors import SourceError
from kernforge.source.draft import Content, Draft, path_problem
from kernforge.source.gitbinary import apply_delta, git_hash
from kernforge.source.hunks import Finding, Standing, findings, patched
from kernforge.source.patch import FILE, LINK, Binary, FilePatch, Kind, PatchPath
from kernforge.source.patchlines import split_lines


class Verdict(StrEnum):
    """How a section stands to the tree."""

    FITS = "fits"
    APPLIED = "applied"
    MERGED = "merged"
    HALF = "half"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a section comes to: new contents by path where it fits, else what is there already."""

    path: str
    verdict: Verdict
    changes: tuple[tuple[str, Content | None], ...] = ()
    text: str = "is not applied"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Where a section is tried: the draft as the sections above left it, and as all began."""

    name: str
    draft: Draft
    start: Draft
    strip: int

    def where(self, section: FilePatch) -> str:
        """The place in the patch file, for messages."""
        return f"{self.name!r} line {section.at}"


def stripped(trial: Trial, section: FilePatch, path: PatchPath) -> str:
    """The path in the tree.

    Raises:
        SourceError: ``patch-path`` (leads out of the tree, or into ``.git``) or ``patch-strip``.
    """
    problem = path_problem(path.text.removeprefix("./"))
    found = path.stripped(trial.strip)
    if problem is None and found is not None:
        problem = path_problem(found)
    if problem is not None:
        raise SourceError(
            "patch-path",
            f"{trial.where(section)}: {str(path)!r} {problem}",
            hint="a patch names files of its own source, from the source's top",
        )
    if found is None:
        raise SourceError(
            "patch-strip",
            f"{trial.where(section)}: {str(path)!r} has no {trial.strip} folders to strip",
            hint="write the paths as git does, with a/ and b/ before them",
        )
    return found


def outcome(trial: Trial, section: FilePatch) -> Outcome:
    """Try a section.

    Raises:
        SourceError: ``patch-path``, ``patch-strip``, ``patch-missing``, ``patch-exists``,
            ``patch-mode``, ``patch-binary``, ``patch-offset``, ``patch-line-ends``,
            ``patch-newline``, ``patch-context``, or a fault of the tree.
    """
    match section.kind:
        case Kind.CREATE:
            return _create(trial, section)
        case Kind.RENAME | Kind.COPY:
            return _move(trial, section)
        case Kind.MODIFY | Kind.DELETE:
            path = _target(trial, section)
            content = trial.draft.read(path)
            if content is not None:
                return _change(trial, section, path, content)
            if section.kind is Kind.DELETE:
                return Outcome(path=path, verdict=Verdict.APPLIED, text="is gone already")
            raise _missing(trial, section, path)


def _missing(trial: Trial, section: FilePatch, path: str) -> SourceError:
    return SourceError(
        "patch-missing",
        f"{trial.where(section)}: {path!r} is not a file of the tree",
        hint="the source has moved or removed it, or the paths are for another folder",
    )


def _exists(trial: Trial, section: FilePatch, path: str) -> SourceError:
    return SourceError(
        "patch-exists",
        f"{trial.where(section)}: would make {path!r}, which is there and differs",
        hint="make the patch anew against the pinned commit",
    )


def _target(trial: Trial, section: FilePatch) -> str:
    """The one file of both names that is there: `x.cu.orig` and `x.cu` may name one file."""
    named = {stripped(trial, section, path): None for path in reversed(section.paths)}
    there = [path for path in named if trial.draft.read(path) is not None]
    if len(there) > 1:
        raise SourceError(
            "patch-path",
            f"{trial.where(section)}: names two files that are both there, {there[1]!r} and "
            f"{there[0]!r}",
            hint="name one file on both lines",
        )
    return (there or list(named))[0]


def _create(trial: Trial, section: FilePatch) -> Outcome:
    path = stripped(trial, section, section.paths[0])
    have = trial.draft.read(path)
    data = _new_data(trial, section, b"")
    if data is None:
        raise SourceError(
            "patch-malformed",
            f"{trial.where(section)}: makes {path!r} from a file that is not empty",
            hint="a new file has '--- /dev/null' and '@@ -0,0 +1,COUNT @@'",
        )
    content = Content(data=data, mode=section.new_mode or FILE)
    if have is None:
        return Outcome(path=path, verdict=Verdict.FITS, changes=((path, content),))
    if have == content:
        return Outcome(path=path, verdict=Verdict.APPLIED, text="is there already, and equal")
    raise _exists(trial, section, path)


def _move(trial: Trial, section: FilePatch) -> Outcome:
    """A rename or copy. It reads the file as it was before the patch, as git does."""
    old, new = (stripped(trial, section, path) for path in section.paths)
    content, have = trial.start.read(old), trial.draft.read(new)
    if have is not None:
        moved = content is None or section.kind is Kind.COPY
        if moved and _is_done(section, have):
            return Outcome(path=new, verdict=Verdict.APPLIED, text="is there already")
        raise _exists(trial, section, new)
    if content is None:
        raise _missing(trial, section, old)
    done = _change(trial, section, new, content)
    if done.verdict is Verdict.FITS and section.kind is Kind.RENAME:
        return replace(done, changes=((old, None), *done.changes))
    return done


def _change(trial: Trial, section: FilePatch, path: str, content: Content) -> Outcome:
    _check_kind(trial, section, path, content)
    data = _new_data(trial, section, content.data)
    deletes = section.kind is Kind.DELETE
    mode_fits = deletes or section.old_mode in {None, content.mode}
    if data is not None and mode_fits:
        if deletes and data:
            raise SourceError(
                "patch-context",
                f"{trial.where(section)}: deletes {path!r}, which holds more than it says",
                hint="make the patch anew against the pinned commit",
            )
        changed = Content(data=data, mode=section.new_mode or content.mode)
        change = path, None if deletes else changed
        return Outcome(path=path, verdict=Verdict.FITS, changes=(change,))
    if not deletes and _is_done(section, content):
        return Outcome(path=path, verdict=Verdict.APPLIED, text="is changed already")
    if data is not None:
        raise SourceError(
            "patch-mode",
            f"{trial.where(section)}: {path!r} has mode {content.mode:o}, not {section.old_mode:o}",
            hint="make the patch anew against the pinned commit",
        )
    if section.binary is not None:
        raise SourceError(
            "patch-context",
            f"{trial.where(section)}: {path!r} holds other bytes than the binary patch is for",
            hint="make the patch anew against the pinned commit",
        )
    return _judged(trial, path, findings(split_lines(content.data), section.hunks))


def _check_kind(trial: Trial, section: FilePatch, path: str, content: Content) -> None:
    said = section.old_mode or section.kept_mode
    if (content.mode == LINK) != (said == LINK):
        kinds = ("link", "file") if content.mode == LINK else ("file", "link")
        raise SourceError(
            "patch-mode",
            f"{trial.where(section)}: {path!r} is a {kinds[0]}; the patch changes a {kinds[1]}",
            hint="name the file itself, and make the patch with git",
        )


def _new_data(trial: Trial, section: FilePatch, data: bytes) -> bytes | None:
    """The bytes that the section leaves, or None where it does not fit."""
    if section.binary is not None:
        return _new_binary(trial, section, section.binary, data)
    lines = patched(split_lines(data), section.hunks)
    return None if lines is None else b"".join(lines)


def _new_binary(trial: Trial, section: FilePatch, binary: Binary, data: bytes) -> bytes | None:
    absent = section.kind is Kind.CREATE and not binary.before.strip("0")
    if not absent and git_hash(data, binary.before) != binary.before:
        return None
    try:
        made = apply_delta(data, binary.data) if binary.delta else binary.data
    except ValueError as error:
        raise _broken(trial, section, str(error)) from error
    gone = section.kind is Kind.DELETE and not made
    if not gone and git_hash(made, binary.after) != binary.after:
        raise _broken(trial, section, "it makes a file of another hash than it says")
    return made


def _broken(trial: Trial, section: FilePatch, reason: str) -> SourceError:
    return SourceError(
        "patch-binary",
        f"{trial.where(section)}: the binary block is broken: {reason}",
        hint="make the patch anew with 'git diff --binary'",
    )


def _is_done(section: FilePatch, content: Content) -> bool:
    """Whether a file is as the section would leave it."""
    if section.new_mode not in {None, content.mode}:
        return False
    if section.binary is not None:
        return git_hash(content.data, section.binary.after) == section.binary.after
    found = findings(split_lines(content.data), section.hunks)
    return all(finding.standing is Standing.APPLIED for finding in found)


def _judged(trial: Trial, path: str, found: tuple[Finding, ...]) -> Outcome:
    """What hunks that do not all stand come to: there already, half there, or wrong."""
    there = {Standing.APPLIED, Standing.MERGED}
    text = ", ".join(f"hunk {f.number} {f.text}" for f in found)
    for finding in found:
        if finding.standing not in {Standing.STANDS, *there}:
            raise _fault(trial, path, finding, any(f.standing in there for f in found))
    standings = {finding.standing for finding in found}
    verdict = Verdict.MERGED if standings <= there else Verdict.HALF
    return Outcome(path=path, verdict=verdict, text=text)


def _fault(trial: Trial, path: str, finding: Finding, beside: bool) -> SourceError:
    place = f"{trial.name!r} line {finding.hunk.at}: hunk {finding.number} of {path!r}"
    message = f"{place} {finding.text}" + ("; other hunks are applied already" if beside else "")
    match finding.standing:
        case Standing.OFFSET:
            hint = "make the patch anew against the pinned commit; no offset is accepted"
            return SourceError("patch-offset", message, hint=hint)
        case Standing.LINE_ENDS:
            hint = "make the patch anew from the file's own bytes, with no ends converted"
            return SourceError("patch-line-ends", message, hint=hint)
        case Standing.NEWLINE:
            hint = r"mind the line '\ No newline at end of file'"
            return SourceError("patch-newline", message, hint=hint)
        case _:
            hint = "make the patch anew against the pinned commit; no line may differ"
            return SourceError("patch-context", message, hint=hint)
