"""The one JSON text of a value, and its digest. Bottom layer; pure."""

from __future__ import annotations

import hashlib
import json


def canonical_json(value: object) -> str:
    """The one JSON text of a value: sorted keys, no blanks, UTF-8 kept."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(value: object) -> str:
    """SHA-256 of the canonical JSON of a value, 64 hex digits."""
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogateescape")).hexdigest()
