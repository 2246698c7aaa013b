"""The short form of the rounds over a cluster in one process."""

from __future__ import annotations

import asyncio

from tests.faults.local_cluster_rounds import run_rounds

# All that a client may hear: it asks again, at the leader that it is told.
RETRIABLE = {"NONE", "NOT_LEADER_OR_FOLLOWER", "ConnectionResetError", "ConnectionRefusedError"}


def test_nothing_acknowledged_is_lost_and_the_cluster_finds_its_order_again() -> None:
    outcome = asyncio.run(run_rounds(seed=7, rounds=12))

    assert outcome.wrong == []
    assert outcome.answers["NONE"] > 0
    assert set(outcome.answers) <= RETRIABLE
