"""What a call answered: objects on standard output, or one fault on standard error."""

import json


def answers(done, status=0) -> list[dict]:
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, list)
    return found


def fault(done, status, word) -> str:
    """The one fault that a call ends with, told once on standard error; nothing else is told."""
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith("  ")]
    assert len(lines) == 1
    assert lines[0].startswith(f"error[{word}]: ")
    return done.stderr
