"""Tests of the room `binary`."""
