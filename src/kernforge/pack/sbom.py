"""The software bill of a wheel, CycloneDX 1.6 as JSON, to stand in ``dist-info/sboms``. Pure.

Everything in it follows from the wheel's key, so that equal keys give equal bytes: no time, no
version of ours, and no address a source was fetched from, which the provenance beside the wheel
holds. Sources: CycloneDX 1.6 JSON schema; PEP 770 for the place.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from kernforge.pack.licences import Vendored
from kernforge.pack.purl import generic_purl, pypi_purl
from kernforge.toolchain.lock import Pin

PLACE = "sboms/kernforge.cdx.json"
"""Where the bill stands in the dist-info folder."""
_CUDA = ("nvidia-", "cuda-")
_NVIDIA_TERMS = "NVIDIA CUDA Toolkit EULA"


@dataclass(frozen=True, slots=True, kw_only=True)
class BillOrder:
    """What a bill is made of; all of it decided by the wheel's key.

    Attributes:
        distribution: name of the wheel's distribution.
        version: its version with the local part.
        licence: licence expression of its METADATA, or None.
        key: the BuildKey.
        sources: name, place in the tree and pins of each source, the pins as canonical JSON.
        vendored: licence files found in the sources.
        pins: the locked packages of the environment that it was built in.
        licences: name and licence of those packages, where they name one.
    """

    distribution: str
    version: str
    licence: str | None
    key: str
    sources: tuple[tuple[str, str, str], ...]
    vendored: tuple[Vendored, ...] = ()
    pins: tuple[Pin, ...] = ()
    licences: tuple[tuple[str, str], ...] = ()


def sbom_text(order: BillOrder) -> str:
    """The bill of a wheel: its sources, what they carry with them, CUDA's parts, build tools."""
    main = pypi_purl(order.distribution, order.version)
    parts = [*_sources(order), *_vendored(order), *_packages(order)]
    parts.sort(key=lambda part: str(part["bom-ref"]))
    inside = [part["bom-ref"] for part in parts if part["scope"] == "required"]
    about = {
        "type": "library",
        "bom-ref": main,
        "name": order.distribution,
        "version": order.version,
        "purl": main,
        **_licences(order.licence),
    }
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": _serial(order.key),
        "version": 1,
        "metadata": {
            "component": about,
            "properties": [{"name": "kernforge:build-key", "value": order.key}],
        },
        "components": parts,
        "dependencies": [
            {"ref": main, "dependsOn": inside},
            *({"ref": part["bom-ref"], "dependsOn": []} for part in parts),
        ],
    }
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _serial(key: str) -> str:
    digest = hashlib.sha256(f"kernforge bill of {key}".encode()).digest()
    return f"urn:uuid:{uuid.UUID(bytes=digest[:16], version=4)}"


def _licences(text: str | None) -> dict[str, Any]:
    """The licences of a component: an expression where it is one, else its name as written."""
    if not text:
        return {}
    try:
        expression = str(canonicalize_license_expression(text))
    except InvalidLicenseExpression:
        return {"licenses": [{"license": {"name": text}}]}
    if " " in expression or expression.startswith("LicenseRef-"):
        return {"licenses": [{"expression": expression}]}
    return {"licenses": [{"license": {"id": expression}}]}


def _sources(order: BillOrder) -> list[dict[str, Any]]:
    licences: dict[str, list[str]] = {}
    for found in order.vendored:
        if found.licence:
            licences.setdefault(found.folder, []).append(found.licence)
    return [
        _source(name, json.loads(pins), licences.get(place, []))
        for name, place, pins in order.sources
    ]


def _source(name: str, pins: Mapping[str, Any], licences: list[str]) -> dict[str, Any]:
    version = next(str(pins[key]) for key in ("commit", "version", "sha256", "tree") if key in pins)
    is_pypi = pins["kind"] == "pypi"
    purl = pypi_purl(pins["name"], version) if is_pypi else generic_purl(name, version)
    hashes = [{"alg": "SHA-256", "content": pins["sha256"]}] if "sha256" in pins else []
    properties = [{"name": "kernforge:source", "value": str(pins["kind"])}]
    return {
        "type": "library",
        "bom-ref": f"source:{name}",
        "name": str(pins["name"]) if is_pypi else name,
        "version": version,
        "purl": purl,
        "scope": "required",
        "properties": properties,
        **({"hashes": hashes} if hashes else {}),
        **_licences(" AND ".join(sorted(set(licences)))),
    }


def _vendored(order: BillOrder) -> list[dict[str, Any]]:
    """Third parties inside the sources: folders with a licence file of their own."""
    tops = {place for _, place, _ in order.sources}
    folders: dict[str, list[Vendored]] = {}
    for found in order.vendored:
        if found.folder and found.folder not in tops:
            folders.setdefault(found.folder, []).append(found)
    parts = []
    for folder, files in sorted(folders.items()):
        known = sorted({file.licence for file in files if file.licence})
        evidence = [{"name": "kernforge:licence-file", "value": file.path} for file in files]
        parts.append(
            {
                "type": "library",
                "bom-ref": f"vendored:{folder}",
                "name": folder.rpartition("/")[2],
                "scope": "required",
                "properties": [{"name": "kernforge:folder", "value": folder}, *evidence],
                **_licences(" AND ".join(known)),
            }
        )
    return parts


def _packages(order: BillOrder) -> list[dict[str, Any]]:
    licences = dict(order.licences)
    parts = []
    for pin in order.pins:
        purl = pypi_purl(pin.name, pin.version)
        is_cuda = pin.name.startswith(_CUDA)
        named = licences.get(pin.name) or (_NVIDIA_TERMS if is_cuda else None)
        part: dict[str, Any] = {
            "type": "library" if is_cuda or pin.name == "torch" else "application",
            "bom-ref": purl,
            "name": pin.name,
            "version": pin.version,
            "purl": purl,
            "scope": "required" if is_cuda or pin.name == "torch" else "excluded",
            **_licences(named),
        }
        if len(pin.hashes) == 1:
            part["hashes"] = [{"alg": "SHA-256", "content": pin.hashes[0]}]
        parts.append(part)
    return parts
