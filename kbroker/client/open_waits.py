"""Which open transactions hold up a reader with read_committed, for who reads on for ever.

Pure. Law: most transactions end within a moment and concern nobody; told is one that a reader has
waited at for a while, and once.
"""

from __future__ import annotations

from kbroker.model import TopicPartition
from kbroker.protocol.messages.fetch import FetchResponse

_WAITS_S = 5.0  # most producers commit more often


class OpenWaits:
    """What the answers to fetches tell, by partition."""

    def __init__(self) -> None:
        self._since: dict[TopicPartition, tuple[int, float]] = {}  # offset, first seen
        self._told: dict[TopicPartition, int] = {}

    def is_to_tell(
        self, place: TopicPartition, position: int, data: FetchResponse.PartitionData, now_s: float
    ) -> bool:
        """Whether a reader that is at `position` after this answer has waited at the open
        transaction at `data.last_stable_offset` for long enough.
        """
        offset = data.last_stable_offset
        if not 0 <= offset < data.high_watermark or position < offset:
            self._since.pop(place, None)
            return False
        known, since_s = self._since.get(place, (None, now_s))
        if known != offset:
            since_s = now_s
        self._since[place] = offset, since_s
        if now_s - since_s < _WAITS_S or self._told.get(place) == offset:
            return False
        self._told[place] = offset
        return True
