import os
from pathlib import Path

import pytest

from kernforge.binary.facts import Library, State, TreeFacts, WheelFacts
from kernforge.binary.thing import find_distribution, read_distribution, read_folder, read_thing
from kernforge.errors import SelectionError, VerifyError

from .forge import EXIT, make_container, make_cubin, make_entry, make_library, make_wheel

LIBRARY = make_library(fatbin=make_container(make_entry(make_cubin({"k": EXIT}), 90)))


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "tree"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "b.so").write_bytes(LIBRARY)
    (root / "a.so.1").write_bytes(make_library())
    (root / "broken.so").write_bytes(b"text")
    (root / "tool").write_bytes(make_library())
    (root / "notes.txt").write_bytes(LIBRARY)
    (root / "data").write_bytes(b"\0\0")
    return root


def test_a_folder_is_read_with_paths_relative_to_it(folder):
    facts = read_thing(str(folder))
    assert isinstance(facts, TreeFacts)
    assert [(lib.path, lib.state) for lib in facts.libraries] == [
        ("a.so.1", State.HOST_ONLY),
        ("broken.so", State.UNREADABLE),
        ("sub/b.so", State.DEVICE_CODE),
        ("tool", State.HOST_ONLY),
    ]
    assert (facts.name, facts.version, facts.findings) == (None, None, ())


def test_links_and_pipes_do_not_lead_astray(folder):
    (folder / "a.so").symlink_to("a.so.1")
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    (folder / "gone.so").symlink_to("nowhere.so")
    (folder / "itself.so").symlink_to("itself.so")
    os.mkfifo(folder / "pipe.so")
    os.link(folder / "sub" / "b.so", folder / "sub" / "z.so")
    assert [lib.path for lib in read_folder(folder).libraries] == [
        "a.so.1",
        "broken.so",
        "sub/b.so",
        "tool",
    ]


def test_a_link_out_of_the_folder_is_read(folder, tmp_path):
    (tmp_path / "outside.so").write_bytes(LIBRARY)
    (folder / "in.so").symlink_to(tmp_path / "outside.so")
    assert "in.so" in [lib.path for lib in read_folder(folder).libraries]


# A regular file of 4,096 bytes that can be read and not be mapped, even by root.
REFUSED = Path("/sys/kernel/uevent_seqnum")


def test_a_file_that_the_system_refuses_is_a_finding_of_that_file(folder):
    (folder / "refused.so").symlink_to(REFUSED)
    found = {lib.path: lib for lib in read_folder(folder).libraries}
    assert [f.word for f in found["refused.so"].findings] == ["library-unreadable"]
    assert found["sub/b.so"].state is State.DEVICE_CODE


def test_a_file_that_the_system_refuses_is_an_error_where_it_is_all_that_was_asked():
    with pytest.raises(VerifyError, match="cannot be read: ") as caught:
        read_thing(str(REFUSED))
    assert caught.value.word == "library-unreadable"


def test_a_file_that_cannot_even_be_looked_at_is_told_by_its_name(folder):
    (folder / "memory.so").symlink_to("/proc/self/mem")
    (folder / "memory").symlink_to("/proc/self/mem")
    found = {lib.path: lib.state for lib in read_folder(folder).libraries}
    assert found["memory.so"] is State.UNREADABLE
    assert "memory" not in found


def test_a_folder_that_does_not_exist_is_a_finding(tmp_path):
    assert [f.word for f in read_folder(tmp_path / "gone").findings] == ["folder-unreadable"]


@pytest.mark.parametrize("workers", [1, 3, None])
def test_the_number_of_workers_changes_nothing(folder, workers):
    assert read_folder(folder, workers=workers) == read_folder(folder, workers=1)


def test_a_file_is_a_library(folder):
    facts = read_thing(str(folder / "sub" / "b.so"), kernels=False)
    assert isinstance(facts, Library)
    assert (facts.path, facts.images[0].kernels) == ("b.so", None)


def test_a_wheel_is_a_wheel(tmp_path):
    path = make_wheel(tmp_path, {"a.so": LIBRARY})
    facts = read_thing(str(path))
    assert isinstance(facts, WheelFacts)
    assert facts.libraries[0].path == "a.so"


@pytest.fixture
def site(tmp_path):
    """A site-packages folder with one distribution, `Demo_X` 1.5."""
    root = tmp_path / "site"
    info = root / "demo_x-1.5.dist-info"
    info.mkdir(parents=True)
    (root / "demo").mkdir()
    (root / "demo" / "ops.so").write_bytes(LIBRARY)
    (root / "demo" / "other.so").write_bytes(LIBRARY)
    (info / "METADATA").write_text("Name: Demo_X\nVersion: 1.5\n")
    (info / "RECORD").write_text("demo/ops.so,,\ndemo/gone.so,,\ndemo/x.pyc,,\n")
    return root


@pytest.mark.parametrize("name", ["demo_x", "Demo.X", "demo-x"])
def test_an_installed_distribution_is_found_by_any_spelling(site, name, tmp_path):
    facts = read_thing(name, search=(tmp_path / "absent", site))
    assert isinstance(facts, TreeFacts)
    assert (facts.name, facts.version) == ("Demo_X", "1.5")
    assert [lib.path for lib in facts.libraries] == ["demo/ops.so"]
    assert [f.text for f in facts.findings] == ["RECORD lists 'demo/gone.so', which is not there"]


def test_a_dist_info_folder_names_its_distribution(site):
    assert read_thing(str(site / "demo_x-1.5.dist-info")).name == "Demo_X"


def test_a_distribution_half_uninstalled(site):
    info = site / "demo_x-1.5.dist-info"
    (info / "METADATA").unlink()
    (info / "RECORD").unlink()
    facts = read_distribution(info)
    assert (facts.name, facts.libraries) == (None, ())
    assert [f.word for f in facts.findings] == ["text-missing", "text-missing"]


def test_folders_with_odd_names_are_no_distributions(tmp_path):
    (tmp_path / "odd.dist-info").mkdir()
    assert find_distribution("odd", (tmp_path,)) is None


def test_what_is_nowhere_is_an_error(tmp_path):
    with pytest.raises(SelectionError, match="'nothing-such' is no file or folder") as caught:
        read_thing("nothing-such", search=(tmp_path,))
    assert caught.value.word == "thing-missing"
