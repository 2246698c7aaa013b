"""Brokers that share access rules never decide by others than those in the tree: see
rules_simulation, which goes on as a script.
"""

from __future__ import annotations

import pytest

from tests.faults.rules_bugs import (
    PLANTED,
    Mistake,
    envelope_as_its_sender,
    failed_reading_forgotten,
    waiting_request_not_asked_again,
)
from tests.faults.rules_simulation import hunt

STEPS = 40
ENOUGH_SEEDS = 120
# Each mistake is looked for where the hunt finds it first; after a change of the hunt it goes on.
FIRST_SEEDS = {
    envelope_as_its_sender: 27,
    failed_reading_forgotten: 61,
    waiting_request_not_asked_again: 65,
}


def test_no_right_is_kept_or_lost_while_brokers_sessions_and_notifications_fail() -> None:
    outcome = hunt(range(1, 21), STEPS)

    assert outcome.violations == []
    assert min(outcome.counts[each] for each in ("passed", "refused", "changes")) > 100


@pytest.mark.parametrize("mistake", PLANTED, ids=lambda mistake: mistake.__name__)
def test_a_planted_mistake_is_found(mistake: Mistake) -> None:
    with mistake():
        first = FIRST_SEEDS.get(mistake, 1)
        outcome = hunt(range(first, first + ENOUGH_SEEDS), STEPS, stops=True)

    assert outcome.violations, f"{outcome.seeds} seeds found nothing"
    kinds = {violation.kind for _, violation in outcome.violations}
    assert not kinds & {"unexpected error", "stuck"}, outcome.violations
