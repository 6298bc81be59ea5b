"""Says where an interpreter looks for packages. Standard library only; imports no package.

Usage: PYTHON -I -S env_probe.py

Run so, the interpreter reads no `.pth` file, no `sitecustomize` and nothing of its packages'
folders: what `site` would do at a usual start is worked out here, and printed as JSON. Written for
Python 3.7 and later, because the interpreter that is found may be of any age.
"""

from __future__ import annotations

import json
import os
import site
import sys
from importlib import machinery
from typing import Dict, Optional  # noqa: UP035 - an old interpreter may run this


def settings_of(prefix: str) -> Optional[Dict[str, str]]:  # noqa: UP006, UP045 - likewise
    """The lines of a `pyvenv.cfg` by key, or None where there is none."""
    try:
        with open(os.path.join(prefix, "pyvenv.cfg"), encoding="utf-8", errors="replace") as file:
            lines = file.read(65536).splitlines()
    except OSError:
        return None
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def main() -> None:
    """Print what is known."""
    beside = os.path.dirname(os.path.abspath(sys.executable))
    prefix, found = sys.prefix, None
    for folder in (beside, os.path.dirname(beside)):
        found = settings_of(folder)
        if found is not None:
            prefix = os.path.dirname(beside)
            break
    if found is not None:  # what `site` does first in a virtual environment; Debian's asks for it
        sys.prefix = sys.exec_prefix = prefix
    shared = found is None or found.get("include-system-site-packages", "true").lower() == "true"
    prefixes = [prefix] + ([sys.base_prefix] if shared and prefix != sys.base_prefix else [])
    answer = {
        "format": 1,
        "version": ".".join(map(str, sys.version_info[:3])),
        "implementation": sys.implementation.name,
        "executable": os.path.abspath(sys.executable),
        "real": os.path.realpath(sys.executable),
        "prefix": prefix,
        "base_prefix": sys.base_prefix,
        "venv": found is not None,
        "stdlib": [entry for entry in sys.path if entry and not entry.endswith(".zip")],
        "site": site.getsitepackages(prefixes),
        "user_site": site.getusersitepackages() if shared else None,
        "suffixes": machinery.EXTENSION_SUFFIXES,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
