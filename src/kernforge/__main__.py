"""Entry point of the command `kernforge` and of `python -m kernforge`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and leave with its exit status."""
    from kernforge.cli.main import run  # noqa: PLC0415 - Ctrl-C while importing must end quietly too

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
