"""Reproduction: the same inputs again, the result held against the first, differences named."""
