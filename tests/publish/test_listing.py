"""The catalogue: what was written comes back, what a stranger writes leads nowhere."""

import json
from pathlib import PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from publish.offers import candidate, write_offer

from kernforge.canonical import digest
from kernforge.errors import PublishError
from kernforge.publish.listing import Listed, catalogue_text, read_catalogue

PLAIN = {
    "file": "tiny-1-py3-none-any.whl", "project": "tiny", "version": "1", "leaf": "cu130/sm120a",
    "sha256": "a" * 64, "size": 3, "metadata_sha256": "b" * 64, "provenance_sha256": None,
    "requires_python": None, "summary": "", "recipe": "tiny", "job": "tiny-job",
    "build_key": "c" * 64, "archs": ["12.0a"], "cuda": "13.0", "torch": None, "python": "3.11",
    "require": "code", "claims": [{"device": "12.0", "levels": [["code", "reached"]]}],
    "published": "2026-11-30T00:00:00Z", "yanked": None,
}  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(
        ["../x.whl", "/etc/x.whl", "cu130/../sm120a", "x\0.whl", ".whl", "a b.whl", "cu130/sm120a/"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def written(*wheels, **body):
    whole = {"format": 1, "base_url": None, "wheels": list(wheels)} | body
    return json.dumps({"body": whole, "digest": digest(whole)}).encode()


def test_a_catalogue_comes_back(tmp_path):
    wheel = candidate(write_offer(tmp_path, torch="2.14.1", archs=["9.0", "10.0f"])).listed
    text = catalogue_text((wheel,), "https://wheels.example")
    assert read_catalogue(text.encode(), "x") == ((wheel,), "https://wheels.example")


def test_the_plain_record_is_taken():
    (wheel,), _ = read_catalogue(written(PLAIN), "x")
    assert isinstance(hash(wheel), int)
    assert wheel.claims[0].reached == "code"


@given(field=st.sampled_from(sorted(PLAIN)), value=VALUES)
@settings(max_examples=400)
def test_whatever_a_field_says_it_is_refused_or_leads_nowhere(field, value):
    try:
        data = written(PLAIN | {field: value})
    except UnicodeEncodeError:
        return
    try:
        wheels, _ = read_catalogue(data, "x")
    except PublishError:
        return
    assert [type(wheel) for wheel in wheels] == [Listed]
    assert hash(wheels[0]) is not None
    place = PurePosixPath(wheels[0].place)
    assert not place.is_absolute()
    assert ".." not in place.parts
    assert place.name == wheels[0].file
    assert len(place.parts) in {4, 5}


@given(st.binary(max_size=60))
def test_bytes_that_are_no_catalogue(data):
    with pytest.raises(PublishError, match="is damaged"):
        read_catalogue(data, "x")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (written(PLAIN, PLAIN), "names a file twice"),
        (written(PLAIN, format=2), "has format 2, not 1"),
        (written(PLAIN, base_url=7), "base_url is no text"),
        (written(PLAIN).replace(b"tiny-job", b"tiny-jab"), "other content than it was written with"),
        (written({k: v for k, v in PLAIN.items() if k != "yanked"}), "cannot be read: 'yanked'"),
        (written(PLAIN | {"surprise": 1}), "cannot be read"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(data, why):
    with pytest.raises(PublishError, match=why):
        read_catalogue(data, "x")
