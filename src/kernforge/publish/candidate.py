"""A wheel that asks to be published: read from its bytes, held against its target and verdict.

Room `publish`. Nothing of the wheel is executed. What an index says of a wheel is read here from
the wheel itself; only the verdict's answers come from outside.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from kernforge.binary.wheel import read_wheel
from kernforge.errors import KernforgeError, PublishError
from kernforge.pack.built import Built, read_built, read_texts
from kernforge.pack.metadata import header, parse_wheel_name
from kernforge.publish.listing import FILE_NAME, Claim, Listed
from kernforge.verify.policy import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A wheel that may be published: where it lies, its texts, and its record.

    Attributes:
        path: the wheel.
        metadata: its METADATA, as it stands in the wheel.
        provenance: the statement to lay beside it, or None.
        listed: its record; ``published`` is empty.
    """

    path: Path
    metadata: bytes
    provenance: bytes | None
    listed: Listed


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unsound(wheel: Path, why: str) -> PublishError:
    """The one way to tell of a wheel that must not be served."""
    return PublishError("wheel-unsound", f"{wheel.name} is not published: {why}")


def check_whole(wheel: Path) -> None:
    """Hold every byte of a wheel against its own RECORD and names.

    Raises:
        PublishError: ``wheel-unsound`` with all that is wrong as its detail.
    """
    try:
        findings = read_wheel(wheel, kernels=False).findings
    except KernforgeError as error:
        raise unsound(wheel, error.message) from error
    if findings:
        detail = tuple(finding.text for finding in findings)
        raise PublishError(
            "wheel-unsound", f"{wheel.name} is not published: {detail[0]}", detail=detail
        )


def claims_of(verdict: Verdict, *, expected: bool = False) -> tuple[Claim, ...]:
    """What a verdict says of each device; ``expected`` where its code was made for another."""
    return tuple(
        Claim(
            device=str(device.device),
            levels=tuple((level, answer.value) for level, answer in device.levels),
            expected=expected,
        )
        for device in verdict.devices
    )


def check_verdict(wheel: Path, verdict: Verdict) -> None:
    """Let through only what reaches the level that its recipe demands.

    Raises:
        PublishError: ``wheel-short`` with every fault as its detail.
    """
    if verdict.passed:
        return
    faults = tuple(fault.text for fault in verdict.faults)
    open_ones = [note for note in verdict.notes if "not verified" in note]
    why = (*faults, *open_ones, "the level is not verified")[0]
    raise PublishError(
        "wheel-short",
        f"{wheel.name} does not reach {verdict.require!r}: {why}",
        hint="nothing was published; `kernforge verify WHEEL --recipe NAME` tells the whole",
        detail=faults or verdict.notes,
    )


def _check_target(wheel: Path, metadata: str, built: Built) -> None:
    """Refuse a wheel that no installer would put where it was built for."""
    for need in header(metadata, "Requires-Dist"):
        try:
            wanted = Requirement(need)
        except InvalidRequirement as error:
            raise unsound(wheel, f"METADATA asks for {need!r}, which is no requirement") from error
        is_torch = canonicalize_name(wanted.name) == "torch" and wanted.marker is None
        if is_torch and built.torch and not wanted.specifier.contains(built.torch, True):
            raise _excluded(wheel, need, f"torch {built.torch}")
    for versions in header(metadata, "Requires-Python"):
        try:
            allowed = SpecifierSet(versions)
        except InvalidSpecifier as error:
            raise unsound(wheel, f"METADATA requires Python {versions!r}") from error
        if not allowed.contains(f"{built.python}.99"):
            raise _excluded(wheel, f"Python {versions}", f"Python {built.python}")


def _excluded(wheel: Path, need: str, target: str) -> PublishError:
    return PublishError(
        "target-excluded",
        f"{wheel.name} asks for {need!r} and was built for {target}: nobody could install it",
        hint="patch upstream's requirement, or choose another target",
    )


def make_candidate(wheel: Path, verdict: Verdict, *, provenance: bytes | None) -> Candidate:
    """Read and check a wheel that is to be published.

    Args:
        wheel: the file.
        verdict: what was found of it.
        provenance: the text of its statement, or None.

    Raises:
        PublishError: ``wheel-unsound``, ``wheel-short``, ``target-excluded`` or
            ``provenance-differs``.
        VerifyError: ``wheel-foreign``.
    """
    if FILE_NAME.fullmatch(wheel.name) is None:
        raise unsound(wheel, "its name holds characters that no index serves")
    check_whole(wheel)
    texts = read_texts(wheel)
    built = read_built(wheel, texts)
    check_verdict(wheel, verdict)
    metadata = texts["METADATA"].decode("utf-8", "replace")
    _check_target(wheel, metadata, built)
    sha256 = file_sha256(wheel)
    if provenance is not None:
        check_provenance(wheel, sha256, provenance)
    name = parse_wheel_name(wheel.name)
    listed = Listed(
        file=wheel.name,
        project=str(canonicalize_name(name.distribution)),
        version=name.version,
        leaf=built.leaf,
        sha256=sha256,
        size=wheel.stat().st_size,
        metadata_sha256=hashlib.sha256(texts["METADATA"]).hexdigest(),
        provenance_sha256=None if provenance is None else hashlib.sha256(provenance).hexdigest(),
        requires_python=next(iter(header(metadata, "Requires-Python")), None),
        summary=next(iter(header(metadata, "Summary")), ""),
        recipe=built.recipe,
        job=built.job,
        build_key=built.build_key,
        archs=built.archs,
        cuda=built.cuda,
        torch=built.torch,
        python=built.python,
        require=verdict.require,
        claims=claims_of(verdict),
        published="",
    )
    return Candidate(path=wheel, metadata=texts["METADATA"], provenance=provenance, listed=listed)


def check_provenance(wheel: Path, sha256: str, statement: bytes) -> None:
    """Hold a provenance statement against the wheel that it lies beside.

    Raises:
        PublishError: ``provenance-differs``.
    """
    try:
        subjects = json.loads(statement)["subject"]
        told = {subject["digest"]["sha256"] for subject in subjects}
    except (ValueError, KeyError, TypeError, RecursionError):
        told = set()
    if told != {sha256}:
        raise PublishError(
            "provenance-differs",
            f"The provenance beside {wheel.name} is not of these bytes",
            hint="build it again, or take the statement away",
        )
