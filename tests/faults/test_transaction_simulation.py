"""The hunt in simulated clusters with transactional producers finds each of the mistakes planted, and
lives the same history in every process: see transaction_simulation.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.transaction_bugs import FIRST_SEEDS, PLANTED, Mistake
from tests.faults.transaction_simulation import hunt

ENOUGH_SEEDS = 30
STEPS = 30


@pytest.mark.parametrize("mistake", PLANTED, ids=lambda mistake: mistake.__name__)
def test_a_planted_bug_is_found(mistake: Mistake) -> None:
    with mistake():
        first = FIRST_SEEDS.get(mistake, 1)
        outcome = hunt(range(first, first + ENOUGH_SEEDS), STEPS, stops=True)

    assert outcome.violations, f"{outcome.seeds} seeds found nothing"


def test_a_seed_lives_the_same_history_in_every_process() -> None:
    said = {_line_of(hash_seed) for hash_seed in ("1", "2")}

    assert len(said) == 1


def _line_of(hash_seed: str) -> str:
    """Return the result line of three histories, without the seconds they took."""
    command = [sys.executable, "-m", "tests.faults.transaction_simulation", "--seeds", "1-3"]
    root = Path(__file__).resolve().parent.parent.parent
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    output = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=True
    ).stdout
    seeds, _, counts = output.splitlines()[-1].partition(" s, ")
    return seeds.rpartition(" h in ")[0] + counts
