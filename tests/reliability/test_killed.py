"""SIGKILL at a random moment, the same command again: the same bytes, nothing half in between.

Three kills here; `python tests/reliability/kills.py --times 20` does twenty of each command.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="kills by processor time, which /proc tells")
def test_killed_commands_end_as_if_nothing_had_happened():
    """In a process of its own, since it forks; training is killed in `tests/train/test_resume_after_kill.py`."""
    script = Path(__file__).with_name("kills.py")
    command = [
        sys.executable,
        script,
        "--times",
        "1",
        "--seed",
        "3",
        "--only",
        "import root",
        "import fitbit",
        "forecasting",
    ]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
