"""The command line as a user meets it: answers, faults, exit statuses. Compiles nothing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from cli.calls import answers, fault
from projects import RECIPE, ROOT, write_project

from kernforge.cli import main
from kernforge.store.local import Store

CALL = [sys.executable, "-m", "kernforge"]
KEY = "0123456789abcdef" * 4


def commands(group: click.Group, *above: str) -> list[tuple[str, ...]]:
    found = [above]
    context = click.Context(group)
    for name in group.list_commands(context):
        sub = group.get_command(context, name)
        found += commands(sub, *above, name) if isinstance(sub, click.Group) else [(*above, name)]
    return found


@pytest.fixture
def program(run, fixed):
    """A call in the project, as a user makes it."""
    return lambda *words, **options: run(*fixed, *words, **options)


# ---- help, usage, schema


@pytest.mark.parametrize("words", commands(main.command), ids=" ".join)
def test_help_fits_100_columns_and_needs_nothing(run, words):
    done = run(*words, "--help", env={"COLUMNS": "200", "HOME": "/nonexistent"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Usage: kernforge")
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_version(run):
    from kernforge import __version__

    assert run("--version").stdout.strip() == f"kernforge, version {__version__}"


@pytest.mark.parametrize("words", [(), ("cache",)])
def test_a_bare_call_shows_its_help(swift, words):
    done = swift(*words)
    assert done.returncode == 2
    assert "Commands:" in done.stderr
    assert "error[" not in done.stderr


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        (("biuld",), "No such command 'biuld'", "kernforge --help"),
        (("cache", "sl"), "No such command 'sl'", "kernforge cache --help"),
        (("build",), "Missing argument 'NAME...'", "kernforge build --help"),
        (("build", "demo", "--wat"), "No such option", "kernforge build --help"),
        (("build", "demo", "--jobs", "0"), "0 is not in the range x>=1", "kernforge build --help"),
    ],
)
def test_usage(swift, words, said, hint):
    text = fault(swift(*words), 2, "usage")
    assert said in text
    assert f"hint: `{hint}` shows what there is" in text


@pytest.mark.parametrize(
    ("size", "said"),
    [("24", "less than any compile takes"), ("0", "less than"), ("24G", "not an amount of bytes"),
     ("9" * 400, "not an amount of bytes"), ("-1GiB", "not an amount of bytes")],
)  # fmt: skip
def test_a_memory_that_is_none(swift, size, said):
    text = fault(swift("build", "demo", f"--memory={size}"), 3, "size-invalid")
    assert f"--memory: {size!r} is {said}" in text
    assert "hint: write it" in text


def test_usage_as_data(swift):
    (document,) = answers(swift("build", "demo", "--wat", "--json"), 2)
    assert (document["error"], document["exit"]) == ("usage", 2)


def test_the_schema_is_the_one_in_the_documents(swift):
    done = swift("schema")
    assert done.returncode == 0
    assert done.stdout == (ROOT / "docs/recipe.schema.json").read_text()


def test_a_reader_that_leaves_early(run):
    child = subprocess.Popen(
        [*CALL, "schema"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    child.stdout.close()
    with child.stderr:
        assert child.stderr.read() == ""
    assert child.wait() == 141


# ---- archs, names, jobs


@pytest.mark.parametrize(
    ("text", "word", "hint"),
    [
        ("120", "arch-invalid", "write 12.0"),
        ("sm_120", "arch-invalid", "write 12.0"),
        ("Blackwell", "arch-invalid", "write numbers, as 10.0a;12.0a"),
        ("", "arch-invalid", "name at least one arch, as 12.0a"),
        (" ; ", "arch-invalid", "name at least one arch, as 12.0a"),
        ("12", "arch-invalid", "give the minor number too, as 12.0 or 12.1"),
        ("12.0A", "arch-invalid", "write 12.0a"),
        ("13.0", "arch-unknown", "known: "),
        ("'12.0'", "arch-invalid", "leave the inner quotes out: 12.0"),
        ("12.0a;nonsense", "arch-invalid", "write it as 12.0, 12.0a, 12.0f or 9.0+PTX"),
    ],
)
def test_archs_that_are_none(call, text, word, hint):
    for verb in ("build", "plan"):
        said = fault(call(verb, "tiny", "--arch", text), 2, word)
        assert "error[" + word + "]: --arch: " in said
        assert f"hint: {hint}" in said.replace("names mean other chips in other releases; ", "")


def test_an_arch_that_cuda_does_not_know(call):
    assert "13.0" in fault(call("plan", "tiny", "--arch", "7.0"), 2, "cuda-too-new")


def test_one_list_has_one_key_however_it_is_written(call):
    found = [
        answers(call("plan", "tiny", "--json", "--arch", text))[0]
        for text in ("9.0;12.0a", "12.0a 9.0 12.0a", "12.0a,9.0", " 9.0 ; 12.0a ")
    ]
    assert {document["job"] for document in found} == {"tiny-cu130-cp311-sm90.120a"}
    assert len({document["recipe_key"] for document in found}) == 1
    other = answers(call("plan", "tiny", "--json", "--arch", "9.0"))[0]
    assert other["recipe_key"] != found[0]["recipe_key"]


@pytest.mark.parametrize("verb", ["build", "plan", "show", "lock"])
def test_a_recipe_that_is_not_there(call, verb):
    assert "hint: did you mean 'tiny'?" in fault(call(verb, "tinny"), 3, "recipe-missing")


@pytest.mark.parametrize("name", ["../recipes/tiny", "tiny.yaml", "", "/etc/passwd", "locks"])
def test_a_name_is_no_path(call, name):
    fault(call("show", name), 3, "recipe-missing")


def test_a_job_that_is_not_there(call):
    said = fault(call("plan", "tiny", "--job", "x"), 3, "job-missing")
    assert "hint: there are: tiny-cu130-cp311-sm120a" in said


def test_a_job_by_its_id(swift):
    (document,) = answers(swift("plan", "demo", "--job", "demo-cu130-cp311-sm120a", "--json"))
    assert document["job"] == "demo-cu130-cp311-sm120a"


# ---- recipes

BROKEN = RECIPE.replace("distribution: tiny", "distribusion: tiny").replace('"12.0a"', '"120"')


def test_every_fault_of_a_recipe_at_once(call, project):
    (project / "recipes/tiny.yaml").write_text(BROKEN)
    for verb in ("build", "plan", "show", "lock"):
        found = answers(call(verb, "tiny", "--json"), 2)
        assert [one["error"] for one in found] == ["recipe-unknown-key", "arch-invalid"]
        assert [one["hint"] for one in found] == ["did you mean 'distribution'?", "write 12.0"]
        assert all("tiny.yaml:" in one["message"] for one in found)


def test_every_fault_of_a_recipe_as_lines(call, project):
    (project / "recipes/tiny.yaml").write_text(BROKEN)
    done = call("build", "tiny")
    assert done.returncode == 2
    assert done.stdout == ""
    assert [line for line in done.stderr.splitlines() if line.startswith("error")] == [
        line for line in done.stderr.splitlines() if not line.startswith("  hint: ")
    ]
    assert done.stderr.count("error[") == 2


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"format: 1\n\tname: tiny\n", "yaml-tab"),
        (b"\xef\xbb\xbfformat: 1\n", "yaml-bom"),
        (b"name: \xff\n", "yaml-encoding"),
        (b"format: &a 1\n", "yaml-anchor"),
        (b"format: 1\nformat: 1\n", "yaml-duplicate-key"),
        (b"format: [\n", "yaml-syntax"),
        (b"", "yaml-empty"),
    ],
)
def test_what_is_no_recipe(call, project, content, word):
    (project / "recipes/tiny.yaml").write_bytes(content)
    assert word in {one["error"] for one in answers(call("plan", "tiny", "--json"), 2)}


def test_a_broken_recipe_hides_no_other_in_the_list(call, project):
    (project / "recipes/aaa.yaml").write_text("format: [")
    done = call("list")
    assert done.returncode == 2
    assert "error[yaml-syntax]" in done.stderr
    assert "tiny-cu130-cp311-sm120a" in done.stdout
    broken, whole = answers(call("list", "--json"), 2)
    assert (broken["name"], broken["error"]) == ("aaa", "yaml-syntax")
    assert whole == {"name": "tiny", "summary": None, "jobs": ["tiny-cu130-cp311-sm120a"]}


def test_show_writes_every_default_and_reads_back(call, project):
    (data,) = answers(call("show", "tiny", "--json"))
    assert (data["name"], data["verify"]["require"]) == ("tiny", "code")
    (project / "recipes/tiny.yaml").write_text(call("show", "tiny").stdout)
    assert answers(call("show", "tiny", "--json")) == [data]


# ---- locks


def lock_of(project: Path) -> Path:
    (path,) = (project / "recipes/locks/tiny").glob("py311-cu130-*.lock")
    return path


@pytest.mark.parametrize("verb", ["build", "plan"])
def test_a_missing_lock(call, project, verb):
    path = lock_of(project)
    path.unlink()
    said = fault(call(verb, "tiny"), 5, "lock-missing")
    assert str(path) in said
    assert "hint: run `kernforge lock tiny`" in said


def test_a_missing_lock_of_another_target_names_its_command(call):
    said = fault(call("plan", "tiny", "--python", "3.12"), 5, "lock-missing")
    assert "hint: run `kernforge lock tiny --python 3.12`" in said


@pytest.mark.parametrize("verb", ["build", "plan"])
def test_a_lock_for_other_requirements(call, project, verb):
    recipe = project / "recipes/tiny.yaml"
    recipe.write_text(RECIPE + 'build: {requires: ["pybind11>=3"]}\n')
    said = fault(call(verb, "tiny"), 5, "lock-mismatch")
    assert "it lacks pybind11>=3" in said
    assert "hint: run `kernforge lock tiny`" in said


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("# kernforge lock 1", "# mine", "lock-invalid"),
        ("ninja==", "ninja>=", "lock-invalid"),
        ("--hash=sha256:", "--hash=md5:", "lock-invalid"),
        ("\nninja==", "\nother==", "lock-mismatch"),
        ("# needs: ninja>=1.11\n", "", "lock-mismatch"),
    ],
)
def test_a_garbled_lock(call, project, old, new, word):
    path = lock_of(project)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    assert str(path) in fault(call("build", "tiny"), 5, word)
    (document,) = answers(call("plan", "tiny", "--json"), 5)
    assert (document["error"], document["exit"]) == (word, 5)


def test_a_lock_of_bytes(call, project):
    lock_of(project).write_bytes(b"\xff\x00")
    assert "cannot be read" in fault(call("plan", "tiny"), 5, "lock-invalid")


# ---- the machine


def test_no_compiler(program, tmp_path):
    (tmp_path / "bin").mkdir()
    done = program("build", "tiny", env={"PATH": str(tmp_path / "bin")})
    assert "hint: install one, as `apt-get install g++`" in fault(done, 5, "compiler-missing")


def test_a_c_compiler_alone_is_not_enough(program, tmp_path):
    (tmp_path / "bin").mkdir()
    for name in ("gcc", "cc", "ld", "strip", "as"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    done = program("build", "tiny", env={"PATH": str(tmp_path / "bin")})
    assert "No C++ compiler is on PATH" in fault(done, 5, "compiler-missing")


def test_a_plan_needs_neither_compiler_nor_home_nor_cache(program, tmp_path):
    usual = answers(program("plan", "tiny", "--json"))
    bare = {"PATH": "/nonexistent", "HOME": "", "XDG_CACHE_HOME": "", "TMPDIR": "/nonexistent"}
    assert answers(program("plan", "tiny", "--json", env=bare)) == usual
    assert not (tmp_path / "cache").exists()


def without(*names: str, cwd: Path, words: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if key not in names}
    return subprocess.run(
        [*CALL, *words], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )


UNSET = ("HOME", "XDG_CACHE_HOME", "KERNFORGE_CACHE", "KERNFORGE_PROJECT")


def test_home_unset_in_a_project(project):
    done = without(*UNSET, cwd=project, words=("plan", "tiny", "--json"))
    assert answers(done)[0]["job"] == "tiny-cu130-cp311-sm120a"


def test_home_unset_outside_a_project(tmp_path):
    said = fault(without(*UNSET, cwd=tmp_path, words=("cache", "ls")), 3, "home-missing")
    assert "hint: name one with --cache or KERNFORGE_CACHE" in said
    assert without(*UNSET, cwd=tmp_path, words=("list",)).returncode == 0


def test_the_users_cache_outside_a_project(run, tmp_path):
    cache = Store(tmp_path / "own/kernforge")
    (tmp_path / "x.whl").write_text("wheel")
    cache.put("artifact", KEY, {"x.whl": tmp_path / "x.whl"}, {})
    for env in (
        {"XDG_CACHE_HOME": str(tmp_path / "own"), "HOME": "/nonexistent"},
        {"XDG_CACHE_HOME": "relative", "HOME": str(tmp_path / "home")},
    ):
        (tmp_path / "home").mkdir(exist_ok=True)
        if not (tmp_path / "home/.cache").exists():
            (tmp_path / "home/.cache").symlink_to(tmp_path / "own")
        (entry,) = answers(run("cache", "ls", "--json", env=env, cwd=tmp_path))
        assert entry["key"] == KEY


def test_a_project_that_is_none(swift, tmp_path):
    said = fault(swift("--project", str(tmp_path), "list"), 3, "project-missing")
    assert "holds no folder 'recipes'" in said


@pytest.fixture(scope="module")
def usual(run, tmp_path_factory):
    """The plan of the small project in a folder with a plain name."""
    plain = write_project(tmp_path_factory.mktemp("plain"))
    return answers(run("plan", "tiny", "--json", cwd=plain))


@pytest.mark.parametrize("name", ["it's $HOME; #", "ü\N{SNOWMAN}", "new\nline"])
def test_odd_paths(run, tmp_path, usual, name):
    odd = write_project(tmp_path / name)
    options = ("--project", str(odd), "--cache", str(odd / "ca che"))
    assert answers(run(*options, "plan", "tiny", "--json")) == usual


def test_an_odd_folder_to_work_in(run, tmp_path, usual):
    odd = write_project(tmp_path / "-da sh")
    (odd / "deep er").mkdir()
    assert answers(run("plan", "tiny", "--json", cwd=odd / "deep er")) == usual


def test_a_path_that_is_not_utf8(run, tmp_path):
    odd = write_project(tmp_path / os.fsdecode(b"caf\xe9"))
    (tmp_path / "x.whl").write_text("wheel")
    entry = Store(odd / "cache").put("artifact", KEY, {"x.whl": tmp_path / "x.whl"}, {})
    (document,) = answers(run("cache", "ls", "--json", cwd=odd))
    assert document["path"] == str(entry.path)
    assert run("plan", "tiny", cwd=odd).returncode == 0
    lock_of(odd).unlink()
    assert "caf\\udce9" in fault(run("--project", str(odd), "plan", "tiny"), 5, "lock-missing")


def test_a_plan_without_network_and_cache_has_the_same_key(run, tmp_path):
    (usual,) = answers(run("plan", "demo", "--arch", "12.0a", "--json"))
    cache = tmp_path / "cache"
    call = [*CALL, "--cache", str(cache), "plan", "demo", "--arch", "12.0a", "--json"]
    done = subprocess.run(
        ["unshare", "-rn", *call], cwd=ROOT, capture_output=True, text=True, check=False
    )
    (document,) = answers(done)
    assert document["recipe_key"] == usual["recipe_key"]
    assert not cache.exists()


def test_a_cache_that_is_a_file(call, tmp_path):
    (tmp_path / "cache").write_text("")
    said = fault(call("build", "tiny"), 9, "cache-unwritable")
    assert "hint: choose another folder with --cache" in said


# ---- cache


@pytest.fixture
def stored(tmp_path):
    store = Store(tmp_path / "cache")
    for key in (KEY, KEY[:10] + "f" * 54):
        (tmp_path / "x.whl").write_text(key)
        store.put("artifact", key, {"x.whl": tmp_path / "x.whl"}, {"wheel": "x.whl"})
    return store


@pytest.mark.parametrize(
    ("verb", "text"),
    [("ls", ""), ("check", "0 entries, 0 damaged\n"), ("gc", "0 B freed\n")],
)
def test_an_empty_cache(call, verb, text):
    done = call("cache", verb)
    assert (done.returncode, done.stdout, done.stderr) == (0, text, "")
    assert answers(call("cache", verb, "--json")) == []


def test_looking_at_an_empty_cache_makes_nothing(call, tmp_path):
    for verb in ("ls", "check"):
        call("cache", verb)
    assert not (tmp_path / "cache").exists()


def test_cache_ls(call, stored):
    assert len(call("cache", "ls").stdout.splitlines()) == 2
    found = answers(call("cache", "ls", "--json"))
    assert {"kind", "key", "bytes", "path", "wheel"} <= set(found[0])


def test_cache_check_tells_what_is_damaged_and_changes_nothing(call, stored):
    assert call("cache", "check").stdout == "2 entries, 0 damaged\n"
    (stored.place("artifact", KEY) / "x.whl").write_text("else")
    done = call("cache", "check")
    assert done.returncode == 9
    assert f"artifact {KEY}: x.whl has another size" in done.stdout
    (document,) = answers(call("cache", "check", "--json"), 9)
    assert (document["kind"], document["key"]) == ("artifact", KEY)
    assert stored.place("artifact", KEY).exists()


def test_cache_rm(call, stored):
    fault(call("cache", "rm", KEY[:4]), 3, "key-short")
    fault(call("cache", "rm", "f" * 8), 3, "key-missing")
    fault(call("cache", "rm", KEY[:10]), 3, "key-ambiguous")
    assert len(stored.listing()) == 2
    assert call("cache", "rm", KEY[:12]).stdout == f"removed artifact {KEY}\n"
    assert [key for _, key in stored.listing()] == [KEY[:10] + "f" * 54]


def test_cache_gc(call, stored):
    fault(call("cache", "gc", "--keep", "much"), 3, "size-invalid")
    assert call("cache", "gc").stdout == "0 B freed\n"
    removed = answers(call("cache", "gc", "--keep", "0", "--json"))
    assert len(removed) == 2
    assert stored.listing() == ()
    assert list((stored.root / "tmp").iterdir()) == []


def test_cache_gc_removes_environments_but_not_while_something_is_built(call, stored):
    env = stored.folder("envs") / "abc"
    env.mkdir()
    (env / "file").write_text("x" * 5000)
    with stored.lock(KEY, waiting=lambda *_: None):
        call("cache", "gc", "--keep", "0")
        assert env.exists()
    call("cache", "gc", "--keep", "0")
    assert not env.exists()


def test_shipped_recipes_are_found_where_there_are_none_of_ones_own(run, tmp_path):
    done = run("list", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "demo-cu130-cp311-sm120a" in done.stdout
