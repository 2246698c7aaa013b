"""No sequence of frames reaches a listener's requests without a login; the hunt as a script goes on
(see login_hunt).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.faults.login_bugs import PLANTED, Mistake
from tests.faults.login_hunt import hunt

SEQUENCES = 500
ENOUGH = 2_000


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_what_passes_and_what_is_answered_is_as_in_the_model() -> None:
    its = hunt(1, SEQUENCES)

    assert its.differences == []
    assert its.counts["logins"] > SEQUENCES / 4
    assert its.counts["passed"] > SEQUENCES / 4


@pytest.mark.parametrize("mistake", PLANTED, ids=lambda mistake: mistake.__name__)
def test_a_planted_mistake_is_found(mistake: Mistake) -> None:
    with mistake():
        its = hunt(2, ENOUGH, is_enough=1)

    assert its.differences
