"""The stand-in's loader does what large ones do: one file for 9.0, one for all others, faults swallowed."""

import importlib.util

import pytest
from standin.maker import AOT, FIXTURE

PACKAGE = FIXTURE / "upstream" / AOT / "python/standin_kernel"


@pytest.fixture
def loading():
    spec = importlib.util.spec_from_file_location("load_utils", PACKAGE / "load_utils.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def variant_folder(loading, tmp_path):
    """The folder that the device at hand, or its absence, chooses."""
    folder = tmp_path / loading.variant(loading.capability())
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("cc", "folder"), [(90, "sm90"), (120, "sm100"), (89, "sm100"), (None, "sm100")]
)
def test_every_device_but_9_0_shares_a_folder(loading, cc, folder):
    assert loading.variant(cc) == folder


def test_a_variant_that_does_not_load_is_passed_over_in_silence(loading, tmp_path, variant_folder):
    """So an import that ends well says nothing of the file that was meant."""
    (variant_folder / "common_ops.abi3.so").write_bytes(b"\x7fELF, and not more")
    (tmp_path / "common_ops.py").write_text("stale = True\n")
    assert loading.load_common_ops(tmp_path).stale


def test_with_nothing_left_it_fails_with_what_it_tried(loading, tmp_path, variant_folder):
    (variant_folder / "common_ops.abi3.so").write_bytes(b"")
    with pytest.raises(ImportError, match=r"tried \['common_ops\.abi3\.so'\]"):
        loading.load_common_ops(tmp_path)
