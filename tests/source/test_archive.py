"""Archives: what is unpacked, and every member that must not be."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
import zipfile
from dataclasses import replace
from hashlib import sha256

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from source.repositories import EPOCH, tree_of

from kernforge.errors import SourceError
from kernforge.recipe.model import ArchiveSource
from kernforge.source.fetch import epoch, fetch, fetched, place
from kernforge.source.formats import members, reading
from kernforge.source.identity import identity

FILES = {"top/a/x.cu": b"one", "top/run.sh": b"#!", "top/empty": b""}
PACKERS = {
    "tar": bytes,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.compress,
}


def info(name, kind=tarfile.REGTYPE, **more) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.mtime, found.mode = kind, EPOCH, 0o644
    for key, value in more.items():
        setattr(found, key, value)
    return found


def tar(*items, form=tarfile.PAX_FORMAT) -> bytes:
    """A tar file of (info, content) pairs; names and contents will do too."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for item, content in items:
            member = info(item) if isinstance(item, str) else item
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def link(name, target, kind=tarfile.SYMTYPE):
    return info(name, kind, linkname=target), b""


def zip_of(*items) -> bytes:
    """A zip file of (name, content, mode) triples."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, mode in items:
            entry = zipfile.ZipInfo(name, (2024, 2, 3, 4, 5, 6))
            entry.create_system, entry.external_attr = 3, mode << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return out.getvalue()


@pytest.fixture
def unpack(settings, runner, told, tmp_path):
    """Put bytes into the project as an archive, fetch and place it; answers the tree."""
    count = iter(range(100))

    def call(data, settings=settings, **more):
        name = f"archive{next(count)}"
        (settings.project / name).write_bytes(data)
        digest = sha256(data).hexdigest()
        wanted = ArchiveSource.model_validate({"archive": name, "sha256": digest, **more})
        fetch(wanted, settings, runner=runner, told=told.append)
        assert fetched(wanted, settings)
        call.epoch = epoch(wanted, settings)
        call.into = tmp_path / f"tree-{name}"
        place(wanted, settings, call.into, runner=runner)
        return call.into

    return call


def refusal(word, unpack, data, **more) -> SourceError:
    with pytest.raises(SourceError, match=r"archive 'archive\d+'") as caught:
        unpack(data, **more)
    assert caught.value.word == word, caught.value.message
    if hasattr(unpack, "into"):
        assert not unpack.into.exists()
        assert not (unpack.into.parent / "outside").exists()
    return caught.value


class TestFormats:
    @pytest.mark.parametrize("kind", PACKERS)
    def test_tar(self, unpack, kind):
        tree = unpack(PACKERS[kind](tar(*FILES.items())), strip=1)
        assert tree_of(tree) == {"a/x.cu": b"one", "run.sh": b"#!", "empty": b""}
        assert unpack.epoch == EPOCH

    @pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
    def test_long_and_strange_names(self, unpack, form):
        long = (
            "/".join(["d" * 50] * 3) if form == tarfile.USTAR_FORMAT else "/".join(["d" * 90] * 9)
        )
        tree = unpack(tar((f"{long}/x", b"1"), ("--a b\n", b"2"), form=form))
        assert tree_of(tree) == {f"{long}/x": b"1", "--a b\n": b"2"}

    def test_zip(self, unpack):
        data = zip_of(("t/a", b"1", 0o100644), ("t/r", b"2", 0o100755), ("t/l", "a", 0o120777))
        tree = unpack(data, strip=1)
        assert tree_of(tree) == {"a": b"1", "r": b"2", "l": "-> a"}
        assert os.access(tree / "r", os.X_OK)
        assert unpack.epoch == EPOCH

    def test_several_frames_of_zst(self, unpack):
        data = tar(("a", os.urandom(50_000)))
        halves = [zstandard.compress(half) for half in (data[:30_000], data[30_000:])]
        assert (unpack(b"".join(halves)) / "a").stat().st_size == 50_000

    def test_modes_are_plain_whatever_the_umask(self, unpack):
        modes = {"a": 0o4755, "b": 0o2644, "c": 0o777, "d": 0o400, "e": 0o1100}
        items = [(info(name, mode=mode), b"x") for name, mode in modes.items()]
        old = os.umask(0o077)
        try:
            tree = unpack(tar(*items))
        finally:
            os.umask(old)
        found = {p.name: oct(stat.S_IMODE(p.stat().st_mode)) for p in tree.iterdir()}
        assert found == {"a": "0o755", "b": "0o644", "c": "0o755", "d": "0o644", "e": "0o755"}

    def test_sparse_file_of_gnu_tar(self, unpack, tmp_path):
        import subprocess

        with (tmp_path / "holes").open("wb") as file:
            file.seek(1_000_000)
            file.write(b"end")
        words = ["tar", "--sparse", "--format=gnu", "-cf", "s.tar", "holes"]
        subprocess.run(words, cwd=tmp_path, check=True)
        tree = unpack((tmp_path / "s.tar").read_bytes())
        assert (tree / "holes").read_bytes() == bytes(1_000_000) + b"end"

    def test_links_and_hard_links_inside(self, unpack):
        items = [("t/d/a", b"1"), link("t/l", "d/a"), link("t/d/up", "../d"), link("t/gone", "no")]
        items += [link("t/h", "t/d/a", tarfile.LNKTYPE)]
        found = tree_of(unpack(tar(*items), strip=1))
        assert found == {
            "d/a": b"1",
            "l": "-> d/a",
            "d/up": "-> ../d",
            "gone": "-> no",
            "h": b"1",
        }

    def test_hard_link_is_a_file_of_its_own(self, unpack):
        tree = unpack(tar((info("a", mode=0o755), b"1"), link("h", "a", tarfile.LNKTYPE)))
        assert (tree / "h").stat().st_ino != (tree / "a").stat().st_ino
        assert os.access(tree / "h", os.X_OK)

    def test_names_that_differ_in_case_are_two(self, unpack):
        assert tree_of(unpack(tar(("A", b"1"), ("a", b"2")))) == {"A": b"1", "a": b"2"}

    def test_git_folders_are_dropped(self, unpack):
        items = [("a", b"1"), (".git/config", b"2"), ("sub/.git", b"3"), ("s/.GIT/hooks/x", b"4")]
        assert tree_of(unpack(tar(*items))) == {"a": b"1"}

    def test_pax_header_of_all_is_no_member(self, unpack):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", pax_headers={"comment": "0" * 40}) as archive:
            archive.addfile(info("top/a"))
        assert tree_of(unpack(out.getvalue(), strip=1)) == {"a": b""}

    @pytest.mark.parametrize("mtime", [0, 1000, -5])
    def test_times_that_tell_nothing(self, unpack, mtime):
        unpack(tar((info("a", mtime=mtime), b"1")))
        assert unpack.epoch is None

    @pytest.mark.parametrize("data", [b"", b"<html>", b"x" * 600, b"\x7fELF" + bytes(600)])
    def test_no_archive(self, unpack, data):
        refusal("archive-format", unpack, data)

    def test_empty_archive(self, unpack):
        refusal("archive-empty", unpack, zip_of())


class TestStrip:
    @pytest.mark.parametrize("items", [[("a", b"")], [("t/a", b""), ("b", b"")]])
    def test_file_that_it_would_lose(self, unpack, items):
        refusal("archive-strip", unpack, tar(*items), strip=1)

    def test_two_tops_that_meet(self, unpack):
        fault = refusal("archive-member", unpack, tar(("a/x", b"1"), ("b/x", b"2")), strip=1)
        assert "'b/x'" in fault.message

    def test_hard_link_loses_as_much(self, unpack):
        items = [("a/b/x", b"1"), link("a/b/y", "a/b/x", tarfile.LNKTYPE)]
        assert tree_of(unpack(tar(*items), strip=2)) == {"x": b"1", "y": b"1"}

    def test_traversal_within_what_is_taken_off(self, unpack):
        refusal("archive-member", unpack, tar(("../x", b"")), strip=1)


HOSTILE = {
    "upward": [("../outside", b"")],
    "upward within": [("a/../../outside", b"")],
    "dots inside": [("a/../b", b"")],
    "absolute": [("/tmp/outside", b"")],
    "link upward": [link("l", "../outside")],
    "link absolute": [link("l", "/etc")],
    "link empty": [link("l", "")],
    "link deep upward": [link("a/b/l", "../../../outside")],
    "below a link": [("d/x", b""), link("l", "d"), ("l/outside", b"")],
    "below a file": [("a", b""), ("a/b", b"")],
    "chain of links": [("d/s/x", b""), link("d/s/up", ".."), link("d/s/l", "up/../../outside")],
    "loop of links": [link("a", "b"), link("b", "a/../../outside")],
    "hard link outside": [link("h", "/etc/passwd", tarfile.LNKTYPE)],
    "hard link upward": [link("h", "../outside", tarfile.LNKTYPE)],
    "hard link to nothing": [link("h", "later", tarfile.LNKTYPE), ("later", b"")],
    "hard link to a link": [("x", b""), link("l", "x"), link("h", "l", tarfile.LNKTYPE)],
    "hard link through a link": [
        ("d/x", b""), link("l", "d"), link("h", "l/x", tarfile.LNKTYPE)
    ],
    "character device": [(info("dev", tarfile.CHRTYPE), b"")],
    "block device": [(info("dev", tarfile.BLKTYPE), b"")],
    "pipe": [(info("pipe", tarfile.FIFOTYPE), b"")],
    "file twice": [("a", b"1"), ("a", b"2")],
    "file twice, by another name": [("a", b"1"), ("./a", b"2")],
    "file over link": [("x", b""), link("a", "x"), ("a", b"2")],
    "link over file": [("a", b""), link("a", "x")],
    "link over folder": [("d/x", b""), link("d", "x")],
    "folder over file": [("a", b""), (info("a", tarfile.DIRTYPE), b"")],
    "folder over link": [("d/x", b""), link("l", "d"), (info("l", tarfile.DIRTYPE), b"")],
    "name too long": [("n" * 300, b"")],
}  # fmt: skip


class TestHostile:
    @pytest.mark.parametrize("items", HOSTILE.values(), ids=HOSTILE)
    def test_member(self, unpack, items):
        refusal("archive-member", unpack, tar(("before", b""), *items))

    @pytest.mark.parametrize(
        "item",
        [
            ("../outside", "", 0o100644),
            ("/outside", "", 0o100644),
            ("l", "../outside", 0o120777),
            ("l", "/etc/passwd", 0o120777),
            ("dev", "", 0o020644),
            ("pipe", "", 0o010644),
            ("before", "", 0o100644),
        ],
    )
    @pytest.mark.filterwarnings("ignore:Duplicate name")
    def test_member_of_zip(self, unpack, item):
        refusal("archive-member", unpack, zip_of(("before", "", 0o100644), item))

    def test_encrypted_zip(self, unpack):
        data = bytearray(zip_of(("a", b"1", 0o100644)))
        for mark, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
            data[data.index(mark) + offset] |= 1
        refusal("archive-encrypted", unpack, bytes(data))

    @pytest.mark.parametrize("size", [None, 400_000])
    def test_bomb_by_size(self, unpack, settings, size):
        own = replace(settings, limits=replace(settings.limits, tree=300_000))
        data = tar(("a", bytes(size or 100_000)), *[(f"b{i}", bytes(90_000)) for i in range(4)])
        refusal("archive-bomb", unpack, gzip.compress(data), settings=own)

    def test_bomb_by_hard_links(self, unpack, settings):
        own = replace(settings, limits=replace(settings.limits, tree=300_000))
        links = [link(f"h{i}", "a", tarfile.LNKTYPE) for i in range(4)]
        refusal("archive-bomb", unpack, tar(("a", bytes(90_000)), *links), settings=own)

    def test_bomb_by_ratio(self, unpack):
        """2 GiB of zeros in 64 kB, as a sparse member would declare and a stream would hold."""
        packer = zstandard.ZstdCompressor(level=1).compressobj()
        head = info("zeros", size=2**31).tobuf()
        parts = [packer.compress(head)]
        parts += [packer.compress(bytes(2**24)) for _ in range(2**31 // 2**24)]
        data = b"".join([*parts, packer.compress(bytes(1024)), packer.flush()])
        assert len(data) < 2**20
        fault = refusal("archive-bomb", unpack, data)
        assert "200 times" in fault.message

    def test_bomb_by_members(self, unpack, settings):
        own = replace(settings, limits=replace(settings.limits, members=10))
        folders = [(info(f"d{i}", tarfile.DIRTYPE), b"") for i in range(11)]
        refusal("archive-bomb", unpack, tar(*folders, ("a", b"")), settings=own)

    @pytest.mark.parametrize(("size", "fits"), [(2**19, True), (2**21, False)])
    def test_extended_header_that_fills_memory(self, unpack, size, fits):
        data = tar((info("a", pax_headers={"comment": "x" * size}), b""))
        if fits:
            assert tree_of(unpack(data)) == {"a": b""}
        else:
            refusal("archive-damaged", unpack, data)


class TestDamage:
    @pytest.mark.parametrize("kind", PACKERS)
    @pytest.mark.parametrize("part", [0.3, 0.6])
    def test_cut_short(self, unpack, kind, part):
        data = PACKERS[kind](tar(("a", os.urandom(60_000)), ("b", os.urandom(60_000))))
        refusal("archive-damaged", unpack, data[: int(len(data) * part)])

    def test_header_in_the_midst(self, unpack):
        data = bytearray(tar(("a", bytes(512)), ("b", b""), ("c", b""), form=tarfile.GNU_FORMAT))
        data[1024 + 150] ^= 1
        refusal("archive-damaged", unpack, bytes(data))

    @pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
    def test_flipped_bit(self, unpack, kind):
        data = bytearray(PACKERS[kind](tar(("a", os.urandom(60_000)))))
        data[30_000] ^= 4
        refusal("archive-damaged", unpack, bytes(data))

    def test_zip_whose_content_does_not_fit_its_sum(self, unpack):
        data = bytearray(zip_of(("a", os.urandom(5000), 0o100644)))
        data[2000] ^= 1
        refusal("archive-damaged", unpack, bytes(data))

    def test_zip_that_lies_on_size(self, unpack):
        data = bytearray(zip_of(("a", bytes(100_000), 0o100644)))
        at = data.index(b"PK\1\2") + 24
        data[at : at + 4] = struct.pack("<I", 10)
        refusal("archive-damaged", unpack, bytes(data))

    @given(st.binary(max_size=300), st.sampled_from(sorted(PACKERS)), st.integers(0, 2000))
    def test_any_bytes_give_members_or_our_error(self, noise, kind, at):
        data = bytearray(PACKERS[kind](tar(*FILES.items(), link("l", "x"))))
        at = min(at, len(data))
        data[at : at + len(noise)] = noise
        for start in (bytes(data), noise):
            with contextlib.suppress(SourceError):
                for member in members(io.BytesIO(start), "archive"):
                    with reading("archive"):
                        assert member.data is None or isinstance(member.data.read(), bytes)


class TestAddress:
    DATA = tar(*FILES.items())

    def wanted(self, url, **more):
        digest = sha256(self.DATA).hexdigest()
        return ArchiveSource.model_validate({"archive": url, "sha256": digest, **more})

    def test_fetched_once_then_offline(self, web, settings, runner, told, tmp_path):
        web.bodies["/x.tar"] = self.DATA
        wanted = self.wanted(f"{web.url}/x.tar", strip=1)
        assert not fetched(wanted, settings)
        assert epoch(wanted, settings) is None
        fetch(wanted, settings, runner=runner, told=told.append)
        own = replace(settings, offline=True)
        fetch(wanted, own, runner=runner, told=told.append)
        place(wanted, own, tmp_path / "t", runner=runner)
        assert tree_of(tmp_path / "t")["a/x.cu"] == b"one"
        assert len(web.seen) == 1
        assert fetched(wanted, settings)

    def test_not_fetched(self, settings, runner, tmp_path):
        with pytest.raises(SourceError, match="is not at hand") as caught:
            place(self.wanted("https://example.invalid/x"), settings, tmp_path / "t", runner=runner)
        assert caught.value.word == "offline-missing"

    def test_changed_in_the_cache(self, web, settings, runner, told, tmp_path):
        web.bodies["/x.tar"] = self.DATA
        wanted = self.wanted(f"{web.url}/x.tar")
        fetch(wanted, settings, runner=runner, told=told.append)
        (settings.cache / "files" / wanted.sha256).write_bytes(tar(("evil", b"")))
        assert not fetched(wanted, settings)
        with pytest.raises(SourceError, match="has SHA-256") as caught:
            place(wanted, settings, tmp_path / "t", runner=runner)
        assert caught.value.word == "hash-mismatch"
        fetch(wanted, settings, runner=runner, told=told.append)
        assert fetched(wanted, settings)

    def test_identity_knows_no_address(self):
        one, other = self.wanted("https://a/x"), self.wanted("vendor/x.tar")
        assert identity(one) == identity(other)
        assert identity(one) != identity(self.wanted("https://a/x", strip=1))


def test_project_archive_with_another_hash(settings, runner, told):
    (settings.project / "x").write_bytes(tar(("a", b"")))
    wanted = ArchiveSource(archive="x", sha256="0" * 64)
    with pytest.raises(SourceError, match="has SHA-256") as caught:
        fetch(wanted, settings, runner=runner, told=told.append)
    assert caught.value.word == "hash-mismatch"


def test_project_archive_that_is_a_link_outside(settings, runner, told, tmp_path):
    (tmp_path / "x").write_bytes(tar(("a", b"")))
    (settings.project / "x").symlink_to(tmp_path / "x")
    with pytest.raises(SourceError, match="leads out of the project") as caught:
        fetch(
            ArchiveSource(archive="x", sha256="0" * 64), settings, runner=runner, told=told.append
        )
    assert caught.value.word == "source-outside"


def test_occupied_place_is_left_alone(unpack, settings, runner, tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t/mine").write_text("1")
    data = tar(("a", b""))
    unpack(data)
    wanted = ArchiveSource(archive="archive0", sha256=sha256(data).hexdigest())
    with pytest.raises(SourceError, match="is not empty") as caught:
        place(wanted, settings, tmp_path / "t", runner=runner)
    assert caught.value.word == "place-occupied"
    assert (tmp_path / "t/mine").read_text() == "1"
