"""The short form of the hunt: see crash_images."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.faults.crash_images import hunt


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    """Recovery has much to say about each image."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("flush", ["acks-all", "always", "never"])
def test_no_promise_is_broken_by_a_power_loss(flush: str) -> None:
    outcome = hunt(80, flush, seed=5)

    assert outcome.violations == []
    assert outcome.acknowledged > 150, "too little was acknowledged to prove anything"
    assert outcome.second_losses > 5
