"""The partitions of this broker: online with their log, offline after a storage error, or not held.

Owned by the event loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.replication.partitions.partition import Partition
from kbroker.replication.partitions.topic_counters import BrokerTopicStats


class HostedPartitions:
    """Finds a partition, or says with Kafka's code why it cannot be used here."""

    def __init__(self, metadata: MetadataCache) -> None:
        self.metadata = metadata
        self._online: dict[TopicPartition, Partition] = {}
        self._offline: set[TopicPartition] = set()
        self.topics = BrokerTopicStats()
        self.find = self._online.get  # the partition if it is online here, else None

    def __len__(self) -> int:
        return len(self._online)

    @property
    def offline_count(self) -> int:
        return len(self._offline)

    def names(self) -> list[TopicPartition]:
        """The partitions that are online now."""
        return list(self._online)

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._online.values()))

    def get(self, topic_partition: TopicPartition) -> Partition:
        """The online partition.

        Raises KafkaError: KAFKA_STORAGE_ERROR if it is offline, NOT_LEADER_OR_FOLLOWER if only
        other brokers hold it, UNKNOWN_TOPIC_OR_PARTITION if nobody does.
        """
        partition = self._online.get(topic_partition)
        if partition is not None:
            return partition
        if topic_partition in self._offline:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Partition {topic_partition} is in an offline log directory",
            )
        if self.metadata.contains(topic_partition):
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"This broker holds no replica of {topic_partition}",
            )
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Partition {topic_partition} doesn't exist"
        )

    def is_offline(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._offline

    def add(self, partition: Partition) -> None:
        """Hold a partition, online from now on."""
        topic_partition = partition.topic_partition
        self._offline.discard(topic_partition)
        partition.counters = self.topics.begin(topic_partition.topic)  # or the topic might end
        self._let_go(topic_partition)
        self._online[topic_partition] = partition

    def remove(self, topic_partition: TopicPartition) -> Partition | None:
        """Hold a partition no longer; returns it if it was online."""
        self._offline.discard(topic_partition)
        return self._let_go(topic_partition)

    def set_offline(self, topic_partition: TopicPartition) -> None:
        """Refuse every access, as the storage failed, until the partition is added again."""
        self._let_go(topic_partition)
        self._offline.add(topic_partition)

    def _let_go(self, topic_partition: TopicPartition) -> Partition | None:
        partition = self._online.pop(topic_partition, None)
        if partition is not None:
            self.topics.end(topic_partition.topic)
        return partition
