"""Remembers which bytes each key gave first, beyond the life of the entry itself.

Room `store`. Equal keys must give equal bytes; that a key gave others is seen only by who still
knows the first ones after `gc`, quarantine or removal took the entry away.
"""

from __future__ import annotations

from kernforge.errors import VerifyError
from kernforge.store.local import Store, cache_fault


def check_bytes(store: Store, key: str, name: str, sha256: str) -> None:
    """Remember the first bytes of a key, and raise the alarm where it gives others.

    Args:
        store: where it is remembered.
        key: the key, 64 hex digits.
        name: what to call the result in a message.
        sha256: of what the key gave now.

    Raises:
        VerifyError: ``key-unstable``.
        CacheError: ``cache-unwritable`` or ``disk-full``.
    """
    path = store.folder("witness") / key
    try:
        with path.open("x", encoding="ascii") as file:
            file.write(sha256)
    except FileExistsError:
        first = path.read_text(encoding="ascii", errors="replace").strip()
    except OSError as error:
        raise cache_fault(error, store.root) from error
    else:
        return
    if len(first) != len(sha256):  # a writer was killed before it had written
        path.unlink(missing_ok=True)
        check_bytes(store, key, name, sha256)
    elif first != sha256:
        raise VerifyError(
            "key-unstable",
            f"{name}: this key gave other bytes before: {first[:12]}..., now {sha256[:12]}...",
            hint=f"find out why before you use either; remove {path} to accept the new ones",
        )
