"""The bill: valid by the schema that its makers ship, and decided by the key alone."""

import json
from dataclasses import replace

import pytest

from kernforge.canonical import canonical_json
from kernforge.pack.licences import Vendored
from kernforge.pack.sbom import BillOrder, sbom_text
from kernforge.toolchain.lock import Pin

cyclonedx = pytest.importorskip("cyclonedx", reason="no cyclonedx-python-lib")

ORDER = BillOrder(
    distribution="sglang-kernel",
    version="0.4.10+cu130.torch2.14.sm120a",
    licence="Apache-2.0",
    key="ab" * 32,
    sources=(
        ("cutlass", "sglang/3rdparty/cutlass", canonical_json({"kind": "archive", "sha256": "12" * 32, "strip": 1})),
        ("scatter", "scatter", canonical_json({"kind": "pypi", "name": "torch-scatter", "version": "2.1.2",
                                    "sha256": "34" * 32})),
        ("sglang", "sglang", canonical_json({"kind": "git", "commit": "56" * 20})),
        ("own", "own", canonical_json({"kind": "path", "tree": "78" * 32})),
    ),
    vendored=(
        Vendored(path="sglang/LICENSE", licence="Apache-2.0", sha256="0" * 64),
        Vendored(path="sglang/3rdparty/cutlass/LICENSE.txt", licence="BSD-3-Clause", sha256="5" * 64),
        Vendored(path="sglang/3rdparty/fmt/LICENSE", licence="MIT", sha256="1" * 64),
        Vendored(path="sglang/3rdparty/odd/LICENSE.txt", licence=None, sha256="2" * 64),
        Vendored(path="sglang/3rdparty/two/LICENSE-A", licence="MIT", sha256="3" * 64),
        Vendored(path="sglang/3rdparty/two/LICENSE-B", licence="BSD-3-Clause", sha256="4" * 64),
    ),
    pins=(
        Pin(name="cmake", version="4.4.5", hashes=("a" * 64, "b" * 64)),
        Pin(name="nvidia-cuda-nvcc", version="13.0.88", hashes=("c" * 64,)),
        Pin(name="torch", version="2.14.1", hashes=("d" * 64, "e" * 64)),
    ),
    licences=(("cmake", "Apache 2.0, roughly"), ("torch", "BSD-3-Clause")),
)  # fmt: skip


def parts(order=ORDER):
    return {part["bom-ref"]: part for part in json.loads(sbom_text(order))["components"]}


def test_it_is_valid_by_the_published_schema():
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(sbom_text(ORDER))
    assert fault is None, fault


def test_the_validator_does_refuse():
    """So that the test above means something."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = sbom_text(ORDER).replace('"library"', '"librarie"')
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is not None


def test_the_library_reads_it_back():
    from cyclonedx.model.bom import Bom

    bom = Bom.from_json(json.loads(sbom_text(ORDER)))
    assert len(bom.components) == 10
    assert str(bom.metadata.component.purl) == (
        "pkg:pypi/sglang-kernel@0.4.10%2Bcu130.torch2.14.sm120a"
    )


def test_every_ingredient_is_named_with_its_digest():
    found = parts()
    assert found["source:cutlass"]["hashes"] == [{"alg": "SHA-256", "content": "12" * 32}]
    assert found["source:sglang"]["version"] == "56" * 20
    assert found["source:scatter"]["purl"] == "pkg:pypi/torch-scatter@2.1.2"
    assert found["source:own"]["purl"] == f"pkg:generic/own@{'78' * 32}"
    assert found["pkg:pypi/nvidia-cuda-nvcc@13.0.88"]["scope"] == "required"
    assert found["pkg:pypi/cmake@4.4.5"]["scope"] == "excluded"


def test_licences_are_told_as_found_and_never_guessed():
    found = parts()
    assert found["source:sglang"]["licenses"] == [{"license": {"id": "Apache-2.0"}}]
    assert found["source:cutlass"]["licenses"] == [{"license": {"id": "BSD-3-Clause"}}]
    assert "vendored:sglang/3rdparty/cutlass" not in found
    assert found["vendored:sglang/3rdparty/fmt"]["licenses"] == [{"license": {"id": "MIT"}}]
    assert "licenses" not in found["vendored:sglang/3rdparty/odd"]
    assert found["vendored:sglang/3rdparty/two"]["licenses"] == [
        {"expression": "BSD-3-Clause AND MIT"}
    ]
    assert found["pkg:pypi/cmake@4.4.5"]["licenses"] == [
        {"license": {"name": "Apache 2.0, roughly"}}
    ]
    assert "EULA" in str(found["pkg:pypi/nvidia-cuda-nvcc@13.0.88"]["licenses"])


def test_equal_orders_give_equal_bytes_and_another_key_another_number():
    again = replace(ORDER, vendored=tuple(reversed(ORDER.vendored)), pins=ORDER.pins[::-1])
    assert parts(again).keys() == parts().keys()
    assert sbom_text(ORDER) == sbom_text(replace(ORDER, key="ab" * 32))
    other = json.loads(sbom_text(replace(ORDER, key="cd" * 32)))
    assert other["serialNumber"] != json.loads(sbom_text(ORDER))["serialNumber"]


def test_no_address_and_no_time():
    text = sbom_text(ORDER).replace("http://cyclonedx.org/schema", "")
    assert "http" not in text
    assert "timestamp" not in text
