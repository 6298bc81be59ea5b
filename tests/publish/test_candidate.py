"""What may be published: whole wheels of ours that reach their level and can be installed."""

import hashlib
import json
import stat
import zipfile

import pytest
from answers import verdict
from images import image, library
from publish.offers import candidate, write_offer

from kernforge.errors import PublishError, VerifyError
from kernforge.publish.candidate import make_candidate


def rewritten(wheel, changes):
    """The wheel with members replaced, RECORD left as it was."""
    with zipfile.ZipFile(wheel) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in {**members, **changes}.items():
            archive.writestr(name, data)
    return wheel


def test_a_record_is_read_from_the_bytes(tmp_path):
    wheel = write_offer(tmp_path, torch="2.14.1", metadata=("Requires-Dist: torch==2.14.*",))
    made = candidate(wheel)
    listed = made.listed
    assert listed.leaf == "cu130/torch2.14/sm120a"
    assert listed.place == f"cu130/torch2.14/sm120a/tiny/{wheel.name}"
    assert listed.sha256 == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert listed.metadata_sha256 == hashlib.sha256(made.metadata).hexdigest()
    assert (listed.version, listed.requires_python) == ("1.2.3+cu130.sm120a", ">=3.10")
    assert [(claim.device, claim.reached) for claim in listed.claims] == [("12.0", "code")]


@pytest.mark.parametrize(
    ("archs", "leaf"),
    [(["12.0a", "9.0"], "cu130/sm90.120a"), (["9.0+PTX"], "cu130/sm90ptx"),
     (["10.0f"], "cu130/sm100f")],
)  # fmt: skip
def test_leaves_by_arch_set(tmp_path, archs, leaf):
    assert candidate(write_offer(tmp_path, archs=archs)).listed.leaf == leaf


def test_a_changed_member_is_refused(tmp_path):
    wheel = rewritten(write_offer(tmp_path), {"tiny.py": b"import os\n"})
    with pytest.raises(PublishError, match=r"'tiny.py' is not the file that RECORD lists") as found:
        candidate(wheel)
    assert (found.value.word, found.value.exit_code) == ("wheel-unsound", 8)


def test_an_added_member_is_refused(tmp_path):
    wheel = rewritten(write_offer(tmp_path), {"extra.pth": b"import os\n"})
    with pytest.raises(PublishError, match=r"RECORD does not list 'extra.pth'"):
        candidate(wheel)


def test_changed_metadata_is_refused(tmp_path):
    wheel = write_offer(tmp_path)
    name = "tiny-1.2.3+cu130.sm120a.dist-info/METADATA"
    with pytest.raises(PublishError, match="is not published"):
        candidate(rewritten(wheel, {name: b"Metadata-Version: 2.4\nName: huge\n\n"}))


@pytest.mark.parametrize("member", ["../evil.py", "/etc/evil.py", "a\\..\\evil.py"])
def test_a_member_that_leads_out_is_refused(tmp_path, member):
    with pytest.raises(PublishError, match="is not published"):
        candidate(rewritten(write_offer(tmp_path), {member: b"x"}))


def test_a_link_in_a_wheel_is_refused(tmp_path):
    wheel = write_offer(tmp_path)
    info = zipfile.ZipInfo("link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(PublishError, match="is not published"):
        candidate(wheel)


def test_a_torn_wheel_is_refused(tmp_path):
    wheel = write_offer(tmp_path)
    wheel.write_bytes(wheel.read_bytes()[:-40])
    with pytest.raises(PublishError, match="is not published") as found:
        candidate(wheel)
    assert found.value.word == "wheel-unsound"


@pytest.mark.parametrize("name", ["a b-1-1-py3-none-any.whl", "<x>-1-1-py3-none-any.whl"])
def test_a_name_that_no_index_serves_is_refused(tmp_path, name):
    wheel = write_offer(tmp_path).rename(tmp_path / name)
    with pytest.raises(PublishError, match="characters that no index serves"):
        candidate(wheel)


def test_a_wheel_of_others_is_refused(tmp_path):
    wheel = write_offer(tmp_path, key="")
    with pytest.raises(VerifyError, match=r"its build.json is garbled") as found:
        candidate(wheel)
    assert found.value.word == "wheel-foreign"


@pytest.mark.parametrize("require", ["links", "imports", "loads", "runs"])
def test_a_level_that_is_not_verified_is_not_published(tmp_path, require):
    with pytest.raises(PublishError, match=f"does not reach '{require}'") as found:
        candidate(write_offer(tmp_path), require=require)
    assert found.value.word == "wheel-short"


def test_a_failed_wheel_is_not_published_and_every_fault_is_told(tmp_path):
    fallen = verdict(library(image("9.0", "k")), devices=("12.0", "10.0"))
    with pytest.raises(PublishError, match="does not reach 'code'") as found:
        make_candidate(write_offer(tmp_path), fallen, provenance=None)
    assert len(found.value.detail) == 2


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"torch": "2.14.1", "metadata": ("Requires-Dist: torch==2.13.*",)}, "torch 2.14.1"),
        ({"requires_python": ">=3.12"}, "Python 3.11"),
    ],
)
def test_a_wheel_that_excludes_its_own_target_is_refused(tmp_path, facts, told):
    with pytest.raises(PublishError, match=f"was built for {told}") as found:
        candidate(write_offer(tmp_path, **facts))
    assert found.value.word == "target-excluded"


def test_provenance_of_other_bytes_is_refused(tmp_path):
    wheel = write_offer(tmp_path)
    statement = json.dumps({"subject": [{"digest": {"sha256": "0" * 64}}]}).encode()
    with pytest.raises(PublishError, match="is not of these bytes") as found:
        make_candidate(wheel, verdict(), provenance=statement)
    assert found.value.word == "provenance-differs"
