import json
import subprocess
import sys
import venv
import zipfile

import pytest

from kernforge.binary.wheel import read_wheel
from kernforge.errors import VerifyError
from kernforge.pack.archive import unpack
from kernforge.pack.wheel import PackOrder, build_tag, dist_info, repack

BUILT = "Tiny_Ops-1.2.3-py3-none-linux_x86_64.whl"
INFO = "Tiny_Ops-1.2.3.dist-info"
FILES = {
    "tiny/__init__.py": "value = 7\n",
    "Tiny_Ops-1.2.3.data/scripts/tiny-run": "#!python\nprint('ran')\n",
    f"{INFO}/METADATA": "Metadata-Version: 2.1\nName: Tiny_Ops\nVersion: 1.2.3\n\nText\n",
    f"{INFO}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    f"{INFO}/RECORD": "stale\n",
}
KEY = "0123456789abcdef" * 4


def order(**changes) -> PackOrder:
    plain = {
        "where": "job", "distribution": "tiny-ops", "exact": "1.2.3", "expect": None,
        "local": "cu130.sm120a", "build_tag": build_tag(KEY), "epoch": 1577836800,
    }  # fmt: skip
    return PackOrder(**(plain | changes))


def grow(root, **changes):
    for name, text in (FILES | changes).items():
        if text is not None:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
    (root / "Tiny_Ops-1.2.3.data/scripts/tiny-run").chmod(0o755)
    return root


def pack(tmp_path, *, built=BUILT, changes=None, **options):
    documents = (("build.json", json.dumps({"key": KEY})),)
    into = tmp_path / "out"
    into.mkdir(parents=True)
    tree = grow(tmp_path / "tree", **(changes or {}))
    return repack(tree, built, order(**options), documents=documents, into=into)


def test_name_metadata_record_and_tags_agree(tmp_path):
    wheel = pack(tmp_path)
    assert wheel.name == ("tiny_ops-1.2.3+cu130.sm120a-1kf0123456789-py3-none-linux_x86_64.whl")
    facts = read_wheel(wheel)
    assert (facts.name, facts.version) == ("tiny-ops", "1.2.3+cu130.sm120a")
    assert facts.build == "1kf0123456789"
    assert dict(facts.metadata)["Version"] == "1.2.3+cu130.sm120a"
    assert ("Tag", "py3-none-linux_x86_64") in facts.wheel
    assert facts.findings == ()


def test_documents_stand_in_dist_info(tmp_path):
    with zipfile.ZipFile(pack(tmp_path)) as archive:
        info = "tiny_ops-1.2.3+cu130.sm120a.dist-info"
        assert json.loads(archive.read(f"{info}/build.json")) == {"key": KEY}
        assert archive.read(f"{info}/METADATA").decode().endswith("\n\nText\n")
        assert not [name for name in archive.namelist() if name.startswith("Tiny_Ops")]


def test_it_installs_with_its_script(tmp_path):
    wheel = pack(tmp_path)
    venv.create(tmp_path / "venv")
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--offline", "--no-index"]
    subprocess.run([*uv, "--python", tmp_path / "venv/bin/python", wheel], check=True)
    done = subprocess.run([tmp_path / "venv/bin/tiny-run"], capture_output=True, check=True)
    assert done.stdout == b"ran\n"


def test_no_local_part(tmp_path):
    wheel = pack(tmp_path, local=None)
    assert wheel.name == "tiny_ops-1.2.3-1kf0123456789-py3-none-linux_x86_64.whl"


def test_torch_stands_in_the_metadata(tmp_path):
    facts = read_wheel(pack(tmp_path, torch="2.14.1"))
    assert ("Requires-Dist", "torch==2.14.*") in facts.metadata


def test_packing_twice_gives_equal_bytes(tmp_path):
    first = pack(tmp_path).read_bytes()
    assert pack(tmp_path / "other").read_bytes() == first


def test_packing_a_packed_wheel_again_changes_nothing(tmp_path):
    wheel = pack(tmp_path)
    unpack(wheel, tmp_path / "again")
    again = repack(tmp_path / "again", wheel.name, order(local=None), documents=(), into=tmp_path)
    assert again.read_bytes() == wheel.read_bytes()


@pytest.mark.parametrize(
    ("changes", "options", "word", "said"),
    [
        ({}, {"exact": "9"}, "version-mismatch", "the recipe '9'"),
        ({}, {"distribution": "huge"}, "distribution-mismatch", "the recipe says 'huge'"),
        ({f"{INFO}/METADATA": None}, {}, "metadata-invalid", "job: the wheel has no METADATA"),
        ({f"{INFO}/WHEEL": None}, {}, "metadata-invalid", "job: the wheel has no WHEEL"),
        ({f"{INFO}/METADATA": "Name: x\n"}, {}, "metadata-invalid", "0 lines 'Version'"),
        ({f"{INFO}/WHEEL": "\n"}, {}, "metadata-invalid", "0 lines 'Root-Is-Purelib'"),
        ({"b.dist-info/METADATA": ""}, {}, "metadata-invalid", "2 dist-info folders, not one"),
        ({}, {"built": "tiny.whl"}, "wheel-name", "is not a wheel's file name"),
    ],
)
def test_a_wheel_that_is_not_honest(tmp_path, changes, options, word, said):
    with pytest.raises(VerifyError, match=said) as caught:
        pack(tmp_path, changes=changes, **options)
    assert caught.value.word == word
    assert list((tmp_path / "out").iterdir()) == []


def test_metadata_that_is_not_text(tmp_path):
    grow(tmp_path / "tree")
    (tmp_path / "tree" / INFO / "METADATA").write_bytes(b"Name: \xff\xfe")
    with pytest.raises(VerifyError, match="job: METADATA is not UTF-8") as caught:
        repack(tmp_path / "tree", BUILT, order(), documents=(), into=tmp_path)
    assert caught.value.word == "metadata-invalid"


def test_no_dist_info_at_all(tmp_path):
    with pytest.raises(VerifyError, match="0 dist-info folders"):
        dist_info(tmp_path, "job")


def test_a_build_tag_begins_with_a_digit_and_follows_the_key():
    assert build_tag(KEY)[0].isdigit()
    assert build_tag(KEY) != build_tag("f" * 64)
