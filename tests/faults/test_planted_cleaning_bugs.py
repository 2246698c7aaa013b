"""Mistakes in the swap of cleaned segments are found by the crash images of a cleaning."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import pytest

from kbroker.errors import KafkaError
from kbroker.log.cleaner.log_cleaner import LogCleaner
from kbroker.log.recovery import leftovers
from kbroker.log.segments.segment_files import SegmentFiles
from tests.faults.test_cleaning_crashes import hunt

_ROUNDS = 600
_FIRST_SEED = 2  # finds all of them soon


def swap_without_fsync_of_the_content() -> AbstractContextManager[Any]:
    """The cleaned files take their place while they are in the page cache."""
    return patch.object(SegmentFiles, "sync", lambda _: None)


def swap_without_fsync_of_the_names() -> AbstractContextManager[Any]:
    """No step waits until the one before is on the disk."""

    def go_on(
        _cleaner: LogCleaner, _cleaning: object, following: Callable[[], None], *_: object
    ) -> None:
        following()

    return patch.object(LogCleaner, "_sync_then", go_on)


def sources_left_beside_the_swap() -> AbstractContextManager[Any]:
    """A start finishes the swap and keeps the segments that it stands for."""
    return patch.object(leftovers, "sources_of", lambda *_: [])


@pytest.mark.parametrize(
    "mistake",
    [
        swap_without_fsync_of_the_content,
        swap_without_fsync_of_the_names,
        sources_left_beside_the_swap,
    ],
    ids=lambda mistake: mistake.__name__,
)
def test_a_planted_bug_of_a_swap_is_found(
    mistake: Callable[[], AbstractContextManager[Any]],
) -> None:
    with mistake(), pytest.raises((AssertionError, KafkaError)):
        hunt(_ROUNDS, _FIRST_SEED)
