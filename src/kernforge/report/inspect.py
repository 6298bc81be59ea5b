"""What `kernforge inspect` prints: a table of libraries and archs, kernels x archs, or JSON.

Room `report`: facts in, text or plain data out; reads no file. Tables fit 100 columns.
`docs/inspect.md` documents the JSON.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kernforge.binary.codec import to_json
from kernforge.binary.demangle import demangle
from kernforge.binary.facts import Facts, Finding, Library, TreeFacts, WheelFacts
from kernforge.binary.summary import (
    ArchSummary,
    arch_summaries,
    kernel_names,
    kernel_table,
    relocatable_summaries,
)

_WIDTH = 100
_BULK = ("names", "images")


def libraries_of(facts: Facts) -> tuple[Library, ...]:
    """The libraries of a thing, whatever it is."""
    match facts:
        case Library():
            return (facts,)
        case WheelFacts() | TreeFacts():
            return facts.libraries


def select_kernels(library: Library, pattern: str | None) -> dict[str, dict[str, int]]:
    """Kernels of a library whose name matches, each with its traps by arch.

    Args:
        library: the facts.
        pattern: shell pattern, or a part of the name where it holds none of ``*?[``; it may match
            the name as compiled or as C++ shows it. None: all kernels.
    """
    table = kernel_table(library)
    if pattern is None:
        return table
    shell = pattern if any(sign in pattern for sign in "*?[") else f"*{pattern}*"
    return {
        name: row
        for name, row in table.items()
        if fnmatchcase(name, shell) or fnmatchcase(demangle(name) or name, shell)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelChoice:
    """What ``--kernels`` asks for.

    Attributes:
        pattern: which kernels, or None for all.
        demangled: whether names are shown as C++ writes them.
    """

    pattern: str | None = None
    demangled: bool = False


def inspect_document(
    thing: str, facts: Facts, *, kernels: KernelChoice | None = None
) -> dict[str, Any]:
    """One element of the array that ``--json`` prints.

    Args:
        thing: what was asked about, as the user wrote it.
        facts: what was read.
        kernels: which kernels to list, or None for none.
    """
    document = to_json(facts)
    listed = [document] if isinstance(facts, Library) else document["libraries"]
    for item, library in zip(listed, libraries_of(facts), strict=True):
        for bulk in _BULK:
            del item[bulk]
        if kernels is not None:
            chosen = select_kernels(library, kernels.pattern)
            item["kernel_archs"] = chosen
            if kernels.demangled:
                item["demangled"] = {name: demangle(name) or name for name in chosen}
    if isinstance(facts, Library):
        document = {"format": document.pop("format"), "kind": document.pop("kind")} | {
            "findings": [],
            "libraries": [document],
        }
    return {"thing": thing, **document}


def _amount(size: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"


def _title(thing: str, facts: Facts) -> str:
    match facts:
        case WheelFacts():
            label = f"{facts.name} {facts.version}" if facts.name else facts.file
            return f"{label}  {' '.join(facts.tags)}  {_amount(facts.size)}"
        case TreeFacts():
            return f"{facts.name} {facts.version}" if facts.name else facts.path
        case Library():
            return thing


def _arch_row(summary: ArchSummary, note: str) -> tuple[str, str, str, str]:
    kernels = "not read" if summary.kernels is None else str(summary.kernels)
    trapping = f" ({summary.trapping} trap)" if summary.trapping else ""
    return (
        summary.label + note,
        kernels + trapping,
        _amount(summary.code_bytes),
        _amount(summary.stored_bytes),
    )


def _rows(library: Library) -> Iterable[tuple[str, str, str, str]]:
    for summary in arch_summaries(library):
        yield _arch_row(summary, "")
    for summary in relocatable_summaries(library):
        yield _arch_row(summary, " unlinked")
    if not library.images:
        yield str(library.state), "", "", ""


def archs_table(facts: Facts) -> Table:
    """Libraries, their modules and kernels, and a line an arch."""
    table = Table(box=None, pad_edge=False, padding=(0, 1), show_edge=False, expand=False)
    table.add_column("library", overflow="fold", ratio=1)
    table.add_column("modules", justify="right", no_wrap=True)
    table.add_column("kernels", justify="right", no_wrap=True)
    table.add_column("arch", no_wrap=True)
    table.add_column("kernels of arch", justify="right", no_wrap=True)
    table.add_column("code", justify="right", no_wrap=True)
    table.add_column("stored", justify="right", no_wrap=True)
    for library in libraries_of(facts):
        read = not library.images or any(i.kernels is not None for i in library.images)
        total = str(len(kernel_names(library))) if read else "not read"
        head = (Text(library.path), str(library.modules), total)
        for row in _rows(library):
            table.add_row(*head, *row)
            head = (Text(""), "", "")
    return table


def _print_findings(path: str, findings: tuple[Finding, ...], console: Console) -> None:
    for finding in findings:
        where = f"{path}: " if path else ""
        line = Text(f"finding[{finding.word}]: {where}{finding.text}", overflow="fold")
        console.print(line, width=min(console.width, _WIDTH))


def print_facts(thing: str, facts: Facts, console: Console) -> None:
    """Print what a thing holds; at most 100 columns wide, findings below the table."""
    width = min(console.width, _WIDTH)
    console.print(Text(_title(thing, facts), style="bold", overflow="fold"), width=width)
    console.print(archs_table(facts), width=width)
    if not isinstance(facts, Library):
        _print_findings("", facts.findings, console)
    for library in libraries_of(facts):
        _print_findings(library.path, library.findings, console)


def _mark(traps: int | None) -> str:
    if traps is None:
        return "-"
    return f"{traps} trap" if traps else "code"


def kernels_table(library: Library, kernels: KernelChoice) -> Table:
    """Kernels x archs of one library: ``code``, ``3 trap`` (instructions), ``ptx`` or ``-``."""
    labels = [summary.label for summary in arch_summaries(library)]
    table = Table(box=None, pad_edge=False, padding=(0, 1), show_edge=False)
    table.add_column("kernel", overflow="fold", ratio=1)
    for label in labels:
        table.add_column(label, justify="right", no_wrap=True)
    for name, row in select_kernels(library, kernels.pattern).items():
        shown = (demangle(name) or name) if kernels.demangled else name
        cells = [
            "ptx" if label.endswith("+PTX") and label in row else _mark(row.get(label))
            for label in labels
        ]
        table.add_row(Text(shown), *cells)
    return table


def print_kernels(facts: Facts, kernels: KernelChoice, console: Console) -> None:
    """Print kernels x archs of every library that has matching kernels."""
    width = min(console.width, _WIDTH)
    for library in libraries_of(facts):
        table = kernels_table(library, kernels)
        if table.row_count:
            console.print(Text(library.path, style="bold", overflow="fold"), width=width)
            console.print(table, width=width)
