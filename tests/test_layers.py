"""Imports go one way, the rooms of one level do not know each other, and there is no cycle."""

import ast
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src/kernforge"
LEVELS = (
    {"errors"},
    {"arch", "canonical", "events", "process"},
    {"recipe"},
    {"source", "toolchain", "binary", "store"},
    {"build", "pack"},
    {"verify"},
    {"pipeline"},
    {"reproduce", "publish", "doctor", "authoring"},
    {"report"},
    {"cli"},
    {"__main__"},
)
LEVEL = {room: number for number, rooms in enumerate(LEVELS) for room in rooms}
MODULES = sorted(SRC.rglob("*.py"))
LOADED = {"depends": {"shim"}, "recall": {"steward"}, "reach": {"steward", "recall"}}
"""Inside programs that lie beside another, which loads them (the steward names types of `reach`)."""
OPEN = {"arch", "errors"}  # `arch` stands on `errors`, beside the others of its level


def imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def room_of(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SRC)))
def test_imports_go_downward(path):
    own = room_of(path)
    if own in {"__init__", "inside"}:
        return
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "kernforge" or len(parts) == 1 or parts[1] == "__version__":
            continue
        other = parts[1]
        assert other in LEVEL, f"{path}: {name} is in no level"
        assert other == own or LEVEL[other] < LEVEL[own], f"{path}: imports {name}"


@pytest.mark.parametrize(
    "path", sorted((SRC / "inside").glob("[!_]*.py")), ids=lambda path: path.name
)
def test_inside_programs_use_the_standard_library_only(path):
    beside = {other for other, loader in LOADED.items() if path.stem in loader}
    own = {f"kernforge.inside.{other}" for other in beside} | beside
    others = {name for name in imports(path) if not (own and name.startswith(tuple(own)))}
    assert {name.split(".")[0] for name in others} <= set(sys.stdlib_module_names)


def test_every_room_is_in_a_level():
    rooms = {room_of(path) for path in MODULES} - {"__init__", "inside"}
    assert rooms <= set(LEVEL)


def modules_below(room: str) -> dict[str, set[str]]:
    graph = {}
    for path in MODULES:
        name = ".".join(("kernforge", *path.relative_to(SRC).with_suffix("").parts))
        graph[name.removesuffix(".__init__")] = imports(path)
    return {name: {i for i in found if i in graph and i != name} for name, found in graph.items()}


def test_no_cycle_between_modules():
    graph = modules_below("kernforge")
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, " -> ".join((*way, name))
        if name in done:
            return
        for other in graph[name]:
            if other.count(".") > 1 or other.split(".")[-1] not in name:
                visit(other, (*way, name))
        done.add(name)

    for name in graph:
        visit(name, ())


PURE = ("arch", "recipe/model", "recipe/matrix", "build/key", "build/plan", "build/gencode",
        "verify/coverage", "verify/policy")  # fmt: skip
IMPURE = {"os", "pathlib", "subprocess", "time", "datetime", "shutil", "tempfile", "socket"}


@pytest.mark.parametrize("module", PURE)
def test_pure_modules_touch_nothing(module):
    found = {name.split(".")[0] for name in imports(SRC / f"{module}.py")}
    assert not found & IMPURE


def test_only_process_starts_processes():
    users = {path.relative_to(SRC).as_posix() for path in MODULES if "subprocess" in imports(path)}
    assert users <= {"process.py", "inside/shim.py", "inside/steward.py"}
