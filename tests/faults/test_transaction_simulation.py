"""The hunt in simulated clusters with transactional producers finds each of the mistakes planted, and
lives the same history in every process: see transaction_simulation.
"""

from __future__ import annotations

import pytest

from tests.faults.result_lines import result_lines
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
    said = result_lines("transaction_simulation", "1-2")

    assert len(said) == 1
