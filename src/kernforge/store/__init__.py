"""Keeping what was built: a content-addressed store with one lock a key."""
