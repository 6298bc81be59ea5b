"""Libraries made by hand, as a reader of binaries would describe them."""

from kernforge.arch import Arch, Device, parse_arch, parse_device
from kernforge.binary.facts import Compression, Finding, Image, ImageKind, Kernel, Library

TORN = Finding(word="image-truncated", text="an entry ends early")


def device(text: str) -> Device:
    return parse_device(text)


def archs(*texts: str) -> tuple[Arch, ...]:
    return tuple(parse_arch(text) for text in texts)


def image(arch: str, *names: str, linked: bool = True, read: bool = True) -> Image:
    """One image: ``9.0`` is machine code, ``9.0+PTX`` is PTX; without names it is empty."""
    target = parse_arch(arch.removesuffix("+PTX"))
    ptx = arch.endswith("+PTX")
    code = 0 if ptx else 128
    kernels = tuple(Kernel(name=name, code_bytes=code, traps=0) for name in sorted(names))
    return Image(
        kind=ImageKind.PTX if ptx else ImageKind.CUBIN,
        arch=target,
        linked=linked and not ptx,
        module=0,
        size=64,
        unpacked=64,
        compression=Compression.NONE,
        isa="9.0" if ptx else None,
        kernels=kernels if read else None,
    )


def library(
    *images: Image, path: str = "pkg/ops.so", findings: tuple[Finding, ...] = ()
) -> Library:
    return Library(path=path, size=4096, modules=1, images=images, elf=None, findings=findings)
