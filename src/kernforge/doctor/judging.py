"""One distribution judged: everything that is to be said of it, and the recommendation.

Room `doctor`. Pure but for the environment's libraries, read where symbols are looked up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kernforge.doctor import remarks as say
from kernforge.doctor.advice import Hands, Standpoint, advise, binary_only, vendor
from kernforge.doctor.builtfor import link_faults, needs
from kernforge.doctor.gathering import Gathered
from kernforge.doctor.installed import Installed, unknown_version
from kernforge.doctor.interpreter import Interpreter
from kernforge.doctor.model import Action, Case, Imports, Remark
from kernforge.doctor.ownership import Claim, twins
from kernforge.doctor.runtime import Compiling
from kernforge.doctor.targets import World
from kernforge.verify.policy import Answer
from kernforge.verify.surroundings import Surroundings

_WATCHED = frozenset({"torch", "sgl-kernel", "sglang-kernel", "flashinfer-python"})
"""What requirements are looked at: the packages that kernels come from or stand on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What holds for the whole environment: its records, torch, and who claims what."""

    interpreter: Interpreter
    installed: tuple[Installed, ...]
    hidden: tuple[Installed, ...]
    world: World
    around: Surroundings | None
    claims: tuple[Claim, ...]
    steps: tuple[tuple[str, str], ...]


def worth_telling(g: Gathered, scene: Scene, busy: tuple[Compiling, ...]) -> bool:
    """Whether a distribution concerns GPUs, or is not as an index would have given it."""
    one = g.installed
    odd = one.findings or unknown_version(one.version) or one.built
    known = one.direct is not None and (one.direct.folder or one.direct.commit)
    compiles = any(one.key == each.distribution for each in busy)
    return bool(
        g.coded
        or g.place
        or known
        or odd
        or compiles
        or one.key == "torch"
        or _of_scene(one, scene)
    )


def case_of(g: Gathered, scene: Scene, imports: Imports) -> Case:
    """Judge one distribution."""
    remarks = sorted(_remarks(g, scene, imports), key=_weight)
    rivals = {name for claim in scene.claims if g.installed.name in claim.owners
              for name in claim.owners}  # fmt: skip
    seen = Standpoint(
        installed=g.installed,
        place=g.place,
        git=g.git,
        fit=g.fit,
        remarks=tuple(remarks),
        rivals=tuple(sorted(rivals - {g.installed.name})),
    )
    pip = any(one.key == "pip" for one in scene.installed)
    hands = Hands(python=scene.interpreter.program, pip=pip)
    return Case(
        installed=g.installed,
        place=g.place,
        git=g.git,
        spoken=g.spoken,
        libraries=g.libraries,
        answers=g.answers,
        built=g.built,
        imports=imports,
        remarks=tuple(remarks),
        advice=advise(seen, scene.world, hands),
    )


def _weight(remark: Remark) -> int:
    """What must be settled first, what calls for something, what is only told."""
    if remark.word == "import-claimed":
        return 0
    return 2 if remark.calls is None else 1


def _remarks(g: Gathered, scene: Scene, imports: Imports) -> list[Remark]:
    one, close = g.installed, not vendor(g.installed.key)
    linked = close and g.coded and imports.answer is not Answer.REACHED
    around = scene.around
    faults = link_faults(one, g.libraries, g.root, around) if linked and around else ()
    if imports.answer is Answer.FAILED:  # the loader itself has said what is missing
        faults = tuple(fault for fault in faults if fault.word.startswith("abi-"))
    world = scene.world
    present = {other.key: other.version for other in reversed(scene.installed)}
    found = say.of_records(one)
    found += say.of_version(one, g.declared, g.spoken if g.place or g.coded else (), g.git)
    found += say.of_checkout(one, g.git, g.files)
    found += say.of_leftovers(g.findings, g.place, one)
    code = say.of_code(g.answers, g.libraries, own=g.fit is not None and g.fit.exact)
    found += [replace(remark, calls=None) for remark in code] if binary_only(one.key) else code
    found += say.of_origin(g.built, faults, (world.torch, world.cuda)) if close else []
    told = {"torch"} if any(remark.word == "torch-differs" for remark in found) else set()
    found += say.of_needs(needs(one, present, _WATCHED - told)) if close else []
    found += _of_scene(one, scene)
    return [*found, *(remark for remark in imports.remarks if remark not in found)]


def _of_scene(one: Installed, scene: Scene) -> list[Remark]:
    """What concerns a distribution because of its neighbours."""
    found = [
        Remark(word="import-claimed", text=claim.text, calls=Action.REINSTALL)
        for claim in scene.claims
        if one.name in claim.owners
    ]
    for group in twins(scene.installed):
        if group[0].key == one.key and group[0].site == one.site:
            names = ", ".join(other.info.name for other in group)
            text = f"several records of it lie in {str(one.site)!r}: {names}"
            found.append(Remark(word="records-twice", text=text, calls=Action.REINSTALL))
    for other in scene.hidden:
        left = other.info.name.endswith(".egg-info") and other.site not in scene.interpreter.sites
        if other.key == one.key and other.site != one.site and not left:  # setuptools' own notes
            text = f"hides {other.name} {other.version or 'of no version'} in {str(other.site)!r}"
            found.append(Remark(word="hides-another", text=text))
    found += [
        Remark(word="companions-differ", text=text, calls=Action.REINSTALL)
        for key, text in scene.steps
        if key == one.key
    ]
    return found
