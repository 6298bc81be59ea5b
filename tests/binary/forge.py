"""Make ELF files, cubins, fat binaries and wheels from small values."""

import base64
import hashlib
import struct
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import lz4.block
import zstandard

TRAP = bytes.fromhex("5c79000004000000") + bytes(8)
EXIT = bytes.fromhex("4d79000000000000") + bytes(8)


@dataclass
class Part:
    """One section of a forged ELF."""

    name: str
    type: int
    data: bytes
    link: str = ""
    nobits_size: int | None = None


def make_elf(parts, *, kind=3, machine=62):
    """An ELF with these sections, a string table of their names last."""
    names = b"\0" + b"".join(p.name.encode() + b"\0" for p in parts) + b".shstrtab\0"
    parts = [*parts, Part(".shstrtab", 3, names)]
    index = {p.name: i + 1 for i, p in enumerate(parts)}
    body, headers = b"", [bytes(64)]
    at = 1
    for part in parts:
        body += bytes(-len(body) % 16)
        size = len(part.data) if part.nobits_size is None else part.nobits_size
        link = index.get(part.link, 0)
        headers.append(
            struct.pack("<IIQQQQIIQQ", at, part.type, 0, 0, 64 + len(body), size, link, 0, 16, 0)
        )
        body += part.data
        at += len(part.name) + 1
    body += bytes(-len(body) % 16)
    head = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01" + bytes(9),
        kind,
        machine,
        1,
        0,
        0,
        64 + len(body),
        0,
        64,
        0,
        0,
        64,
        len(headers),
        len(headers) - 1,
    )
    return head + body + b"".join(headers)


def pack_symbol(name, *, info=0x12, other=0, place=1):
    return struct.pack("<IBBHQQ", name, info, other, place, 0, 0)


def make_cubin(kernels, *, linked=True, device_functions=(), machine=190):
    """A cubin whose entry functions have this code."""
    strings, table, parts = b"\0", bytes(24), []
    for number, (name, code) in enumerate(kernels.items(), 1):
        table += pack_symbol(len(strings), other=0x10, place=number)
        strings += name.encode() + b"\0"
        parts.append(Part(f".text.{name}", 1, code))
    for name in device_functions:
        table += pack_symbol(len(strings), place=1)
        strings += name.encode() + b"\0"
    parts += [Part(".strtab", 3, strings), Part(".symtab", 2, table, link=".strtab")]
    return make_elf(parts, kind=2 if linked else 1, machine=machine)


def make_entry(payload, number, *, kind=2, suffix="", pack="none", **wrong):
    """One entry; ``wrong`` replaces single header fields."""
    flags = 0x11 | {"": 0, "a": 0x100000, "f": 0x200000}[suffix]
    flags |= {"none": 0, "lz4": 0x2000, "zstd": 0x8000}[pack]
    stored, packed, unpacked = payload, 0, 0
    if pack == "lz4":
        stored = lz4.block.compress(payload, store_size=False)
    elif pack == "zstd":
        stored = zstandard.ZstdCompressor().compress(payload)
    if pack != "none":
        packed, unpacked = len(stored), len(payload)
    stored += bytes(-len(stored) % 8)
    fields = {
        "kind": kind,
        "version": 0x101,
        "header": 64,
        "size": len(stored),
        "packed": packed,
        "options": 0,
        "minor": 0,
        "major": 9,
        "number": number,
        "name": 0,
        "name_size": 0,
        "flags": flags,
        "zero": 0,
        "unpacked": unpacked,
    } | wrong
    return struct.pack("<HHIQIIHHIIIQQQ", *fields.values()) + stored


def make_container(*entries, size=None, header=16):
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, header, len(body) if size is None else size) + body


def make_library(*, fatbin=None, relfatbin=None, extra=()):
    """A host library with these bytes in the sections of device code."""
    parts = list(extra)
    if fatbin is not None:
        parts.append(Part(".nv_fatbin", 1, fatbin))
    if relfatbin is not None:
        parts.append(Part("__nv_relfatbin", 1, relfatbin))
    return make_elf(parts)


@dataclass
class Dynamic:
    """The dynamic part of a forged host library."""

    needed: tuple = ()
    soname: str = ""
    runpath: str = ""
    rpath: str = ""
    defined: tuple = ()
    undefined: tuple = ()
    """(name, version, library, weak) each; an empty version means none."""
    strings: bytearray = field(default_factory=lambda: bytearray(b"\0"))

    def _at(self, text):
        place = len(self.strings)
        self.strings += text.encode() + b"\0"
        return place

    def parts(self):
        tags = [(1, self._at(name)) for name in self.needed]
        for tag, text in ((14, self.soname), (15, self.rpath), (29, self.runpath)):
            tags += [(tag, self._at(text))] if text else []
        dynamic = b"".join(struct.pack("<qQ", *tag) for tag in [*tags, (0, 0)])
        symbols, codes = bytes(24), [0]
        versions = {}
        for name in self.defined:
            symbols += pack_symbol(self._at(name))
            codes.append(1)
        for name, version, library, weak in self.undefined:
            symbols += pack_symbol(self._at(name), info=0x22 if weak else 0x12, place=0)
            if version:
                group = versions.setdefault(library, {})
                codes.append(group.setdefault(version, 2 + sum(map(len, versions.values()))))
            else:
                codes.append(1)
        needs = b""
        for number, (library, group) in enumerate(versions.items()):
            last = number == len(versions) - 1
            step = 0 if last else 16 + 16 * len(group)
            needs += struct.pack("<HHIII", 1, len(group), self._at(library), 16, step)
            for place, (version, code) in enumerate(group.items()):
                following = 0 if place == len(group) - 1 else 16
                needs += struct.pack("<IHHII", 0, 0, code, self._at(version), following)
        return [
            Part(".dynstr", 3, bytes(self.strings)),
            Part(".dynsym", 11, symbols, link=".dynstr"),
            Part(".gnu.version", 0x6FFFFFFF, struct.pack(f"<{len(codes)}H", *codes)),
            Part(".gnu.version_r", 0x6FFFFFFE, needs, link=".dynstr"),
            Part(".dynamic", 6, dynamic, link=".dynstr"),
        ]


def digest_row(name, data):
    code = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={code},{len(data)}"


def make_wheel(folder: Path, members, *, file="demo-1.0-cp311-cp311-linux_x86_64.whl", **changes):
    """A wheel with these members; ``changes`` replace METADATA, WHEEL or RECORD, None drops it."""
    info = "demo-1.0.dist-info"
    tag = "-".join(file.removesuffix(".whl").split("-")[-3:])
    texts = {
        "METADATA": "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
        "WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n",
    }
    texts |= {key: value for key, value in changes.items() if key in texts}
    files = dict(members)
    files |= {f"{info}/{key}": text.encode() for key, text in texts.items() if text is not None}
    rows = [digest_row(name, data) for name, data in files.items()]
    record = changes.get("RECORD", "\n".join([*rows, f"{info}/RECORD,,"]) + "\n")
    if record is not None:
        files[f"{info}/RECORD"] = record.encode()
    path = folder / file
    with zipfile.ZipFile(path, "w", changes.get("method", zipfile.ZIP_DEFLATED)) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path
