"""No request passes once the answer to a revocation is there; the script goes on (see revocations)."""

from __future__ import annotations

import asyncio

import pytest

from tests.faults.revocations import Outcome, Revoking
from tests.faults.short_way_bugs import (
    Mistake,
    decision_kept_over_a_change,
    session_not_asked_for_again,
    waiting_fetch_not_asked_for_again,
)


def revoked(count: int) -> Outcome:
    revoking = Revoking(1)
    asyncio.run(revoking.run(count))
    return revoking.outcome


def test_nothing_passes_after_a_right_was_taken_back() -> None:
    outcome = revoked(60)

    assert (outcome.passed, outcome.wrongly_refused) == ([], [])
    assert min(outcome.refused.values()) >= 10
    assert outcome.short_ways > 10 * outcome.revocations


@pytest.mark.parametrize(
    "mistake",
    [decision_kept_over_a_change, session_not_asked_for_again, waiting_fetch_not_asked_for_again],
    ids=lambda mistake: mistake.__name__,
)
def test_a_right_that_is_remembered_is_found(mistake: Mistake) -> None:
    with mistake():
        assert revoked(20).passed
