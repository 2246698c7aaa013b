"""What a client (librdkafka, which checks every CRC) reads from a broker, whole partitions at a
time.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import closing

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
)
from confluent_kafka import (
    TopicPartition as ClientPartition,
)
from kafka import KafkaConsumer
from kafka.structs import TopicPartition as LibraryPartition

from compat_tests.running.waiting import until
from kbroker.model import TopicPartition
from tests.integration.directory_writer import Row, Rows

_LIMIT_S = 60
_NOT_YET = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)


def settled_end(bootstrap: str, place: TopicPartition) -> int:
    """The end of a partition, once no transaction is open in it: who commits is answered when that
    is decided, and those who read what is committed see it when its markers are written.
    """
    library = LibraryPartition(*place)
    with (
        closing(KafkaConsumer(bootstrap_servers=bootstrap)) as all_,
        closing(
            KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
        ) as committed,
    ):

        def ends() -> tuple[int, ...]:
            found = [each.end_offsets([library])[library] for each in (committed, all_)]
            return (found[1],) if found[0] == found[1] else ()

        (end,) = until(ends, f"an open transaction in {place}")
    return end


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
        for message in consumer.consume(1000, timeout=0.05):
            place = TopicPartition(message.topic(), message.partition())
            error = message.error()
            if error is None:
                rows[place].append(_row(message))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                unfinished.discard(place)
    consumer.close()
    return rows


def read_committed_offsets(
    bootstrap: str, group: str, places: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """The offsets that a group has committed, of those partitions that it has one for. A
    coordinator that has just started is asked again.
    """
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    asked = [ClientPartition(*place) for place in places]
    deadline = time.monotonic() + _LIMIT_S
    while True:
        try:
            found = consumer.committed(asked, timeout=_LIMIT_S)
            break
        except KafkaException as error:
            if error.args[0].code() not in _NOT_YET or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    consumer.close()
    return {TopicPartition(f.topic, f.partition): f.offset for f in found if f.offset >= 0}


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
