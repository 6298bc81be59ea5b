"""Loads the libraries of a wheel and imports its modules. Standard library only.

Usage: python -I -B import_probe.py REQUEST ANSWER

REQUEST is JSON: ``root`` (the installed wheel), ``torch`` (whether to import it first),
``extensions`` (``path`` below the root and ``module``, the name it initialises, or null),
``imports`` (module names), ``seconds`` (for each). ANSWER becomes JSON: ``items``, one for torch
where asked, one for each extension and one for each import.

Every item runs in a process of its own, forked from one that has torch loaded for extensions and
from one that has not for imports, so that a crash or a hang is an answer like any other.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.machinery
import importlib.util
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

_LIMIT = 8 << 20
_PR_SET_PDEATHSIG = 1
Answer = dict[str, Any]


def mapped() -> list[str]:
    """The shared libraries that are mapped into this process, each once."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        paths = {line.split(None, 5)[-1].strip() for line in file if "/" in line}
    return sorted(path for path in paths if ".so" in os.path.basename(path))


def guarded(work: Callable[[], Answer]) -> Answer:
    """What the work says, or how it failed."""
    try:
        return {"outcome": "loaded", **work()}
    except BaseException as error:  # noqa: BLE001 - SystemExit of a module is an answer too
        return {
            "outcome": "raised",
            "type": type(error).__name__,
            "message": str(error)[:4000],
            "missing": getattr(error, "name", None),
        }


def child(work: Callable[[], Answer], sink: int) -> None:
    """Do the work, write its answer and end, without any of the parent's exit handlers."""
    try:
        answer = guarded(work)
        answer["maps"] = mapped()
        with os.fdopen(sink, "wb") as file:
            file.write(json.dumps(answer).encode())
    finally:
        os._exit(0)


def collect(source: int, deadline: float) -> bytes | None:
    """All that comes out of a pipe, or None where it is still open at the deadline."""
    data = b""
    while len(data) < _LIMIT:
        left = deadline - time.monotonic()
        ready, _, _ = select.select([source], [], [], max(left, 0))
        if not ready:
            return None
        chunk = os.read(source, 1 << 16)
        if not chunk:
            break
        data += chunk
    return data


def apart(work: Callable[[], Answer], seconds: float) -> Answer:
    """Do the work in a forked process; answer what it said, its signal, or that it hung."""
    source, sink = os.pipe()
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.close(source)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        child(work, sink)
    os.close(sink)
    data = collect(source, began + seconds)
    os.close(source)
    if data is None:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    answer = read(data, status)
    answer["seconds"] = round(time.monotonic() - began, 3)
    return answer


def read(data: bytes | None, status: int) -> Answer:
    """The answer of a forked process by what it wrote and how it ended."""
    if data is None:
        return {"outcome": "hung"}
    with contextlib.suppress(ValueError):
        answer: Answer = json.loads(data)
        return answer
    if os.WIFSIGNALED(status):
        return {"outcome": "signal", "signal": os.WTERMSIG(status)}
    return {"outcome": "exited", "status": os.waitstatus_to_exitcode(status)}


def load_extension(path: str, module: str | None) -> Answer:
    """Load a library with every symbol bound; initialise it where it is a Python module."""
    sys.setdlopenflags(os.RTLD_NOW | os.RTLD_LOCAL)
    if module is None:
        ctypes.CDLL(path, mode=os.RTLD_NOW)
        return {"file": path}
    loader = importlib.machinery.ExtensionFileLoader(module, path)
    spec = importlib.machinery.ModuleSpec(module, loader, origin=path)
    loaded = importlib.util.module_from_spec(spec)
    loader.exec_module(loaded)
    return {"file": path}


def import_module(name: str, root: str) -> Answer:
    """Import a module as a user does, from a folder that is not the wheel's."""
    sys.path.insert(0, root)
    importlib.invalidate_caches()
    module = importlib.import_module(name)
    version = getattr(module, "__version__", None)
    return {
        "file": getattr(module, "__file__", None),
        "version": version if isinstance(version, str) else None,
    }


def with_torch(request: Answer) -> Answer:
    """Import torch, then load each extension in a fork of this process."""
    if request["torch"]:
        importlib.import_module("torch")
    items = []
    for extension in request["extensions"]:
        path = os.path.join(request["root"], extension["path"])
        module = extension["module"]
        answer = apart(partial(load_extension, path, module), request["seconds"])
        items.append({"kind": "extension", "name": extension["path"], **answer})
    return {"items": items}


def run(request: Answer) -> list[Answer]:
    """All items of a request."""
    sys.path.insert(0, request["root"])
    count = 1 + len(request["extensions"])
    first = apart(partial(with_torch, request), request["seconds"] * count)
    items: list[Answer] = first.pop("items", [])
    if request["torch"]:
        first.pop("maps", None)
        items.insert(0, {"kind": "torch", "name": "torch", **first})
    elif first["outcome"] != "loaded":
        items.insert(0, {"kind": "probe", "name": "extensions", **first})
    for name in request["imports"]:
        answer = apart(partial(import_module, name, request["root"]), request["seconds"])
        items.append({"kind": "import", "name": name, **answer})
    return items


def main(request_path: str, answer_path: str) -> int:
    """Answer a request."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open(request_path, encoding="utf-8") as file:
        request = json.load(file)
    document = {"format": 1, "python": sys.version.split()[0], "items": run(request)}
    with open(answer_path, "w", encoding="utf-8") as file:
        json.dump(document, file)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
