"""Tiny crates, the lock that names them, and a registry that serves them over HTTP."""

import gzip
import io
import json
import tarfile
from dataclasses import dataclass
from hashlib import sha256

DEFAULT = "registry+https://github.com/rust-lang/a-registry-index"
"""A package's source as the locks of the default registry begin it; the end is nobody's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A crate as a registry holds it."""

    name: str
    version: str
    data: bytes

    @property
    def sha256(self) -> str:
        """What a lock says of it."""
        return sha256(self.data).hexdigest()


def tarball(members) -> bytes:
    """A tar.gz of ``(name, content)``; a content that is a TarInfo is taken as it is."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in members:
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
                continue
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), 1706933106
            archive.addfile(member, io.BytesIO(content.encode()))
    return gzip.compress(out.getvalue(), mtime=0)


def crate(name, version="1.0.0", code="", needs="", more=()) -> Packed:
    """A crate of one source file.

    Args:
        name: its name.
        version: its version.
        code: of ``src/lib.rs``.
        needs: lines of its dependencies.
        more: further members.
    """
    manifest = f'[package]\nname = "{name}"\nversion = "{version}"\nedition = "2021"\n'
    top = f"{name}-{version}"
    files = [
        (f"{top}/Cargo.toml", f"{manifest}[dependencies]\n{needs}"),
        (f"{top}/src/lib.rs", code),
    ]
    return Packed(name=name, version=version, data=tarball([*files, *more]))


def lock(*crates: Packed, own="", source=DEFAULT, needs=None, version=3) -> str:
    """A Cargo.lock of crates, and of a workspace member ``own`` that needs them.

    Args:
        crates: what it names.
        own: name of the workspace's package, or none.
        source: where the crates are said to be from.
        needs: dependencies of each crate by name.
        version: of the lock's format.
    """
    packages = [(c.name, c.version, source, c.sha256) for c in crates]
    packages += [(own, "0.1.0", "", "")] if own else []
    wanted = {own: [c.name for c in crates], **(needs or {})}
    text = f"version = {version}\n"
    for name, number, origin, checksum in sorted(packages):
        text += f'\n[[package]]\nname = "{name}"\nversion = "{number}"\n'
        text += f'source = "{origin}"\n' if origin else ""
        text += f'checksum = "{checksum}"\n' if checksum else ""
        lines = "".join(f' "{other}",\n' for other in sorted(wanted.get(name, [])))
        text += f"dependencies = [\n{lines}]\n" if lines else ""
    return text


def serve(web, *crates: Packed, at="/index/", dl="{url}/files/{{crate}}-{{version}}.crate") -> str:
    """Serve crates; answers the address of the registry's sparse index."""
    web.bodies[f"{at}config.json"] = json.dumps({"dl": dl.format(url=web.url)}).encode()
    for each in crates:
        web.bodies[f"/files/{each.name}-{each.version}.crate"] = each.data
        web.bodies[f"/crates/{each.name}/{each.version}/download"] = each.data
    return web.url + at
