"""Consumer groups keep their laws whatever fails: see group_simulation, which goes on as a script."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.faults.group_bugs import (
    PLANTED,
    Mistake,
    end_of_a_group_leaves_its_target,
    offsets_of_followed_topics_expire,
    old_epoch_accepted,
    refused_timers_forgotten,
    revocation_waited_for_without_end,
    stale_commits_taken,
)
from tests.faults.group_simulation import HISTORIES

ENOUGH_SEEDS = 300
# Each mistake is looked for where the hunt finds it first; after a change of the hunt it goes on.
FIRST_SEEDS = {
    end_of_a_group_leaves_its_target: 30,
    offsets_of_followed_topics_expire: 22,
    old_epoch_accepted: 54,
    refused_timers_forgotten: 76,
    revocation_waited_for_without_end: 16,
    stale_commits_taken: 220,
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Histories make a coordinator log what it cannot do."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def test_no_partition_has_two_owners_and_every_member_reaches_its_target() -> None:
    assert list(HISTORIES.violations(range(1, 16))) == []


@pytest.mark.parametrize("mistake", PLANTED, ids=lambda mistake: mistake.__name__)
def test_a_planted_mistake_is_found(mistake: Mistake) -> None:
    with mistake():
        first = FIRST_SEEDS.get(mistake, 1)
        assert next(HISTORIES.violations(range(first, first + ENOUGH_SEEDS)), None)
