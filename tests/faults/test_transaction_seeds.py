"""The hunt in simulated clusters with transactional producers, as far as each run of the tests has
time for: see transaction_simulation, and test_transaction_simulation for the mistakes it finds.
"""

from __future__ import annotations

import pytest

from tests.faults.transaction_simulation import hunt

SEEDS = 40
AT_ONCE = 20
STEPS = (15, 25)  # short histories come to rest amid other troubles than long ones


@pytest.mark.parametrize("first", range(1, SEEDS + 1, AT_ONCE))
def test_transactions_are_whole_and_end(first: int) -> None:
    steps = STEPS[first // AT_ONCE % len(STEPS)]

    outcome = hunt(range(first, first + AT_ONCE), steps)

    assert outcome.violations == []
    counts = outcome.counts
    assert counts["txn committed"] > 40, "too little was committed to prove anything"
    assert counts["txn aborted"] > 15
    assert counts["txn fenced"] > 20
    assert counts["txn read_committed"] > 200
    assert counts["txn copied"] > 10
    assert counts["kills"] + counts["power_losses"] > 15
