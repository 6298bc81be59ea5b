"""What the doctor found, as values: one case a distribution, remarks, advice. No judgement here.

Room `doctor`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kernforge.arch import Device
from kernforge.binary.facts import ImageKind, Library, State
from kernforge.doctor.builtfor import BuiltFor
from kernforge.doctor.checkout import GitFacts
from kernforge.doctor.code import Answer
from kernforge.doctor.editable import Editable
from kernforge.doctor.installed import Installed
from kernforge.doctor.interpreter import Interpreter
from kernforge.doctor.runtime import Compiling, Program
from kernforge.doctor.versions import Spoken
from kernforge.verify.policy import Answer as Reached


class Action(StrEnum):
    """What to do about a distribution."""

    KEEP = "keep"
    """Nothing was found that speaks against it; nothing has run on a GPU."""
    REBUILD = "rebuild"
    """It must be compiled anew, for these devices or this torch."""
    REINSTALL = "reinstall"
    """Its files or records are not in order; compiling is not needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """Something that was noticed: a stable word, a sentence, and what it calls for (or None)."""

    word: str
    text: str
    calls: Action | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What is wrong with the environment as a whole: a word, a sentence, and what to do."""

    word: str
    text: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Imports:
    """Whether a distribution imports here.

    Attributes:
        answer: reached, failed or not verified.
        modules: each import name with the file that was loaded, or None.
        versions: each import name with the ``__version__`` that it had then.
        remarks: why not.
    """

    answer: Reached
    modules: tuple[tuple[str, str | None], ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    remarks: tuple[Remark, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One recommendation.

    Attributes:
        action: what to do.
        recipe: the recipe that builds it, or None.
        exact: whether that recipe builds the very version that is there.
        commands: what to call, in order; lines that begin with ``#`` are for people.
    """

    action: Action
    recipe: str | None = None
    exact: bool = False
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One distribution with all that was found of it.

    Attributes:
        installed: its records.
        place: where its code lies if it is editable, else None.
        git: the checkout that it is installed from, or None.
        spoken: versions that its files state.
        libraries: its native files, as read.
        answers: one a device that was asked about.
        built: which torch and CUDA it was built for.
        imports: whether it imports.
        remarks: all that was noticed, those that call for something first.
        advice: what to do.
    """

    installed: Installed
    place: Editable | None
    git: GitFacts | None
    spoken: tuple[Spoken, ...]
    libraries: tuple[Library, ...]
    answers: tuple[Answer, ...]
    built: BuiltFor
    imports: Imports
    remarks: tuple[Remark, ...]
    advice: Advice

    @property
    def archs(self) -> tuple[str, ...]:
        """What its machine code was compiled for, as ``12.0a``, ordered."""
        images = [image for x in self.libraries for image in x.images]
        return tuple(map(str, sorted({image.arch for image in images if image.serves_code})))

    @property
    def ptx(self) -> tuple[str, ...]:
        """What it brings PTX of, as ``9.0``, ordered."""
        images = [image for x in self.libraries for image in x.images]
        kinds = {image.arch for image in images if image.kind is ImageKind.PTX}
        return tuple(map(str, sorted(kinds)))

    @property
    def unread(self) -> bool:
        """Whether something about its device code is not verified because it cannot be read."""
        return any(remark.word in {"code-unread", "folder-unseen"} for remark in self.remarks)

    @property
    def coded(self) -> tuple[Library, ...]:
        """Its libraries with device code, and those that could not be read."""
        return tuple(x for x in self.libraries if x.state is not State.HOST_ONLY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """An environment.

    Attributes:
        interpreter: whose it is.
        torch: version of its torch, or None.
        cuda: the CUDA release that torch was built with, or None.
        devices: the devices asked about.
        devices_note: where they come from, or why there are none.
        sandbox: why nothing was imported; None where a sandbox was there.
        cases: distributions worth telling, sorted by name.
        others: how many more there are.
        compiling: what compiles at run time.
        programs: the programs for that.
        troubles: what is wrong and concerns no single distribution.
        notes: what a reader should know besides, as what was not looked at.
    """

    interpreter: Interpreter
    torch: str | None
    cuda: str | None
    devices: tuple[Device, ...]
    devices_note: str
    sandbox: str | None
    cases: tuple[Case, ...]
    others: int
    compiling: tuple[Compiling, ...]
    programs: tuple[Program, ...]
    troubles: tuple[Trouble, ...]
    notes: tuple[str, ...]

    @property
    def healthy(self) -> bool:
        """Whether every recommendation is to keep, and nothing is wrong with the whole.

        What could not be read is not healthy: nothing is known of it.
        """
        kept = all(case.advice.action is Action.KEEP for case in self.cases)
        return kept and not self.troubles and not any(case.unread for case in self.cases)
