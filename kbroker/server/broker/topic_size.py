"""The number of partitions of an internal topic, over which its keys are spread.

Law: brokers do not hear of every partition: one that was never led is missing, one whose node
cannot be read, or the rest of a new topic if the controller ends early. With a smaller number, keys
would be sought and written in the wrong partitions. So the tree is read before this broker leads or
follows one of them.
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
        """Read the size if one of the partitions is the topic's. Raises TreeUnavailableError."""
        if any(name == self._topic for name, _ in topic_partitions):
            assignment = await self._zk.topic_assignment(self._topic)
            if assignment is not None:
                self._topic_id, self._in_tree = assignment.topic_id, len(assignment.partitions)

    def partitions(self) -> int:
        """The larger of the tree's number and the controller's; 0 for an unknown topic."""
        known = self._metadata.partition_count(self._topic)
        is_same = self._metadata.topic_id(self._topic) in (ZERO_UUID, self._topic_id)
        return max(known, self._in_tree) if is_same else known
