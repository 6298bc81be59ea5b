"""Targets and wheels made of real libraries: compiled here by gcc, in milliseconds each."""

import subprocess
import sys
import sysconfig
from pathlib import Path

from binary.forge import make_wheel

MODULE = """
#include <Python.h>
{before}
static struct PyModuleDef about = {{PyModuleDef_HEAD_INIT, "{name}", 0, -1, 0}};
PyMODINIT_FUNC PyInit_{name}(void) {{ {body} return PyModule_Create(&about); }}
"""
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


def compile_library(place: Path, source: str, *options: str) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    text = place.with_name(place.name + ".c")
    text.write_text(source)
    argv = ["gcc", "-shared", "-fPIC", "-w", "-o", str(place), str(text), *options]
    subprocess.run(argv, check=True)
    text.unlink()
    return place


def compile_module(place: Path, *options: str, before: str = "", body: str = "") -> Path:
    name = place.name.partition(".")[0]
    source = MODULE.format(name=name, before=before, body=body)
    return compile_library(place, source, f"-I{sysconfig.get_path('include')}", *options)


class Target:
    """An environment with a torch of two functions, as an installer would lay it out."""

    def __init__(self, root: Path) -> None:
        self.root = root
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.site = root / "lib" / version / "site-packages"
        self.torch = self.site / "torch"
        (root / "bin").mkdir(parents=True)
        real = Path(sys.executable).resolve()
        (root / "bin/python").symlink_to(real)
        (root / "pyvenv.cfg").write_text(f"home = {real.parent}\n")
        (self.torch / "lib").mkdir(parents=True)
        (self.torch / "version.py").write_text("cuda: Optional[str] = '13.0'\n")
        (self.torch / "__init__.py").write_text(LOAD)
        flags = ("-Wl,-soname,libc10.so",)
        source = "void _ZN3c104lockEj(void) {} void c10_open(void) {}"
        compile_library(self.torch / "lib/libc10.so", source, *flags)

    def library(self, path: str, source: str, *options: str) -> Path:
        """Add a library to a package of the environment."""
        return compile_library(self.site / path, source, *options)

    def linked(self) -> tuple[str, ...]:
        """What links a library against this torch."""
        return (f"-L{self.torch / 'lib'}", "-l:libc10.so")


LOAD = """
import ctypes, pathlib
ctypes.CDLL(str(pathlib.Path(__file__).parent / "lib/libc10.so"))
"""


def pack(folder: Path, tree: Path, **changes) -> Path:
    """A wheel of all files below a folder."""
    files = {str(p.relative_to(tree)): p.read_bytes() for p in tree.rglob("*") if p.is_file()}
    return make_wheel(folder, files, **changes)
