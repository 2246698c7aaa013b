"""Every planted bug is found by the crash images, and without it the same seed finds nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.faults.crash_images import hunt
from tests.faults.planted_bugs import (
    PLANTED,
    Mistake,
    checkpoints_beyond_a_cut,
    deleted_partition_comes_back,
)

SEED = 7
# Histories in which a name is used again soon after its topic was deleted, and in which logs are
# cut below what was on the disk: rare where every answer waits for a sync.
HUNTS = {deleted_partition_comes_back: ("acks-all", 8), checkpoints_beyond_a_cut: ("never", 9)}
ENOUGH_IMAGES = 960


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("mistake", PLANTED, ids=lambda mistake: mistake.__name__)
def test_a_planted_bug_is_found(mistake: Mistake) -> None:
    with mistake():
        outcome = hunt(ENOUGH_IMAGES, *HUNTS.get(mistake, ("acks-all", SEED)), stops=True)

    kinds = {violation.kind for _, _, violation in outcome.violations}
    assert kinds & PLANTED[mistake], f"{outcome.images} images found only {kinds}"


def test_without_a_planted_bug_nothing_is_found() -> None:
    outcome = hunt(80, "acks-all", SEED)

    assert outcome.violations == []
