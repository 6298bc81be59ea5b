"""What a compile cache served is published only after a build without it gave equal bytes.

Room `publish`. A cache that is shared may hold what another build, or another machine, put there
under the same name. The proof is a rebuild from nothing; it is remembered, so that it is made once.
"""

from __future__ import annotations

from kernforge.errors import PublishError
from kernforge.events import Listener, Note
from kernforge.pack.built import job_of, read_built, read_texts
from kernforge.pack.provenance import CacheUse, cache_use
from kernforge.pipeline.afresh import fresh, known_equal, remember_equal
from kernforge.pipeline.gather import plan_job
from kernforge.pipeline.job import build_job
from kernforge.pipeline.machine import artifact_key, probe_machine
from kernforge.pipeline.settings import Settings
from kernforge.process import Runner
from kernforge.publish.candidate import Candidate
from kernforge.recipe.matrix import Job
from kernforge.store.local import Store

_UNREAD = CacheUse(kind="unread", hits=1)
"""Of a statement that does not say: it might have been served."""


def prove(candidate: Candidate, settings: Settings, *, runner: Runner, listen: Listener) -> None:
    """Let a wheel through that no compile cache served, or that a build without one gave too.

    Args:
        candidate: the wheel; its provenance says what served it.
        settings: as for its build.
        runner: runs programs.
        listen: hears of a rebuild, and where nothing is known.

    Raises:
        PublishError: ``cache-unproven`` where it cannot be built again here, or ``cache-differs``
            where the rebuild gave other bytes.
        KernforgeError: as :func:`kernforge.pipeline.job.build_job`.
    """
    listed = candidate.listed
    if candidate.provenance is None:
        text = "no provenance lies beside it; whether a compile cache served it is not known"
        listen(Note(job=listed.job, text=text))
        return
    use = cache_use(candidate.provenance) or _UNREAD
    store = Store(settings.cache)
    if use.hits == 0 or known_equal(store, listed.build_key, listed.sha256):
        return
    if store.get("artifact", listed.build_key, told=lambda _text: None) is None:
        raise _unproven(candidate, "it was built elsewhere", "--yes-run-it")
    job = job_of(read_built(candidate.path, read_texts(candidate.path)), settings.recipes)
    machine = probe_machine(job, settings, runner=runner)
    plan = plan_job(job, settings, layout=machine.sandbox.layout)
    if artifact_key(plan, machine) != listed.build_key:
        raise _unproven(candidate, "this project would now build it from other inputs")
    listen(Note(job=listed.job, text=f"built again without a compile cache: {_why(use)}"))
    _compare(candidate, job, settings, runner=runner, listen=listen)
    remember_equal(store, listed.build_key, listed.sha256)


def _why(use: CacheUse) -> str:
    if use is _UNREAD:
        return "its provenance does not say whether one served it"
    return f"a {use.kind} one served {use.hits} of its compiles"


def _unproven(candidate: Candidate, why: str, *words: str) -> PublishError:
    return PublishError(
        "cache-unproven",
        f"{candidate.listed.file} may owe its code to a compile cache, and {why}",
        hint=f"`{' '.join(('kernforge reproduce', str(candidate.path), *words))}` "
        "builds it without the cache, and remembers equal bytes",
    )


def _compare(
    candidate: Candidate, job: Job, settings: Settings, *, runner: Runner, listen: Listener
) -> None:
    listed = candidate.listed
    with fresh(settings) as alone:
        again = build_job(job, alone, runner=runner, listen=listen).sha256
    if again != listed.sha256:
        raise PublishError(
            "cache-differs",
            f"{listed.file}: a build without the compile cache gave other bytes: "
            f"{again[:12]}... instead of {listed.sha256[:12]}...",
            hint=f"`kernforge reproduce {listed.build_key[:12]}` says what differs; do not use it",
        )
