"""What is worth saying of one distribution, and what it calls for. Pure.

Room `doctor`. Each function takes facts and gives remarks; `docs/doctor.md` lists their words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.version import InvalidVersion, Version

from kernforge.binary.facts import Finding, Library, State
from kernforge.doctor.builtfor import BuiltFor, Need, mismatch
from kernforge.doctor.checkout import GitFacts
from kernforge.doctor.code import Answer, Standing
from kernforge.doctor.editable import Editable
from kernforge.doctor.files import Found
from kernforge.doctor.installed import Installed, unknown_version
from kernforge.doctor.model import Action, Remark
from kernforge.doctor.versions import Declared, Spoken, why_unknown
from kernforge.verify.coverage import Service
from kernforge.verify.fault import Fault

_FINDING_CALLS = {
    "metadata-missing": Action.REINSTALL,
    "files-missing": Action.REINSTALL,
    "record-garbled": Action.REINSTALL,
}
_SHOWN = 3
_LINKS = 2


def of_records(one: Installed) -> list[Remark]:
    """What is wrong with its records."""
    return [_of_finding(finding, _FINDING_CALLS.get(finding.word)) for finding in one.findings]


def _of_finding(finding: Finding, calls: Action | None) -> Remark:
    return Remark(word=finding.word, text=finding.text, calls=calls)


def of_version(
    one: Installed, said: Declared | None, spoken: tuple[Spoken, ...], git: GitFacts | None
) -> list[Remark]:
    """An unknown version and why; versions that disagree.

    A version that says nothing is never compared: neither "too old" nor "new enough" follows.
    """
    if unknown_version(one.version):
        shown = f"{one.version!r}" if one.version else "none"
        why = why_unknown(one.version, said, git) if said else "its metadata says no more"
        text = f"version unknown ({shown}): {why}"
        return [Remark(word="version-unknown", text=text, calls=Action.REINSTALL)]
    texts = [x for x in spoken if x.value is not None and not _same(x.value, one.version)]
    if not texts:
        return []
    told = ", ".join(f"{x.file} says {x.value!r}" for x in texts)
    text = f"metadata says version {one.version!r}, {told}"
    return [Remark(word="version-differs", text=text, calls=Action.REINSTALL)]


def _same(left: str, right: str | None) -> bool:
    """Whether two versions are one; a local part that only one of them has is no difference."""
    try:
        one, other = Version(left), Version(right or "")
    except InvalidVersion:
        return left == right
    return one.public == other.public and (
        one.local == other.local or None in {one.local, other.local}
    )


def of_checkout(one: Installed, git: GitFacts | None, libraries: Iterable[Found]) -> list[Remark]:
    """What the checkout says against what is installed from it."""
    if git is None:
        return []
    if git.trouble:
        return [
            Remark(
                word="git-unreadable", text=f"git cannot read {str(git.folder)!r}: {git.trouble}"
            )
        ]
    found = []
    named = one.named_commit
    if named and not git.commit.startswith(named):
        text = f"was installed at commit {named}, the checkout is at {git.commit[:12]} now"
        found.append(Remark(word="commit-moved", text=text))
    old = [x for x in libraries if x.path.is_relative_to(git.folder) and x.changed / 1e9 < git.date]
    if old:
        names = ", ".join(x.path.name for x in old[:_SHOWN])
        text = f"{names}: compiled before the commit that is checked out was made"
        found.append(Remark(word="library-older", text=text))
    return found


def of_leftovers(
    findings: Iterable[Finding], place: Editable | None, one: Installed
) -> list[Remark]:
    """Several builds of a module, and libraries that no RECORD lists."""
    recorded = {str(one.site / name) for name in one.files}
    found = []
    for finding in findings:
        calls: Action | None = Action.REBUILD if place else Action.REINSTALL
        whole = finding.word == "library-stale" and _all_recorded(finding, recorded)
        if whole or finding.word in {"library-replaced", "folder-unseen"}:
            calls = None
        if finding.word == "editable-gone":
            calls = Action.REINSTALL
        found.append(_of_finding(finding, calls))
    return found


def _all_recorded(finding: Finding, recorded: set[str]) -> bool:
    """Whether one wheel brought all builds of a module: several Pythons in one."""
    stem = finding.text.split("'")[1]
    names = re.findall(r"([\w.-]+\.so) \(", finding.text)
    folder = stem.rpartition("/")[0]
    return all(f"{folder}/{name}" in recorded for name in names)


def of_code(
    answers: tuple[Answer, ...], libraries: tuple[Library, ...], *, own: bool
) -> list[Remark]:
    """What its device code lacks for the devices.

    Args:
        answers: one a device.
        libraries: all of it.
        own: whether a recipe builds just this version, so that gaps are known to be gaps.
    """
    found = []
    for library in libraries:
        if library.state is State.UNREADABLE or (library.images and library.findings):
            text = f"{library.path} cannot be read whole: {library.findings[0].text}"
            found.append(Remark(word="library-unreadable", text=text, calls=Action.REINSTALL))
    for answer in answers:
        found += _gaps(answer, own=own)
    return found


def _gaps(answer: Answer, *, own: bool) -> list[Remark]:
    found = [_lack(answer, own=own), *_asides(answer)]
    return [remark for remark in found if remark is not None]


def _lack(answer: Answer, *, own: bool) -> Remark | None:
    """What the distribution as a whole lacks for a device."""
    device = answer.device
    match answer.standing:
        case Standing.NONE:
            held = sorted({image for row in answer.served for image in row.images}, key=_by_arch)
            text = f"holds nothing that device {device} can run (compiled for {', '.join(held)})"
            if answer.refusing or answer.accepted:
                text = f"every kernel that device {device} gets refuses to work there"
            return Remark(word="code-missing", text=text, calls=Action.REBUILD)
        case Standing.JIT:
            text = f"holds only PTX for device {device}, which the driver would have to compile"
            return Remark(word="code-jit-only", text=text, calls=Action.REBUILD)
        case Standing.PARTLY if lacking := _partly(answer):
            text = f"device {device}: {lacking}"
            return Remark(word="code-partly", text=text, calls=Action.REBUILD if own else None)
        case Standing.UNREAD:
            text = f"device {device}: not verified; its kernels could not be read"
            return Remark(word="code-unread", text=text)
        case Standing.PARTLY | Standing.SERVES:
            return None


def _asides(answer: Answer) -> list[Remark]:
    """What else is to be known of its code for a device."""
    device, found = answer.device, []
    if answer.spared:
        names = ", ".join(answer.spared)
        text = f"{names}: nothing for device {device}, and no build of the recipe would change that"
        found.append(Remark(word="code-spared", text=text))
    if answer.refusing and answer.standing is not Standing.NONE:
        text = f"{answer.refusing} kernels have code for device {device} that refuses to work there"
        found.append(Remark(word="code-refuses", text=text))
    if answer.accepted and answer.standing is not Standing.NONE:
        text = f"{answer.accepted} kernels refuse to work on device {device}, as the recipe knows"
        found.append(Remark(word="code-accepted", text=text))
    return found


def _by_arch(label: str) -> tuple[float, str]:
    return float(label.rstrip("afPTX+")), label


def _partly(answer: Answer) -> str:
    """Which libraries lack what; whether it is needed only a run tells."""
    lacking = [
        row for row in answer.served
        if row.path not in answer.spared
        and row.service in {Service.NONE, Service.JIT, Service.PARTIAL}
    ]  # fmt: skip
    told = [f"{row.path} has code of {row.kernels} of {row.total} kernels" for row in lacking]
    more = f" and {len(told) - _SHOWN} more libraries" if len(told) > _SHOWN else ""
    return "; ".join(told[:_SHOWN]) + more


def of_origin(
    built: BuiltFor, faults: tuple[Fault, ...], torch: tuple[str | None, str | None]
) -> list[Remark]:
    """Whether it was built for the torch (version, CUDA) that is here, and whether it links."""
    found = []
    if told := mismatch(built, *torch):
        found.append(Remark(word="torch-differs", text=told, calls=Action.REBUILD))
    if built.uses_torch and torch[0] is None:
        text = "its libraries need torch, and there is none"
        found.append(Remark(word="torch-missing", text=text, calls=Action.REINSTALL))
        return found
    found += [Remark(word=f.word, text=f.text, calls=Action.REBUILD) for f in faults[:_LINKS]]
    if len(faults) > _LINKS:
        text = f"{len(faults) - _LINKS} more faults of linking"
        found.append(Remark(word="links-more", text=text, calls=Action.REBUILD))
    return found


def of_needs(needs: Iterable[Need]) -> list[Remark]:
    """Requirements that do not hold: absent, another version, or a version that says nothing."""
    said = {
        "absent": "and it is not installed, though {have} is",
        "other": "and {have} is installed",
        "unknown": "and what is installed has no known version ({have}): not verified",
    }
    found = []
    for need in needs:
        told = said[need.state].format(have=need.have)
        if need.state == "absent" and need.have is None:
            told = "and it is not installed"
        text = f"requires {need.text}, {told}"
        found.append(Remark(word=f"requirement-{need.state}", text=text))
    return found
