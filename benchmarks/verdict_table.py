"""Verdicts on published wheels beside NVIDIA's cuobjdump: is there a false pass?

Usage: python benchmarks/verdict_table.py WHEEL... --cuobjdump PROGRAM [--json FILE]

For each wheel and device: what kernforge says of its kernels, and whether cuobjdump's own listing
agrees on how many kernels have machine code for the device. A pass of the level `code` that the
listing does not bear out is a false pass. Prints a table in Markdown; ends with 1 on a false pass.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from kernforge.arch import Device, parse_device
from kernforge.binary.facts import WheelFacts
from kernforge.binary.names import plain_name
from kernforge.binary.wheel import read_wheel
from kernforge.verify.coverage import Service
from kernforge.verify.evidence import Service as Kernel
from kernforge.verify.policy import Answer, Rules, Verdict, judge

DEVICES = tuple(parse_device(text) for text in ("8.0", "8.6", "9.0", "10.0", "12.0"))


def listing(program: str, library: Path) -> dict[str, set[str]]:
    """Kernel names by arch as ``90a``, of linked machine code, as cuobjdump tells them."""
    command = (program, "--dump-elf-symbols", str(library))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found: dict[str, set[str]] = {}
    arch, is_code = "", False
    for line in done.stdout.splitlines():
        if line.startswith("Fatbin "):
            is_code = line.split()[1] == "elf"
        elif line.startswith("arch = "):
            arch = line.split()[2].removeprefix("sm_")
            if is_code:
                found.setdefault(arch, set())
        elif is_code and " ENTRY " in line and "FUNC" in line:
            found[arch].add(plain_name(line.split()[-1]))
    return found


def reaches(arch: str, device: Device) -> bool:
    """The rule for machine code, written down again: ``a`` its own chip, else up in one major."""
    digits, suffix = arch.rstrip("af"), arch.lstrip("0123456789")
    major, minor = int(digits[:-1]), int(digits[-1])
    if suffix == "a":
        return (major, minor) == device.number
    return major == device.number[0] and minor <= device.number[1]


def table_row(wheel: Path, facts: WheelFacts, oracle: dict[str, dict[str, set[str]]]) -> list[dict]:
    """One answer a device."""
    verdict = judge(facts.libraries, DEVICES, Rules(require="code"), facts.findings)
    rows = []
    for device in DEVICES:
        theirs = {
            path: (
                set().union(*(names for arch, names in archs.items() if reaches(arch, device))),
                set().union(*archs.values()),
            )
            for path, archs in oracle.items()
            if any(archs.values())
        }
        rows.append(compare(wheel, device, verdict, theirs))
    return rows


def compare(
    wheel: Path, device: Device, verdict: Verdict, theirs: dict[str, tuple[set[str], set[str]]]
) -> dict:
    """What is told of one device, and whether it can be true."""
    tables = [table for table in verdict.tables if table.device == device]
    levels = {one.device: dict(one.levels) for one in verdict.devices}[device]
    passed = levels["code"] is Answer.REACHED
    with_code = {row.path: row.kernels for row in verdict.served if row.device == device}
    differing = [path for path, (has, _) in theirs.items() if with_code.get(path) != len(has)]
    unread = [r.path for r in verdict.served if r.service is Service.UNREAD and r.device == device]
    lacking = [path for path, (has, every) in theirs.items() if has != every]
    return {
        "wheel": "-".join(wheel.name.split("-")[:2]),
        "device": str(device),
        "code": levels["code"].value,
        "counts": {k.value: sum(t.count(k) for t in tables) for k in Kernel},
        "differing": [path for path in differing if path not in unread],
        "false_pass": bool(passed and (lacking or not theirs)),
    }


def examine(wheel: Path, program: str) -> list[dict]:
    """Read a wheel both ways."""
    began = time.monotonic()
    facts = read_wheel(wheel)
    ours = time.monotonic() - began
    oracle = {}
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        for library in facts.libraries:
            path = Path(archive.extract(library.path, folder))
            oracle[library.path] = listing(program, path)
            path.unlink()
    rows = table_row(wheel, facts, oracle)
    theirs = time.monotonic() - began - ours
    for row in rows:
        row |= {"libraries": len(facts.libraries), "seconds": round(ours, 1)}
        row["oracle_seconds"] = round(theirs, 1)
    return rows


def line(row: dict) -> str:
    """A row of the table."""
    counts = row["counts"]
    numbers = " | ".join(f"{counts[kind.value]:,}" for kind in Kernel)
    agree = "**FALSE PASS**" if row["false_pass"] else ", ".join(row["differing"]) or "agrees"
    return f"| {row['wheel']} | {row['device']} | {row['code']} | {numbers} | {agree} |"


def main() -> int:
    """Examine every wheel that is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheels", nargs="+", type=Path)
    parser.add_argument("--cuobjdump", required=True)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print("| wheel | device | code | " + " | ".join(k.value for k in Kernel) + " | cuobjdump |")
    print("|---|---|---|" + "---|" * len(Kernel) + "---|")
    rows = []
    for wheel in options.wheels:
        for row in examine(wheel, options.cuobjdump):
            rows.append(row)
            print(line(row), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return int(any(row["false_pass"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
