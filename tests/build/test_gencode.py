import json

import pytest

from kernforge.arch import parse_archs
from kernforge.build.gencode import expected_archs, gencode_config


def test_config_is_what_the_shim_reads():
    policies = (("*/flashmla/*", "upstream"), ("default", "replace"))
    assert gencode_config(policies, parse_archs("12.0a;9.0+PTX")) == {
        "default": "replace",
        "by_path": [["*/flashmla/*", "upstream"]],
        "archs": [{"code": "90", "ptx": True}, {"code": "120a", "ptx": False}],
    }


def test_longest_pattern_comes_first_whatever_the_order():
    pairs = [("default", "filter"), ("*/b*", "upstream"), ("*/a*", "filter"), ("*/a/x*", "replace")]
    archs = parse_archs("12.0a")
    config = gencode_config(tuple(pairs), archs)
    assert [pattern for pattern, _ in config["by_path"]] == ["*/a/x*", "*/a*", "*/b*"]
    assert gencode_config(tuple(reversed(pairs)), archs) == config


def test_config_survives_json():
    config = gencode_config((("default", "replace"), ("*.cu", "filter")), parse_archs("12.0f"))
    assert json.loads(json.dumps(config)) == config


@pytest.mark.parametrize(
    ("archs", "names"),
    [
        ("12.0a", ("sm_120a",)),
        ("12.0f", ("sm_120f",)),
        ("9.0;12.0a", ("sm_90", "sm_120a")),
        ("9.0+PTX", ("sm_90", "compute_90")),
        ("12.0a+PTX;8.6", ("sm_86", "sm_120a", "compute_120a")),
    ],
)
def test_expected_archs(archs, names):
    assert expected_archs(parse_archs(archs)) == names
