"""The hunt in simulated clusters with transactional producers finds each of the mistakes planted: see
transaction_simulation.
"""

from __future__ import annotations

import pytest

from tests.faults.transaction_bugs import FOUND_SOON, PLANTED, Mistake
from tests.faults.transaction_simulation import hunt

ENOUGH_SEEDS = 30
STEPS = 30


@pytest.mark.parametrize("mistake", PLANTED, ids=lambda mistake: mistake.__name__)
def test_a_planted_bug_is_found(mistake: Mistake) -> None:
    with mistake():
        seed, steps = FOUND_SOON.get(mistake, (1, STEPS))
        outcome = hunt(range(seed, seed + ENOUGH_SEEDS), steps, stops=True)

    assert outcome.violations, f"{outcome.seeds} seeds found nothing"
