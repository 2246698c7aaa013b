"""The runner's own client: what it writes and reads says what is right. Records in `clients.Sample`'s
shapes; it is librdkafka, so keys that are empty are null.
"""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.clients.every_client import make_topic
from compat_tests.clients.raw_connection import RawConnection
from compat_tests.matrix.serving.serve import Record
from compat_tests.running.waiting import until

T = TypeVar("T")
PATIENCE_S = 30.0
CONSUMER_GROUP_DESCRIBE = 69


class Reference:
    """Prepares topics and looks at them and at groups."""

    def __init__(self, bootstrap: str) -> None:
        self._common: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._admin = AdminClient(self._common)
        self._made: list[str] = []
        self._consumer = Consumer({
            **self._common, "group.id": "unused", "enable.auto.commit": False,
            "auto.offset.reset": "error", "isolation.level": "read_uncommitted",
        })  # fmt: skip

    def create(self, topic: str, partitions: int = 1, **config: str) -> str:
        """Make a topic, and return when it can be written. `config` has underscores for dots."""
        settings = {name.replace("_", "."): value for name, value in config.items()}
        self._made.append(topic)
        make_topic(self._admin, NewTopic(topic, partitions, config=settings))
        until(lambda: self._leaders(topic) == partitions, f"leaders of {topic}", PATIENCE_S)
        return topic

    def _leaders(self, topic: str) -> int:
        found = self._admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
        return sum(partition.leader >= 0 for partition in found.values())

    def write(self, topic: str, records: Iterable[Record], codec: str = "none") -> None:
        """Write records, each into its partition."""
        producer = Producer({**self._common, "compression.type": codec, "linger.ms": 5})
        errors: list[object] = []
        for record in records:
            more = {} if record.timestamp is None else {"timestamp": record.timestamp}
            producer.produce(
                topic, value=record.value, key=record.key, headers=list(record.headers),
                partition=record.partition, **more,
                on_delivery=lambda error, _: errors.append(error) if error else None,
            )  # fmt: skip
        assert producer.flush(PATIENCE_S) == 0
        assert not errors, f"the runner could not write: {errors[0]}"

    def transact(
        self, name: str, topic: str, transactions: Iterable[tuple[list[str], bool]]
    ) -> None:
        """Write values in transactions, each committed or aborted."""
        producer = Producer({**self._common, "transactional.id": name})
        producer.init_transactions(PATIENCE_S)
        for values, commit in transactions:
            producer.begin_transaction()
            for value in values:
                producer.produce(topic, value=value, partition=0)
            producer.flush(PATIENCE_S)
            (producer.commit_transaction if commit else producer.abort_transaction)(PATIENCE_S)

    def read(self, topic: str, start: int = 0, partition: int = 0) -> list[Record]:
        """All records of a partition from an offset on, also those of aborted transactions."""
        place = TopicPartition(topic, partition, start)
        end = _patiently(lambda: self._consumer.get_watermark_offsets(place, PATIENCE_S))[1]
        self._consumer.assign([place])
        found: list[Record] = []
        deadline = time.monotonic() + PATIENCE_S
        while self._position(place, start) < end and time.monotonic() < deadline:
            for message in self._consumer.consume(1_000, timeout=0.1):
                if message.error() is not None:
                    raise KafkaException(message.error())
                headers = tuple(message.headers() or ())
                found.append(Record(
                    partition, message.key(), message.value(), headers,
                    message.timestamp()[1], message.offset(),
                ))  # fmt: skip
        self._consumer.unassign()
        return found

    def _position(self, place: TopicPartition, start: int) -> int:
        offset = self._consumer.position([place])[0].offset
        return int(offset) if offset >= 0 else start

    def leader(self, topic: str) -> str:
        """The address of the broker that leads partition 0."""
        told = self._admin.list_topics(topic, timeout=PATIENCE_S)
        broker = told.brokers[told.topics[topic].partitions[0].leader]
        return f"{broker.host}:{broker.port}"

    def ends(self, topic: str) -> list[int]:
        """The first and the end offset of partition 0."""
        place = TopicPartition(topic, 0)
        return list(_patiently(lambda: self._consumer.get_watermark_offsets(place, PATIENCE_S)))

    def owned(self, group: str) -> list[int]:
        """How many partitions each member has, in rising order; nothing while the group rebalances."""
        described = _patiently(
            lambda: self._admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
        )
        if described.state.name != "STABLE":
            return []
        return sorted(len(member.assignment.topic_partitions) for member in described.members)

    def owned_of_new(self, group: str) -> list[int]:
        """The same of a group of the new protocol; nothing while a member is not at its target."""
        members = self._described(group)
        if any(each.assignment != each.target_assignment for each in members):
            return []
        return sorted(map(_count, members))

    def by_instance(self, group: str) -> dict[str, list[int]]:
        """The partitions of each static member of a group of the new protocol."""
        return {
            each.instance_id or "": sorted(
                partition
                for topic in each.assignment.topic_partitions
                for partition in topic.partitions
            )
            for each in self._described(group)
        }

    def _described(self, group: str) -> list[Any]:
        """The members of a group of the new protocol, which librdkafka does not describe."""
        connection = RawConnection(self._common["bootstrap.servers"])
        answer = connection.call(
            CONSUMER_GROUP_DESCRIBE, 0, group_ids=[group], include_authorized_operations=False
        )
        connection.close()
        return list(answer.groups[0].members)

    def committed(self, group: str) -> int:
        """The sum of a group's offsets."""
        request = [ConsumerGroupTopicPartitions(group)]
        answer = self._admin.list_consumer_group_offsets(request)[group].result(PATIENCE_S)
        return sum(
            partition.offset for partition in answer.topic_partitions if partition.offset > 0
        )

    def clean_up(self) -> None:
        """Delete the topics that were made, and groups that have the name of one."""
        if self._made:
            gone = [*self._admin.delete_topics(self._made).values()]
            gone += self._admin.delete_consumer_groups(self._made).values()
            concurrent.futures.wait(gone, PATIENCE_S)
            for each in gone:
                each.exception()  # most of the names belong to no group

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()


def _count(member: Any) -> int:
    return sum(len(topic.partitions) for topic in member.assignment.topic_partitions)


def _patiently(call: Callable[[], T]) -> T:
    """Call until it works: a topic may be new, and the broker may restart."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return call()
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
