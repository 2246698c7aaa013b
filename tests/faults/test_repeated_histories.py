"""A seed lives the same history in every process, whatever order Python has there for what it keeps
without one: else a seed that fails would not fail again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.faults.repeated_histories import HUNTS

ROOT = Path(__file__).resolve().parents[2]


def test_a_seed_lives_the_same_history_in_every_process() -> None:
    (said,) = {lived(hash_seed) for hash_seed in ("1", "2")}

    assert len(said.splitlines()) == len(HUNTS)


def lived(hash_seed: str) -> str:
    command = [sys.executable, "-m", "tests.faults.repeated_histories"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    ).stdout
