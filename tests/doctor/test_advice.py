"""Recommendations and their commands, case by case."""

from pathlib import Path

import pytest
from doctor.places import case_of

from kernforge.arch import parse_device
from kernforge.doctor.advice import Hands, action_of, wanted_text
from kernforge.doctor.installed import Direct, Installed
from kernforge.doctor.model import Action, Remark
from kernforge.doctor.targets import native_arch, repository

PYTHON = Path("/env/bin/python")


def remarks(*calls):
    return [Remark(word="w", text="t", calls=one) for one in calls]


@pytest.mark.parametrize(
    ("key", "calls", "action"),
    [
        ("a", [], Action.KEEP),
        ("a", [None, None], Action.KEEP),
        ("a", [Action.REINSTALL, None], Action.REINSTALL),
        ("a", [Action.REINSTALL, Action.REBUILD], Action.REBUILD),
        ("torch", [Action.REBUILD], Action.REINSTALL),
        ("nvidia-cublas", [Action.REBUILD], Action.REINSTALL),
    ],
)
def test_the_strongest_remark_decides(key, calls, action):
    assert action_of(key, remarks(*calls)) is action


def test_pip_or_uv():
    words = ("install", "--force-reinstall", "--no-deps", "a==1")
    pip = Hands(python=PYTHON, pip=True).call(*words)
    assert pip == "/env/bin/python -m pip install --force-reinstall --no-deps a==1"
    uv = Hands(python=PYTHON, pip=False).call(*words)
    assert uv == "uv pip install --python /env/bin/python --reinstall --no-deps a==1"
    assert Hands(python=PYTHON, pip=False).call("uninstall", "-y", "a").endswith("python a")


def installed(version="1.0", direct=None, metadata=()):
    return Installed(
        name="a", version=version, info=Path("/s/a-1.0.dist-info"), site=Path("/s"), metadata=metadata,
        installer=None, record=(), missing=(), direct=direct, built=None, findings=(),
    )  # fmt: skip


def direct(url, folder=None, commit=None):
    return Direct(url=url, folder=folder, editable=False, commit=commit)


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (installed(), "a==1.0"),
        (installed("0.0.0"), "a"),
        (
            installed(direct=direct("https://h/r", commit="ab12cd34")),
            "a @ git+https://h/r@ab12cd34",
        ),
        (installed(direct=direct("file:///w/a.whl", Path("/w/a.whl"))), "/w/a.whl"),
        (installed(direct=direct("https://h/a.whl")), "a @ https://h/a.whl"),
    ],
)
def test_what_an_installer_is_asked_for(one, text):
    assert wanted_text(one) == text


@pytest.mark.parametrize(
    ("metadata", "url"),
    [
        ((("Project-URL", "Source, https://github.com/sgl-project/sglang/tree/main/x"),),
         "https://github.com/sgl-project/sglang"),
        ((("Home-page", "https://github.com/a/b.git"),), "https://github.com/a/b.git"),
        ((("Home-page", "https://example.org/"),), None),
        ((), None),
    ],
)  # fmt: skip
def test_the_repository_that_metadata_name(metadata, url):
    assert repository(installed(metadata=metadata)) == url


@pytest.mark.parametrize(
    ("device", "arch"),
    [("12.0", "12.0a"), ("12.1", "12.1a"), ("9.0", "9.0a"), ("8.9", "8.9"), ("7.5", "7.5")],
)
def test_the_target_that_gives_a_device_all(device, arch):
    assert str(native_arch(parse_device(device))) == arch


def test_a_repository_in_the_metadata_is_the_last_resort(place):
    text = "Project-URL: Homepage, https://github.com/someone/kernels\n"
    place.kernels("their-kernels", "1.0", "9.0a", metadata=text)
    advice = case_of(place.look("12.0", sandbox=False), "their-kernels").advice
    assert advice.commands == ("kernforge new https://github.com/someone/kernels --arch 12.0a",)


def test_torch_itself_is_never_rebuilt(place):
    from doctor.places import fatbin

    place.torch()
    from binary.forge import make_library

    place.write("torch/lib/libtorch_cuda.so", make_library(fatbin=fatbin("9.0a")))
    place.record("torch", "2.14.1", ["torch/__init__.py", "torch/version.py", "torch/lib/libc10.so",
                                     "torch/lib/libtorch_cuda.so"])  # fmt: skip
    advice = case_of(place.look("12.0", sandbox=False), "torch").advice
    assert advice.action is Action.REINSTALL
    assert advice.commands == ("# choose a release of torch that serves 12.0",)


def test_libraries_of_nvidia_are_told_and_not_judged(place):
    from binary.forge import make_library
    from doctor.places import fatbin

    place.install(
        "nvidia-cufft",
        "12.0",
        {"nvidia/cu13/lib/libcufft.so.12": make_library(fatbin=fatbin("7.5"))},
    )
    found = place.look("12.0", sandbox=False)
    case = case_of(found, "nvidia-cufft")
    assert (case.answers[0].standing, case.advice.action) == ("none", Action.KEEP)
    assert found.healthy
