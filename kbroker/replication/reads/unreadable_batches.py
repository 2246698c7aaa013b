"""UnreadableBatches: names in the broker's log the batches that are intact and cannot be read.

Law: each is named once, as every client that comes by meets it again; a few hundred at most.
"""

from __future__ import annotations

import logging

from kbroker.model import TopicPartition

_MOST = 500

_log = logging.getLogger(__name__)


class UnreadableBatches:
    """Owned by the event loop."""

    def __init__(self, consequence: str) -> None:
        """`consequence`: what becomes of such a batch, for the end of the sentence."""
        self._consequence = consequence
        self._told: set[tuple[TopicPartition, int]] = set()

    def tell(self, partition: TopicPartition, base_offset: int, reason: str) -> None:
        """Name the batch, and why it cannot be read."""
        place = partition, base_offset
        if place in self._told or len(self._told) >= _MOST:
            return
        self._told.add(place)
        _log.warning(
            "The batch at offset %d of %s cannot be read, and %s: %s",
            base_offset,
            partition,
            self._consequence,
            reason,
        )
