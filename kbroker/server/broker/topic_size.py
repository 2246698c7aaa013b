"""The number of partitions of an internal topic, by which its keys are shared out.

Law: brokers do not hear of everything there is. A partition that was never led is missing, and one
whose node cannot be read; a controller may end before all of a new topic has leaders. By a smaller
number, keys would be looked for, and written, in other partitions than theirs. So the tree is asked
before this broker leads or follows one of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from kbroker.model import ZERO_UUID, TopicPartition
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.zk.zk_utils import ZkUtils


class TopicSize:
    """The size of one topic. Owned by the event loop."""

    def __init__(self, topic: str, zk: ZkUtils, metadata: MetadataCache) -> None:
        self._topic = topic
        self._zk = zk
        self._metadata = metadata
        self._topic_id = ZERO_UUID
        self._in_tree = 0

    async def look(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Look up topics about to be led or followed here. Raises TreeUnavailableError."""
        if any(name == self._topic for name, _ in topic_partitions):
            assignment = await self._zk.topic_assignment(self._topic)
            if assignment is not None:
                self._topic_id, self._in_tree = assignment.topic_id, len(assignment.partitions)

    def partitions(self) -> int:
        """Return as many as the tree has, or the controller says; 0 for an unknown topic."""
        told = self._metadata.partition_count(self._topic)
        is_same = self._metadata.topic_id(self._topic) in (ZERO_UUID, self._topic_id)
        return max(told, self._in_tree) if is_same else told
