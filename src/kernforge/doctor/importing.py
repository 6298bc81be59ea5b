"""Whether distributions import in the environment that is there: in a sandbox, without a GPU.

Room `doctor`. The environment, its interpreter and the folders of editable packages are shown at
their own places, read-only; there is no network, no home, and a driver library that answers "no
device". Without a sandbox nothing of the environment is executed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernforge.binary.abi import module_names
from kernforge.binary.facts import Library, WheelFacts
from kernforge.binary.tags import python_module
from kernforge.doctor.files import is_folder, regular
from kernforge.doctor.interpreter import Interpreter
from kernforge.doctor.model import Action, Imports, Remark
from kernforge.errors import KernforgeError
from kernforge.process import Command, Runner
from kernforge.toolchain.host import Host
from kernforge.toolchain.sandbox import Mount, Sandbox, bwrap_argv, inside_env, shown_by_system
from kernforge.verify.fault import Fault
from kernforge.verify.loading import (
    PROBE,
    ImportOrder,
    ImportWorld,
    driver_needs,
    judge_imports,
    make_drivers,
)
from kernforge.verify.policy import Answer
from kernforge.verify.surroundings import Surroundings

_SECONDS = 120
_EXTENSIONS = 64
_HOPS = 10
_SHOWN = 3
_CALLS = {
    "library-missing": Action.REBUILD,
    "symbol-undefined": Action.REBUILD,
    "image-missing": Action.REBUILD,
    "module-other-python": None,
}
"""What a fault calls for; all that is not named: reinstall."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What of one distribution is tried.

    Attributes:
        key: the distribution.
        root: the folder that its libraries' paths are relative to.
        libraries: those that are loaded by path.
        modules: import names.
        owns: folders and files that are its own; a module from elsewhere is another's.
    """

    key: str
    root: Path
    libraries: tuple[Library, ...]
    modules: tuple[str, ...]
    owns: tuple[Path, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Where it is tried.

    Attributes:
        sandbox: what holds here.
        host: gives the compiler of the driver library.
        runner: runs compiler and probe.
        scratch: an empty folder.
        folders: folders of the environment beyond its prefix that must be shown.
        torch: whether torch is in it.
    """

    sandbox: Sandbox
    host: Host
    runner: Runner
    scratch: Path
    folders: tuple[Path, ...]
    torch: bool


def not_tried(why: str) -> Imports:
    """The answer where nothing was tried."""
    return Imports(
        answer=Answer.NOT_VERIFIED, remarks=(Remark(word="import-not-verified", text=why),)
    )


def try_imports(
    subjects: tuple[Subject, ...], interpreter: Interpreter, room: Room, around: Surroundings
) -> dict[str, Imports]:
    """Load and import all subjects in one run of the probe; an answer for each."""
    document = _document(subjects, interpreter, room, around)
    if isinstance(document, str):
        return {one.key: not_tried(document) for one in subjects}
    return {one.key: _judged(one, document, interpreter) for one in subjects}


def _document(
    subjects: tuple[Subject, ...], interpreter: Interpreter, room: Room, around: Surroundings
) -> dict[str, Any] | str:
    """What the probe answers, or why it does not."""
    if room.sandbox.bwrap is None:
        return f"there is no sandbox to import it in ({room.sandbox.reason})"
    world = ImportWorld(
        environment=interpreter.prefix,
        sandbox=room.sandbox,
        host=room.host,
        runner=room.runner,
        scratch=room.scratch,
    )
    for name in ("driver", "probe", "answer", "empty"):
        (room.scratch / name).mkdir()
    try:
        libraries = [library for one in subjects for library in one.libraries]
        make_drivers(room.scratch / "driver", driver_needs(libraries, around), world)
    except KernforgeError as error:
        return f"the stand-in for the driver library cannot be made: {error.message}"
    request = _request(subjects, interpreter, room)
    shutil.copyfile(PROBE, room.scratch / "probe/import_probe.py")
    (room.scratch / "probe/request.json").write_text(json.dumps(request), encoding="utf-8")
    limit = _SECONDS * (2 + len(request["extensions"]) + len(request["imports"]))
    result = room.runner.run(_command(interpreter, room), timeout=limit)
    try:
        answer: dict[str, Any] = json.loads((room.scratch / "answer/answer.json").read_bytes())
    except (OSError, ValueError):
        why = result.last_lines[-1] if result.last_lines else f"status {result.returncode}"
        return f"the probe does not run in this environment: {why}"
    return answer


def _request(subjects: tuple[Subject, ...], interpreter: Interpreter, room: Room) -> dict[str, Any]:
    extensions = {
        str(one.root / library.path): _initialises(library)
        for one in subjects
        for library in _loadable(one, interpreter)[:_EXTENSIONS]
    }
    return {
        "root": room.sandbox.layout.at("empty"),
        "torch": room.torch,
        "extensions": [{"path": path, "module": name} for path, name in extensions.items()],
        "imports": list(dict.fromkeys(name for one in subjects for name in one.modules)),
        "seconds": _SECONDS,
    }


def _loadable(one: Subject, interpreter: Interpreter) -> list[Library]:
    """Libraries that this Python may load: those that are modules, or hold device code."""
    tags = {None, "abi3", "cp" + interpreter.python.replace(".", "")}
    return [
        x
        for x in one.libraries
        if x.elf is not None
        and x.elf.kind == "shared"
        and python_module(x.path) in tags
        and (x.images or module_names(x.elf))
    ]


def _initialises(library: Library) -> str | None:
    """The module that a library is loaded as: the one it is named for, else its first."""
    names = module_names(library.elf) if library.elf else ()
    own = Path(library.path).name.partition(".")[0]
    return own if own in names else next(iter(names), None)


def shown(interpreter: Interpreter, folders: Iterable[Path]) -> tuple[Path, ...]:
    """Folders that the sandbox must show beside the system's, without those inside others."""
    wanted = [interpreter.prefix, *interpreter.path, *interpreter.stdlib, *folders]
    place = interpreter.program
    for _ in range(_HOPS):  # each program on the way to the real one has its own prefix
        wanted.append(place.parent.parent)
        if not place.is_symlink():
            break
        place = place.parent / os.readlink(place)  # noqa: PTH115 - the link as it is written
    found: list[Path] = []
    for folder in sorted({Path(os.path.abspath(one)) for one in wanted}):  # noqa: PTH100 - no links
        hidden = len(folder.parts) < 2 or shown_by_system(folder) or folder == Path("/usr")
        if not hidden and not any(folder.is_relative_to(one) for one in found):
            found.append(folder)
    return tuple(folder for folder in found if is_folder(folder))


def _command(interpreter: Interpreter, room: Room) -> Command:
    layout = room.sandbox.layout
    env = (
        ("PATH", f"{interpreter.prefix}/bin:/usr/bin:/bin"),
        ("LD_LIBRARY_PATH", layout.at("driver")),
        ("HOME", "/tmp"),  # noqa: S108 - the sandbox's own, empty
        ("LC_ALL", "C.UTF-8"),
    )
    places = [(name, name == "answer") for name in ("driver", "probe", "empty", "answer")]
    mounts = tuple(
        Mount(source=room.scratch / name, place=name, writable=writable)
        for name, writable in places
    )
    host = Host(
        programs=room.host.programs,
        python=interpreter.real,
        identity=(),
        shown=shown(interpreter, room.folders),
    )
    answer, probe = layout.at("answer"), layout.at("probe")
    call = bwrap_argv(
        room.sandbox.bwrap or "bwrap", mounts=mounts, layout=layout, host=host, cwd=answer
    )
    files = (f"{probe}/import_probe.py", f"{probe}/request.json", f"{answer}/answer.json")
    argv = (str(interpreter.program), "-I", "-B", *files)
    return Command(argv=(*inside_env(call, env), "--", *argv))


def _judged(one: Subject, document: dict[str, Any], interpreter: Interpreter) -> Imports:
    """One distribution's answer by what the probe saw of it."""
    own = {str(one.root / library.path) for library in one.libraries}
    mine = [
        {**item, "maps": ()}
        for item in document.get("items", ())
        if item["kind"] in {"torch", "probe"}
        or (item["kind"] == "extension" and item["name"] in own)
        or (item["kind"] == "import" and item["name"] in one.modules)
    ]
    facts = WheelFacts(
        file=one.key, size=0, name=one.key, version="", build="", tags=(), metadata=(), wheel=(),
        members=0, libraries=one.libraries, findings=(),
    )  # fmt: skip
    order = ImportOrder(
        wheel=one.root, facts=facts, modules=one.modules, python=interpreter.python, torch=True
    )
    found = judge_imports({**document, "items": mine, "root": ""}, order, ())
    faults = [fault for fault in found.faults if fault.word != "import-foreign"]
    imports = [item for item in mine if item["kind"] == "import" and item["outcome"] == "loaded"]
    remarks = _grouped(faults, one)
    remarks += [Remark(word="import-not-verified", text=note) for note in found.notes]
    remarks += _foreign(one, imports)
    failed = any(remark.calls for remark in remarks)
    answer = Answer.NOT_VERIFIED if found.notes or not mine else Answer.REACHED
    return Imports(
        answer=Answer.FAILED if failed else answer,
        modules=tuple((item["name"], item.get("file")) for item in imports),
        versions=tuple((i["name"], i["version"]) for i in imports if i.get("version")),
        remarks=tuple(remarks),
    )


def _grouped(faults: Iterable[Fault], one: Subject) -> list[Remark]:
    """One remark for all libraries and modules that fail for one reason."""
    groups: dict[tuple[str, str], list[str]] = {}
    for fault in faults:
        name, _, reason = fault.text.partition(": ")
        name = name.removeprefix("extension ").removeprefix(f"{one.root}/")
        groups.setdefault((fault.word, reason), []).append(name)
    found = []
    for (word, reason), names in groups.items():
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        text = f"{', '.join(names[:_SHOWN])}{more}: {reason}"
        found.append(Remark(word=word, text=text, calls=_CALLS.get(word, Action.REINSTALL)))
    return found


def _foreign(one: Subject, imports: list[dict[str, Any]]) -> list[Remark]:
    """Import names that gave another distribution's file, or none at all."""
    found = []
    for item in imports:
        file, name = item.get("file"), item["name"]
        if file is None and not any(regular(p / "__init__.py") for p in one.owns if p.name == name):
            continue  # a namespace package of its own
        if file is None:
            text = f"import {item['name']} gives an empty namespace package without a file"
        elif any(Path(file).is_relative_to(place) for place in one.owns):
            continue
        else:
            text = f"import {item['name']} gives {file!r}, which is not its own"
        found.append(Remark(word="import-foreign", text=text, calls=Action.REINSTALL))
    return found
