"""The short form of the hunt in simulated clusters: see cluster_simulation."""

from __future__ import annotations

import pytest

from tests.faults.cluster_bugs import FOUND_SOON, PLANTED, Mistake
from tests.faults.cluster_simulation import STEPS, hunt

SEEDS = range(1, 41)
ENOUGH_SEEDS = 200


def test_clusters_keep_their_promises_and_come_to_rest_in_order() -> None:
    outcome = hunt(SEEDS)

    assert [violation for _, violation in outcome.violations] == []
    counts = outcome.counts
    assert counts["kills"] > 50, "too little went wrong to prove anything"
    assert counts["expiries"] > 50
    assert counts["reigns"] > 100
    assert counts["appended"] > 300
    assert counts["wishes fulfilled"] > 100


@pytest.mark.parametrize("mistake", PLANTED, ids=lambda mistake: mistake.__name__)
def test_a_planted_bug_is_found(mistake: Mistake) -> None:
    with mistake():
        seed, steps = FOUND_SOON.get(mistake, (1, STEPS))
        outcome = hunt(range(seed, seed + ENOUGH_SEEDS), steps, stops=True)

    kinds = {violation.kind for _, violation in outcome.violations}
    assert kinds & PLANTED[mistake], f"{outcome.seeds} seeds found only {kinds}"
