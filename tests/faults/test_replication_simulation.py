"""The hunt in simulated clusters with replicated topics finds each of the mistakes planted, and lives
the same history in every process: see replication_simulation.
"""

from __future__ import annotations

import pytest

from tests.faults.replication_bugs import FIRST_SEEDS, PLANTED, Mistake
from tests.faults.replication_simulation import hunt
from tests.faults.result_lines import result_lines

ENOUGH_SEEDS = 100


@pytest.mark.parametrize("mistake", PLANTED, ids=lambda mistake: mistake.__name__)
def test_a_planted_bug_is_found(mistake: Mistake) -> None:
    with mistake():
        first = FIRST_SEEDS.get(mistake, 1)
        outcome = hunt(range(first, first + ENOUGH_SEEDS), stops=True)

    assert outcome.violations, f"{outcome.seeds} seeds found nothing"


def test_a_seed_lives_the_same_history_in_every_process() -> None:
    said = result_lines("replication_simulation", "1-3")

    assert len(said) == 1
