"""Answers of the pipeline made by hand, for what shows them."""

import json
from pathlib import Path

from images import device, image, library

from kernforge.build.backend import BackendCall
from kernforge.build.plan import Plan, Stage
from kernforge.pipeline.job import Outcome
from kernforge.recipe.load import read_recipe
from kernforge.recipe.matrix import expand
from kernforge.verify.policy import Rules, Verdict, judge

RECIPE = {
    "format": 1,
    "name": "demo",
    "version": "1.2.3",
    "sources": {"demo": {"path": "examples/demo"}},
    "matrix": {"archs": ["9.0;12.0a"], "cuda": ["13.0"], "python": ["3.11"]},
}
KEY = "ab" * 32


def verdict(*libraries, devices=("12.0",), findings=(), **rules) -> Verdict:
    asked = tuple(map(device, devices))
    held = libraries or (library(image("12.0a", "k")),)
    return judge(held, asked, Rules(**({"require": "code"} | rules)), findings)


def outcome(**changes) -> Outcome:
    plain = {
        "job": "demo-cu130-cp311-sm120a", "key": KEY, "recipe_key": "cd" * 32,
        "wheel": Path("/cache/store/demo.whl"), "sha256": "ef" * 32, "size": 2048,
        "cached": False, "build_id": "0" * 32, "seconds": 1.23456, "verdict": verdict(),
        "sandbox": ("kf", "bubblewrap"),
    }  # fmt: skip
    return Outcome(**(plain | changes))


def plan() -> Plan:
    (job,) = expand(read_recipe(RECIPE, where="demo.yaml"))
    call = BackendCall(argv=("python", "-m", "build"), env=(("CC", "gcc"),), cwd="/kf/src/demo")
    stages = (
        Stage(name="fetch", key="01" * 32, parts=json.dumps({"sources": [["demo", "path", "x"]]})),
        Stage(name="build", key=KEY, parts=json.dumps({"epoch": 7}), command=call),
    )
    return Plan(job=job, stages=stages, call=call, local_version=None, epoch=7)
