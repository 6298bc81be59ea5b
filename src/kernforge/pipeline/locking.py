"""Makes the lock of a job: what the recipe asks for, resolved by uv, written with its hashes."""

from __future__ import annotations

from kernforge.build.backend import environment_needs
from kernforge.pipeline.settings import Settings
from kernforge.process import Runner
from kernforge.recipe.matrix import Job
from kernforge.store.local import Store, cache_fault
from kernforge.toolchain.lock import Lock, LockOrder, read_lock, resolve


def make_lock(job: Job, settings: Settings, *, runner: Runner) -> Lock:
    """Resolve and write a job's lock. An old lock stays until the new one is whole.

    Raises:
        ToolchainError: ``lock-unresolvable``.
        CacheError: the lock, or scratch, cannot be written.
    """
    path = settings.lock_path(job)
    order = LockOrder(
        needs=environment_needs(job),
        python=job.target.python,
        platform=job.target.platform,
        title=f"{job.recipe.name} {path.stem}",
    )
    with Store(settings.cache).scratch() as scratch:
        text = resolve(order, uv=settings.uv, scratch=scratch, runner=runner)
    lock = read_lock(path, text)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.draft")
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise cache_fault(error, path.parent) from error
    return lock
