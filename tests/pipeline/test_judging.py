"""One wheel, one verdict: `build`, `publish` and `verify` of a real wheel agree, here and elsewhere."""

import json
import zipfile
from pathlib import Path

import pytest
from projects import FILES, RECIPE, share_toolchain, write_project

import kernforge.inside.gpu_probe as probe

pytestmark = pytest.mark.build

CARD = {"index": 0, "name": "Card", "capability": "12.0"}


@pytest.fixture
def project(tmp_path):
    return write_project(tmp_path / "project", {"smoke.py": "import tiny\n"})


@pytest.fixture
def machine(run, project, tmp_path, compiler_cache, toolkit):
    """A machine of a name: a cache of its own, the command line on it."""

    def named(name):
        cache = share_toolchain(tmp_path / name, compiler_cache)
        return lambda *words: run("--project", str(project), "--cache", str(cache), *words)

    return named


def demand(project, verify: str) -> None:
    text = RECIPE.replace("{require: code}", verify)
    (project / "recipes/tiny.yaml").write_text(text)


def told(done, status=0):
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def report(wheel: Path, place: Path, project: Path, *kernels: str) -> Path:
    """A GPU's report that these kernels of the wheel load and that its smoke program passes."""
    ran = {"sha256": probe.digest(str(project / "smoke.py")), "outcome": "passed", "output": ""}
    name = next(n for n in zipfile.ZipFile(wheel).namelist() if n.endswith(".so"))
    library = {"path": name, "outcome": "done", "kernels": list(kernels), "errors": []}
    document = {
        "format": 1, "wheel": {"file": wheel.name, "sha256": probe.digest(str(wheel))},
        "driver": 13000, "trouble": None,
        "results": [{"device": CARD, "libraries": [library], "smoke": ran}],
    }  # fmt: skip
    place.write_text(json.dumps({**document, "seal": probe.seal(document)}))
    return place


def test_a_demand_for_runs_is_met_by_a_report_that_is_added(machine, project, tmp_path):
    demand(project, "{require: runs, import: [tiny], smoke: smoke.py}")
    here = machine("here")
    outcome, error = told(here("build", "tiny", "--json"), 7)
    assert error["error"] == "level-not-verified"
    assert "--gpu --report R.json" in error["hint"]
    wheel = Path(outcome["wheel"])
    (row,) = outcome["verdict"]["libraries"]
    facts = told(here("inspect", str(wheel), "--kernels", "--json"))[0]["libraries"][0]
    (kernel,) = facts["kernel_archs"]
    made = report(wheel, tmp_path / "R.json", project, kernel)
    (verdict,) = told(here("verify", str(wheel), "--recipe", "tiny", "--add", str(made), "--json"))
    again = told(here("build", "tiny", "--json"))[0]
    assert again["cached"] is True
    assert again["verdict"] == {k: v for k, v in verdict.items() if k != "wheel"}
    assert again["verdict"]["devices"][0]["reached"] == "runs"
    assert row["answers"]["serves"] == 1


def test_a_wheel_from_another_machine_is_judged_as_where_it_was_built(machine, project, tmp_path):
    demand(project, "{require: imports, import: [tiny]}")
    built = told(machine("builder")("build", "tiny", "--out", str(tmp_path / "out"), "--json"))[0]
    (wheel,) = (tmp_path / "out").glob("*.whl")
    release = machine("release")
    (verdict,) = told(release("verify", str(wheel), "--recipe", "tiny", "--json"))
    assert {k: v for k, v in verdict.items() if k != "wheel"} == built["verdict"]
    (site,) = told(release("publish", str(wheel), "--to", str(tmp_path / "site"), "--json"))
    assert site["new"]


def test_a_wheel_that_does_not_import_is_not_published_elsewhere_either(machine, project, tmp_path):
    (project / "project/tiny/__init__.py").write_text("import nowhere\n")
    demand(project, "{require: code, import: [tiny]}")
    told(machine("builder")("build", "tiny", "--out", str(tmp_path / "out"), "--json"))
    (wheel,) = (tmp_path / "out").glob("*.whl")
    demand(project, "{require: imports, import: [tiny]}")
    done = machine("release")("publish", str(wheel), "--to", str(tmp_path / "site"), "--json")
    (error,) = told(done, 8)
    assert error["error"] == "wheel-short"
    assert "imports 'nowhere', which the target does not have" in error["message"]


def test_other_archs_than_the_jobs_are_a_fault_of_an_own_wheel(machine, project, tmp_path):
    """What was asked for is in the wheel's own name for its job: nobody can say otherwise."""
    here = machine("here")
    built = told(here("build", "tiny", "--arch", "9.0", "--json"))[0]
    (verdict,) = told(here("verify", built["wheel"], "--recipe", "tiny", "--json"))
    assert [d["device"] for d in verdict["devices"]] == ["9.0"]
    words = ("verify", built["wheel"], "--recipe", "tiny", "--device", "12.0", "--json")
    (verdict,) = told(here(*words), 7)
    assert [fault["word"] for fault in verdict["faults"]] == ["code-missing"]


def test_a_package_of_python_alone_needs_no_code(machine, project, tmp_path):
    demand(project, "{require: imports, device_code: false, import: [tiny]}")
    cmake = FILES["project/CMakeLists.txt"].split("add_library")[0]
    (project / "project/CMakeLists.txt").write_text(cmake)
    built = told(machine("here")("build", "tiny", "--json"))[0]
    levels = built["verdict"]["devices"][0]["levels"]
    assert [levels[n] for n in ("code", "links", "imports")] == ["not needed", "reached", "reached"]
