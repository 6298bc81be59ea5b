import subprocess
import sys
from pathlib import Path

from kernforge.report.display import make_display


def test_modes():
    kinds = [
        type(make_display(mode, print)).__name__ for mode in ("plain", "github", "none", "live")
    ]
    assert kinds == ["Plain", "Folded", "Quiet", "Moving"]


def test_plain_lines_cost_no_rich():
    ask = (
        "import sys; from kernforge.report.display import make_display\n"
        "make_display('plain', print); print('rich' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", ask],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
    )
    assert done.stdout == "False\n"
