"""Bad recipes: each fault has its word, its line and a hint; nothing is lost, nothing secret said."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernforge.errors import RecipeError
from kernforge.recipe.load import read_recipe

# Each: what is replaced in the shortest recipe, by what, and the one error that follows.
ONE_FAULT = [
    # the head
    ("format: 1", "format: 2", "recipe-format", 1, "format", "write 1"),
    ("format: 1\n", "", "recipe-missing-key", 1, "format", "write format: 1"),
    ("name: demo", "name: demmo", "recipe-name", 2, "name", "write demo, or rename"),
    ("name: demo", "name: De mo", "recipe-name", 2, "name", "lower-case"),
    ("name: demo", "name: a..b", "recipe-name", 2, "name", "no two dots"),
    ("name: demo", "name:", "recipe-value", 2, "name", "leave the key out"),
    ("name: demo", "name: [demo]", "recipe-type", 2, "name", "write one value"),
    ("name: demo", "nmae: demo", "recipe-unknown-key", 2, "nmae", "did you mean 'name'?"),
    ('{from: upstream, expect: "0.1.*"}', "v1", "recipe-value", 3, "version", "1.2.3"),
    ('{from: upstream, expect: "0.1.*"}', "1.0+cu130", "recipe-value", 3, "version", "1.2.3"),
    ('expect: "0.1.*"', 'expect: ">=1"', "recipe-value", 3, "version.expect", "0.4.*"),
    (', expect: "0.1.*"', "", "recipe-missing-key", 3, "version.expect", "0.4.*"),
    ("from: upstream", "from: upstrem", "recipe-value", 3, "version.from", "'upstream'?"),
    # sources
    ("path: examples/demo", "path: ../demo", "recipe-path", 5, "sources.demo.path", "inside"),
    ("path: examples/demo", "pth: a", "recipe-source-kind", 5, "sources.demo", "name its kind"),
    (
        "path: examples/demo",
        "path: a, git: b",
        "recipe-source-kind",
        5,
        "sources.demo",
        "keep one of git and path",
    ),
    ("{path: examples/demo}", "examples/demo", "recipe-type", 5, "sources.demo", "{path:"),
    ("  demo: {path: examples/demo}", "", "recipe-type", 4, "sources", "fill it"),
    (
        "path: examples/demo",
        "path: a, patchs: [b]",
        "recipe-unknown-key",
        5,
        "sources.demo.patchs",
        "did you mean 'patches'?",
    ),
    (
        "path: examples/demo",
        "path: a, patches: b.patch",
        "recipe-type",
        5,
        "sources.demo.patches",
        "write [b.patch]",
    ),
    (
        "path: examples/demo",
        "path: a, into: demo/x",
        "recipe-source",
        5,
        "sources.demo.into",
        "name another source",
    ),
    (
        "path: examples/demo",
        "git: https://h.example/r, commit: 0bcd822",
        "recipe-commit",
        5,
        "sources.demo.commit",
        "all 40 digits",
    ),
    (
        "path: examples/demo",
        "git: https://h.example/r, tag: v1",
        "recipe-unpinned",
        5,
        "sources.demo.commit",
        "all 40 digits",
    ),
    (
        "path: examples/demo",
        "archive: a.tar",
        "recipe-unpinned",
        5,
        "sources.demo.sha256",
        "sha256sum",
    ),
    (
        "path: examples/demo",
        "archive: a.tar, sha256: 12",
        "recipe-sha256",
        5,
        "sources.demo.sha256",
        "64 lower-case",
    ),
    (
        "path: examples/demo",
        "path: a, edits: [{file: b, find: c, replace: d, count: 0}]",
        "recipe-type",
        5,
        "sources.demo.edits[0].count",
        "1 or more",
    ),
    ("  demo: {", "  de mo: {", "recipe-value", 5, 'sources["de mo"]', "my-source"),
    # matrix
    ('cuda: ["13.0"]', "cuda: 13.0", "recipe-type", 8, "matrix.cuda", "write [13.0]"),
    ('cuda: ["13.0"]', "cuda: [cu130]", "cuda-invalid", 8, "matrix.cuda[0]", "as 13.0"),
    ('cuda: ["13.0"]', "cuda: []", "recipe-missing-key", 8, "matrix.cuda", '["13.0"]'),
    ('  python: ["3.11"]\n', "", "recipe-missing-key", 6, "matrix.python", '["3.11"]'),
    ('["3.11"]', "[py311]", "recipe-value", 9, "matrix.python[0]", "3.11"),
    ('["3.11"]', "[3.11, '3.11']", "recipe-matrix", 9, "matrix.python[1]", "keep one"),
    ('["12.0a"]', "[12.0a, 7.0]", "cuda-too-new", 7, "matrix.archs[1]", "older CUDA"),
    ('["12.0a"]', "[12.0a, '12.0a;12.0a']", "recipe-matrix", 7, "matrix.archs[1]", "keep one"),
    ('["13.0"]', "['12.8']", "recipe-toolkit", 8, "matrix.cuda[0]", "toolkit: host"),
    ('["3.11"]', '["3.11"]\n  platform: [linux]', "recipe-value", 10, "matrix.platform[0]", "x86"),
    ('["3.11"]', '["3.11"]\n  exclude: [{}]', "recipe-matrix", 10, "matrix.exclude[0]", "one key"),
    (
        '["3.11"]',
        '["3.11"]\n  exclude:\n    - {python: "3.10"}',
        "recipe-matrix",
        11,
        "matrix.exclude[0]",
        "compare",
    ),
    (
        '["3.11"]',
        '["3.11"]\n  exclude: [{python: "3.11"}]',
        "recipe-matrix",
        10,
        "matrix.exclude",
        "exclude less",
    ),
    (
        '["3.11"]',
        '["3.11"]\n  include: [{archs: "9.0", python: "3.11"}]',
        "recipe-missing-key",
        10,
        "matrix.include[0].cuda",
        "add this key",
    ),
    (
        '["3.11"]',
        '["3.11"]\n  include: [{archs: "12.0a", cuda: "13.0", python: "3.11"}]',
        "recipe-matrix",
        10,
        "matrix.include[0]",
        "leave it out",
    ),
]

# Each: a block added to the shortest recipe, whose first line is 10.
ONE_FAULT_ADDED = [
    ("build: {source: other}", "recipe-source", 10, "build.source", "known: demo"),
    ("build: {source: dmo}", "recipe-source", 10, "build.source", "did you mean 'demo'?"),
    ("build: {backend: setuptool}", "recipe-value", 10, "build.backend", "'setuptools'?"),
    ("build: {memory: 4}", "recipe-value", 10, "build.memory", "as 4 GiB"),
    ("build: {timeout: soon}", "recipe-type", 10, "build.timeout", "digits only"),
    ("build: {cmake: [a]}", "recipe-type", 10, "build.cmake", "KEY: VALUE"),
    ("build: {cmake: {A B: x}}", "recipe-value", 10, 'build.cmake["A B"]', "MY_OPTION"),
    ("build: {env: {A: '{cudda}'}}", "recipe-placeholder", 10, "build.env.A", "'cuda'?"),
    ("build: {cmake: {A: '{version}'}}", "recipe-placeholder", 10, "build.cmake.A", "built wheel"),
    ("build: {cmake: {A: '{torch}'}}", "recipe-placeholder", 10, "build.cmake.A", "matrix.torch"),
    ("build:\n  cmake:\n    A: '{'", "recipe-placeholder", 12, "build.cmake.A", "{{"),
    ("build: {gencode: {'*': replace}}", "recipe-missing-key", 10, "build.gencode", "default"),
    ("build: {gencode: {default: keep}}", "recipe-value", 10, "build.gencode.default", "replace"),
    ("build: {submodules: false}", "recipe-unknown-key", 10, "build.submodules", "into a source"),
    ("build: {requires: ['-r x']}", "recipe-value", 10, "build.requires[0]", "ninja"),
    ("verify: {require: run}", "recipe-value", 10, "verify.require", "'runs'?"),
    ("verify: {allow_jit: yes}", "recipe-type", 10, "verify.allow_jit", "true or false"),
    ("verify: {import: [a-b]}", "recipe-value", 10, "verify.import[0]", "package.module"),
    ("verify: {imports: [a]}", "recipe-unknown-key", 10, "verify.imports", "'import'?"),
    ("verify: {kernels: {requird: []}}", "recipe-unknown-key", 10, "verify.kernels.requird", "'re"),
    ("verify: {loaders: [{}]}", "recipe-value", 10, "verify.loaders[0]", "default"),
    ("verify: {device_code: no}", "recipe-type", 10, "verify.device_code", "true or false"),
    (
        "verify: {device_code: false, extensions: {'*': target}}",
        "recipe-value",
        10,
        "verify.extensions",
        "leave one of the two out",
    ),
    (
        "verify: {device_code: false, loaders: [{default: a}]}",
        "recipe-value",
        10,
        "verify.loaders",
        "leave one of the two out",
    ),
    (
        "verify: {device_code: false, kernels: {required: [a]}}",
        "recipe-value",
        10,
        "verify.kernels",
        "leave one of the two out",
    ),
    ("verify: {loaders: [{sm_90: a}]}", "device-invalid", 10, "verify.loaders[0].sm_90", "9.0"),
    ("verify: {extensions: {a: tagret}}", "recipe-value", 10, "verify.extensions.a", "target"),
    ("verify: {extensions: {a: [120]}}", "arch-invalid", 10, "verify.extensions.a", "write 12.0"),
    ("verify: {smoke: /a.py}", "recipe-path", 10, "verify.smoke", "inside the folder"),
    (
        "publish: {local_version: 'sm-{archs}'}",
        "recipe-local-version",
        10,
        "publish.local_version",
        "dots",
    ),
    (
        "publish: {local_version: '{torch}'}",
        "recipe-placeholder",
        10,
        "publish.local_version",
        "matrix.torch",
    ),
    ("publish: {requires: []}", "recipe-unknown-key", 10, "publish.requires", "top of the recipe"),
    ("requires: [demo]", "recipe-value", 10, "requires[0]", "leave it out"),
    ("requires: [../x]", "recipe-name", 10, "requires[0]", "no two dots"),
    ("summary: |\n  a\n  b", "recipe-value", 10, "summary", "one line"),
    ("archs: []", "recipe-unknown-key", 10, "archs", "into the block 'matrix'"),
    ("name: demo", "yaml-duplicate-key", 10, "name", "keep one"),
    ("build: &b {}", "yaml-anchor", 10, "build", "value out"),
    ("build: *b", "yaml-anchor", 10, "build", "value out"),
    ("<<: {a: b}", "yaml-merge", 10, '["<<"]', "keys out"),
    ("requires: !!seq []", "yaml-tag", 10, "requires", "tag out"),
]

ARCHS = [
    ("120", "arch-invalid", "write 12.0"),
    ("sm_120", "arch-invalid", "write 12.0"),
    ("Blackwell", "arch-invalid", "write numbers, as 10.0a;12.0a"),
    ('""', "arch-invalid", "name at least one arch"),
    ('" ; "', "arch-invalid", "name at least one arch"),
    ("12", "arch-invalid", "give the minor number too"),
    ("12.0A", "arch-invalid", "write 12.0a"),
    ("13.0", "arch-unknown", "known: "),
    ("\"'12.0'\"", "arch-invalid", "leave the inner quotes out: 12.0"),
    ("8.0a", "arch-unknown", "write 8.0"),
    ("9.0f", "arch-unknown", "write 9.0"),
]


@pytest.mark.parametrize("case", ONE_FAULT, ids=lambda case: f"{case[2]}-{case[4]}")
def test_one_fault(faults, demo, case):
    old, new, word, line, place, hint = case
    assert old in demo
    found = faults(demo.replace(old, new, 1))
    same = [f for f in found if f[0] == word]
    assert same, found
    assert same[0][1].startswith(f"demo.yaml:{line}: {place}: ")
    assert hint in same[0][2]


@pytest.mark.parametrize("case", ONE_FAULT_ADDED, ids=lambda case: f"{case[1]}-{case[3]}")
def test_one_fault_added(faults, demo, case):
    block, word, line, place, hint = case
    (found,) = faults(f"{demo}{block}\n")
    assert found[0] == word
    assert found[1].startswith(f"demo.yaml:{line}: {place}: ")
    assert hint in found[2]


@pytest.mark.parametrize(("text", "word", "hint"), ARCHS)
def test_archs(faults, demo, text, word, hint):
    (found,) = faults(demo.replace('["12.0a"]', f"[9.0, {text}]"))
    assert found[0] == word
    assert found[1].startswith("demo.yaml:7: matrix.archs[1]: ")
    assert hint in found[2]


def test_an_arch_that_is_too_new_for_its_cuda(faults, demo):
    text = demo.replace('["13.0"]', '["12.8"]').replace("12.0a", "12.1a")
    (found,) = faults(text + "build: {toolkit: host}\n")
    assert found[0] == "cuda-too-old"
    assert found[1].startswith("demo.yaml:7: matrix.archs[0]: CUDA 12.8 is too old for 12.1a")


def test_equal_lists_name_both_lines(faults, demo):
    text = demo.replace('["12.0a"]', '\n    - "9.0;12.0a"\n    - 12.0a\n    - "12.0a 9.0"')
    (found,) = faults(text)
    assert found[1] == (
        "demo.yaml:10: matrix.archs[2]: is '9.0;12.0a', the same as archs[0] (line 8)"
    )


def test_every_fault_of_a_file_is_said_once_and_in_order(faults, demo):
    text = (
        demo.replace('["12.0a"]', "[sm_120]").replace("path: examples/demo", "pth: a")
        + "sumary: x\nbuild: {source: dmo, env: {A: '{torch}'}}\nbuild: {}\n"
    )
    assert [(word, message.split(":")[1]) for word, message, _hint in faults(text)] == [
        ("recipe-source-kind", "5"),
        ("arch-invalid", "7"),
        ("recipe-unknown-key", "10"),
        ("recipe-source", "11"),
        ("yaml-duplicate-key", "12"),
    ]


def test_faults_between_blocks_are_said_beside_faults_in_a_block(faults, demo):
    text = demo + "sumary: x\npublish: {local_version: '{torch}'}\n"
    assert [word for word, _message, _hint in faults(text)] == [
        "recipe-unknown-key",
        "recipe-placeholder",
    ]


def test_a_moving_ref_is_no_pin(faults, demo):
    text = demo.replace("path: examples/demo", "git: https://h.example/r, branch: main")
    found = faults(text)
    assert [word for word, _message, _hint in found] == ["recipe-unpinned", "recipe-unpinned"]
    assert {message.split(": ")[1] for _word, message, _hint in found} == {
        "sources.demo.branch",
        "sources.demo.commit",
    }


def test_another_format_says_nothing_else(faults, demo):
    (found,) = faults(demo.replace("format: 1", "format: 2") + "news: {}\n")
    assert found[0] == "recipe-format"


def test_several_sources_need_a_choice(faults, demo):
    text = demo.replace("sources:", "sources:\n  more: {path: a}")
    (found,) = faults(text)
    assert found[0] == "recipe-source"
    assert "name the one that holds the project: demo, more" in found[2]


@pytest.mark.parametrize(
    "added",
    [
        "sources2: https://me:hush@host.example/x",
        "build: {env: {API_TOKEN: '{hush}'}}",
        "build: {env: {PASSWORD: '{hush'}}",
        "'https://me:hush@host.example/': x",
    ],
)
def test_no_secret_is_said(faults, demo, added):
    for _word, message, hint in faults(f"{demo}{added}\n"):
        assert "hush" not in message + hint


def test_a_password_in_an_address_is_refused_and_not_said(faults, demo):
    text = demo.replace(
        "path: examples/demo", f"git: https://me:hush@h.example/r, commit: {'0' * 40}"
    )
    (found,) = faults(text)
    assert found[0] == "recipe-url-secret"
    assert "hush" not in "".join(found)
    assert "h.example" in found[1]


@pytest.mark.parametrize(
    ("content", "word", "line"),
    [
        ("a: [", "yaml-syntax", ":1"),
        ("a:\n\tb: 1\n", "yaml-tab", ":2"),
        (b"\xef\xbb\xbfformat: 1\n", "yaml-bom", ":1"),
        (b"format: 1\nname: \xff\n", "yaml-encoding", ":2"),
        ("", "yaml-empty", ":1"),
        ("[]", "yaml-mapping", ":1"),
        (b"#" * ((1 << 20) + 1), "yaml-large", ""),
    ],
)
def test_no_yaml(faults, content, word, line):
    (found,) = faults(content)
    assert found[0] == word
    assert found[1].startswith(f"demo.yaml{line}: ")
    assert found[2]


KEYS = st.sampled_from(
    "format name version from expect sources demo git commit path archive build source cmake env "
    "gencode default memory matrix archs cuda torch python include exclude verify require kernels "
    "extensions loaders publish local_version edits file zebra".split()
)
LEAF = st.none() | st.sampled_from(
    ["", "1", "demo", "12.0a", "13.0", "3.11", "{cuda}", "{x", "=git"]
)
NESTED = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3)
)


@settings(deadline=None)
@given(st.dictionaries(KEYS, NESTED, max_size=6))
def test_any_plain_data_is_refused_with_words_and_hints(changes):
    plain = {"format": "1", "name": "demo", "version": "1", "zebra": "x"} | changes
    with pytest.raises(RecipeError, match=r"^x: ") as caught:
        read_recipe(plain, where="x")
    errors = getattr(caught.value, "errors", (caught.value,))
    assert all(error.word.startswith(("recipe-", "arch-", "cuda-", "device-")) for error in errors)
    assert all(error.hint for error in errors)
    assert not any("see the reference" in (error.hint or "") for error in errors)


@pytest.mark.parametrize(
    ("added", "place"),
    [
        ("verify: {kernels: {required: x}}", "verify.kernels.required"),
        ("verify: {kernels: x}", "verify.kernels"),
        ("verify: {kernels: [x]}", "verify.kernels"),
        ("verify: {loaders: [x]}", "verify.loaders[0]"),
        ("verify:", "verify"),
        ("build: []", "build"),
    ],
)
def test_wrong_kinds(faults, demo, added, place):
    (found,) = faults(f"{demo}{added}\n")
    assert found[0] == "recipe-type"
    assert found[1].startswith(f"demo.yaml:10: {place}: ")


@pytest.mark.parametrize(
    "case",
    [
        ('["3.11"]', '["3.11"]\n  include: [{arch: "9.0"}]', "matrix.include[0].arch", "archs"),
        ("path: examples/demo", "path: a, edits: [{fil: b}]", "sources.demo.edits[0].fil", "file"),
        ("from: upstream", "form: upstream", "version.form", "from"),
    ],
)
def test_unknown_keys_deep_inside(faults, demo, case):
    old, new, place, near = case
    found = [f for f in faults(demo.replace(old, new)) if f[0] == "recipe-unknown-key"]
    (only,) = found
    assert f": {place}: " in only[1]
    assert only[2] == f"did you mean {near!r}?"
