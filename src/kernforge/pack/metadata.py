"""The wheel's own words: METADATA, WHEEL, tags, version. Pure text in, text out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from kernforge.errors import VerifyError

_TAG = re.compile(r"[a-z0-9_.]+-[a-z0-9_.]+-[a-z0-9_.]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelName:
    """A wheel's file name, taken apart. ``tag`` may stand for several, as ``py2.py3-none-any``."""

    distribution: str
    version: str
    build: str | None
    tag: str

    @property
    def stem(self) -> str:
        """What dist-info and data folders begin with."""
        return f"{self.distribution}-{self.version}"

    @property
    def tags(self) -> tuple[str, ...]:
        """Every single tag that the compressed one stands for, sorted."""
        python, abi, platform = (part.split(".") for part in self.tag.split("-"))
        return tuple(sorted(f"{p}-{a}-{q}" for p in python for a in abi for q in platform))

    def __str__(self) -> str:
        build = f"-{self.build}" if self.build else ""
        return f"{self.stem}{build}-{self.tag}.whl"


def parse_wheel_name(text: str) -> WheelName:
    """Take a wheel's file name apart.

    Raises:
        VerifyError: ``wheel-name``.
    """
    parts = text.removesuffix(".whl").split("-")
    tag = "-".join(parts[-3:])
    build = parts[2] if len(parts) == 6 else None
    whole = all(parts) and (build is None or build[0].isdecimal())
    if not (text.endswith(".whl") and len(parts) in {5, 6} and _TAG.fullmatch(tag) and whole):
        raise VerifyError(
            "wheel-name",
            f"{text!r} is not a wheel's file name: NAME-VERSION[-BUILD]-PYTHON-ABI-PLATFORM.whl",
        )
    return WheelName(distribution=parts[0], version=parts[1], build=build, tag=tag)


def header(text: str, key: str) -> list[str]:
    """All values of a key in the head of an email-like document, in order."""
    head = text.replace("\r\n", "\n").split("\n\n", 1)[0]
    prefix = f"{key.lower()}:"
    lines = [line for line in head.split("\n") if line.lower().startswith(prefix)]
    return [line[len(prefix) :].strip() for line in lines]


def one(text: str, key: str, where: str) -> str:
    """The one value of a key.

    Raises:
        VerifyError: ``metadata-invalid`` where it is not there exactly once.
    """
    values = header(text, key)
    if len(values) != 1:
        raise VerifyError(
            "metadata-invalid", f"{where} has {len(values)} lines {key!r}; one is the rule"
        )
    return values[0]


def with_header(text: str, key: str, value: str) -> str:
    """The document with a key's one line replaced."""
    head, gap, body = text.replace("\r\n", "\n").partition("\n\n")
    return re.sub(rf"(?im)^{key}:.*$", lambda _: f"{key}: {value}", head) + gap + body


def full_version(built: str, local: str | None) -> str:
    """The built version with our local part behind its own, normalised.

    Raises:
        VerifyError: ``version-invalid``.
    """
    try:
        version = Version(built)
    except InvalidVersion:
        raise VerifyError(
            "version-invalid", f"The built wheel calls itself version {built!r}, which is none"
        ) from None
    own = [version.local] if version.local else []
    parts = ".".join([*own, *([local] if local else [])])
    return str(Version(f"{version.public}+{parts}" if parts else version.public))


def check_version(built: str, *, exact: str | None, expect: str | None, where: str) -> None:
    """Hold the version that the backend wrote against the recipe's.

    Raises:
        VerifyError: ``version-unknown``, ``version-mismatch`` or ``version-invalid``.
    """
    public = full_version(built, None).split("+")[0]
    if public == "0.0.0" or public.startswith("0.0.0."):
        raise VerifyError(
            "version-unknown",
            f"{where}: the built wheel calls itself {built!r}: upstream did not find its version",
            hint="give version in the recipe; it is handed to setuptools-scm and its kin",
        )
    if exact is not None and full_version(exact, None).split("+")[0] != public:
        raise VerifyError(
            "version-mismatch",
            f"{where}: the built wheel says version {built!r}, the recipe {exact!r}",
            hint="mend version in the recipe, or give upstream's build the right one",
        )
    if expect is None:
        return
    try:
        allowed = SpecifierSet(f"=={expect}")
    except InvalidSpecifier:
        raise VerifyError(
            "version-mismatch", f"{where}: version.expect {expect!r} is no version pattern"
        ) from None
    if not allowed.contains(public, prereleases=True):
        raise VerifyError(
            "version-mismatch",
            f"{where}: the built wheel says version {built!r}, the recipe expects {expect!r}",
            hint="mend version.expect, or the pinned source",
        )


def check_distribution(built: str, wanted: str, where: str) -> None:
    """Hold the built name against the recipe's.

    Raises:
        VerifyError: ``distribution-mismatch``.
    """
    if canonicalize_name(built) != canonicalize_name(wanted):
        raise VerifyError(
            "distribution-mismatch",
            f"{where}: the built wheel is {built!r}, the recipe says {wanted!r}",
            hint=f"write distribution: {canonicalize_name(built)}",
        )


def wheel_text(name: WheelName, *, purelib: str) -> str:
    """The WHEEL file that agrees with a file name."""
    lines = ["Wheel-Version: 1.0", "Generator: kernforge", f"Root-Is-Purelib: {purelib}"]
    lines += [f"Tag: {tag}" for tag in name.tags]
    lines += [f"Build: {name.build}"] if name.build else []
    return "\n".join(lines) + "\n"


def _torch_lines(metadata: str) -> list[tuple[str, Requirement]]:
    found = []
    for line in header(metadata, "Requires-Dist"):
        try:
            need = Requirement(line)
        except InvalidRequirement:
            raise VerifyError(
                "metadata-invalid", f"METADATA asks for {line!r}, which is no requirement"
            ) from None
        if canonicalize_name(need.name) == "torch" and "extra" not in str(need.marker or ""):
            found.append((line, need))
    return found


def _implies(need: Requirement, minor: str) -> bool:
    """Whether a requirement admits nothing outside one minor release."""
    exact = [s for s in need.specifier if s.operator in {"==", "==="}]
    compatible = [s for s in need.specifier if s.operator == "~=" and s.version.count(".") >= 2]
    within = [s.version.removesuffix(".*") for s in (*exact, *compatible)]
    return any(v == minor or v.startswith((f"{minor}.", f"{minor}+")) for v in within)


def with_torch(metadata: str, torch: str, where: str) -> str:
    """The metadata with torch pinned to the minor release that the wheel was compiled for.

    Extensions of torch have no stable ABI between minor releases. A stricter requirement stays,
    and suffices where no marker limits it; one whose marker does not hold here excludes nothing.

    Raises:
        VerifyError: ``requires-conflict`` where upstream's requirement excludes ``torch``;
            ``metadata-invalid``.
    """
    minor = ".".join(torch.split(".")[:2])
    lines = _torch_lines(metadata)
    for line, need in lines:
        here = need.marker is None or need.marker.evaluate()
        if here and not need.specifier.contains(torch, prereleases=True):
            raise VerifyError(
                "requires-conflict",
                f"{where}: METADATA asks for {line!r}, the wheel is compiled for torch {torch}",
                hint="choose another torch in matrix, or patch upstream's requirement",
            )
    if any(need.marker is None and _implies(need, minor) for _, need in lines):
        return metadata
    pinned = f"Requires-Dist: torch=={minor}.*"
    head, gap, body = metadata.replace("\r\n", "\n").partition("\n\n")
    return f"{head.rstrip()}\n{pinned}{gap or chr(10)}{body}"
