"""Loads the device code of a wheel on the GPUs of this machine. Standard library only, one file.

Usage: python3 gpu_probe.py WHEEL --report R.json [--smoke FILE] [--python PYTHON]

Copy this file and the wheel to any machine with an NVIDIA GPU and its driver (12.4 or later); no
toolkit, no torch and no kernforge are needed. For one GPU of each compute capability every fat
binary is loaded with the driver's compiler switched off, its kernels are listed and resolved. That
executes nothing of the wheel. ``--smoke`` does: it runs that program with PYTHON (default: this
one), which must have what the wheel needs, the wheel's files first on its path.

`kernforge verify WHEEL --add R.json` reads the report.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import mmap
import os
import platform
import signal
import struct
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from typing import Any

FORMAT = 1
_MAGIC = b"\x50\xed\x55\xba"
_ELF = b"\x7fELF\x02\x01"
_SECTION = struct.Struct("<IIQQQQIIQQ")
_ATTRIBUTES = (75, 76)  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
_NO_JIT = {
    "CUDA_DISABLE_PTX_JIT": "1",
    "CUDA_CACHE_DISABLE": "1",
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
}
_LIBRARY_SECONDS = 600
_SMOKE_SECONDS = 1800
_TAIL = 4000
_DRIVER_NAMES = ("libcuda.so.1", "libcuda.so")
_OLD = "the driver is older than 12.4: it cannot list the kernels of a library"

Report = dict[str, Any]


class DriverError(Exception):
    """A driver call that did not answer 0."""

    def __init__(self, call: str, code: int, name: str) -> None:
        super().__init__(f"{call}: {code} {name}")
        self.call = call
        self.code = code
        self.name = name

    def told(self) -> Report:
        """The same as data."""
        return {"call": self.call, "code": self.code, "name": self.name}


class Driver:
    """The CUDA driver through ctypes."""

    def __init__(self) -> None:
        self._library = self._open()
        self.call("cuInit", ctypes.c_uint(0))

    @staticmethod
    def _open() -> ctypes.CDLL:
        trouble = ""
        for name in _DRIVER_NAMES:
            try:
                return ctypes.CDLL(name)
            except OSError as error:
                trouble = str(error)
        raise DriverError("dlopen", -1, trouble)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that answers a CUresult."""
        function = getattr(self._library, name, None)
        if function is None:
            raise DriverError(name, -2, _OLD)
        code = function(*arguments)
        if code != 0:
            raise DriverError(name, code, self._name(code))

    def _name(self, code: int) -> str:
        text = ctypes.c_char_p()
        known = self._library.cuGetErrorName(code, ctypes.byref(text)) == 0
        return (text.value or b"").decode() if known else "unknown"

    def number(self, name: str, *arguments: Any) -> int:
        """Call a function whose first argument receives an int."""
        value = ctypes.c_int()
        self.call(name, ctypes.byref(value), *arguments)
        return value.value

    def pointer(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        """Call a function whose first argument receives a handle."""
        value = ctypes.c_void_p()
        self.call(name, ctypes.byref(value), *arguments)
        return value

    def devices(self) -> list[Report]:
        """The GPUs: index, name and compute capability."""
        found = []
        for index in range(self.number("cuDeviceGetCount")):
            device = self.number("cuDeviceGet", index)
            text = ctypes.create_string_buffer(256)
            self.call("cuDeviceGetName", text, len(text), device)
            major, minor = (self.number("cuDeviceGetAttribute", a, device) for a in _ATTRIBUTES)
            name = text.value.decode("utf-8", "replace")
            found.append({"index": index, "name": name, "capability": f"{major}.{minor}"})
        return found

    def use(self, index: int) -> None:
        """Make a GPU the current one."""
        device = self.number("cuDeviceGet", index)
        self.call("cuCtxSetCurrent", self.pointer("cuDevicePrimaryCtxRetain", device))

    def kernels(self, image: bytes) -> tuple[list[str], list[Report]]:
        """Load one fat binary; the kernels that resolve, and what did not."""
        data = ctypes.create_string_buffer(image, len(image))
        library = self.pointer("cuLibraryLoadData", data, None, None, 0, None, None, 0)
        try:
            count = ctypes.c_uint()
            self.call("cuLibraryGetKernelCount", ctypes.byref(count), library)
            handles = (ctypes.c_void_p * count.value)()
            if count.value:
                self.call("cuLibraryEnumerateKernels", handles, count, library)
            return self._resolved([ctypes.c_void_p(handle) for handle in handles])
        finally:
            self.call("cuLibraryUnload", library)

    def _resolved(self, handles: list[ctypes.c_void_p]) -> tuple[list[str], list[Report]]:
        names, troubles = [], []
        for handle in handles:
            text = ctypes.c_char_p()
            self.call("cuKernelGetName", ctypes.byref(text), handle)
            name = (text.value or b"").decode("utf-8", "backslashreplace")
            try:
                self.call("cuFuncLoad", self.pointer("cuKernelGetFunction", handle))
                names.append(name)
            except DriverError as error:
                troubles.append({"kernel": name, **error.told()})
        return names, troubles


def fatbin_sections(data: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Start and end of each section ``.nv_fatbin`` of an ELF."""
    start = struct.unpack_from("<Q", data, 40)[0]
    count, names = struct.unpack_from("<HH", data, 60)
    if not start:
        return
    first = _SECTION.unpack_from(data, start)
    count, names = count or first[5], first[6] if names == 0xFFFF else names
    rows = [_SECTION.unpack_from(data, start + 64 * n) for n in range(count)]
    table = rows[names][4]
    for row in rows:
        at = table + row[0]
        if data[at : at + 11] == b".nv_fatbin\0":
            yield row[4], row[4] + row[5]


def containers(data: mmap.mmap) -> Iterator[bytes]:
    """The fat binaries of a library, each with its header, in the order of the file."""
    for at, end in fatbin_sections(data):
        place = data.find(_MAGIC, at, end)
        while place >= 0:
            header, size = struct.unpack_from("<HQ", data, place + 6)
            stop = min(place + header + size, end)
            yield data[place:stop]
            place = data.find(_MAGIC, max(stop, place + 4), end)


def load_library(path: str, index: int) -> Report:
    """Load every fat binary of one library on one GPU."""
    driver = Driver()
    driver.use(index)
    names: set[str] = set()
    errors, count = [], 0
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for module, image in enumerate(containers(data)):
            count += 1
            try:
                found, troubles = driver.kernels(image)
            except DriverError as error:
                errors.append({"module": module, **error.told()})
                continue
            names.update(found)
            errors += [{"module": module, **trouble} for trouble in troubles]
    return {"containers": count, "kernels": sorted(names), "errors": errors}


def child(argv: list[str]) -> int:
    """The process that loads one library, or lists the GPUs: ``--child OUT [PATH INDEX]``."""
    out, *rest = argv
    try:
        if rest:
            answer = load_library(rest[0], int(rest[1]))
        else:
            driver = Driver()
            version = driver.number("cuDriverGetVersion")
            answer = {"driver": version, "devices": driver.devices()}
    except DriverError as error:
        answer = {"failed": error.told()}
    with open(out, "w", encoding="utf-8") as file:
        json.dump(answer, file)
    return 0


def finish(argv: list[str], env: dict[str, str], seconds: int, output: int | None) -> int | None:
    """Run a program to its end; its exit status (negative: signal), or None where it was stopped.

    Its output goes to the descriptor ``output`` and it runs in an empty folder where one is given.
    """
    with tempfile.TemporaryDirectory() as place:
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                if output is not None:
                    os.dup2(output, 1)
                    os.dup2(output, 2)
                    os.chdir(place)
                os.execvpe(argv[0], argv, {**os.environ, **_NO_JIT, **env})
            finally:
                os._exit(127)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.05)
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return None


def apart(folder: str, *words: str) -> Report:
    """Run :func:`child` in a process of its own, without the driver's compiler."""
    out = os.path.join(folder, "answer.json")
    if os.path.exists(out):
        os.unlink(out)
    argv = [sys.executable, os.path.abspath(__file__), "--child", out, *words]
    began = time.monotonic()
    status = finish(argv, {}, _LIBRARY_SECONDS, None)
    seconds = round(time.monotonic() - began, 3)
    if status is None:
        return {"outcome": "hung", "seconds": seconds}
    if status != 0 or not os.path.exists(out):
        return {"outcome": "crashed", "status": status, "seconds": seconds}
    with open(out, encoding="utf-8") as file:
        answer: Report = json.load(file)
    outcome = "failed" if "failed" in answer else "done"
    return {"outcome": outcome, **answer, "seconds": seconds}


def unpack(wheel: str, folder: str) -> list[str]:
    """Unpack a wheel; the members with native code, sorted."""
    native = []
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            parts = info.filename.split("/")
            if info.filename.startswith("/") or ".." in parts or "\\" in info.filename:
                raise SystemExit(f"{wheel}: member {info.filename!r} leads outside; not unpacked")
            path = archive.extract(info, folder)
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    native += [info.filename] if file.read(6) == _ELF else []
    return sorted(native)


def digest(path: str) -> str:
    """SHA-256 of a file."""
    state = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            state.update(chunk)
    return state.hexdigest()


def run_smoke(smoke: str, python: str, root: str, index: int) -> Report:
    """Run the smoke program on one GPU, the wheel's files first on its path."""
    paths = [root, os.environ.get("PYTHONPATH", "")]
    extra = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "CUDA_VISIBLE_DEVICES": str(index)}
    began = time.monotonic()
    with tempfile.TemporaryFile() as output:
        argv = [python, os.path.abspath(smoke)]
        status = finish(argv, extra, _SMOKE_SECONDS, output.fileno())
        size = output.seek(0, os.SEEK_END)
        output.seek(max(0, size - _TAIL))
        tail = output.read().decode("utf-8", "replace")
    return {
        "file": os.path.basename(smoke),
        "sha256": digest(smoke),
        "outcome": "hung" if status is None else "passed" if status == 0 else "failed",
        "status": status,
        "seconds": round(time.monotonic() - began, 3),
        "output": tail,
    }


def seal(report: Report) -> str:
    """SHA-256 over the report without its seal: it tells edits, it is no signature."""
    body = {key: value for key, value in report.items() if key != "seal"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def probe(wheel: str, smoke: str | None, python: str) -> Report:
    """The whole report on a wheel."""
    report: Report = {
        "format": FORMAT,
        "wheel": {"file": os.path.basename(wheel), "sha256": digest(wheel)},
        "probe": digest(os.path.abspath(__file__)),
        "python": platform.python_version(),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "results": [],
    }
    with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as root:
        found = apart(work)
        report["driver"] = found.get("driver")
        report["devices"] = found.get("devices", [])
        report["trouble"] = None if found["outcome"] == "done" else found
        native = unpack(wheel, root)
        tested: set[str] = set()
        for device in report["devices"]:
            if device["capability"] in tested:
                continue
            tested.add(device["capability"])
            index = device["index"]
            libraries = []
            for path in native:
                answer = apart(work, os.path.join(root, path), str(index))
                if answer.get("containers") != 0:
                    libraries.append({"path": path, **answer})
            ran = run_smoke(smoke, python, root, index) if smoke else None
            report["results"].append({"device": device, "libraries": libraries, "smoke": ran})
    report["seal"] = seal(report)
    return report


def main(argv: list[str]) -> int:
    """Read the command line, write the report, say in a few lines what is in it."""
    if argv[:1] == ["--child"]:
        return child(argv[1:])
    parser = argparse.ArgumentParser(description="Load a wheel's device code on this GPU.")
    parser.add_argument("wheel")
    parser.add_argument("--report", required=True, help="where the report is written")
    parser.add_argument("--smoke", help="program that is run on the GPU")
    parser.add_argument("--python", default=sys.executable, help="runs the smoke program")
    options = parser.parse_args(argv)
    report = probe(options.wheel, options.smoke, options.python)
    with open(options.report, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
    if report["trouble"] is not None:
        print(f"no GPU was reached: {report['trouble'].get('failed', report['trouble'])}")
        return 1
    for result in report["results"]:
        device = result["device"]
        print(f"{device['name']} ({device['capability']}), driver {report['driver']}")
        for one in result["libraries"]:
            codes = sorted({error["code"] for error in one.get("errors", ())})
            found = len(one.get("kernels", ()))
            told = f"{found} kernels of {one.get('containers', '?')} fat binaries resolve"
            print(f"  {one['path']}: {one['outcome']}, {told}, errors {codes or 'none'}")
        if result["smoke"] is not None:
            print(f"  smoke: {result['smoke']['outcome']}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
