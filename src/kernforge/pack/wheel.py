"""From the backend's wheel to ours: honest name, version, tags and RECORD, `build.json` inside."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from kernforge.errors import VerifyError
from kernforge.pack.archive import write_wheel
from kernforge.pack.metadata import (
    WheelName,
    check_distribution,
    check_version,
    full_version,
    one,
    parse_wheel_name,
    wheel_text,
    with_header,
    with_torch,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackOrder:
    """What a wheel is to say of itself.

    Attributes:
        where: the job, for messages.
        distribution: the recipe's distribution name.
        exact: the recipe's version, or None where it is read from upstream.
        expect: the pattern that upstream's version must match, or None.
        local: local version part, or None.
        build_tag: begins with a digit.
        epoch: time stamp of all members, seconds.
        torch: the version of torch that the wheel was compiled for, or None.
    """

    where: str
    distribution: str
    exact: str | None
    expect: str | None
    local: str | None
    build_tag: str
    epoch: int
    torch: str | None = None


def build_tag(key: str) -> str:
    """The build tag of a BuildKey: new bytes never reuse a file name."""
    return f"1kf{key[:10]}"


def final_name(built: str, metadata: str, order: PackOrder) -> WheelName:
    """The name a wheel gets, after its name and version are held against the recipe.

    Raises:
        VerifyError: ``distribution-mismatch``, ``version-mismatch``, ``version-invalid``,
            ``metadata-invalid`` or ``wheel-name``.
    """
    name = one(metadata, "Name", f"{order.where}: METADATA")
    version = one(metadata, "Version", f"{order.where}: METADATA")
    check_distribution(name, order.distribution, order.where)
    check_version(version, exact=order.exact, expect=order.expect, where=order.where)
    return WheelName(
        distribution=canonicalize_name(name).replace("-", "_"),
        version=full_version(version, order.local),
        build=order.build_tag,
        tag=parse_wheel_name(built).tag,
    )


def dist_info(tree: Path, where: str) -> Path:
    """The one dist-info folder of an unpacked wheel.

    Raises:
        VerifyError: ``metadata-invalid``.
    """
    folders = sorted(path for path in tree.glob("*.dist-info") if path.is_dir())
    if len(folders) != 1:
        raise VerifyError(
            "metadata-invalid", f"{where}: the wheel has {len(folders)} dist-info folders, not one"
        )
    return folders[0]


def _read(info: Path, file: str, where: str) -> str:
    try:
        return (info / file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise VerifyError("metadata-invalid", f"{where}: the wheel has no {file}") from None
    except UnicodeDecodeError as error:
        raise VerifyError("metadata-invalid", f"{where}: {file} is not UTF-8: {error}") from None


def repack(
    tree: Path, built: str, order: PackOrder, *, documents: tuple[tuple[str, str], ...], into: Path
) -> Path:
    """Write the final wheel from an unpacked one and return its path.

    Args:
        tree: the backend's wheel, unpacked (and stripped); changed here.
        built: the file name that the backend gave.
        order: what the wheel is to say.
        documents: name and text of files added to dist-info.
        into: folder of the new wheel.

    Raises:
        VerifyError: as :func:`final_name` and :func:`with_torch`.
    """
    info = dist_info(tree, order.where)
    metadata = _read(info, "METADATA", order.where)
    purelib = one(_read(info, "WHEEL", order.where), "Root-Is-Purelib", f"{order.where}: WHEEL")
    name = final_name(built, metadata, order)
    metadata = with_header(metadata, "Version", name.version)
    if order.torch is not None:
        metadata = with_torch(metadata, order.torch, order.where)
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    (info / "WHEEL").write_text(wheel_text(name, purelib=purelib), encoding="utf-8")
    for file, text in documents:
        (info / file).parent.mkdir(exist_ok=True)
        (info / file).write_text(text, encoding="utf-8")
    old = info.name.removesuffix(".dist-info")
    for folder in (info, tree / f"{old}.data"):
        if folder.exists():
            folder.rename(tree / f"{name.stem}{folder.suffix}")
    target = into / str(name)
    write_wheel(tree, target, info_dir=f"{name.stem}.dist-info", epoch=order.epoch)
    return target
