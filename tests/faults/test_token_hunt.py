"""No token is taken that is not good, and none refused that is; the hunt as a script goes on (see
token_hunt).
"""

from __future__ import annotations

import pytest

from tests.faults.token_hunt import PLANTED, hunt

TOKENS, ENOUGH = 500, 5_000


def test_tokens_are_taken_and_refused_as_in_the_model() -> None:
    its = hunt(1, TOKENS)

    assert its.differences == []
    assert its.counts["good"] > TOKENS / 20


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_planted_mistake_is_found(mistake: str) -> None:
    with PLANTED[mistake]():
        its = hunt(2, ENOUGH, is_enough=1)

    assert its.differences
