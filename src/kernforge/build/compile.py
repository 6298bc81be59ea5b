"""Runs the backend of a plan in its workspace and collects the one wheel and the ledger."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

from kernforge.build.backend import BackendCall
from kernforge.build.compilecache import Counts, read_counts
from kernforge.build.effort import (
    FREE,
    LIVE,
    STATISTICS,
    Effort,
    fill_parallel,
    parallel_environment,
    steward_order,
)
from kernforge.build.failures import (
    KILLED_HINT,
    Failure,
    classify,
    first_complaint,
    own_words,
    progress,
)
from kernforge.build.ledger import Record, read_ledger, unexplained_objects, unseen_nvcc
from kernforge.build.live import State, read_state, steps_of
from kernforge.build.memory import limited
from kernforge.build.plan import Plan
from kernforge.build.speakers import is_complaint
from kernforge.build.workspace import Workspace, run_inside
from kernforge.errors import CacheError, CompileError
from kernforge.process import KILLED_FOR_TIME, Runner, Sink

_TAIL = 40
_LOG_BYTES = 64 << 20
_READ = 1 << 16  # characters read of a line; logs may hold megabytes without a newline
_LINE = 500  # and shown
_BUILD_FILES = frozenset({".py", ".txt", ".cmake", ".toml", ".cfg", ".mk", ".sh", ".in", ""})
_BUILD_FILE_BYTES = 1 << 20
_MENTIONS = 3
_KILLED = frozenset({-9, 137})


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a compile left: the wheel, one record a compiler call, the compile cache's counts."""

    wheel: Path
    records: tuple[Record, ...]
    counts: Counts

    @property
    def cache_text(self) -> str:
        """One line of what the compile cache did; empty where it was not asked.

        As ``compile cache 28 of 29 calls, 3 of 4 steps (CUBIN 0/1, PTX 1/1 ...)``.
        """
        asked = [record for record in self.records if record.cache is not None]
        whole = sum(record.cache == "whole" for record in asked)
        calls = f"{whole} of {len(asked)} calls" if asked else ""
        told = ", ".join(text for text in (calls, self.counts.text) if text)
        return f"compile cache {told}" if told else ""


def _shown(lines: list[str], records: tuple[Record, ...]) -> tuple[str, ...]:
    """The lines worth reading: from the first complaint to where ninja gives up, else the end.

    Left out are the steps that went well beside it, and the command, which fills a screen.
    """
    start = first_complaint(lines, records)
    if start is None:
        return tuple(_cut(line) for line in lines[-_TAIL:])
    if lines[start].startswith("FAILED:"):
        command = not any(map(is_complaint, lines[start + 1 : start + 2]))
        told = [lines[start], *lines[start + 1 + command :]]
    else:
        told = lines[max(0, start - 2) :]
    told = [line for line in takewhile(_before_end, told) if steps_of(line) is None]
    rest = [] if len(told) <= _TAIL else ["..."]
    return tuple(_cut(line) for line in [*told[:_TAIL], *rest])


def _before_end(line: str) -> bool:
    return not line.startswith("ninja: build stopped")


def _cut(line: str) -> str:
    return line if len(line) <= _LINE else f"{line[:_LINE]}..."


def _mentions(tree: Path, arch: str) -> list[str]:
    """Files and lines of a project that ask for an arch, such as ``70``, by their own words."""
    spelled = re.compile(rf"\b(?:compute|sm)_{arch}\b".encode())
    found: list[str] = []
    for path in sorted(tree.rglob("*")):
        if path.suffix not in _BUILD_FILES or path.is_symlink() or not path.is_file():
            continue
        if path.stat().st_size > _BUILD_FILE_BYTES:
            continue
        lines = enumerate(path.read_bytes().splitlines(), 1)
        name = path.relative_to(tree)
        found += [f"{name}:{number}" for number, line in lines if spelled.search(line)]
        if len(found) >= _MENTIONS:
            break
    return found[:_MENTIONS]


def _hint(found: Failure | None, tree: Path) -> str | None:
    if found is None:
        return None
    if found.named is None:
        return found.hint
    places = _mentions(tree, found.named)
    return f"{found.hint}; it stands in {', '.join(places)}" if places else found.hint


def _failure(
    plan: Plan, status: int, space: Workspace, log: Path, earlier: frozenset[float]
) -> CompileError | CacheError:
    """What a run died of; ``earlier`` are the starts of calls that it did not make itself."""
    every = read_ledger(space.folder("ledger"))
    records = tuple(record for record in every if record.start not in earlier)
    with log.open("rb") as file:
        text = file.read(_LOG_BYTES).decode("utf-8", "replace")
    lines = [line[:_READ] for line in text.splitlines()]
    detail = _shown(lines, records)
    if any("No space left on device" in line for line in lines):
        return CacheError(
            "disk-full",
            f"{plan.job.id}: the compile ran out of disk space; {progress(every)}; log: {log}",
            hint="free some, or choose another folder with --cache",
            detail=detail,
        )
    found = classify(lines, records, cuda=plan.job.target.cuda)
    end = f"signal {-status if status < 0 else status - 128}" if not 0 < status < 129 else status
    plain = own_words(records, lines) or f"the backend ended with {end}"
    what = _cut(found.text if found else plain)
    hint = _hint(found, space.folder("src"))
    return CompileError(
        found.word if found else "compile-failed",
        f"{plan.job.id}: {what}; {progress(every)}; log: {log}",
        hint=KILLED_HINT if found is None and status in _KILLED else hint,
        detail=detail,
    )


def stewarded(space: Workspace, call: BackendCall, order: Path) -> BackendCall:
    """A call that the steward runs by an order in the folder of our programs."""
    layout = space.layout
    steward = (layout.at("env/bin/python"), "-I", "-S", layout.at("shim/steward.py"))
    return replace(call, argv=(*steward, layout.at("shim", order.name), *call.argv))


def give_order(space: Workspace, effort: Effort, name: str = "order.json") -> Path:
    """Write what the steward is told into the folder of our programs."""
    bound = space.world.sandbox.bwrap is not None
    order = space.folder("shim") / name
    text = json.dumps(steward_order(effort, space.layout, bound=bound))
    order.unlink(missing_ok=True)
    order.touch(mode=0o600)  # a storage's secrets may stand in it
    order.write_text(text, encoding="utf-8")
    for left in (LIVE, STATISTICS):
        (space.folder("ledger") / left).unlink(missing_ok=True)
    return order


def tell_free(space: Workspace, free: int) -> None:
    """Tell the steward how many bytes the build may still take: it sees no control groups.

    On a full disk nothing new is told; the compiles say themselves what is wrong.
    """
    path = space.folder("shim") / FREE
    draft = path.with_suffix(".draft")
    with contextlib.suppress(OSError):
        draft.write_text(str(free), encoding="ascii")
        draft.replace(path)


def read_statistics(space: Workspace) -> Counts:
    """The counts of the compile cache's server of the last run; zeros where there was none."""
    path = space.folder("ledger") / STATISTICS
    return read_counts(path.read_bytes()) if path.is_file() else Counts()


def _last_state(space: Workspace) -> State | None:
    path = space.folder("ledger") / LIVE
    return read_state(path.read_bytes()) if path.is_file() else None


def _parallel(call: BackendCall, effort: Effort) -> BackendCall:
    argv = tuple(fill_parallel(word, effort) for word in call.argv)
    env = tuple((key, fill_parallel(value, effort)) for key, value in call.env)
    return replace(call, argv=argv, env=(*env, *parallel_environment(effort)))


def compile_wheel(
    plan: Plan, space: Workspace, sink: Sink, *, effort: Effort, runner: Runner
) -> Built:
    """Run the backend under its steward and return what it built.

    Args:
        plan: what is built.
        space: where.
        sink: hears the backend.
        effort: what this run may use.
        runner: starts it.

    Raises:
        CompileError: ``compile-failed`` or the class that `failures` gives it, ``timeout``,
            ``wheel-count`` or ``object-unexplained``.
        CacheError: ``disk-full``.
    """
    earlier = frozenset(record.start for record in read_ledger(space.folder("ledger")))
    order = give_order(space, effort)
    call = stewarded(space, _parallel(plan.call, effort), order)
    try:
        with limited(effort.budget.hard) as group:
            status = run_inside(space, call, sink, runner=runner, group=group)
    finally:
        order.unlink(missing_ok=True)
    if status == KILLED_FOR_TIME:
        state = _last_state(space)
        busy = [one.what for one in state.running] if state else []
        what = f" while it made {', '.join(busy[:_MENTIONS])}" if busy else ""
        done = progress(read_ledger(space.folder("ledger")))
        raise CompileError(
            "timeout",
            f"{plan.job.id}: stopped after {sink.timeout:.0f} s{what}; {done}; log: {sink.log}",
            hint="raise build.timeout, or find what hangs",
        )
    if status != 0:
        raise _failure(plan, status, space, sink.log, earlier)
    wheels = sorted(space.folder("out").glob("*.whl"))
    if len(wheels) != 1:
        raise CompileError(
            "wheel-count", f"{plan.job.id}: the backend left {len(wheels)} wheels, not one"
        )
    records = read_ledger(space.folder("ledger"))
    folders = [space.folder(name) for name in ("build", "src")]
    strange = [path for f in folders for path in unexplained_objects(f, records)]
    if strange := [*unseen_nvcc(records), *strange]:
        raise CompileError(
            "object-unexplained",
            f"{plan.job.id}: {strange[0]!r} was compiled past the shim ({len(strange)} in all)",
            hint="the project calls a compiler by its own path; patch that call out",
        )
    return Built(wheel=wheels[0], records=records, counts=read_statistics(space))
