"""GPUs that a wheel serves by the rule of binary compatibility, beside those it was built for.

Room `publish`. Code for 8.0 runs on 8.6 and 8.9 by NVIDIA's rule; each of them is judged as the
wheel's own devices are, kernel by kernel, and told as *expected* until one has run it.
"""

from __future__ import annotations

from dataclasses import replace

from kernforge.arch import Arch, Coverage, Device, covers, parse_arch
from kernforge.errors import RecipeError
from kernforge.events import Listener
from kernforge.pipeline.judging import job_devices
from kernforge.pipeline.settings import Settings
from kernforge.pipeline.wheels import Question, judge_wheel
from kernforge.process import Runner
from kernforge.publish.candidate import Candidate, claims_of
from kernforge.recipe.matrix import Job


def further_devices(job: Job) -> tuple[Device, ...]:
    """Known devices that code of a job's archs is expected to run on, without its own devices."""
    own = job_devices(job)
    later = {device for arch in job.target.archs for device in _later(arch)}
    return tuple(sorted(later - set(own)))


def _later(arch: Arch) -> list[Device]:
    found = [Device(major=arch.major, minor=minor) for minor in range(arch.minor + 1, 10)]
    return [d for d in found if covers(arch, d) is Coverage.EXPECTED and _is_known(d)]


def _is_known(device: Device) -> bool:
    try:
        parse_arch(str(device))
    except RecipeError:
        return False
    return True


def with_further(
    candidate: Candidate, job: Job, settings: Settings, *, runner: Runner, listen: Listener
) -> Candidate:
    """The candidate with a claim for each further device on which it reaches what is demanded.

    Raises:
        VerifyError: as :func:`kernforge.pipeline.wheels.judge_wheel`.
    """
    devices = further_devices(job)
    if not devices:
        return candidate
    question = Question(wheel=candidate.path, job=job, own=True, devices=devices)
    verdict = judge_wheel(question, settings, runner=runner, listen=listen)
    good = [one for one in verdict.devices if dict(one.levels)[verdict.require].good]
    claims = claims_of(replace(verdict, devices=tuple(good)), expected=True)
    listed = replace(candidate.listed, claims=(*candidate.listed.claims, *claims))
    return replace(candidate, listed=listed)
