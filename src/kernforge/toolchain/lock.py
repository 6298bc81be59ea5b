"""Locks: which packages, at which versions, with which hashes, an environment is made of.

A lock is a requirements file with hashes and no index address. Its head lists what was asked for,
so that a recipe which asks for something else is told so from files alone. uv resolves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from kernforge.errors import ToolchainError
from kernforge.process import Command, Runner

HEAD = "# kernforge lock 1"
_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9.+!_-]+)")
_NAME = re.compile(r"[A-Za-z0-9._-]*[A-Za-z0-9]")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One package: normalised name, version, and the SHA-256 of each file it may come from."""

    name: str
    version: str
    hashes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A read lock: what was asked for, and what answers it."""

    path: Path
    needs: tuple[str, ...]
    pins: tuple[Pin, ...]

    @property
    def content(self) -> list[list[object]]:
        """What the lock decides, as JSON: the part that keys cover."""
        return [[pin.name, pin.version, list(pin.hashes)] for pin in self.pins]

    def version_of(self, name: str) -> str | None:
        """The locked version of a package, or None."""
        return next((pin.version for pin in self.pins if pin.name == name), None)


def _broken(path: Path, number: int, what: str) -> ToolchainError:
    return ToolchainError(
        "lock-invalid",
        f"{path}:{number}: {what}",
        hint="locks are made by `kernforge lock`, not by hand",
    )


def _joined_lines(text: str) -> list[tuple[int, str]]:
    lines: list[tuple[int, str]] = []
    held, start = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        start = start or number
        held += raw.strip()
        if held.endswith("\\"):
            held = held[:-1] + " "
            continue
        lines.append((start, held.strip()))
        held, start = "", 0
    if held:
        lines.append((start, held.strip()))
    return lines


def _pin(path: Path, number: int, line: str) -> Pin:
    pinned, *options = line.split()
    match = _PIN.fullmatch(pinned)
    hashes = [_HASH.fullmatch(option) for option in options]
    if match is None:
        raise _broken(path, number, f"{pinned!r} is not NAME==VERSION")
    if not hashes or None in hashes:
        raise _broken(path, number, f"{match[1]!r} has no SHA-256, or an unknown option")
    found = tuple(sorted(h[1] for h in hashes if h))
    return Pin(name=normalised(match[1]), version=match[2], hashes=found)


def normalised(name: str) -> str:
    """A distribution name in its one spelling (the rule of the name normalisation spec)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_lock(path: Path, text: str) -> Lock:
    """Read a lock's text; ``path`` is for messages.

    Raises:
        ToolchainError: ``lock-invalid``, with file and line.
    """
    lines = _joined_lines(text)
    if not lines or lines[0][1] != HEAD:
        raise _broken(path, 1, f"the first line is not {HEAD!r}")
    needs = tuple(line.removeprefix("# needs: ") for _, line in lines if line.startswith("# needs"))
    pins: dict[str, Pin] = {}
    for number, line in lines:
        if line and not line.startswith("#"):
            pin = _pin(path, number, line)
            if pin.name in pins:
                raise _broken(path, number, f"{pin.name!r} is pinned twice")
            pins[pin.name] = pin
    return Lock(path=path, needs=needs, pins=tuple(pins[name] for name in sorted(pins)))


def load_lock(path: Path, *, make: str) -> Lock:
    """Read a lock file. ``make`` is the command that makes it, for the hint.

    Raises:
        ToolchainError: ``lock-missing`` or ``lock-invalid``.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise ToolchainError(
            "lock-missing", f"{path} is not there: no environment is locked", hint=f"run `{make}`"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ToolchainError("lock-invalid", f"{path} cannot be read: {error}") from error
    return read_lock(path, text)


def check_needs(lock: Lock, needs: tuple[str, ...], *, make: str) -> None:
    """Hold a lock against what the recipe asks for.

    Raises:
        ToolchainError: ``lock-mismatch``, naming what differs.
    """
    missing = [need for need in needs if need not in lock.needs]
    extra = [need for need in lock.needs if need not in needs]
    names = {normalised(m[0]) for n in needs if ";" not in n and (m := _NAME.match(n))}
    bare = sorted(name for name in names if lock.version_of(name) is None)
    if not missing and not extra and not bare:
        return
    parts = [f"it lacks {', '.join(missing)}"] if missing else []
    parts += [f"it holds {', '.join(extra)}"] if extra else []
    parts += [f"it pins no {', '.join(bare)}"] if bare and not missing else []
    raise ToolchainError(
        "lock-mismatch",
        f"{lock.path} was made for other requirements: {'; '.join(parts)}",
        hint=f"run `{make}`",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Uv:
    """The uv program with its own cache and the user's index settings (never in keys)."""

    program: str
    cache: Path
    env: tuple[tuple[str, str], ...]

    def command(self, *words: str) -> Command:
        """A uv call that writes only to our cache and asks nothing."""
        cache = ("--cache-dir", str(self.cache), "--no-progress")
        return Command(argv=(self.program, *words, *cache), env=self.env)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOrder:
    """What a lock is to be made for: requirements, Python and platform."""

    needs: tuple[str, ...]
    python: str
    platform: str
    title: str


_UV_PLATFORM = {
    "linux_x86_64": "x86_64-manylinux_2_28",
    "linux_aarch64": "aarch64-manylinux_2_28",
}


def resolve(order: LockOrder, *, uv: Uv, scratch: Path, runner: Runner) -> str:
    """Resolve an order with uv and return the lock's text. Wheels only: no build hook runs.

    Raises:
        ToolchainError: ``lock-unresolvable``, with uv's own reason.
    """
    wanted = scratch / "requirements.in"
    wanted.write_text("".join(f"{need}\n" for need in order.needs), encoding="utf-8")
    command = uv.command(
        "pip", "compile", str(wanted), "--generate-hashes", "--no-header", "--no-annotate",
        "--only-binary", ":all:", "--quiet", "--python-version", order.python,
        "--python-platform", _UV_PLATFORM[order.platform],
    )  # fmt: skip
    result = runner.run(command)
    if result.returncode != 0:
        raise ToolchainError(
            "lock-unresolvable",
            f"No set of packages answers {order.title}",
            hint="mend matrix or build.requires, or the index settings of uv",
            detail=result.last_lines,
        )
    head = [HEAD, f"# for: {order.title}", *(f"# needs: {need}" for need in order.needs)]
    return "\n".join(head) + "\n" + result.text
