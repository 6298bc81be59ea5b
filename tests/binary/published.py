"""Published wheels for tests marked `network`: downloaded once, never committed.

KERNFORGE_TEST_WHEELS names the folder that keeps them between runs.
"""

import fcntl
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from packaging.utils import canonicalize_name, parse_wheel_filename

ORACLE = "nvidia-cuda-cuobjdump==13.5.37"


def folder():
    default = Path.home() / ".cache" / "kernforge-tests" / "wheels"
    place = Path(os.environ.get("KERNFORGE_TEST_WHEELS", default))
    place.mkdir(parents=True, exist_ok=True)
    return place


def _find(spec):
    name, version = spec.split("==")
    for path in folder().glob("*.whl"):
        found, number, _, _ = parse_wheel_filename(path.name)
        if found == canonicalize_name(name) and str(number) == version:
            return path
    return None


def wheel(spec):
    """The wheel of `name==version` for this Python, from the folder or the index."""
    with (folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _find(spec) is None:
            command = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps")
            choice = ("--only-binary", ":all:", "--dest", str(folder()), spec)
            subprocess.run([*command, *choice], check=True)
    return _find(spec)


def unpacked(spec):
    """The folder of a wheel's files, unpacked beside the wheel once."""
    source = wheel(spec)
    place = folder() / "unpacked" / source.stem
    if not place.exists():
        scratch = place.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(source) as archive:
            archive.extractall(scratch)
        scratch.rename(place)
    return place


def cuobjdump():
    """NVIDIA's program, the oracle."""
    program = unpacked(ORACLE) / "nvidia" / "cu13" / "bin" / "cuobjdump"
    program.chmod(0o755)
    return program
