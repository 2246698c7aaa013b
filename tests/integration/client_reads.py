"""What a client (librdkafka, which checks every CRC) reads from a broker, whole partitions at a
time.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    Message,
)
from confluent_kafka import (
    TopicPartition as ClientPartition,
)
from confluent_kafka.admin import AdminClient

from kbroker.model import TopicPartition
from tests.integration.directory_writer import Row, Rows

_LIMIT_S = 60


def read_rows(bootstrap: str, places: Collection[TopicPartition], isolation: str) -> Rows:
    """All records of these partitions, from their start to their end for `isolation`."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "check.crcs": True,
            "fetch.wait.max.ms": 20,
        }
    )
    consumer.assign([ClientPartition(*place, OFFSET_BEGINNING) for place in places])
    rows: Rows = {place: [] for place in places}
    unfinished = set(places)
    deadline = time.monotonic() + _LIMIT_S
    while unfinished:
        assert time.monotonic() < deadline, f"no end of {unfinished}"
        for message in consumer.consume(1000, timeout=0.2):
            place = TopicPartition(message.topic(), message.partition())
            error = message.error()
            if error is None:
                rows[place].append(_row(message))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                unfinished.discard(place)
    consumer.close()
    return rows


def read_committed_offsets(bootstrap: str, group: str) -> dict[TopicPartition, int]:
    """The offsets that a group has committed."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found = asked[group].result(_LIMIT_S).topic_partitions
    return {TopicPartition(each.topic, each.partition): each.offset for each in found}


def _row(message: Message) -> Row:
    kind, timestamp = message.timestamp()
    headers = tuple((name, value) for name, value in message.headers() or ())
    return Row(
        message.offset(),
        kind,
        timestamp if kind else -1,
        message.key(),
        message.value(),
        headers,
    )
