"""What a broker answers in the short way, and what it stores, is what it would without; the hunt as
a script goes on (see short_way_hunt).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.faults.short_way_bugs import (
    PLANTED,
    Mistake,
    buffer_not_kept,
    busy_partition_not_last,
    end_not_compared,
    epoch_not_compared,
    field_of_the_answer_before,
    offsets_of_the_fetch_learnt,
    offsets_of_the_session_kept,
    tail_not_compared,
    topic_id_not_looked_up,
    transactional_bit_forgotten,
)
from tests.faults.short_way_hunt import Outcome, hunt

STEPS = 120
FIRST_SEED = 100
# Each mistake is looked for where the hunt finds it first; after a change of the hunt it goes on.
FIRST_SEEDS = {
    tail_not_compared: 113,
    end_not_compared: 101,
    transactional_bit_forgotten: 102,
    field_of_the_answer_before: 101,
    buffer_not_kept: 108,
    topic_id_not_looked_up: 113,
    offsets_of_the_fetch_learnt: 101,
    offsets_of_the_session_kept: 101,
    epoch_not_compared: 101,
    busy_partition_not_last: 103,
}
ENOUGH_SEEDS = 40


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seed", range(1, 5))
def test_answers_and_logs_are_the_same_with_and_without_the_short_way(seed: int) -> None:
    outcome = Outcome()

    hunt(seed, STEPS, outcome)

    assert outcome.differences == []
    assert outcome.counts["short ways"] > 100, "too little took the short way to prove anything"


@pytest.mark.parametrize("mistake", PLANTED, ids=lambda mistake: mistake.__name__)
def test_a_planted_mistake_is_found(mistake: Mistake) -> None:
    outcome = Outcome()
    with mistake():
        first = FIRST_SEEDS.get(mistake, FIRST_SEED)
        for seed in range(first, first + ENOUGH_SEEDS):
            hunt(seed, STEPS, outcome)
            if outcome.differences:
                break

    assert outcome.differences
