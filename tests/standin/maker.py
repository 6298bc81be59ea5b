"""Makes the stand-in's real sources: git repositories with tag and submodule, an archive, a patch, a recipe."""

import hashlib
import io
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path

from projects import ROOT
from source.repositories import Repository, git

FIXTURE = ROOT / "tests/fixtures/standin"
TAG = "v0.4.2"
AOT = "kernels/aot"
PATCH = """\
The build file forgot the unit that builds the draft tree.
--- a/kernels/aot/CMakeLists.txt
+++ b/kernels/aot/CMakeLists.txt
@@ -{line},3 +{line},3 @@
{blank}
-set(SOURCES csrc/module.cpp csrc/norm.cu csrc/fp4.cu csrc/wide.cu)
+set(SOURCES csrc/module.cpp csrc/norm.cu csrc/fp4.cu csrc/tree.cu csrc/wide.cu)
{blank}
"""
RECIPE = """\
format: 1
name: standin
distribution: standin-kernel
version: {{from: upstream, expect: "0.4.*"}}
sources:
  standin:
    git: {url}
    commit: {commit}
    tag: {tag}
    sparse: [kernels/aot, kernels/jit]
    submodules: true
    patches: [standin/0001-build-the-tree.patch]
  repo-tinytable:
    archive: {archive}
    sha256: {sha256}
    strip: 1
    fetchcontent: repo-tinytable
  repo-tilelib:
    git: {tilelib_url}
    commit: {tilelib_commit}
    fetchcontent: repo-tilelib
build:
  source: standin
  subdir: kernels/aot
  toolkit: wheels
  cmake:
    CUDA_VERSION: "{{cuda}}"
    STANDIN_COMPILE_THREADS: "1"
    STANDIN_ENABLE_FA3: "OFF"
    CMAKE_POLICY_VERSION_MINIMUM: "3.5"
  gencode: {{default: replace, "*latent*": upstream}}
  memory: 1 GiB
matrix:
  archs: ["12.0a", "9.0;12.0a"]
  cuda: ["13.0"]
  python: ["3.11"]
verify:
  require: code
  extensions:
    "standin_kernel/sm90/common_ops*.so": target
    "standin_kernel/sm100/common_ops*.so": target
    "standin_kernel/latent_ops*.so": ["9.0a", "10.0f"]
  loaders:
    - {{"9.0": "standin_kernel/sm90/common_ops*.so", default: "standin_kernel/sm100/common_ops*.so"}}
  kernels: {{required: ["*standin_norm_kernel*", "*standin_nvfp4_quant_kernel*", "*standin_build_tree_kernel*"]}}
  import: [standin_kernel]
publish: {{local_version: "cu{{cuda}}.sm{{archs}}"}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standin:
    """What was made: a project folder with recipe, lock and patch, and where its sources lie."""

    project: Path
    url: str
    commit: str
    tilelib_url: str
    tilelib_commit: str
    archive: str
    sha256: str

    def recipe(self, *changes: tuple[str, str]) -> Path:
        """Write the recipe, each ``(old, new)`` done once; an ``old`` that is not there is an error."""
        text = RECIPE.format(
            url=self.url, commit=self.commit, tag=TAG, archive=self.archive, sha256=self.sha256,
            tilelib_url=self.tilelib_url, tilelib_commit=self.tilelib_commit,
        )  # fmt: skip
        for old, new in changes:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        path = self.project / "recipes/standin.yaml"
        path.write_text(text, encoding="utf-8")
        return path


def files_of(folder: Path) -> dict[str, str | bytes]:
    """A folder's files by path."""
    paths = [p for p in sorted(folder.rglob("*")) if p.is_file() and "__pycache__" not in p.parts]
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in paths}


def _packed(folder: Path, inside: str) -> bytes:
    """A folder as a tar.gz whose members begin with ``inside/``, the same bytes each time."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as archive:
        for name, content in files_of(folder).items():
            member = tarfile.TarInfo(f"{inside}/{name}")
            member.size, member.mtime = len(content), 1706933106
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def make_standin(root: Path) -> Standin:
    """Make the sources and a project below an empty folder."""
    rounding = Repository(root / "served/rounding")
    rounding_commit = rounding.commit(files_of(FIXTURE / "rounding"))
    tilelib = Repository(root / "served/tilelib")
    tilelib_commit = tilelib.commit(files_of(FIXTURE / "tilelib"))
    upstream = Repository(root / "served/standin")
    upstream.commit(files_of(FIXTURE / "upstream"))
    git(upstream.folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add",
        rounding.url, f"{AOT}/extern/rounding")  # fmt: skip
    assert git(upstream.folder / AOT / "extern/rounding", "rev-parse", "HEAD") == rounding_commit
    git(upstream.folder, "commit", "-q", "-m", "the submodule")
    git(upstream.folder, "tag", "-a", TAG, "-m", TAG)
    commit = git(upstream.folder, "rev-parse", "HEAD")
    packed = _packed(FIXTURE / "tinytable", "tinytable-1.0")
    archive = root / "served/tinytable-1.0.tar.gz"
    archive.write_bytes(packed)
    project = root / "project"
    (project / "recipes/locks").mkdir(parents=True)
    (project / "patches/standin").mkdir(parents=True)
    (project / "patches/standin/0001-build-the-tree.patch").write_text(_patch(), encoding="utf-8")
    shutil.copytree(ROOT / "recipes/locks/demo", project / "recipes/locks/standin")
    made = Standin(
        project=project,
        url=upstream.url,
        commit=commit,
        tilelib_url=tilelib.url,
        tilelib_commit=tilelib_commit,
        archive=archive.as_uri(),
        sha256=hashlib.sha256(packed).hexdigest(),
    )
    made.recipe()
    return made


def _patch() -> str:
    lines = (FIXTURE / "upstream" / AOT / "CMakeLists.txt").read_text(encoding="utf-8").splitlines()
    line = next(n for n, text in enumerate(lines) if text.startswith("set(SOURCES "))
    return PATCH.format(line=line, blank=" ")
