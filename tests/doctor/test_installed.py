"""Records of distributions: whole, half, garbled, hostile."""

import os

import pytest
from doctor.places import case_of

from kernforge.doctor.installed import find_installed, leftovers


def only(place):
    (one,) = find_installed((place.site,))
    return one


def test_a_distribution(place):
    place.install(
        "My_Pkg", "1.0+cu130", {"my_pkg/__init__.py": "", "solo.py": "", "my.abi3.so": ""}
    )
    one = only(place)
    assert (one.name, one.key, one.version, one.installer) == (
        "My_Pkg",
        "my-pkg",
        "1.0+cu130",
        "uv",
    )
    assert one.modules == ("my", "my_pkg", "solo")
    assert (one.missing, one.direct, one.built, one.findings) == ((), None, None, ())


def test_fields_after_a_licence_that_is_written_out(place):
    """Blank-looking lines continue a field; wheels of scikit-build-core have them."""
    text = "License: A\n         \n         B\n"
    place.install(
        "pkg", "1.0", {"pkg/__init__.py": ""}, metadata=text + "Requires-Dist: torch==2.14.1\n"
    )
    assert ("Requires-Dist", "torch==2.14.1") in only(place).metadata


@pytest.mark.parametrize(
    ("direct", "folder", "editable", "commit"),
    [
        ({"url": "file:///a%20b", "dir_info": {"editable": True}}, "/a b", True, None),
        (
            {"url": "https://u:secret@h.example/r", "vcs_info": {"commit_id": "ab" * 20}},
            None,
            False,
            "ab" * 20,
        ),
        (
            {"url": "https://h.example/r", "vcs_info": {"commit_id": "--upload-pack=x"}},
            None,
            False,
            None,
        ),
    ],
)
def test_where_it_was_installed_from(place, direct, folder, editable, commit):
    place.install("pkg", "1.0", {"pkg/__init__.py": ""}, direct=direct)
    found = only(place).direct
    assert (str(found.folder) if found.folder else None, found.editable, found.commit) == (
        folder,
        editable,
        commit,
    )
    assert "secret" not in found.url


@pytest.mark.parametrize(
    "text", ["", "[]", '{"url": 3}', '{"url": "x", "dir_info": 1}', "[" * 99999]
)
def test_a_garbled_address(place, text):
    place.install("pkg", "1.0", {"pkg/__init__.py": ""}, **{"direct_url.json": text})
    one = only(place)
    assert one.direct is None or not one.direct.editable


def test_what_may_be_missing(place):
    files = dict.fromkeys(("pkg/__init__.py", "pkg/tests/test_a.py", "pkg/__pycache__/a.pyc"), "")
    place.install("pkg", "1.0", files)
    for name in list(files)[1:]:
        (place.site / name).unlink()
    assert only(place).missing == ()
    (place.site / "pkg/__init__.py").unlink()
    one = only(place)
    assert one.missing == ("pkg/__init__.py",)
    assert one.findings[0].text.endswith("(1 of 7): pkg/__init__.py")


@pytest.mark.parametrize("name", ["METADATA", "RECORD", "direct_url.json", "build.json", "WHEEL"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "loop", "bytes", "nothing"])
def test_records_of_any_kind_are_read_to_an_end(place, name, kind):
    info = place.install("pkg", "1.0", {"pkg/__init__.py": ""}, build={"recipe": 1})
    path = info / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(name)
    elif kind == "bytes":
        path.write_bytes(bytes(range(256)) * 10)
    found = place.look("12.0", sandbox=False)
    assert len(found.cases) + found.others == 1


def test_paths_of_a_record_that_lead_out(place):
    """Whatever RECORD says, only regular files with a library's name are read, and none is run."""
    info = place.install("pkg", "1.0", {"pkg/__init__.py": ""})
    rows = ["/etc/passwd,,", "../../../../../../../../etc/shadow,,", "/dev/zero,,", "/dev/zero.so,,",
            "/proc/self/mem,,", "a\0b.so,,", "pkg/loop.so,,", "x" * 5000 + ".so,,"]  # fmt: skip
    (place.site / "pkg/loop.so").symlink_to("loop.so")
    (info / "RECORD").write_text("\n".join(rows))
    found = place.look("12.0", sandbox=False)
    assert "files-missing" in {r.word for r in case_of(found, "pkg").remarks}


def test_names_of_records(place):
    for name in (
        "a-1.0.dist-info",
        "b.egg-info",
        "c-2.0-py3.11.egg-info",
        "~d-1.0.dist-info",
        ".dist-info",
    ):
        (place.site / name).mkdir()
    assert [(one.name, one.version) for one in find_installed((place.site,))] == [
        ("a", "1.0"), ("b", None), ("c", "2.0")]  # fmt: skip
    assert [path.name for path in leftovers(place.site)] == ["~d-1.0.dist-info"]


def test_two_records_of_one_distribution(place):
    place.install("pkg", "1.0", {"pkg/__init__.py": ""})
    place.install("pkg", "1.1", {"pkg/__init__.py": "x = 1"})
    case = case_of(place.look(sandbox=False), "pkg")
    assert "pkg-1.0.dist-info, pkg-1.1.dist-info" in case.remarks[0].text
    assert case.advice.action == "reinstall"


def test_an_install_that_hides_another(place, tmp_path):
    more = tmp_path / "more"
    info = more / "pkg-0.9.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: pkg\nVersion: 0.9\n")
    (info / "RECORD").write_text("")
    place.write("more.pth", f"{more}\n")
    place.kernels("pkg", "1.0", "12.0a")
    case = case_of(place.look(sandbox=False), "pkg")
    assert case.installed.version == "1.0"
    assert f"hides pkg 0.9 in {str(more)!r}" in [remark.text for remark in case.remarks]
