#!/usr/bin/env python3
"""Cold build by kernforge against the bare backend in the same environment and sandbox, in pairs.

    python benchmarks/overhead.py demo --arch 12.0a --pairs 5
    python benchmarks/overhead.py causal-conv1d --arch 12.0 --pairs 1 --tree SDIST --upstream

Both sides compile for the same archs. The bare side runs `python -m build` in the same bubblewrap
with the same environment, the real nvcc in its place and the compilers on PATH: what a careful
user would do by hand. The sides alternate, so that a slow moment of the machine hits both.
With --upstream the bare side compiles what the project does by default. kernforge builds without
its compile cache, unless --compile-cache is given: then into an empty one. Prints wall and
processor seconds of each pair with the wheel's SHA-256, and the medians of the wall difference and
of both ratios.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


def call(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kernforge", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stdout


def share(cache: Path) -> None:
    for name in ("envs", "uv", "host", "sources"):
        target = ROOT / "cache" / name
        target.mkdir(parents=True, exist_ok=True)
        (cache / name).symlink_to(target)


@dataclass(frozen=True)
class Cost:
    """Seconds: by the clock, and of all processors."""

    wall: float
    cpu: float


class Account:
    """A control group of its own: processor time of all that runs in it, pid namespaces too."""

    def __init__(self) -> None:
        name = f"kernforge-benchmark-{os.getpid()}-{time.monotonic_ns()}"
        for root, counter in (("/sys/fs/cgroup/cpuacct", "cpuacct.usage"), ("/sys/fs/cgroup", "")):
            self.folder, self.counter = Path(root) / name, counter or "cpu.stat"
            try:
                self.folder.mkdir()
            except OSError:
                continue
            return
        sys.exit("no control group can be made here, so processor time cannot be measured")

    def seconds(self) -> float:
        """Processor seconds so far."""
        text = (self.folder / self.counter).read_text()
        if self.counter == "cpuacct.usage":
            return int(text) / 1e9
        return int(text.split()[1]) / 1e6

    def remove(self) -> None:
        """Remove the group; what a sandbox ends with may take a moment to die."""
        for _ in range(100):
            try:
                self.folder.rmdir()
            except OSError:
                time.sleep(0.1)
            else:
                return

    def run(self, command: list[str]) -> Cost:
        """Run a command in the group to its end."""
        entry = "tasks" if self.counter == "cpuacct.usage" else "cgroup.procs"
        join = ["sh", "-c", f'echo $$ > {self.folder / entry}; exec "$@"', "sh"]
        began = time.monotonic()
        done = subprocess.run([*join, *command], cwd=ROOT, capture_output=True, check=False)
        cost = Cost(time.monotonic() - began, self.seconds())
        self.remove()
        if done.returncode != 0:
            sys.exit(done.stderr.decode("utf-8", "replace")[-3000:])
        return cost


def kernforge_once(recipe: str, arch: str, *more: str) -> tuple[Cost, str]:
    with tempfile.TemporaryDirectory(dir=ROOT / "cache") as folder:
        share(Path(folder))
        words = ["--cache", folder, "build", recipe, "--arch", arch, "--json", *more]
        cost = Account().run([sys.executable, "-m", "kernforge", *words])
        (wheel,) = Path(folder).glob("store/artifact/*/*/*.whl")
        return cost, hashlib.sha256(wheel.read_bytes()).hexdigest()


def bare_command(plan: dict[str, object], env: Path, scratch: Path) -> list[str]:
    build = next(s for s in plan["stages"] if s["name"] == "build")  # type: ignore[attr-defined]
    cuda = build["env"]["CUDA_HOME"]
    root = env / Path(cuda).relative_to("/kf/env")
    bare = scratch / "nvcc"
    shutil.copyfile(root / "bin/nvcc.real", bare)
    bare.chmod(0o755)
    argv = [
        "bwrap",
        "--unshare-all",
        "--die-with-parent",
        "--clearenv",
        "--ro-bind",
        "/usr",
        "/usr",
    ]
    for link in ("bin", "lib", "lib64", "sbin"):
        argv += ["--symlink", f"usr/{link}", f"/{link}"]
    argv += ["--ro-bind", "/etc/alternatives", "/etc/alternatives", "--proc", "/proc"]
    argv += ["--dev", "/dev", "--tmpfs", "/tmp", "--dir", "/kf"]  # noqa: S108
    prefix = Path(sys.base_prefix)
    argv += ["--ro-bind", str(prefix), str(prefix), "--ro-bind", str(env), "/kf/env"]
    argv += ["--ro-bind", str(bare), f"{cuda}/bin/nvcc"]
    for name in ("src", "build", "out", "tmp", "home"):
        (scratch / name).mkdir(exist_ok=True)
        argv += ["--bind", str(scratch / name), f"/kf/{name}"]
    variables = {**build["env"], "PATH": "/kf/env/bin:/usr/bin", "CC": "gcc", "CXX": "g++"}
    variables |= {"CMAKE_BUILD_PARALLEL_LEVEL": "2", "MAX_JOBS": "2"}
    if variables["SOURCE_DATE_EPOCH"].startswith("("):
        variables["SOURCE_DATE_EPOCH"] = "1577836800"
    for key, value in variables.items():
        if not key.startswith("KERNFORGE"):
            argv += ["--setenv", key, value]
    return [*argv, "--chdir", build["cwd"], *build["argv"]]


def bare_once(plan: dict[str, object], env: Path, tree: Path, arch: str | None) -> Cost:
    with tempfile.TemporaryDirectory(dir=ROOT / "cache") as folder:
        scratch = Path(folder)
        (scratch / "src").mkdir()
        shutil.copytree(tree, scratch / "src" / tree.name)
        if arch is not None:
            narrow(scratch / "src" / tree.name, arch)
        return Account().run(bare_command(plan, env, scratch))


def narrow(tree: Path, arch: str) -> None:
    """Give hard-coded gencode lists the one arch by hand, so that both sides compile the same."""
    setup = tree / "setup.py"
    if not setup.exists():
        return
    code = arch.replace(".", "")
    lines = setup.read_text(encoding="utf-8").splitlines(keepends=True)
    drop = [i for i, t in enumerate(lines) if "arch=compute_" in t and f"code=sm_{code}" not in t]
    gone = {*drop, *(i - 1 for i in drop)}
    keep = [text if i not in gone else "\n" for i, text in enumerate(lines)]
    text = "".join(keep).replace(
        'if bare_metal_version >= Version("11.8"):', "if False:\n            pass"
    )
    text = text.replace('if bare_metal_version >= Version("13.0"):', "if False:\n            pass")
    setup.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe")
    parser.add_argument("--arch", required=True)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--tree", type=Path, help="the unpacked source, for a recipe of the index")
    parser.add_argument("--upstream", action="store_true", help="the project's own default archs")
    parser.add_argument("--compile-cache", action="store_true", help="let kernforge fill one")
    options = parser.parse_args()
    more = () if options.compile_cache else ("--no-compile-cache",)
    fetched = json.loads(call("fetch", options.recipe, "--arch", options.arch, "--json"))[0]
    plan = json.loads(call("plan", options.recipe, "--arch", options.arch, "--json"))[0]
    build = next(s for s in plan["stages"] if s["name"] == "build")
    tree = options.tree or ROOT / "examples" / Path(build["cwd"]).name
    with tempfile.TemporaryDirectory() as folder:
        named = Path(folder) / Path(build["cwd"]).name
        shutil.copytree(tree, named)
        pairs = []
        for number in range(options.pairs):
            ours, sha256 = kernforge_once(options.recipe, options.arch, *more)
            narrowed = None if options.upstream else options.arch
            bare = bare_once(plan, Path(fetched["environment"]), named, narrowed)
            pairs.append((ours, bare))
            said = f"kernforge {ours.wall:.2f} s ({ours.cpu:.1f} s of processors)"
            said += f", bare {bare.wall:.2f} s ({bare.cpu:.1f} s); wheel {sha256[:16]}"
            print(f"pair {number + 1}: {said}", flush=True)
    difference = statistics.median(a.wall - b.wall for a, b in pairs)
    wall = statistics.median(a.wall / b.wall for a, b in pairs)
    cpu = statistics.median(a.cpu / b.cpu for a, b in pairs)
    print(f"median of {len(pairs)} pairs: {difference:+.2f} s, wall x {wall:.3f}, cpu x {cpu:.3f}")


if __name__ == "__main__":
    main()
