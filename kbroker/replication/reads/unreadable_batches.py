"""UnreadableBatches: names intact batches that cannot be read in the broker's log.

Law: each is named once, because every client that passes meets it again; a few hundred at most.
"""

from __future__ import annotations

import logging

from kbroker.model import TopicPartition

_MOST = 500

_log = logging.getLogger(__name__)


class UnreadableBatches:
    """Owned by the event loop."""

    def __init__(self, consequence: str) -> None:
        """`consequence` says what becomes of such a batch, at the end of the sentence."""
        self._consequence = consequence
        self._named: set[tuple[TopicPartition, int]] = set()

    def report(self, partition: TopicPartition, base_offset: int, reason: str) -> None:
        """Name the batch and the reason, unless it was named before."""
        place = partition, base_offset
        if place in self._named or len(self._named) >= _MOST:
            return
        self._named.add(place)
        _log.warning(
            "The batch at offset %d of %s cannot be read, and %s: %s",
            base_offset,
            partition,
            self._consequence,
            reason,
        )
