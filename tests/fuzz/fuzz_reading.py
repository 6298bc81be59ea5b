"""Let atheris look for bytes that the readers do not survive.

    python tests/fuzz/fuzz_reading.py [CORPUS] -max_total_time=600 -rss_limit_mb=2048 -timeout=20

Without CORPUS a temporary folder is taken. It gets one seed for each shape first; the first byte of
an input says which shape the rest has, and the magic is put in front, so that every input gets
past it. Coverage of the readers guides the search; any error but a finding ends it.
"""

import json
import struct
import sys
import tempfile
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "binary"))

with atheris.instrument_imports(include=["kernforge.binary"]):
    from kernforge.binary.codec import from_json, to_json
    from kernforge.binary.library import read_library
    from kernforge.binary.wheel import read_wheel

from forge import (
    EXIT,
    TRAP,
    Dynamic,
    make_container,
    make_cubin,
    make_entry,
    make_library,
    make_wheel,
)

ELF = b"\x7fELF\x02\x01\x01"
CONTAINER = b"\x50\xed\x55\xba\x01\x00\x10\x00"
CUBIN = make_cubin({"k1": EXIT, "k2": TRAP}, device_functions=("d",))
PTX = b".version 8.7\n.visible .entry k1()\n{ ret; }\n" * 3
SCRATCH = Path(tempfile.mkdtemp())


def check(library):
    """What holds of every library; the document of it reads back as the same."""
    if len(library.findings) > 101:
        raise AssertionError(len(library.findings))
    if from_json(json.loads(json.dumps(to_json(library)))) != library:
        raise AssertionError(library)


def as_library(data):
    check(read_library(ELF + data, "x"))


def as_containers(data):
    check(read_library(CONTAINER + data, "x"))


def as_image(data, pack):
    """A fat binary of one image with the bytes as its payload, whatever its header says."""
    unpacked = struct.unpack("<I", data[:4].ljust(4, b"\0"))[0]
    flags = {"zstd": 0x8011, "lz4": 0x2011, "none": 0x11}[pack]
    head = {"zstd": b"\x28\xb5\x2f\xfd", "lz4": b"", "none": ELF}[pack]
    body = head + data[4:]
    kind = 1 if data[:1] == b"\x01" else 2
    wrong = {"flags": flags, "packed": len(body), "unpacked": unpacked}
    check(read_library(make_container(make_entry(body, 90, kind=kind, **wrong)), "x"))


def as_wheel(data):
    path = SCRATCH / "demo-1.0-cp311-cp311-linux_x86_64.whl"
    path.write_bytes(b"PK\x03\x04" + data)
    for library in read_wheel(path, workers=1).libraries:
        check(library)


SHAPES = (
    as_library,
    as_containers,
    lambda data: as_image(data, "none"),
    lambda data: as_image(data, "zstd"),
    lambda data: as_image(data, "lz4"),
    as_wheel,
)


def test_one_input(data):
    """Read one input in the shape that its first byte names."""
    if data:
        SHAPES[data[0] % len(SHAPES)](data[1:])


def seeds():
    """One input of each shape that reads well."""
    entries = [make_entry(CUBIN, 90, suffix="a"), make_entry(PTX, 90, kind=1, pack="zstd")]
    entries += [make_entry(CUBIN, 120, suffix="f", pack="zstd"), make_entry(CUBIN, 86, pack="lz4")]
    box = make_container(*entries)
    undefined = (("puts", "GLIBC_2.17", "libc.so.6", False),)
    dynamic = Dynamic(needed=("libc.so.6",), defined=("PyInit_x",), undefined=undefined)
    library = make_library(fatbin=box, relfatbin=box, extra=dynamic.parts())
    yield b"\0" + library[len(ELF) :]
    yield b"\1" + box[len(CONTAINER) :]
    size = struct.pack("<I", len(CUBIN))
    yield b"\2" + size + CUBIN[len(ELF) :]
    for number, pack, skip in ((3, "zstd", 4), (4, "lz4", 0)):
        yield bytes([number]) + size + make_entry(CUBIN, 90, pack=pack)[64 + skip :]
    wheel = make_wheel(SCRATCH, {"a.so": library, "b.py": b"1"})
    yield b"\5" + wheel.read_bytes()[4:]


def main():
    words = list(sys.argv)
    folders = [word for word in words[1:] if not word.startswith("-")]
    corpus = Path(folders[0]) if folders else Path(tempfile.mkdtemp())
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds()):
        (corpus / f"seed{number}").write_bytes(seed)
    if not folders:
        words.append(str(corpus))
    words.append(f"-artifact_prefix={SCRATCH}/")
    atheris.Setup(words, test_one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
