"""The hunt in simulated clusters with replicated topics finds each of the mistakes planted: see
replication_simulation.
"""

from __future__ import annotations

import pytest

from tests.faults.cluster_simulation import STEPS
from tests.faults.replication_bugs import FOUND_SOON, PLANTED, Mistake
from tests.faults.replication_simulation import hunt

ENOUGH_SEEDS = 100


@pytest.mark.parametrize("mistake", PLANTED, ids=lambda mistake: mistake.__name__)
def test_a_planted_bug_is_found(mistake: Mistake) -> None:
    with mistake():
        seed, steps = FOUND_SOON.get(mistake, (1, STEPS))
        outcome = hunt(range(seed, seed + ENOUGH_SEEDS), steps, stops=True)

    assert outcome.violations, f"{outcome.seeds} seeds found nothing"
