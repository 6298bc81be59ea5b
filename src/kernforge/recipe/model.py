"""Recipe format 1: what to build, from what, for which targets, and what must hold of it. Pure.

Every value is frozen and hashable: lists are tuples, mappings are tuples of pairs sorted by key.
The docstrings below the fields are the text of `docs/recipe-reference.md` and of the JSON Schema.
Checks that need several blocks at once are in :mod:`kernforge.recipe.checks`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
)

from kernforge.errors import RecipeError
from kernforge.recipe import scalars as s

TAG = "="
"""What begins a union's tag in pydantic's locations; no key of a recipe does."""

Policy = Literal["upstream", "filter", "replace"]
Backend = Literal["scikit-build-core", "setuptools"]
Toolkit = Literal["wheels", "host"]
Level = Literal["code", "links", "imports", "loads", "runs"]

LEVELS: tuple[Level, ...] = ("code", "links", "imports", "loads", "runs")
"""The levels of verification, each holding all before it."""

PLATFORMS = ("linux_x86_64", "linux_aarch64")

_POLICIES = ("upstream", "filter", "replace")
_PolicyField = Annotated[Policy, s.one_of(*_POLICIES), s.words(*_POLICIES)]
_PlatformField = Annotated[str, s.one_of(*PLATFORMS), s.words(*PLATFORMS)]


class _Block(BaseModel):
    """A mapping of the recipe: unknown keys are errors, values never change."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", defer_build=True, hide_input_in_errors=True
    )


class UpstreamVersion(_Block):
    """The version is what the built metadata says."""

    origin: Annotated[Literal["upstream"], s.one_of("upstream"), s.words("upstream")] = Field(
        alias="from"
    )
    """`upstream`: read the version from the built wheel's metadata."""
    expect: s.ExpectedVersion
    """What that version must be, whole (`0.4.2`) or its beginning (`0.4.*`); any other is an
    error."""


class Edit(_Block):
    """One exact replacement of text in a source file, for changes too small for a patch."""

    file: s.RelPath
    """File in the source."""
    find: s.Block
    """Text to find, exactly."""
    replace: s.Block
    """Text to put in its place."""
    count: s.Count = 1
    """How often the text must be found; any other number is an error."""


class _Source(_Block):
    KIND: ClassVar[str]

    patches: tuple[s.RelPath, ...] = ()
    """Patch files in `patches/`, applied in this order, exactly."""
    edits: tuple[Edit, ...] = ()
    """Exact replacements, made after the patches."""
    into: s.RelPath | None = None
    """Where the source is put in the tree (default: a folder of its own name). The first part may
    name another source, to put this one inside it."""
    fetchcontent: s.SourceName | None = None
    """CMake FetchContent name that is answered with a private copy of this source."""


class GitSource(_Source):
    """One commit of a git repository."""

    KIND: ClassVar[str] = "git"

    git: s.GitUrl
    """Address of the repository: https, ssh, git or file, or `user@host:path`."""
    commit: s.Commit
    """The commit, all 40 digits."""
    tag: s.GitTag | None = None
    """A tag that must point at the commit; checked, never followed."""
    sparse: tuple[s.RelPath, ...] = ()
    """Folders to check out; none means all."""
    submodules: s.Flag = True
    """Whether submodules come with it, at the commits that it names."""
    lfs: s.Flag = False
    """Whether git LFS files are fetched."""
    git_metadata: s.Flag = False
    """Whether the build finds a git repository: one commit with a fixed author and date."""


class ArchiveSource(_Source):
    """An archive of files, checked by its hash."""

    KIND: ClassVar[str] = "archive"

    archive: s.ArchiveAddress
    """Address (https, http, file), or path of a file in the project."""
    sha256: s.Sha256
    """SHA-256 of the archive."""
    strip: s.Strip = 0
    """How many leading folders of each member's name are taken off."""


class PypiSource(_Source):
    """A source distribution from the package index."""

    KIND: ClassVar[str] = "pypi"

    pypi: s.DistributionName
    """Name of the distribution."""
    version: s.Version
    """Its version."""
    sha256: s.Sha256
    """SHA-256 of its source archive."""


class PathSource(_Source):
    """A folder of the project, known by the content of its files."""

    KIND: ClassVar[str] = "path"

    path: s.RelPath
    """Folder, relative to the project."""
    exclude: tuple[s.Glob, ...] = ()
    """Patterns of files that do not belong to it."""


class CargoSource(_Source):
    """The crates that a Cargo.lock of another source names: a vendored, offline registry."""

    KIND: ClassVar[str] = "cargo"

    cargo: s.LockPath
    """The Cargo.lock: name of the source that holds it, then its path there, as
    `sglang/rust/Cargo.lock`."""
    sha256: s.Sha256
    """SHA-256 of the Cargo.lock, patches and edits done; it holds that of every crate."""


_KINDS: tuple[type[GitSource | ArchiveSource | PypiSource | PathSource | CargoSource], ...] = (
    GitSource,
    ArchiveSource,
    PypiSource,
    PathSource,
    CargoSource,
)


def _kind_of(value: object) -> str | None:
    if isinstance(value, _Source):
        return TAG + value.KIND
    found = [k.KIND for k in _KINDS if isinstance(value, dict) and k.KIND in value]
    return TAG + found[0] if found else None


def _check_kind(value: object) -> object:
    if not isinstance(value, dict):
        raise s.as_pydantic(
            RecipeError(
                "recipe-type", "must be a mapping", hint="write it as {path: examples/demo}"
            )
        )
    found = [k.KIND for k in _KINDS if k.KIND in value]
    if len(found) != 1:
        what = f"has {len(found)} of the keys" if found else "has none of the keys"
        kinds = ", ".join(k.KIND for k in _KINDS)
        raise s.as_pydantic(
            RecipeError(
                "recipe-source-kind",
                f"{what} that say its kind ({kinds}); a source has one",
                hint=f"keep one of {' and '.join(found)}" if found else "name its kind",
            )
        )
    return value


Source = GitSource | ArchiveSource | PypiSource | PathSource | CargoSource
_SourceField = Annotated[
    Annotated[GitSource, Tag("=git")]
    | Annotated[ArchiveSource, Tag("=archive")]
    | Annotated[PypiSource, Tag("=pypi")]
    | Annotated[PathSource, Tag("=path")]
    | Annotated[CargoSource, Tag("=cargo")],
    Discriminator(_kind_of),
    BeforeValidator(_check_kind),
]


def _version_form(value: object) -> str:
    return "=upstream" if isinstance(value, dict | UpstreamVersion) else "=text"


_VersionField = Annotated[
    Annotated[s.Version, Tag("=text")] | Annotated[UpstreamVersion, Tag("=upstream")],
    Discriminator(_version_form),
]


class Build(_Block):
    """How the wheel is built."""

    source: s.SourceName | None = None
    """The source that holds the project (default: the only one)."""
    subdir: s.RelPath = "."
    """Folder of the project in its source."""
    backend: Annotated[
        Backend,
        s.one_of("scikit-build-core", "setuptools"),
        s.words("scikit-build-core", "setuptools"),
    ] = "scikit-build-core"
    """Which build backend the project uses."""
    requires: tuple[s.Requirement, ...] = ()
    """What the build environment holds beside what the backend needs; versions come from the
    lock."""
    programs: tuple[s.ProgramName, ...] = ()
    """Programs of the host that the build calls beside compiler and shell tools, as `protoc`; a
    source of kind `cargo` brings in `cargo` and `rustc` by itself. One that is not there is told
    before anything is fetched; the digest of each is part of the key."""
    toolkit: Annotated[Toolkit, s.one_of("wheels", "host"), s.words("wheels", "host")] = "wheels"
    """Where the CUDA toolkit comes from: locked wheels (CUDA 13.0 on), or the host."""
    cmake: Annotated[tuple[tuple[s.CMakeName, s.BuildText], ...], s.Mapped()] = ()
    """CMake variables. Placeholders are filled in."""
    config_settings: Annotated[tuple[tuple[s.Line, s.BuildText], ...], s.Mapped()] = ()
    """Settings for the backend (PEP 517). Placeholders are filled in."""
    env: Annotated[tuple[tuple[s.EnvName, s.BuildText], ...], s.Mapped()] = ()
    """Environment variables of the build. Placeholders are filled in."""
    gencode: Annotated[
        tuple[tuple[s.Glob, _PolicyField], ...],
        s.Mapped(),
    ] = (("default", "replace"),)
    """What becomes of the targets that the project's own build files ask for, by pattern of the
    compiled file; `default` is for all others. `upstream` leaves them, `filter` keeps those that
    the target asks for, `replace` compiles exactly the target. Of several patterns that match, the
    longest rules."""
    memory: s.Memory = 4 * 2**30
    """Memory that one compile takes before its real need is known."""
    timeout: s.Count | None = None
    """Seconds after which the build is stopped."""


class IncludedTarget(_Block):
    """One whole target."""

    archs: s.ArchList
    """GPU architectures, the whole list."""
    cuda: s.Cuda
    """CUDA release."""
    torch: s.Torch | None = None
    """Version of torch, or none."""
    python: s.Python
    """Python version."""
    platform: _PlatformField = "linux_x86_64"
    """Platform."""


class ExcludedTarget(_Block):
    """What the left-out combinations have in common; at least one key."""

    archs: s.ArchList | None = None
    """GPU architectures, the whole list."""
    cuda: s.Cuda | None = None
    """CUDA release."""
    torch: s.Torch | None = None
    """Version of torch."""
    python: s.Python | None = None
    """Python version."""
    platform: _PlatformField | None = None
    """Platform."""


class Matrix(_Block):
    """For which targets: every combination, less `exclude`, and `include` besides."""

    archs: tuple[s.ArchList, ...] = ()
    """GPU architectures. Each entry is the whole list of one target: `"12.0a"`, `"9.0;12.0a"`."""
    cuda: tuple[s.Cuda, ...] = ()
    """CUDA releases, as `"13.0"`."""
    torch: tuple[s.Torch, ...] = ()
    """Versions of torch, as `"2.14.1"`; none means that the build uses no torch."""
    python: tuple[s.Python, ...] = ()
    """Python versions, as `"3.11"`."""
    platform: tuple[_PlatformField, ...] = ("linux_x86_64",)
    """Platforms: `linux_x86_64`, `linux_aarch64`."""
    include: tuple[IncludedTarget, ...] = ()
    """Whole targets besides the combinations."""
    exclude: tuple[ExcludedTarget, ...] = ()
    """Parts of targets; every combination that has all parts of one entry is left out."""


class Kernels(_Block):
    """What is demanded of single kernels."""

    required: tuple[s.KernelPattern, ...] = ()
    """Patterns of kernel names; each must match, and every match must serve each device."""
    accepted_gaps: s.RelPath | None = None
    """File that lists kernels known not to serve a device, one pattern a line, relative to the
    project: of a family or of a name as compiled, with a device before it where it is known of that
    one only (`12.0 *MainloopSm90*`). A gap that no line names is a fault."""


class Verify(_Block):
    """What must hold of the wheel."""

    require: Annotated[Level, s.one_of(*LEVELS), s.words(*LEVELS)] = "imports"
    """The level that build and publish demand: `code`, `links`, `imports`, `loads` or `runs`."""
    extensions: Annotated[tuple[tuple[s.Glob, s.ExpectedArchs], ...], s.Mapped()] = ()
    """What each library must hold code for, by pattern of its path in the wheel: `target` or a list
    of archs (an empty one demands nothing). Of several patterns that match, the longest rules."""
    loaders: tuple[Annotated[tuple[tuple[s.LoaderKey, s.Glob], ...], s.Mapped()], ...] = ()
    """Which file the package itself loads on which device, for each choice it makes: device, or
    `default`, to pattern."""
    kernels: Kernels | None = None
    """What is demanded of single kernels."""
    imports: tuple[s.ModuleName, ...] = Field(default=(), alias="import")
    """Modules that must import."""
    smoke: s.RelPath | None = None
    """Python program, relative to the project, that must end with 0 on the GPU."""
    allow_jit: s.Flag = False
    """Whether PTX that the driver compiles on loading counts as code."""
    device_code: s.Flag = True
    """Whether the wheel holds device code. `false` is for packages of Python alone: the level
    `code` is then not needed, and device code in the wheel is a fault."""


class Publish(_Block):
    """How the wheel is published."""

    local_version: s.LocalText | None = None
    """Local part of the wheel's version, as `cu{cuda}.sm{archs}`."""


class Recipe(_Block):
    """What to build, from what, for which targets, and what must hold of it."""

    format: s.Format
    """Format of the recipe: `1`."""
    name: s.RecipeName
    """Name of the recipe; the file is called so."""
    distribution: s.DistributionName = Field(
        default_factory=lambda values: str(values.get("name", "")), validate_default=True
    )
    """Name of the built distribution (default: `name`)."""
    summary: s.Line | None = None
    """What it builds, in one line."""
    version: _VersionField
    """The wheel's version: `"1.2.3"`, or `{from: upstream, expect: "0.4.*"}`."""
    sources: Annotated[tuple[tuple[s.SourceName, _SourceField], ...], s.Mapped()]
    """The sources, by name. A source is of the kind that its key names: `git`, `archive`, `pypi`,
    `path` or `cargo`."""
    build: Build = Build.model_construct()
    """How it is built."""
    matrix: Matrix
    """For which targets."""
    verify: Verify = Verify.model_construct()
    """What must hold of the wheel."""
    publish: Publish = Publish.model_construct()
    """How it is published."""
    requires: tuple[s.RecipeName, ...] = ()
    """Other recipes whose wheels this build needs."""
    unconfirmed: tuple[s.Line, ...] = ()
    """Facts that the recipe rests on and nobody could read at the pinned commits, one a line; lint
    lists them, and no key knows them."""

    @property
    def main_source(self) -> str:
        """The name of the source that holds the project."""
        return self.build.source or self.sources[0][0]

    def to_dict(self) -> dict[str, object]:
        """The recipe as plain data, defaults written out; reading it gives the same recipe."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Read plain data without the checks across blocks; `load.read_recipe` makes them too.

        Raises:
            pydantic.ValidationError: some value is not valid.
        """
        return cls.model_validate(data)
