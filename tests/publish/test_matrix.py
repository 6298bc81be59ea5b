"""CI made from recipes: every job once, actions by commit, the committed file kept equal."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from kernforge.publish.matrix import github_workflow, slurm_script
from kernforge.recipe.load import find_recipes, load_recipe
from kernforge.recipe.matrix import expand

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / ".github/workflows/wheels.yml"


@pytest.fixture(scope="module")
def jobs():
    return [j for path in find_recipes(ROOT / "recipes") for j in expand(load_recipe(path))]


def test_the_committed_workflow_is_what_the_recipes_make(run):
    made = run("matrix", "--format", "github")
    assert made.returncode == 0, made.stderr
    assert COMMITTED.read_text() == made.stdout, (
        "run: kernforge matrix --format github > .github/workflows/wheels.yml"
    )


def test_every_job_is_built_once(jobs):
    workflow = yaml.safe_load(github_workflow(jobs))
    rows = workflow["jobs"]["build"]["strategy"]["matrix"]["include"]
    assert [(row["recipe"], row["job"]) for row in rows] == [(j.recipe.name, j.id) for j in jobs]
    assert {row["runner"] for row in rows} <= {"ubuntu-24.04", "ubuntu-24.04-arm"}


def test_actions_are_pinned_by_commit(jobs):
    text = github_workflow(jobs)
    used = re.findall(r"uses: (\S+)", text)
    assert used
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) for action in used)
    assert not re.search(r"@[A-Z]+@", text)


def test_nothing_of_the_workflow_can_be_written_into_a_shell(jobs):
    """Expressions stand in env and with, never in a script."""
    workflow = yaml.safe_load(github_workflow(jobs))
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    assert not [step for step in steps if "${{" in step.get("run", "")]
    assert workflow["permissions"] == {"contents": "read"}


def test_a_release_can_judge_what_it_publishes(jobs):
    """Imports are tried in a sandbox, there too; and no compile of an earlier run is taken."""
    workflow = yaml.safe_load(github_workflow(jobs))
    for job in workflow["jobs"].values():
        scripts = "\n".join(step.get("run", "") for step in job["steps"])
        assert "bubblewrap" in scripts
        assert "apparmor_restrict_unprivileged_userns=0" in scripts
    build = workflow["jobs"]["build"]["steps"]
    (kept,) = [step["with"]["path"] for step in build if "actions/cache@" in step.get("uses", "")]
    assert kept == "cache/sources"
    (command,) = [step["run"] for step in build if step.get("name") == "Build"]
    assert "--no-compile-cache" in command.split()


def test_the_commands_of_the_workflow_exist(jobs, run):
    workflow = yaml.safe_load(github_workflow(jobs))
    scripts = [s["run"] for job in workflow["jobs"].values() for s in job["steps"] if "run" in s]
    used = set(re.findall(r"kernforge (\w+)", "\n".join(scripts)))
    assert used == {"build", "reproduce", "publish"}
    for command in used:
        assert run(command, "--help").returncode == 0


def test_a_slurm_task_builds_its_job(jobs, tmp_path):
    script = tmp_path / "wheels.sh"
    script.write_text(slurm_script(jobs))
    program = tmp_path / "kernforge"
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    for number, job in enumerate(jobs):
        env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_ARRAY_TASK_ID": str(number),
               "SLURM_CPUS_PER_TASK": "7"}  # fmt: skip
        done = subprocess.run(
            ["sh", str(script)], env=env, capture_output=True, text=True, check=True
        )
        assert done.stdout == f"build {job.recipe.name} --job {job.id} --jobs 7 --out dist\n"
    assert f"#SBATCH --array=0-{len(jobs) - 1}" in script.read_text()
    env["SLURM_ARRAY_TASK_ID"] = "999"
    assert (
        subprocess.run(["sh", str(script)], env=env, capture_output=True, check=False).returncode
        == 3
    )


def test_chosen_recipes_only(run):
    done = run("matrix", "--format", "slurm", "demo", "--arch", "9.0")
    assert "demo-cu130-cp311-sm90 ;;" in done.stdout
    assert "--array=0-0" in done.stdout
