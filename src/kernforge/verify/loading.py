"""The level `imports`: a wheel loaded and imported in its target, without a GPU.

The wheel is installed into a folder, a driver library is made with exactly the functions that the
libraries ask for (each answers "no device"), and the probe runs in the sandbox: each library by
its path with every symbol bound, then the recipe's modules. What came of it is data;
:func:`judge_imports` says what it means.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernforge.arch import Device
from kernforge.binary.abi import module_names
from kernforge.binary.demangle import demangle
from kernforge.binary.facts import Library, WheelFacts
from kernforge.binary.tags import python_module
from kernforge.errors import KernforgeError, VerifyError
from kernforge.pack.archive import unpack
from kernforge.process import Command, Runner
from kernforge.toolchain.cuda import stub_source
from kernforge.toolchain.host import Host
from kernforge.toolchain.sandbox import Layout, Mount, Sandbox, bwrap_argv, inside_env
from kernforge.verify.fault import Fault
from kernforge.verify.ladder import Rung, rung
from kernforge.verify.surroundings import Surroundings

PROBE = Path(__file__).parent.parent / "inside/import_probe.py"
FORMAT = 1
_SECONDS = 300
_NEEDS_GPU = "import-needs-gpu"
_DRIVERS = {"libcuda.so.1": re.compile(r"cu[A-Z]\w*"), "libnvidia-ml.so.1": re.compile(r"nvml\w+")}
_GPU_WANTED = (
    r"(no CUDA-capable device|No CUDA GPUs|NVIDIA driver on your system"
    r"|cudaErrorNoDevice|cudaErrorInsufficientDriver)"
)
# Wording of the loader, of CUDA and of torch -> word and sentence, in the order that tells most.
_WORDINGS = tuple(
    (re.compile(pattern, re.IGNORECASE), word, text)
    for pattern, word, text in (
        (
            r"(\S+?): cannot open shared object file",
            "library-missing",
            "needs {name!r}, which the target does not have",
        ),
        (
            r"undefined symbol: ([^\s,]+)",
            "symbol-undefined",
            "nothing in the target defines {name!r}",
        ),
        (
            r"version [`']([^`']+)' not found",
            "symbol-undefined",
            "no library of the target has version {name!r}",
        ),
        (
            r"(no kernel image is available|cudaErrorNoKernelImage|CUDA_ERROR_NO_BINARY)",
            "image-missing",
            "no code for the GPU that was asked for ({told})",
        ),
        (
            _GPU_WANTED,
            _NEEDS_GPU,
            "asks for a GPU while it is imported ({told})",
        ),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOrder:
    """What is to be imported.

    Attributes:
        wheel: the file.
        facts: what was read from it.
        modules: modules that must import, by the recipe.
        python: the target's Python, as ``3.11``.
        torch: whether torch is in the target.
    """

    wheel: Path
    facts: WheelFacts
    modules: tuple[str, ...]
    python: str
    torch: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportWorld:
    """Where it is imported.

    Attributes:
        environment: the target's environment.
        sandbox: what holds here.
        host: gives the compiler of the driver library.
        runner: runs compiler and probe.
        scratch: an empty folder.
    """

    environment: Path
    sandbox: Sandbox
    host: Host
    runner: Runner
    scratch: Path


def driver_needs(libraries: Iterable[Library], around: Surroundings) -> dict[str, tuple[str, ...]]:
    """The driver functions that a wheel and the target's packages ask for, by driver library."""
    found: dict[str, set[str]] = {name: set() for name in _DRIVERS}
    own = (library.elf for library in libraries)
    for elf in (*own, *around.packaged_facts()):
        if elf is None:
            continue
        for driver, pattern in _DRIVERS.items():
            if driver in elf.needed or driver == "libcuda.so.1":
                found[driver] |= {s.name for s in elf.undefined if pattern.fullmatch(s.name)}
    return {driver: tuple(sorted(names)) for driver, names in found.items()}


def make_drivers(folder: Path, needs: dict[str, tuple[str, ...]], world: ImportWorld) -> None:
    """Compile the driver libraries into a folder.

    Raises:
        VerifyError: ``driver-stub-failed``.
    """
    compiler = world.host.program("gcc")
    env = (("PATH", str(Path(compiler).parent)), ("LC_ALL", "C.UTF-8"))
    for soname, symbols in needs.items():
        source = folder / f"{soname}.c"
        source.write_text(stub_source(symbols), encoding="utf-8")
        flags = ("-shared", "-fPIC", "-nostdlib", "-fno-builtin", "-w", f"-Wl,-soname,{soname}")
        argv = (compiler, *flags, "-o", soname, source.name)
        result = world.runner.run(Command(argv=argv, env=env, cwd=folder))
        source.unlink()
        if result.returncode != 0:
            raise VerifyError(
                "driver-stub-failed",
                f"The stand-in for {soname} does not compile with {compiler}",
                detail=result.last_lines,
            )


def install(wheel: Path, folder: Path) -> None:
    """Unpack a wheel as an installer would place it, without running anything.

    Raises:
        KernforgeError: as :func:`kernforge.pack.archive.unpack`.
    """
    unpack(wheel, folder)
    for data in folder.glob("*.data"):
        for scheme in ("purelib", "platlib"):
            if (data / scheme).is_dir():
                shutil.copytree(data / scheme, folder, dirs_exist_ok=True)


def _loadable(library: Library, python: str) -> bool:
    """Whether the target's Python would ever load it: not where its name is for another."""
    named = python_module(library.path)
    return named in {None, "abi3", "cp" + python.replace(".", "")}


def _initialises(path: str, names: tuple[str, ...]) -> str | None:
    """The module that a library is loaded as: the one it is named for, else its first."""
    own = path.rpartition("/")[2].partition(".")[0]
    return own if own in names else next(iter(names), None)


def _request(order: ImportOrder, root: str) -> dict[str, Any]:
    extensions = [
        {"path": x.path, "module": _initialises(x.path, module_names(x.elf))}
        for x in order.facts.libraries
        if x.elf is not None and x.elf.kind == "shared" and _loadable(x, order.python)
    ]
    return {
        "root": root,
        "torch": order.torch,
        "extensions": extensions,
        "imports": list(order.modules),
        "seconds": _SECONDS,
    }


def _command(world: ImportWorld, layout: Layout) -> Command:
    """The probe's command in the sandbox."""
    env = (
        ("PATH", layout.at("env/bin") + ":/usr/bin:/bin"),
        ("LD_LIBRARY_PATH", layout.at("driver")),
        ("HOME", "/tmp"),  # noqa: S108 - the sandbox's own, empty
        ("LC_ALL", "C.UTF-8"),
    )
    probe, answer = layout.at("probe"), layout.at("answer")
    files = (f"{probe}/import_probe.py", f"{probe}/request.json", f"{answer}/answer.json")
    argv = (layout.at("env/bin/python"), "-I", "-B", *files)
    mounts = (
        Mount(source=world.environment, place="env", writable=False),
        *(Mount(source=world.scratch / n, place=n, writable=False) for n in _SHOWN),
        Mount(source=world.scratch / "answer", place="answer", writable=True),
    )
    call = bwrap_argv(
        world.sandbox.bwrap or "bwrap", mounts=mounts, layout=layout, host=world.host, cwd=answer
    )
    return Command(argv=(*inside_env(call, env), "--", *argv))


_SHOWN = ("wheel", "driver", "probe")


def probe_imports(order: ImportOrder, world: ImportWorld, around: Surroundings) -> dict[str, Any]:
    """Install, load and import; what came of each is in ``items``.

    Nothing of a wheel is executed outside a sandbox.

    Returns:
        The probe's document. Where it could not be made: ``items`` is empty and ``unknown`` says
        why.
    """
    if world.sandbox.bwrap is None:
        return _unknown(f"there is no sandbox to import it in ({world.sandbox.reason})")
    for name in ("driver", "probe", "answer"):
        (world.scratch / name).mkdir()
    try:
        install(order.wheel, world.scratch / "wheel")
        needs = driver_needs(order.facts.libraries, around)
        make_drivers(world.scratch / "driver", needs, world)
    except KernforgeError as error:
        return _unknown(error.message)
    shutil.copyfile(PROBE, world.scratch / "probe/import_probe.py")
    request = _request(order, world.sandbox.layout.at("wheel"))
    (world.scratch / "probe/request.json").write_text(json.dumps(request), encoding="utf-8")
    limit = _SECONDS * (2 + len(request["extensions"]) + len(request["imports"]))
    result = world.runner.run(_command(world, world.sandbox.layout), timeout=limit)
    answer = world.scratch / "answer/answer.json"
    if result.returncode != 0 or not answer.is_file():
        why = result.last_lines[-1] if result.last_lines else f"status {result.returncode}"
        return _unknown(f"the probe does not run in this environment: {why}")
    try:
        document: dict[str, Any] = json.loads(answer.read_bytes())
        return {**document, "root": request["root"]}
    except (ValueError, TypeError):
        return _unknown("what was imported has damaged the probe's answer")


def _unknown(why: str) -> dict[str, Any]:
    return {"format": FORMAT, "items": [], "unknown": why}


def _raised(item: dict[str, Any]) -> tuple[str, str]:
    """Word and sentence of an exception."""
    message = str(item["message"])
    told = f"{item['type']}: {_first_line(message)}"
    for pattern, word, text in _WORDINGS:
        if match := pattern.search(message):
            return word, text.format(name=demangle(match[1]) or match[1], told=told)
    if item["type"] == "ModuleNotFoundError":
        return "module-missing", f"imports {item.get('missing')!r}, which the target does not have"
    return "import-failed", f"does not initialise: {told}"


def _first_line(message: str) -> str:
    lines = [line for line in message.splitlines() if line.strip()]
    return lines[0][:300] if lines else "no message"


def _complaint(item: dict[str, Any]) -> tuple[str, str] | None:
    match item["outcome"]:
        case "loaded":
            return None
        case "raised":
            return _raised(item)
        case "signal":
            number = int(item["signal"])
            known = number in {int(s) for s in signal.Signals}
            name = signal.Signals(number).name if known else str(number)
            return "import-crashed", f"crashes with {name}"
        case "hung":
            return "import-hung", f"does not come back within {_SECONDS} s"
        case _:
            return "import-crashed", f"ends the process with status {item.get('status')}"


def _foreign(item: dict[str, Any], root: str, own: frozenset[str]) -> str | None:
    """A file that was loaded from elsewhere although the wheel has one of that name."""
    if item["kind"] == "import":
        file = item.get("file")
        if file is not None and not str(file).startswith(f"{root}/"):
            return str(file)
    for path in item.get("maps", ()):
        if path.rpartition("/")[2] in own and not path.startswith(f"{root}/"):
            return str(path)
    return None


def _item_faults(item: dict[str, Any], root: str, own: frozenset[str]) -> list[Fault]:
    where = f"{item['kind']} {item['name']}"
    if (told := _complaint(item)) is not None:
        return [Fault(word=told[0], text=f"{where}: {told[1]}")]
    if (other := _foreign(item, root, own)) is not None:
        text = f"{where}: {other!r} was loaded, which is not the wheel's"
        return [Fault(word="import-foreign", text=text)]
    return []


def judge_imports(document: dict[str, Any], order: ImportOrder, devices: Iterable[Device]) -> Rung:
    """The level `imports` by what the probe saw. Pure.

    A package that asks for a GPU while it is imported, and a target whose own torch does not
    import, leave the level open: nothing was shown about the wheel.

    Returns:
        Faults with the words ``library-missing``, ``symbol-undefined``, ``image-missing``,
        ``module-missing``, ``import-failed``, ``import-crashed``, ``import-hung``,
        ``import-foreign`` and ``module-other-python``.
    """
    if "unknown" in document:
        return rung("imports", devices, (), unknown=f"imports: not verified: {document['unknown']}")
    own = frozenset(x.path.rpartition("/")[2] for x in order.facts.libraries)
    faults = [
        Fault(
            word="module-other-python",
            text=f"{x.path}: is for {python_module(x.path)}, this target is Python {order.python}",
        )
        for x in order.facts.libraries
        if not _loadable(x, order.python)
    ]
    tried = [item for item in document["items"] if item["kind"] in {"extension", "import"}]
    unknown = None if tried else "imports: not verified: there is nothing to load, nor to import"
    for item in document["items"]:
        found = _item_faults(item, str(document.get("root", "")), own)
        if item["kind"] in {"torch", "probe"} and found:
            unknown = f"imports: not verified: {found[0].text}"
        elif found and found[0].word == _NEEDS_GPU:
            unknown = unknown or f"imports: not verified: {found[0].text}"
        else:
            faults += found
    return rung("imports", devices, faults, unknown=unknown)
