"""What a long load builds costs no collections: cases that give all back and look for garbage.

A process that has collected every test holds a million objects, and each case would look at them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).with_name("frozen_state_cases.py")


@pytest.fixture(autouse=True)
def replication() -> None:
    """The cases themselves run with each kind of replicas."""


def test_the_cases_hold_in_a_process_of_their_own() -> None:
    options = ("-q", "-pno:xdist", "-pno:cacheprovider", f"--confcutdir={CASES.parents[1]}")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(CASES)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "10 passed" in done.stdout
