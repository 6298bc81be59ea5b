import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from kernforge.errors import VerifyError
from kernforge.pack.metadata import (
    WheelName,
    check_distribution,
    check_version,
    full_version,
    header,
    one,
    parse_wheel_name,
    wheel_text,
    with_header,
    with_torch,
)

METADATA = """\
Metadata-Version: 2.1
Name: tiny
version: 1.2.3
Classifier: A
Classifier: B
License: many
        Version: of it

Version: 9.9 is what the text says
Name: other
"""


def test_a_wheel_name_and_back():
    text = "tiny_ops-1.2.3+cu130.sm120a-1kf0123456789-py2.py3-none-linux_x86_64.whl"
    name = parse_wheel_name(text)
    assert (name.distribution, name.version, name.build) == (
        "tiny_ops", "1.2.3+cu130.sm120a", "1kf0123456789"
    )  # fmt: skip
    assert str(name) == text
    assert name.stem == "tiny_ops-1.2.3+cu130.sm120a"
    assert name.tags == ("py2-none-linux_x86_64", "py3-none-linux_x86_64")


def test_a_wheel_name_without_a_build_tag():
    name = parse_wheel_name("tiny-1-cp311-abi3-manylinux_2_28_x86_64.manylinux2014_x86_64.whl")
    assert name.build is None
    assert len(name.tags) == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".whl",
        "tiny-1-py3-none-any.zip",
        "tiny-1-none-any.whl",
        "tiny-1-1a-x-py3-none-any.whl",
        "tiny-1-a1-py3-none-any.whl",
        "-1-py3-none-any.whl",
        "tiny--py3-none-any.whl",
        "tiny-1-PY3-none-any.whl",
        "tiny-1-py3-none-a ny.whl",
    ],
)
def test_no_wheel_name(text):
    with pytest.raises(VerifyError, match="is not a wheel's file name") as caught:
        parse_wheel_name(text)
    assert caught.value.word == "wheel-name"


PART = st.text("abcdefghijklmnopqrstuvwxyz0123456789_.", min_size=1, max_size=8)


@given(dist=PART, version=PART, build=st.none() | st.integers(0, 99).map(str), tag=PART)
def test_every_wheel_name_reads_back(dist, version, build, tag):
    name = WheelName(distribution=dist, version=version, build=build, tag=f"py3-none-{tag}")
    assert parse_wheel_name(str(name)) == name


def test_header_reads_the_head_only():
    assert header(METADATA, "Version") == ["1.2.3"]
    assert header(METADATA, "Classifier") == ["A", "B"]
    assert header(METADATA.replace("\n", "\r\n"), "Name") == ["tiny"]


@pytest.mark.parametrize(("key", "count"), [("Classifier", 2), ("Author", 0)])
def test_one_value_is_the_rule(key, count):
    with pytest.raises(VerifyError, match=f"here has {count} lines '{key}'") as caught:
        one(METADATA, key, "here")
    assert caught.value.word == "metadata-invalid"


def test_with_header_changes_that_line_and_no_other():
    text = with_header(METADATA, "Version", r"1.2.3+cu130\1")
    assert text.splitlines()[2] == r"Version: 1.2.3+cu130\1"
    lines, old = text.splitlines(), METADATA.splitlines()
    assert lines[:2] + lines[3:] == old[:2] + old[3:]


@pytest.mark.parametrize(
    ("built", "local", "version"),
    [
        ("1.2.3", None, "1.2.3"),
        ("1.2.3", "cu130.sm120a", "1.2.3+cu130.sm120a"),
        ("1.2.3+abc", "cu130", "1.2.3+abc.cu130"),
        ("1.2.3+abc", None, "1.2.3+abc"),
        ("v1.02.0RC1", "CU130-x", "1.2.0rc1+cu130.x"),
    ],
)
def test_full_version(built, local, version):
    assert full_version(built, local) == version


def test_a_version_that_is_none():
    with pytest.raises(VerifyError, match="calls itself version 'main', which is none") as caught:
        full_version("main", None)
    assert caught.value.word == "version-invalid"


@given(
    number=st.tuples(st.integers(0, 99), st.integers(0, 99)),
    local=st.from_regex(r"[a-z0-9]{1,5}(\.[a-z0-9]{1,5})?", fullmatch=True),
)
def test_a_local_part_never_changes_the_public_one(number, local):
    built = f"{number[0]}.{number[1]}"
    assert Version(full_version(built, local)).public == built


@pytest.mark.parametrize(
    ("built", "exact", "expect"),
    [
        ("1.2.3", "1.2.3", None),
        ("1.2.3+g0", "1.2.3", None),
        ("1.2.3", "v1.2.3", None),
        ("0.4.10", None, "0.4.*"),
        ("0.4.10rc1", None, "0.4.*"),
        ("0.4.10+g0", None, "0.4.10"),
        ("7", None, None),
    ],
)
def test_versions_that_agree(built, exact, expect):
    check_version(built, exact=exact, expect=expect, where="job")


@pytest.mark.parametrize(
    ("built", "exact", "expect", "said"),
    [
        ("0.0.1", "1.2.3", None, "says version '0.0.1', the recipe '1.2.3'"),
        ("0.3.9", None, "0.4.*", "the recipe expects '0.4.*'"),
        ("0.5.0", None, "0.4.*", "the recipe expects '0.4.*'"),
        ("0.4.0", None, "0.4.x", "'0.4.x' is no version pattern"),
    ],
)
def test_versions_that_do_not(built, exact, expect, said):
    with pytest.raises(VerifyError, match=f"job: .*{said}") as caught:
        check_version(built, exact=exact, expect=expect, where="job")
    assert caught.value.word == "version-mismatch"


@pytest.mark.parametrize("built", ["0.0.0", "0.0.0.dev1", "0.0.0+unknown"])
def test_a_version_that_upstream_did_not_find(built):
    with pytest.raises(VerifyError, match="upstream did not find its version") as caught:
        check_version(built, exact=None, expect=None, where="job")
    assert caught.value.word == "version-unknown"


def test_distribution_names_are_compared_normalised():
    check_distribution("SGLang_Kernel", "sglang-kernel", "job")
    with pytest.raises(VerifyError, match="built wheel is 'sgl_kernel'") as caught:
        check_distribution("sgl_kernel", "sglang-kernel", "job")
    assert caught.value.hint == "write distribution: sgl-kernel"


def test_wheel_text():
    name = parse_wheel_name("tiny-1-2-py2.py3-none-any.whl")
    assert wheel_text(name, purelib="false") == (
        "Wheel-Version: 1.0\nGenerator: kernforge\nRoot-Is-Purelib: false\n"
        "Tag: py2-none-any\nTag: py3-none-any\nBuild: 2\n"
    )


@pytest.mark.parametrize("text", [METADATA, "Name: tiny\nVersion: 1\n", "Name: tiny\nVersion: 1"])
def test_torch_is_pinned_in_the_head(text):
    pinned = with_torch(text, "2.14.1", "job")
    assert header(pinned, "Requires-Dist") == ["torch==2.14.*"]
    assert header(pinned, "Name") == ["tiny"]
    assert pinned.count("Version: 9.9") == text.count("Version: 9.9")


@pytest.mark.parametrize("need", ["torch==2.14.1", "torch==2.14.*", "Torch~=2.14.0"])
def test_a_stricter_requirement_stays(need):
    text = f"Name: tiny\nRequires-Dist: {need}\n"
    assert with_torch(text, "2.14.1", "job") == text


@pytest.mark.parametrize("need", ["torch", "torch>=2", "torch~=2.0", "torchvision==0.1"])
def test_a_laxer_requirement_gets_company(need):
    text = f"Name: tiny\nRequires-Dist: {need}\n"
    found = header(with_torch(text, "2.14.1", "job"), "Requires-Dist")
    assert found == [need, "torch==2.14.*"]


def test_a_requirement_that_excludes_the_torch_of_the_build():
    with pytest.raises(VerifyError, match=r"compiled for torch 2\.14\.1$") as caught:
        with_torch("Requires-Dist: torch<2.13\n", "2.14.1", "job")
    assert caught.value.word == "requires-conflict"
