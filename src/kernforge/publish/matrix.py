"""CI that builds a project's jobs: a GitHub workflow, or a Slurm array. Pure text.

Room `publish`. We write no scheduler: others' engines run `kernforge build NAME --job ID` once a
job. Actions are pinned by commit; a release is made by a tag. Only sources are taken from earlier
runs, since every byte of them is checked; no compile is.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable

from kernforge.recipe.matrix import Job

_CHECKOUT = "actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0"
_PYTHON = "actions/setup-python@a26af69be951a213d495a4c3e4e4022e16d87065 # v5.6.0"
_KEEP = "actions/upload-artifact@ea165f8d65b6e75b540449e92b4886f43607fa02 # v4.6.2"
_TAKE = "actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c # v8.0.1"
_CACHE = "actions/cache@0057852bfaa89a56745cba8c7296529d2fc39830 # v4.3.0"
_ATTEST = "actions/attest-build-provenance@a2bbfa25375fe432b6a289bc6b6cd05ecd0c4c32 # v4.1.0"

_WORKFLOW = """\
# Made by `kernforge matrix --format github`; change the recipes, not this file.
name: wheels
on:
  workflow_dispatch:
  push:
    tags: ["v*"]
permissions:
  contents: read
concurrency:
  group: wheels-${{ github.ref }}
  cancel-in-progress: false
jobs:
  build:
    name: ${{ matrix.job }}
    runs-on: ${{ matrix.runner }}
    timeout-minutes: 360
    permissions:
      contents: read
      id-token: write
      attestations: write
    strategy:
      fail-fast: false
      matrix:
        include:
@JOBS@
    steps:
      - uses: @CHECKOUT@
        with:
          persist-credentials: false
      - uses: @PYTHON@
        with:
          python-version: "3.11"
@TOOLS@
      - name: Sources of earlier runs
        uses: @CACHE@
        with:
          path: cache/sources
          key: ${{ matrix.recipe }}-${{ hashFiles(format('recipes/{0}.yaml', matrix.recipe)) }}
          restore-keys: ${{ matrix.recipe }}-
      - name: Build
        env:
          RECIPE: ${{ matrix.recipe }}
          JOB: ${{ matrix.job }}
        run: kernforge build "$RECIPE" --job "$JOB" --no-compile-cache --out dist
      - name: Build again from nothing
        run: kernforge reproduce dist/*.whl
      - uses: @ATTEST@
        with:
          subject-path: dist/*.whl
      - uses: @KEEP@
        with:
          name: ${{ matrix.job }}
          path: dist/
          if-no-files-found: error
  release:
    needs: build
    if: github.ref_type == 'tag'
    runs-on: ubuntu-24.04
    permissions:
      contents: write
    steps:
      - uses: @CHECKOUT@
        with:
          persist-credentials: false
      - uses: @PYTHON@
        with:
          python-version: "3.11"
@TOOLS@
      - uses: @TAKE@
        with:
          path: dist
          merge-multiple: true
      - name: Index
        run: kernforge publish dist/*.whl --to index
      - uses: @KEEP@
        with:
          name: index
          path: index/current/
      - name: Release
        env:
          GH_TOKEN: ${{ github.token }}
          TAG: ${{ github.ref_name }}
        run: gh release create "$TAG" --verify-tag --generate-notes dist/*
"""
_TOOLS = """\
      - name: Tools
        run: |
          sudo apt-get update
          sudo apt-get install --yes --no-install-recommends bubblewrap g++
          # Ubuntu 24.04 lets programs make user namespaces by profile only
          sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0
          python -m pip install ."""
_RUNNERS = {"linux_x86_64": "ubuntu-24.04", "linux_aarch64": "ubuntu-24.04-arm"}

_SLURM = """\
#!/bin/sh
# Made by `kernforge matrix --format slurm`: one task a job. Start it in the project's folder:
#   sbatch wheels.sh
# The folder and its cache lie on storage that all nodes see. No GPU is needed.
#SBATCH --job-name=kernforge
#SBATCH --array=0-@LAST@
#SBATCH --cpus-per-task=16
#SBATCH --mem=64G
#SBATCH --time=12:00:00
#SBATCH --output=kernforge-%A-%a.log
set -eu
case "$SLURM_ARRAY_TASK_ID" in
@JOBS@
  *) echo "no job $SLURM_ARRAY_TASK_ID" >&2; exit 3 ;;
esac
exec kernforge build "$recipe" --job "$job" --jobs "${SLURM_CPUS_PER_TASK:-1}" --out dist
"""


def github_workflow(jobs: Iterable[Job]) -> str:
    """A workflow that builds, attests and keeps every job, and releases them by tag."""
    rows = [
        "          - " + _flow({"recipe": job.recipe.name, "job": job.id, "runner": _runner(job)})
        for job in jobs
    ]
    marks = {"JOBS": "\n".join(rows), "CHECKOUT": _CHECKOUT, "PYTHON": _PYTHON}
    marks |= {"KEEP": _KEEP, "TAKE": _TAKE, "ATTEST": _ATTEST, "CACHE": _CACHE, "TOOLS": _TOOLS}
    return _filled(_WORKFLOW, marks)


def slurm_script(jobs: Iterable[Job]) -> str:
    """A script for `sbatch` that builds one job a task of its array."""
    chosen = tuple(jobs)
    rows = [
        f"  {number}) recipe={shlex.quote(job.recipe.name)} job={shlex.quote(job.id)} ;;"
        for number, job in enumerate(chosen)
    ]
    return _filled(_SLURM, {"LAST": str(len(chosen) - 1), "JOBS": "\n".join(rows)})


def _runner(job: Job) -> str:
    return _RUNNERS[job.target.platform]


def _flow(pairs: dict[str, str]) -> str:
    """A mapping in YAML's flow style; JSON's strings are YAML's."""
    return "{" + ", ".join(f"{key}: {json.dumps(value)}" for key, value in pairs.items()) + "}"


def _filled(text: str, marks: dict[str, str]) -> str:
    for name, value in marks.items():
        text = text.replace(f"@{name}@", value)
    return text
