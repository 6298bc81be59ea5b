"""Room `doctor`: what an existing environment holds, and what to do about each part of it."""
