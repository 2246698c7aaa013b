"""The hunt in simulated clusters with replicated topics, as far as each run of the tests has time
for: see replication_simulation, and test_replication_simulation for what it finds.
"""

from __future__ import annotations

import pytest

from tests.faults.replication_simulation import hunt

SEEDS = 50
AT_ONCE = 25
STEPS = (7, 20)  # longer histories are left to the hunt as a script


@pytest.mark.parametrize("first", range(1, SEEDS + 1, AT_ONCE))
def test_no_record_is_lost_and_all_replicas_are_equal_at_rest(first: int) -> None:
    steps = STEPS[first // AT_ONCE % len(STEPS)]

    outcome = hunt(range(first, first + AT_ONCE), steps)

    assert outcome.violations == []
    counts = outcome.counts
    assert counts["acknowledged"] > 1_000, "too little was written to prove anything"
    assert counts["consumed"] > 1_000
    assert counts["kills"] + counts["power_losses"] > 8
    assert counts["partitions"] > 3
    assert counts["excuses"] < counts["power_losses"] * 2
