"""The start page of an index: which GPU each wheel serves, and at which level. Pure.

Room `publish`. One file, no scripts, no fonts or images from elsewhere; light and dark, and as
readable on a telephone as on paper. It never says that a wheel works on a GPU: it says which level
was reached there.
"""

from __future__ import annotations

from html import escape
from urllib.parse import quote

from kernforge.publish.listing import Claim, Listed
from kernforge.publish.pagestyle import STYLE

# Source: NVIDIA's table "CUDA GPU compute capability" (developer.nvidia.com/cuda-gpus), as known
# 2026-11. Examples to find one's own card by, not a complete list; nothing is decided by them.
_EXAMPLES = {
    "7.0": "V100",
    "7.5": "T4, RTX 20 series",
    "8.0": "A100, A30",
    "8.6": "A10, A40, RTX A6000, RTX 30 series",
    "8.7": "Jetson Orin",
    "8.9": "L4, L40S, RTX 6000 Ada, RTX 40 series",
    "9.0": "H100, H200, GH200",
    "10.0": "B200, GB200",
    "10.3": "B300, GB300",
    "11.0": "Jetson Thor",
    "12.0": "RTX PRO 6000 Blackwell, RTX 50 series",
    "12.1": "GB10 (DGX Spark)",
}
_MEANING = (
    ("code", "every kernel has machine code for this GPU"),
    ("links", "every symbol that its libraries ask for is there"),
    ("imports", "it imports in the Python it is for, without a GPU"),
    ("loads", "this GPU has loaded every kernel"),
    ("runs", "the smoke test has run on this GPU"),
)
_STATES = {"reached": "reached", "not needed": "reached", "failed": "failed"}


def start_page(wheels: tuple[Listed, ...], base_url: str | None) -> str:
    """The page, its wheels in sections by GPU.

    Args:
        wheels: all wheels of the index; those taken back are listed at the end.
        base_url: where the index is served, or None where the publisher did not say.
    """
    offered = tuple(wheel for wheel in wheels if wheel.yanked is None)
    devices = sorted({c.device for w in offered for c in w.claims}, key=_number)
    parts = [_head(offered, devices)]
    parts += [_section(device, offered, base_url) for device in devices]
    if not devices:
        parts.append('<p class="none">No wheel is published yet.</p>')
    parts += [_legend(), _taken_back(wheels)]
    body = "\n".join(part for part in parts if part)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>GPU kernel wheels</title>\n<style>\n{STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _number(device: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdecimal() else 0 for part in device.split("."))


def _head(offered: tuple[Listed, ...], devices: list[str]) -> str:
    projects = len({wheel.project for wheel in offered})
    links = "".join(f'<a href="#gpu-{escape(d)}">{escape(d)}</a>' for d in devices)
    jump = f'<nav aria-label="GPUs by compute capability">{links}</nav>' if devices else ""
    return (
        "<header>\n<h1>GPU kernel wheels</h1>\n"
        f"<p>{_count(len(offered), 'wheel')} of {_count(projects, 'project')}. Find your GPU by "
        "its compute capability, as <code>nvidia-smi --query-gpu=name,compute_cap --format=csv"
        "</code> prints it; then take the wheel for your CUDA, torch and Python.</p>\n"
        f"{jump}\n</header>"
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _section(device: str, offered: tuple[Listed, ...], base_url: str | None) -> str:
    rows = []
    for wheel in offered:
        claim = next((c for c in wheel.claims if c.device == device), None)
        if claim is not None:
            rows.append(_card(wheel, claim, base_url))
    examples = _EXAMPLES.get(device)
    named = f'<span class="examples">{escape(examples)}</span>' if examples else ""
    cards = "\n".join(rows)
    return (
        f'<section id="gpu-{escape(device)}">\n'
        f"<h2><b>{escape(device)}</b> {named}</h2>\n{cards}\n</section>"
    )


def _card(wheel: Listed, claim: Claim, base_url: str | None) -> str:
    torch = f"torch {wheel.torch}" if wheel.torch else "no torch"
    python = f"Python {wheel.requires_python}" if wheel.requires_python else _python(wheel)
    facts = [f"CUDA {wheel.cuda}", torch, python, f"built for {' '.join(wheel.archs)}"]
    chips = "".join(f"<li>{escape(fact)}</li>" for fact in facts)
    # a version and its local part are one word: break it where a reader would
    version = escape(wheel.version).replace("+", "<wbr>+")
    summary = f'<p class="summary">{escape(wheel.summary)}</p>\n' if wheel.summary else ""
    return (
        f"<article>\n<h3>{escape(wheel.project)} <small>{version}</small></h3>\n{summary}"
        f'<ul class="facts">{chips}</ul>\n{_ladder(claim, wheel.archs)}\n'
        f'<pre tabindex="0">{_breakable(_command(wheel, base_url))}</pre>\n'
        f"{_links(wheel)}\n</article>"
    )


def _python(wheel: Listed) -> str:
    return f"built with Python {wheel.python}"


def _ladder(claim: Claim, archs: tuple[str, ...]) -> str:
    steps = []
    for level, answer in claim.levels:
        state = _STATES.get(answer, "unknown")
        steps.append(f'<li class="{state}">{escape(level)}<span> {escape(answer)}</span></li>')
    said = f"<b>{escape(claim.reached or 'nothing')}</b>"
    device, made_for = escape(claim.device), escape(" ".join(archs))
    text = f"On {device} it reaches {said}"
    kind = "ladder"
    if claim.expected:
        kind = "ladder expected"
        text = f"On {device} it is expected to reach {said}: its code is for {made_for}"
    return f'<div class="level"><p>{text}</p><ol class="{kind}">{"".join(steps)}</ol></div>'


def _command(wheel: Listed, base_url: str | None) -> str:
    address = (base_url or "ADDRESS-OF-THIS-PAGE").rstrip("/")
    return (
        f"pip install {wheel.project}=={wheel.version} \\\n"
        f"  --extra-index-url {address}/{wheel.leaf}/"
    )


def _breakable(command: str) -> str:
    """A command that a narrow page breaks where a reader would: around ``==``, ``+`` and ``/``."""
    return escape(command).replace("==", "==<wbr>").replace("/", "/<wbr>").replace("+", "<wbr>+")


def _links(wheel: Listed) -> str:
    place = quote(wheel.place)
    links = [f'<a href="{place}">wheel</a> ({_amount(wheel.size)})']
    links.append(f'<a href="{quote(wheel.leaf)}/">index</a>')
    if wheel.provenance_sha256 is not None:
        links.append(f'<a href="{place}.provenance.json">provenance</a>')
    return (
        f'<p class="links">{" · ".join(links)} · published {escape(wheel.published[:10])}</p>\n'
        f'<p class="hash">sha256 <code>{wheel.sha256}</code></p>'
    )


def _amount(size: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"


def _legend() -> str:
    rows = "".join(f"<dt>{level}</dt><dd>{meaning}</dd>" for level, meaning in _MEANING)
    return (
        '<section class="legend" id="levels">\n<h2>What the levels mean</h2>\n'
        f"<dl>{rows}</dl>\n<p>Each level holds those before it. Below <b>loads</b> no GPU was "
        "asked: the wheel was read, not run there. <b>Expected</b> is said where code of an older "
        "GPU of the same generation runs by NVIDIA's rule of binary compatibility.</p>\n</section>"
    )


def _taken_back(wheels: tuple[Listed, ...]) -> str:
    gone = [wheel for wheel in wheels if wheel.yanked is not None]
    if not gone:
        return ""
    rows = "".join(
        f"<li><code>{escape(wheel.file)}</code><br>{escape(wheel.yanked or 'no reason given')}</li>"
        for wheel in gone
    )
    return (
        f'<details class="gone"><summary>{_count(len(gone), "wheel")} taken back</summary>\n'
        f"<p>Installed only where a pinned version asks for one of these.</p>\n<ul>{rows}</ul>\n"
        "</details>"
    )
