"""The honest wheel: metadata, tags and a deterministic archive."""
