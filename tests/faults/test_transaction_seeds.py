"""The hunt in simulated clusters with transactional producers, as far as each run of the tests has
time for: see transaction_simulation, and test_transaction_simulation for the mistakes it finds.
"""

from __future__ import annotations

import pytest

from tests.faults.transaction_simulation import hunt

SEEDS = 24
AT_ONCE = 12
STEPS = (15, 25)  # short histories come to rest amid other troubles than long ones


@pytest.mark.parametrize("first", range(1, SEEDS + 1, AT_ONCE))
def test_transactions_are_whole_and_end(first: int) -> None:
    steps = STEPS[first // AT_ONCE % len(STEPS)]

    outcome = hunt(range(first, first + AT_ONCE), steps)

    assert outcome.violations == []
    counts = outcome.counts
    assert counts["txn committed"] > 24, "too little was committed to prove anything"
    assert counts["txn aborted"] > 9
    assert counts["txn fenced"] > 12
    assert counts["txn read_committed"] > 120
    assert counts["txn copied"] > 3
    assert counts["kills"] + counts["power_losses"] > 9
