"""What the machine has: GPUs and driver by nvidia-smi, and the Python a wheel would go into.

Room `publish`. torch is never imported: its version and CUDA release are read from its files.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from packaging.tags import Tag, compatible_tags, cpython_tags, platform_tags

from kernforge.arch import parse_device
from kernforge.errors import PublishError
from kernforge.process import Command, Runner
from kernforge.publish.choice import Here
from kernforge.toolchain.gpus import ask_gpus

_SECONDS = 60.0
_QUESTION = """
import importlib.metadata as m, importlib.util as u, json, pathlib, re, sys
torch = cuda = None
try:
    torch = m.version("torch")
    place = pathlib.Path(m.distribution("torch").locate_file("torch/version.py"))
    line = r"^cuda\\b[^=\\n]*=\\s*(?:['\\"]([0-9.]+)|None)"
    found = re.search(line, place.read_text(), re.MULTILINE)
    cuda = found and (found[1] or "none")
except (m.PackageNotFoundError, OSError):
    pass
print(json.dumps({"python": sys.version.split()[0], "implementation": sys.implementation.name,
                  "torch": torch, "cuda": cuda}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked of the machine.

    Attributes:
        python: path of the Python that a wheel would be installed into.
        devices: GPUs named by the user; none means those of the machine.
        path: PATH, to find nvidia-smi.
    """

    python: str
    devices: tuple[str, ...]
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Python:
    """What a Python says of itself: version, its torch, that torch's CUDA (``none``: without)."""

    version: str
    torch: str | None
    cuda: str | None


def look(asked: Asked, *, runner: Runner) -> Here:
    """Ask GPUs, driver and Python.

    Raises:
        PublishError: ``gpu-unknown`` or ``python-broken``.
        RecipeError: ``device-invalid``.
    """
    env = (("PATH", asked.path), ("LC_ALL", "C.UTF-8"))
    devices, driver = tuple(str(parse_device(d)) for d in asked.devices), None
    if not devices:
        devices, driver = _gpus(asked.path, runner)
    found = _python(asked.python, env, runner)
    return Here(
        devices=tuple(dict.fromkeys(devices)),
        driver=driver,
        python=found.version,
        tags=_tags(found.version),
        torch=found.torch.split("+")[0] if found.torch else None,
        torch_cuda=found.cuda,
    )


def _gpus(path: str, runner: Runner) -> tuple[tuple[str, ...], str | None]:
    found = ask_gpus(path=path, runner=runner)
    if found.trouble is not None:
        raise PublishError(
            "gpu-unknown",
            f"No GPU was found: {found.trouble}",
            hint="name the GPU by its compute capability, as --device 12.0",
            detail=found.detail,
        )
    return tuple(str(parse_device(device)) for device in found.devices), found.driver


def _python(python: str, env: tuple[tuple[str, str], ...], runner: Runner) -> _Python:
    found = runner.run(Command(argv=(python, "-I", "-c", _QUESTION), env=env), timeout=_SECONDS)
    try:
        facts = json.loads(found.text)
        if found.returncode == 0 and facts["implementation"] == "cpython":
            return _Python(version=facts["python"], torch=facts["torch"], cuda=facts["cuda"])
        complaint = f"it is {facts['implementation']}, not CPython"
    except (ValueError, KeyError, TypeError):
        complaint = "it does not answer"
    raise PublishError(
        "python-broken",
        f"Python {python!r} cannot be installed into: {complaint}",
        hint="name another with --python",
        detail=found.last_lines[-3:],
    )


def _tags(version: str) -> frozenset[Tag]:
    """What a CPython of this version takes on this machine."""
    numbers = [int(re.sub(r"\D.*", "", part) or 0) for part in version.split(".")[:2]]
    platforms = list(platform_tags())
    short = "".join(map(str, numbers))
    native = cpython_tags(numbers, abis=[f"cp{short}"], platforms=platforms)
    general = compatible_tags(numbers, interpreter=f"cp{short}", platforms=platforms)
    return frozenset((*native, *general))
