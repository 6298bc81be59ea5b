"""What an installed torch says of itself, read as text: it is never imported in our process."""

from __future__ import annotations

import re
from pathlib import Path

from kernforge.arch import Arch, format_archs
from kernforge.errors import ToolchainError

_CUDA = re.compile(r"^cuda(?::[^=]+)?\s*=\s*(?:'([^']+)'|None)", re.MULTILINE)
_ARCHS = re.compile(r"supported_arches\s*=\s*\[([^\]]*)\]")


def torch_folder(env: Path) -> Path | None:
    """The package folder of torch in an environment, or None."""
    return next(iter(sorted(env.glob("lib/python3*/site-packages/torch"))), None)


def torch_cuda(folder: Path) -> str | None:
    """The CUDA release that a torch was built with, or None for one without CUDA."""
    text = (folder / "version.py").read_text(encoding="utf-8")
    match = _CUDA.search(text)
    return match[1] if match else None


def torch_archs(folder: Path) -> tuple[str, ...]:
    """The archs that its extension builder accepts; none where the table is not found."""
    text = (folder / "utils/cpp_extension.py").read_text(encoding="utf-8")
    match = _ARCHS.search(text)
    return tuple(re.findall(r"'([^']+)'", match[1])) if match else ()


def check_torch(env: Path, *, cuda: str, listed: tuple[Arch, ...]) -> str | None:
    """Hold an environment's torch against the target, before anything compiles.

    Args:
        env: the environment.
        cuda: the target's CUDA release.
        listed: what TORCH_CUDA_ARCH_LIST will say.

    Returns:
        What the user should know (another minor of CUDA), or None.

    Raises:
        ToolchainError: ``torch-missing``, ``torch-without-cuda``, ``torch-cuda-mismatch`` or
            ``torch-arch-unknown``.
    """
    folder = torch_folder(env)
    if folder is None:
        raise ToolchainError("torch-missing", "The locked environment holds no torch")
    built = torch_cuda(folder)
    if built is None:
        raise ToolchainError(
            "torch-without-cuda",
            "The locked torch is a build without CUDA",
            hint="lock the CUDA build: name its index in uv's settings",
        )
    if built.split(".")[0] != cuda.split(".", maxsplit=1)[0]:
        raise ToolchainError(
            "torch-cuda-mismatch",
            f"The locked torch is built with CUDA {built}, the target is CUDA {cuda}",
            hint=f"choose --cuda {built}, or a torch that is built with CUDA {cuda}",
        )
    accepted = torch_archs(folder)
    unknown = [arch for arch in listed if str(arch).removesuffix("+PTX") not in accepted]
    if accepted and unknown:
        raise ToolchainError(
            "torch-arch-unknown",
            f"torch's own table of archs ends at {accepted[-1]} and lacks {format_archs(unknown)}",
            hint="the compiler knows it; torch is too old: choose a newer torch",
        )
    return None if built == cuda else f"torch is built with CUDA {built}, the toolkit is {cuda}"
