"""Consumer groups keep their laws whatever fails: see group_simulation, which goes on as a script."""

from __future__ import annotations

import pytest

from tests.faults.group_bugs import (
    PLANTED,
    Mistake,
    answered_before_stored,
    assigned_before_revoked,
    last_target_taken,
    refused_timers_forgotten,
    removal_without_epoch,
    sessions_not_started_at_load,
    target_of_another_epoch,
)
from tests.faults.group_simulation import hunt

ENOUGH_SEEDS = 40
# Each mistake is looked for where the hunt finds it first; after a change of the hunt it goes on.
FIRST_SEEDS = {
    answered_before_stored: 3,
    assigned_before_revoked: 40,
    last_target_taken: 3,
    refused_timers_forgotten: 8,
    removal_without_epoch: 20,
    sessions_not_started_at_load: 4,
    target_of_another_epoch: 6,
}


def test_no_partition_has_two_owners_and_every_member_reaches_its_target() -> None:
    assert hunt(range(1, 8)) == []


@pytest.mark.parametrize("mistake", PLANTED, ids=lambda mistake: mistake.__name__)
def test_a_planted_mistake_is_found(mistake: Mistake) -> None:
    with mistake():
        first = FIRST_SEEDS.get(mistake, 1)
        assert hunt(range(first, first + ENOUGH_SEEDS), stops=True)
