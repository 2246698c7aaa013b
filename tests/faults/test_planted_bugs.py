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
    cleaning_not_noted,
    deleted_partition_comes_back,
    no_fsync_of_the_partitions_name,
    recovery_point_ahead_of_fsync,
    rows_of_sequences_mixed,
    stale_clean_marker,
    torn_tail_not_cut,
)

SEED = 7
# Those that take many images are looked for where they are found soon: logs are rarely cut below
# what is on the disk where every answer waits for a sync, say.
HUNTS = {
    checkpoints_beyond_a_cut: ("never", 39),
    cleaning_not_noted: ("acks-all", 4),
    deleted_partition_comes_back: ("always", 14),
    no_fsync_of_the_partitions_name: ("acks-all", 1),
    recovery_point_ahead_of_fsync: ("acks-all", 8),
    rows_of_sequences_mixed: ("never", 2),
    stale_clean_marker: ("acks-all", 3),
    torn_tail_not_cut: ("always", 2),
}
ENOUGH_IMAGES = 960


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("mistake", PLANTED, ids=lambda mistake: mistake.__name__)
def test_a_planted_bug_is_found(mistake: Mistake) -> None:
    with mistake():
        where = HUNTS.get(mistake, ("acks-all", SEED))
        outcome = hunt(ENOUGH_IMAGES, *where, wanted=PLANTED[mistake])

    kinds = {violation.kind for _, _, violation in outcome.violations}
    assert outcome.is_enough, f"{outcome.images} images found only {kinds}"


def test_without_a_planted_bug_nothing_is_found() -> None:
    outcome = hunt(80, "acks-all", SEED)

    assert outcome.violations == []
