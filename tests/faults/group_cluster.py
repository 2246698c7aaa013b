"""The cluster of a history of consumer groups: topics, racks, and the brokers that hear of them."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from kbroker.coordinator.consumer_group.metadata_hash import group_hash, topic_hash
from kbroker.model import TopicPartition
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from kbroker.record.record_batch import read_header
from tests.fakes.brokers.group_broker import BROKER_ID, GroupBroker, OffsetsLog

if TYPE_CHECKING:
    from tests.faults.group_replicas import FickleReplicas

BROKERS = range(3)
RACKS = ("r0", "r1", "r2")
_DELETED = -2  # the leader of a partition that is being deleted
Placed = UpdateMetadataRequest.UpdateMetadataPartitionState


class Topic(NamedTuple):
    """A topic with the replicas of each of its partitions."""

    topic_id: UUID
    replicas: tuple[tuple[int, ...], ...]


class Cluster:
    """Topics by name, and what was said of them that a broker may not have heard."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.topics: dict[str, Topic] = {}
        has_racks = random.random() < 0.7
        self._racks = {each: RACKS[each] if has_racks else None for each in BROKERS}

    @property
    def counts(self) -> dict[str, tuple[UUID, int]]:
        return {name: (each.topic_id, len(each.replicas)) for name, each in self.topics.items()}

    def grow(self, name: str, count: int) -> UpdateMetadataRequest:
        """A topic has so many partitions, at least as many as before; it may be a new one."""
        before = self.topics.get(name)
        topic_id = UUID(int=self._random.getrandbits(120) + 1) if before is None else before[0]
        replicas = () if before is None else before.replicas
        more = tuple(self._placed() for _ in range(count - len(replicas)))
        self.topics[name] = Topic(topic_id, replicas + more)
        return self.metadata()

    def move(self, name: str) -> UpdateMetadataRequest:
        """The partitions of a topic have other replicas."""
        topic = self.topics[name]
        self.topics[name] = topic._replace(replicas=tuple(self._placed() for _ in topic.replicas))
        return self.metadata()

    def remove(self, name: str) -> UpdateMetadataRequest:
        said = self.metadata(deleted=name)
        del self.topics[name]
        return said

    def _placed(self) -> tuple[int, ...]:
        return tuple(self._random.sample(BROKERS, 2))

    def metadata(self, deleted: str | None = None) -> UpdateMetadataRequest:
        return UpdateMetadataRequest(
            controller_id=BROKER_ID,
            live_brokers=[
                UpdateMetadataRequest.UpdateMetadataBroker(id=each, rack=rack)
                for each, rack in self._racks.items()
            ],
            topic_states=[
                UpdateMetadataRequest.UpdateMetadataTopicState(
                    topic_name=name,
                    topic_id=topic.topic_id,
                    partition_states=[
                        Placed(
                            topic_name=name,
                            partition_index=index,
                            leader=_DELETED if name == deleted else replicas[0],
                            replicas=list(replicas),
                        )
                        for index, replicas in enumerate(topic.replicas)
                    ],
                )
                for name, topic in self.topics.items()
            ],
        )

    def hash_of(self, names: Iterable[str]) -> int:
        """The hash that a group has which subscribes to these topics."""
        return group_hash(
            {name: self._hash(name, self.topics[name]) for name in names if name in self.topics}
        )

    def _hash(self, name: str, topic: Topic) -> int:
        racks = [
            [rack for each in replicas if (rack := self._racks[each]) is not None]
            for replicas in topic.replicas
        ]
        return topic_hash(name, topic.topic_id, len(racks), racks)


class Coordinator:
    """A broker of a history, with what it has not heard yet."""

    def __init__(self, number: int, broker: GroupBroker, replicas: FickleReplicas) -> None:
        self.number = number
        self.broker = broker
        self.replicas = replicas
        self.news: list[UpdateMetadataRequest] = []

    def hear(self) -> list[TopicPartition]:
        """Hear what was said of topics, as a broker does; returns partitions that are gone."""
        gone: list[TopicPartition] = []
        while self.news:
            deleted = self.broker.metadata.update(self.news.pop(0))
            self.broker.groups.on_partitions_deleted(deleted)
            gone += deleted
        return gone


def surviving(log: OffsetsLog, random: Random) -> OffsetsLog:
    """The log as the next leader has it: all that is confirmed, of the rest some or nothing."""
    ends = [log.high_watermark]
    sizes = {0: 0}
    position = 0
    while position < len(log.data):
        header = read_header(log.data, position)
        position += header.size_bytes
        sizes[header.next_offset] = position
        if header.next_offset > log.high_watermark:
            ends.append(header.next_offset)
    end = random.choice((ends[0], ends[-1], random.choice(ends)))
    return OffsetsLog(bytes(log.data[: sizes[end]]))
