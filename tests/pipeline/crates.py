"""A project whose wheel holds a CUDA library and one that cargo builds from two crates."""

from hashlib import sha256

from pipeline.trials import FILES, PYPROJECT, SETUP
from source.crates import crate, lock
from source.repositories import Repository

ADD = crate("tiny-add", code="pub fn add(a: i32, b: i32) -> i32 { a + b }\n")
TWICE = crate(
    "tiny-twice",
    code="pub fn twice(a: i32) -> i32 { tiny_add::add(a, a) }\n",
    needs='tiny-add = "1.0"\n',
)
LOCK = lock(ADD, TWICE, own="native", needs={"native": ["tiny-twice"], "tiny-twice": ["tiny-add"]})
RUST = """\
from setuptools_rust import Binding, RustExtension

native = RustExtension("plain.native", path="native/Cargo.toml", binding=Binding.NoBinding)
"""
RECIPE = f"""\
format: 1
name: rusty
distribution: plain
version: "1.2.3"
sources:
  up: {{path: project}}
  crates: {{cargo: up/native/Cargo.lock, sha256: {sha256(LOCK.encode()).hexdigest()}}}
build:
  source: up
  backend: setuptools
  requires: ["setuptools-rust>=1.9"]
matrix: {{archs: ["12.0a"], cuda: ["13.0"], python: ["3.11"]}}
verify:
  require: code
  extensions: {{"plain/code*.so": target, "plain/native*.so": []}}
"""
RUSTY = {
    **{name: text for name, text in FILES.items() if not name.startswith("recipes/")},
    "recipes/rusty.yaml": RECIPE,
    "project/pyproject.toml": PYPROJECT.replace(
        '"setuptools>=77"', '"setuptools>=77", "setuptools-rust>=1.9"'
    ),
    "project/setup.py": RUST + SETUP.replace("setup(", "setup(rust_extensions=[native], "),
    "project/native/Cargo.lock": LOCK,
    "project/native/Cargo.toml": """\
[package]
name = "native"
version = "0.1.0"
edition = "2021"

[lib]
crate-type = ["cdylib"]

[dependencies]
tiny-twice = "1"
""",
    "project/native/src/lib.rs": """\
#[no_mangle]
pub extern "C" fn plain_twice(a: i32) -> i32 { tiny_twice::twice(a) }
""",
}


SHARED = {
    "Cargo.toml": """\
[workspace]
members = ["plus", "three"]
[workspace.package]
version = "0.3.0"
edition = "2021"
[workspace.dependencies]
three = { path = "three" }
tiny-add = "1.0"
""",
    "plus/Cargo.toml": """\
[package]
name = "plus"
version.workspace = true
edition.workspace = true
[dependencies]
three.workspace = true
tiny-add.workspace = true
""",
    "plus/src/lib.rs": "pub fn plus(a: i32) -> i32 { tiny_add::add(a, three::three()) }\n",
    "three/Cargo.toml": """\
[package]
name = "three"
version.workspace = true
edition.workspace = true
""",
    "three/src/lib.rs": "pub fn three() -> i32 { 3 }\n",
}


def with_git_crate(shared: Repository, url: str) -> dict[str, str]:
    """Files that make the project use a crate of a git repository too."""
    commit = shared.commit(SHARED)
    origin = f'source = "git+{url}?rev={commit}#{commit}"\n'
    text = lock(
        ADD, TWICE, own="native",
        needs={"native": ["plus", "tiny-twice"], "tiny-twice": ["tiny-add"]},
    )  # fmt: skip
    plus, three = (
        f'\n[[package]]\nname = "{n}"\nversion = "0.3.0"\n{origin}' for n in ("plus", "three")
    )
    plus += 'dependencies = [\n "three",\n "tiny-add",\n]\n'
    first, marker, rest = text.partition('\n[[package]]\nname = "tiny-add"')
    text = f"{first}{plus}{three}{marker}{rest}"
    uses = f'plus = {{ git = "{url}", rev = "{commit}" }}\n'
    code = RUSTY["project/native/src/lib.rs"]
    old = sha256(LOCK.encode()).hexdigest()
    return {
        "recipes/rusty.yaml": RECIPE.replace(old, sha256(text.encode()).hexdigest()),
        "project/native/Cargo.lock": text,
        "project/native/Cargo.toml": RUSTY["project/native/Cargo.toml"] + uses,
        "project/native/src/lib.rs": code.replace(
            "tiny_twice::twice(a)", "plus::plus(tiny_twice::twice(a))"
        ),
    }
