"""What `kernforge doctor` prints: a table of distributions, then what each needs; or JSON.

Room `report`: a diagnosis in, text or plain data out. `docs/doctor.md` documents both.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kernforge.doctor.advice import binary_only
from kernforge.doctor.checkout import GitFacts
from kernforge.doctor.code import Standing
from kernforge.doctor.installed import unknown_version
from kernforge.doctor.model import Action, Case, Diagnosis, Remark
from kernforge.doctor.runtime import Program
from kernforge.report.errors import printable
from kernforge.verify.policy import Answer as Reached

_WIDTH = 110
_PIPE = 100
_ACTIONS = {Action.KEEP: "green", Action.REBUILD: "bold red", Action.REINSTALL: "bold yellow"}
_STANDINGS = {
    Standing.SERVES: "green",
    Standing.PARTLY: "yellow",
    Standing.JIT: "yellow",
    Standing.NONE: "red",
    Standing.UNREAD: "yellow",
}
_REACHED = {
    Reached.REACHED: ("yes", "green"),
    Reached.FAILED: ("no", "red"),
    Reached.NOT_VERIFIED: ("not verified", "yellow"),
}


def _text(text: str, style: str = "") -> Text:
    return Text(printable(text), style=style, overflow="fold")


def print_diagnosis(found: Diagnosis) -> None:
    """Print a diagnosis; at most 110 columns wide."""
    console = Console(highlight=False)
    console.width = min(console.width, _WIDTH) if console.is_terminal else _PIPE
    _print_head(found, console)
    console.print(_table(found))
    for case in found.cases:
        if _details(case):
            _print_case(case, console)
    _print_compiling(found, console)
    _print_troubles(found, console)
    _print_sum(found, console)


def _print_head(found: Diagnosis, console: Console) -> None:
    python = found.interpreter
    console.print(_text(f"{python.program}", "bold"))
    rows = [("Python", python.version + ("" if python.venv else "  (no virtual environment)"))]
    cuda = f"CUDA {found.cuda}" if found.cuda else "without CUDA"
    rows.append(("torch", f"{found.torch}  {cuda}" if found.torch else "none"))
    devices = ", ".join(map(str, found.devices))
    rows.append(
        ("devices", f"{devices}  ({found.devices_note})" if devices else found.devices_note)
    )
    if found.sandbox is not None:
        rows.append(("imports", f"not verified: {found.sandbox}"))
    console.print(_pairs(rows))
    console.print()


def _pairs(rows: list[tuple[str, str]]) -> Padding:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim", min_width=9)
    grid.add_column(overflow="fold")
    for name, text in rows:
        grid.add_row(_text(name), _text(text))
    return Padding(grid, (0, 0, 0, 2), expand=False)


def _table(found: Diagnosis) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="dim")
    table.add_column("distribution", overflow="fold", min_width=14)
    table.add_column("version", overflow="fold", min_width=8)
    table.add_column("compiled for", overflow="fold", ratio=1)
    for device in found.devices:
        table.add_column(str(device), no_wrap=True)
    table.add_column("imports", no_wrap=True)
    table.add_column("advice", no_wrap=True)
    for case in found.cases:
        advice = case.advice.action
        reached, style = _REACHED[case.imports.answer]
        if case.imports.answer is Reached.NOT_VERIFIED and not case.imports.remarks:
            reached, style = "-", "dim"
        table.add_row(
            _text(case.installed.name),
            _version(case),
            _compiled(case),
            *(_standing(case, str(device)) for device in found.devices),
            _text(reached, style),
            _text(advice.value, _ACTIONS[advice]),
        )
    return table


def _version(case: Case) -> Text:
    version = case.installed.version
    return _text(version or "none", "red" if unknown_version(version) else "")


def _compiled(case: Case) -> Text:
    if not case.coded:
        return _text("no device code", "dim")
    ptx = [f"PTX of {case.ptx[-1]}"] if case.ptx else []
    return _text(", ".join([*([" ".join(case.archs)] if case.archs else []), *ptx]) or "not read")


def _standing(case: Case, device: str) -> Text:
    answer = next((a for a in case.answers if str(a.device) == device), None)
    if answer is None:
        return _text("not read", "yellow") if case.coded else _text("-", "dim")
    style = "dim" if binary_only(case.installed.key) else _STANDINGS[answer.standing]
    return _text(answer.standing.value, style)


def _details(case: Case) -> bool:
    """Whether a distribution has more to say than its row."""
    calls = any(remark.calls for remark in case.remarks)
    if binary_only(case.installed.key):
        return calls
    plain = {"code-partly"} if case.installed.key == "torch" else set()
    told = calls or any(remark.word not in plain for remark in case.remarks)
    return bool(told or case.place or case.git or case.installed.built or case.advice.recipe)


def _print_case(case: Case, console: Console) -> None:
    console.print()
    one = case.installed
    head = _text(f"{one.name} {one.version or ''}".rstrip(), "bold")
    head.append("  ")
    head.append(case.advice.action.value, style=_ACTIONS[case.advice.action])
    console.print(head)
    console.print(_pairs(_facts(case)))
    for remark in case.remarks:
        console.print(_remark(remark))
    for command in case.advice.commands:
        words = command if command.startswith("#") else f"$ {command}"
        style = "dim" if command.startswith("#") else "bold cyan"
        console.print(_text(f"    {words}", style), soft_wrap=True)


def _remark(remark: Remark) -> Padding:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    mark = _text("!", _ACTIONS[remark.calls]) if remark.calls else _text("-", "dim")
    grid.add_row(mark, _text(remark.text))
    return Padding(grid, (0, 0, 0, 2), expand=False)


def _facts(case: Case) -> list[tuple[str, str]]:
    one, place, git = case.installed, case.place, case.git
    rows = []
    if place is not None:
        rows.append(("editable", f"{place.root}  ({place.how})"))
        rows += [("module", f"{name} in {path}") for name, path in place.modules[:4]]
    elif one.direct is not None:
        commit = f" at {one.direct.commit[:12]}" if one.direct.commit else ""
        rows.append(("from", f"{one.direct.url}{commit}"))
    if git is not None and not git.trouble:
        rows += _git_rows(git, "git" if place else "git now")
    elif place is not None and git is None:
        rows.append(("git", "no .git above it: the commit is not known"))
    elif git is None and one.named_commit:
        rows.append(("commit", f"{one.named_commit}, by its version"))
    rows += _version_rows(case)
    rows += _built_rows(case)
    rows += [
        (f"on {answer.device}", f"its loader takes {', '.join(answer.loaded)}")
        for answer in case.answers
        if answer.loaded
    ]
    return rows


def _git_rows(git: GitFacts, label: str) -> list[tuple[str, str]]:
    day = datetime.fromtimestamp(git.date, tz=UTC).strftime("%Y-%m-%d")
    state = [f"{git.commit[:12]} of {day}", f"branch {git.branch}" if git.branch else "no branch"]
    if git.tag is not None:
        state.append(f"{git.ahead} commits after {git.tag}" if git.ahead else f"tag {git.tag}")
    else:
        state.append(f"{git.tags} tags, none reachable" if git.tags else "no tags")
    state += ["shallow"] if git.shallow else []
    many = len(git.changed)
    changed = (
        f"{many} file{'s' if many > 1 else ''} changed, as {git.changed[0]}" if many else "clean"
    )
    rows = [(label, ", ".join([*state, changed]))]
    return [*rows, ("remote", git.remote or "none: nobody else could fetch this commit")]


def _version_rows(case: Case) -> list[tuple[str, str]]:
    if case.place is None and not unknown_version(case.installed.version):
        return []
    said = [
        f"{x.file} says {x.value!r}" if x.value else f"{x.file} computes it" for x in case.spoken
    ]
    names = {name for name, _ in case.place.modules} if case.place else set()
    spoken = {x.file.split("/")[0].removesuffix(".py") for x in case.spoken if x.exposed}
    silent = [f"{name} has no __version__" for name in sorted(names - spoken)]
    imported = [f"{name} said {version!r} when imported" for name, version in case.imports.versions]
    told = [f"metadata says {case.installed.version or 'none'}", *said, *silent, *imported]
    return [("version", "; ".join(told))]


def _built_rows(case: Case) -> list[tuple[str, str]]:
    built = case.built
    parts = []
    if built.torch:
        parts.append(f"torch {built.torch.value} (by its {built.torch.source})")
    elif built.uses_torch:
        parts.append("a torch that nothing names")
    if built.cuda:
        parts.append(f"CUDA {built.cuda.value} (by its {built.cuda.source})")
    rows = [("built for", ", ".join(parts))] if parts and case.coded else []
    if case.installed.built is not None:
        own = case.installed.built
        rows.append(("built by", f"kernforge, recipe {own.recipe}, key {own.build_key[:16]}"))
    elif case.advice.recipe:
        unknown = unknown_version(case.installed.version)
        other = "  (the version here is not known)" if unknown else "  (for another version)"
        other = "" if case.advice.exact else other
        rows.append(("recipe", case.advice.recipe + other))
    return rows


def _print_compiling(found: Diagnosis, console: Console) -> None:
    if not found.compiling:
        return
    console.print()
    console.print(_text("Compiles at run time", "bold"))
    rows = [(one.distribution, f"{one.what}: {', '.join(one.troubles) or 'all is there'}")
            for one in found.compiling]  # fmt: skip
    rows += [
        (program.name, f"{program.path}{_release(program)}")
        for program in found.programs
        if program.path
    ]
    console.print(_pairs(rows))


def _release(program: Program) -> str:
    if program.name != "nvcc":
        return ""
    known = f"  CUDA {program.release}"
    return known if program.release else "  (release not known: what it compiles is not verified)"


def _print_troubles(found: Diagnosis, console: Console) -> None:
    if found.troubles or found.notes:
        console.print()
        console.print(_text("The environment", "bold"))
    for trouble in found.troubles:
        console.print(_remark(Remark(word=trouble.word, text=trouble.text, calls=Action.REINSTALL)))
        console.print(Padding(_text(trouble.hint, "dim"), (0, 0, 0, 4), expand=False))
    for note in found.notes:
        console.print(_remark(Remark(word="note", text=note)))


def _print_sum(found: Diagnosis, console: Console) -> None:
    counts = Counter(case.advice.action for case in found.cases)
    told = ", ".join(f"{counts[action]} {action.value}" for action in Action if counts[action])
    others = f"; {found.others} others have nothing to do with GPUs" if found.others else ""
    console.print()
    console.print(_text(f"{told or 'nothing to judge'}{others}", "bold"))
    kept = "keep: nothing was found that speaks against it. " if counts[Action.KEEP] else ""
    lines = [f"{kept}Nothing here has run on a GPU."]
    if any(binary_only(case.installed.key) and case.answers for case in found.cases):
        lines.append(
            "NVIDIA's own libraries are told, not judged: some of them link code at run time."
        )
    for line in lines:
        console.print(_text(line, "dim"))
