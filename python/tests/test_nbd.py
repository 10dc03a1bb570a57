"""Short run of `make torture-nbd`: killed servers lose no flushed data."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "nbd_torture.py"


def test_killed_servers_lose_nothing():
    program = os.environ.get("STROBE")
    if not program:
        pytest.skip("STROBE names no program")
    given = [program, "--seconds", "4", "--kills", "4"]
    done = subprocess.run([sys.executable, SCRIPT, *given], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing was lost" in done.stdout
