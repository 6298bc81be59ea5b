"""A job built again from nothing, and the memory of which wheels came out equal.

The rebuild has a store of its own in scratch and no compile cache, so that no earlier result can be
taken for it; environments are shared, since they are made of locked packages and never edited.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from kernforge.pipeline.settings import Settings
from kernforge.store.local import Entry, Store

_SHARED = ("envs", "host", "locks")
_KIND = "equal"


@contextlib.contextmanager
def fresh(settings: Settings) -> Iterator[Settings]:
    """The same settings without a compile cache, and with an empty store, removed at the end.

    Raises:
        CacheError: ``cache-unwritable`` or ``disk-full``.
    """
    store = Store(settings.cache)
    with store.scratch() as scratch:
        for name in _SHARED:
            (scratch / name).symlink_to(store.folder(name).absolute())
        yield replace(settings, cache=scratch.absolute(), compile_cache=None)


def remember_equal(store: Store, key: str, sha256: str) -> Entry:
    """Keep that a build from nothing gave these very bytes for a BuildKey.

    Raises:
        CacheError: ``cache-unwritable`` or ``disk-full``.
    """
    return store.put(_KIND, key, {}, {"sha256": sha256})


def known_equal(store: Store, key: str, sha256: str) -> bool:
    """Whether an earlier build from nothing gave these very bytes for a BuildKey."""
    entry = store.get(_KIND, key, told=lambda _text: None)
    return entry is not None and entry.facts() == {"sha256": sha256}
