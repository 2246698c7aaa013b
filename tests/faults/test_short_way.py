"""What a broker answers in the short way, and what it stores, is what it would without; the hunt as
a script goes on (see short_way_hunt).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.faults.short_way_bugs import (
    PLANTED,
    PLANTED_UNDER_RULES,
    Mistake,
    buffer_not_kept,
    busy_partition_not_last,
    decision_kept_over_a_change,
    decision_kept_over_a_login,
    end_not_compared,
    epoch_not_compared,
    field_of_the_answer_before,
    metadata_kept_over_a_change_of_rules,
    metadata_of_another_principal,
    offsets_of_the_fetch_learnt,
    offsets_of_the_session_kept,
    only_the_first_topic_is_asked_for,
    session_not_asked_for_again,
    shortcut_of_another_client,
    tail_not_compared,
    topic_id_not_looked_up,
    transactional_bit_forgotten,
    waiting_fetch_not_asked_for_again,
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
# The same under access rules.
FIRST_SEEDS_UNDER_RULES = {
    decision_kept_over_a_change: 101,
    decision_kept_over_a_login: 101,
    only_the_first_topic_is_asked_for: 101,
    shortcut_of_another_client: 104,
    session_not_asked_for_again: 101,
    waiting_fetch_not_asked_for_again: 121,
    metadata_kept_over_a_change_of_rules: 101,
    metadata_of_another_principal: 109,
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

    hunt(seed, STEPS, outcome, under_rules=seed % 2 == 0)

    assert outcome.differences == []
    assert outcome.counts["short ways"] > 100, "too little took the short way to prove anything"


@pytest.mark.parametrize("mistake", PLANTED, ids=lambda mistake: mistake.__name__)
def test_a_planted_mistake_is_found(mistake: Mistake) -> None:
    assert differences_with(mistake, FIRST_SEEDS.get(mistake, FIRST_SEED), under_rules=False)


@pytest.mark.parametrize("mistake", PLANTED_UNDER_RULES, ids=lambda mistake: mistake.__name__)
def test_a_mistake_about_rights_is_found(mistake: Mistake) -> None:
    assert differences_with(mistake, FIRST_SEEDS_UNDER_RULES[mistake], under_rules=True)


def differences_with(mistake: Mistake, first_seed: int, *, under_rules: bool) -> list[str]:
    """The differences that the hunt finds first in a broker that makes a mistake."""
    outcome = Outcome()
    with mistake():
        for seed in range(first_seed, first_seed + ENOUGH_SEEDS):
            hunt(seed, STEPS, outcome, under_rules=under_rules)
            if outcome.differences:
                break
    return outcome.differences
